"""Writes to slices of what a loop carries, of some iterations, as PyTorch's exporter writes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS, loop_over_slices
from tests.passes.carried.places import CONSTANTS, counted, grid
from tests.passes.loops import model, read, same

INPUTS = "float[T,3] x, int64[N] lengths, float[R,M,3] start"
STATE = "float[R,M,3]"


def loop(then: str, state: str = STATE, begin: str = "Identity (start)") -> str:
    """Return a graph whose Loop writes ``v`` where a slice has more than one row."""
    body = f"""flag = Greater (size, one)
            s2 = If (flag) <
                then_branch = some () => ({state} v) {{
                    size1 = Unsqueeze (size, zero1)  i1 = Unsqueeze (i, zero1)
                    h = Shape (s)
                    {then} }},
                else_branch = none () => ({state} lo) {{ lo = Identity (s) }}>"""
    return loop_over_slices(
        INPUTS, state, begin, body, constants=CONSTANTS.replace("none =", "no =")
    )


WHERE = f"""{counted(1)}
            mine = Slice (all, zero1, size1, zero1, one1)
            {grid("i1", "mine")}
            row = Gather <axis = 0> (s, i)
            target = Slice (row, zero1, size1, zero1, one1)
            like = Shape (target)"""
BACK = """behind = Slice (h, two1, far, zero1)
            whole = Concat <axis = 0> (size_of_grid, behind)
            u = Reshape <allowzero = 1> (q, whole)
            v = ScatterND (s, places, u)"""
ROW = """old = Gather <axis = 0> (s, i)
            like = Shape (old)
            m2 = Expand (m, like)
            places = Unsqueeze (i1, minus1)
            behind = Slice (h, one1, far, zero1)
            whole = Concat <axis = 0> (one1, behind)
            u = Reshape <allowzero = 1> (m2, whole)
            v = ScatterND (s, places, u)"""
LINE = "float[R,3]"
FIRST = "ReduceSum <keepdims = 0> (start, one1)"
WRITES = {
    "rows_of_a_slice": loop(f"{WHERE}  q = Expand (e, like)  {BACK}"),
    "one_number_for_all": loop(f"{WHERE}  q = Expand (half, like)  {BACK}"),
    "a_mean": loop(f"m = ReduceMean <axes = [0], keepdims = 0> (e)  {ROW}", LINE, FIRST),
    "a_greatest": loop(f"m = ReduceMax <axes = [0], keepdims = 0> (e)  {ROW}", LINE, FIRST),
    "a_row_that_others_lack": loop(f"m = Gather <axis = 0> (e, one)  {ROW}", LINE, FIRST),
}


def feeds(length: int) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations; some of their slices are empty."""
    rng = np.random.default_rng(length)
    lengths = rng.integers(0, 5, length)
    return {
        "x": rng.standard_normal((int(lengths.sum()), 3)).astype(np.float32),
        "lengths": lengths,
        "start": rng.standard_normal((length + 3, 5, 3)).astype(np.float32),
    }


@pytest.mark.parametrize("name", WRITES)
def test_slices_of_some_iterations_end_without_a_loop(name: str) -> None:
    before = model(WRITES[name])
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", ["rows_of_a_slice", "a_mean"])
def test_a_target_without_control_flow_takes_them(name: str) -> None:
    before = model(WRITES[name])
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_rows_that_only_some_iterations_have() -> None:
    """A tensor with a row for those iterations alone that write to it."""
    before = model(WRITES["a_mean"])
    found = read(before)
    lengths = np.array([2, 3, 0, 1])
    feed = {
        "x": np.ones((6, 3), np.float32),
        "lengths": lengths,
        "start": np.ones((2, 5, 3), np.float32),
    }
    assert same(before, found.model, feed) == 1
    own = model(WRITES["one_number_for_all"])
    assert same(own, read(own).model, feed) == 1
