"""Slices of images by vectors of bounds: the bound of the channels alone is known.

TensorFlow's exporter writes so that -1 takes an axis to its end.
"""

from __future__ import annotations

import pytest

from tests.passes.batching.images import FlatCase, drawn, numbers, prove_flat, prove_nothing

_HALVED = (
    "s = Shape (x) two = Constant <value_int = 2> () "
    + numbers("none", 0)
    + numbers("less", -1)
    + numbers("most", 2147483647)
    + numbers("hw", 2)
    + numbers("size", 6, 7)
    + numbers("front", 0)
    + "sides = Slice (s, none, hw) half = Div (sides, two) quarter = Div (half, two) "
    "starts = Concat <axis = 0> (quarter, none) counts = Concat <axis = 0> (half, less) "
)
_TO_THE_END = (
    "open = Equal (less, counts) flag = Cast <to = 7> (open) far = Mul (most, flag) "
    "whole = Add (counts, far) ends = Add (starts, whole) c = Slice (x, starts, ends) "
)
_CHOSEN = (
    "open = Equal (less, counts) no = Less (two, none) "
    "past = And (open, no) begun = Add (starts, counts) n = Shape (x) "
    "whole = Where (past, n, begun) rest = Where (open, n, whole) c = Slice (x, starts, rest) "
)
_RESIZED = (
    "u = Unsqueeze (c, front) t = Transpose <perm = [0, 3, 1, 2]> (u) d = Shape (t) "
    'nc = Slice (d, none, hw) to = Concat <axis = 0> (nc, size) r = Resize <mode = "linear"> '
    "(t, , , to) y = Squeeze (r, front)"
)
CASES = [
    FlatCase("resized", _HALVED + _TO_THE_END + _RESIZED, result="float[3,6,7]", stacked=True,
             least=4),
    FlatCase("their maxima", _HALVED + _TO_THE_END + numbers("k", 0, 1) +
             "y = ReduceMax <keepdims = 0> (c, k)", result="float[3]", stacked=True, least=4),
    FlatCase("chosen", _HALVED + _CHOSEN + _RESIZED, result="float[3,6,7]", stacked=True, least=4),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_channels_stay_whole(case: FlatCase) -> None:
    prove_flat(case, feeds=[drawn(case, count, count) for count in (1, 3)])
    prove_nothing(case)
