"""Random bodies over images of any size compute what they did, without a loop."""

from __future__ import annotations

import pytest

from tests.property.images import judge_images


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_random_body_computes_what_it_did(seed: int) -> None:
    verdict = judge_images(seed)
    assert verdict in ("right", "refused"), verdict.detail


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_random_bodies_compute_what_they_did(seed: int) -> None:
    verdict = judge_images(seed)
    assert verdict in ("right", "refused", "failing"), verdict.detail
