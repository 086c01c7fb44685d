"""Random nodes around maps: onnxruntime gets right what it makes of the new ones beside them."""

from __future__ import annotations

import pytest

from tests.fusions.__main__ import faults_apart
from tests.fusions.models import draw_model

SOME = range(16)
MANY = range(16, 4016)
CHUNK = 100


@pytest.mark.long
@pytest.mark.parametrize("first", SOME[::8])
def test_random_nodes_around_maps(first: int) -> None:
    assert list(faults_apart(range(first, first + 8))) == []


@pytest.mark.full
@pytest.mark.parametrize("first", MANY[::CHUNK])
def test_many_random_nodes_around_maps(first: int) -> None:
    assert list(faults_apart(range(first, first + CHUNK))) == []


def test_a_model_is_the_same_for_the_same_seed() -> None:
    assert draw_model(5).model == draw_model(5).model
    assert draw_model(5).model != draw_model(6).model
