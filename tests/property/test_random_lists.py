"""Random Loops that carry lists compute what they did, whatever became of the lists."""

from __future__ import annotations

import numpy as np
import pytest

import rewriter
from tests.passes.loops import model, same
from tests.property.lists import draw

SIZES = (0, 1, 2, 7, 20)


def check(seed: int) -> int:
    """Assert that a model computes what it did; return how many Loops are left."""
    before = model(draw(seed))
    found = rewriter.rewrite(before)
    rng = np.random.default_rng(seed)
    feeds = [
        {
            "x": rng.standard_normal((size, 4)).astype(np.float32),
            "b": rng.standard_normal(4).astype(np.float32),
        }
        for size in SIZES
    ]
    ran = same(before, found.model, *feeds)
    if rewriter.explain(before, target="portable").reached:
        portable = rewriter.rewrite(before, target="portable")
        assert same(before, portable.model, *feeds) == ran
    return found.report.after.loops


@pytest.mark.parametrize("seed", range(8))
def test_a_random_loop_of_lists_computes_what_it_did(seed: int) -> None:
    check(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_loops_of_lists_compute_what_they_did(seed: int) -> None:
    check(seed)
