"""Forms of what a recurrent cell reads: those that its operator computes, and near misses."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.passes.carried.cells import cell_feeds, cell_loop
from tests.passes.loops import model, read, same

pytestmark = pytest.mark.quick

_STATE = "ui = MatMul (h, ri)"
_ROW = "ai = MatMul (xi, wi)"
_END = "i = Add (ai, ui)  h2 = Tanh (i)"
_BIASED = f"{_ROW}  {_STATE}  pi = Add (ai, ui)  i = Add (pi, {{}})  h2 = Tanh (i)"
_CUT = f"g = MatMul (xi, {{}})  {{}}  {_STATE}  {_END}"
INSIDE = {
    "a bias of one row": (_BIASED.format("bx"), "float[1,4] bx"),
    "a number of each element": (
        f"k = Constant <value = float[4] {{0.5, 0.5, 0.5, 0.5}}> ()  {_BIASED.format('k')}",
        "",
    ),
    "a number of one element": (
        f"k = Constant <value = float[1,1] {{0.5}}> ()  {_BIASED.format('k')}",
        "",
    ),
    "a constant vector": (
        f"k = Constant <value = float[4] {{0.5, 0.5, -0.5, 0.5}}> ()  {_BIASED.format('k')}",
        "",
    ),
    "zeros": (f"k = Constant <value = float[4] {{0, 0, 0, 0}}> ()  {_BIASED.format('k')}", ""),
    "weights turned twice": (
        f"v = Transpose (wi)  w = Transpose (v)  ai = MatMul (xi, w)  {_STATE}  {_END}",
        "",
    ),
    "weights turned to where they were": (
        f"w = Transpose <perm = [0, 1]> (ri)  ui = MatMul (h, w)  {_ROW}  {_END}",
        "",
    ),
    "a bias in a product": (
        f"{_STATE}  i = Gemm (xi, wi, bi)  j = Add (i, ui)  h2 = Tanh (j)",
        "",
    ),
    "a bias of one row in a product": (
        f"{_STATE}  i = Gemm (xi, wi, bx)  j = Add (i, ui)  h2 = Tanh (j)",
        "float[1,4] bx",
    ),
    "the state in a product": (f"{_ROW}  i = Gemm (h, ri, ai)  h2 = Tanh (i)", ""),
    "columns by sizes": (_CUT.format("w3", "ai, rest = Split <axis = 1> (g, sizes)"), "SIZES"),
    "columns behind others": (
        _CUT.format("w3", "rest, ai = Split <axis = -1> (g, turned)"),
        "SIZES",
    ),
    "columns from the end": (_CUT.format("w3", "ai = Slice (g, before, far1, last1)"), "SIZES"),
    "columns up to others": (_CUT.format("w3", "ai = Slice (g, zero1, four1, one1)"), ""),
    "columns to far behind": (_CUT.format("w3", "ai = Slice (g, eight1, far1, one1)"), ""),
    "the state in front of the row": (
        "xh = Concat <axis = 1> (h, xi)  i = MatMul (xh, kn)  h2 = Tanh (i)",
        "",
    ),
    "an axis more for a while": (
        f"{_ROW}  {_STATE}  a3 = Unsqueeze (ai, zero1)  s3 = Unsqueeze (ui, zero1)"
        "  i3 = Add (a3, s3)  i = Squeeze (i3, zero1)  h2 = Tanh (i)",
        "",
    ),
}
NEAR = {
    "a bias of each row": (_BIASED.format("bx"), "float[2,4] bx"),
    "a bias of one element that is given": (_BIASED.format("bx"), "float[1] bx"),
    "a number that is given": (_BIASED.format("bx"), "float bx"),
    "a number of a rank that only a run tells": (
        f"no = Constant <value = bool[1] {{0}}> ()  none = Compress (four1, no)"
        f"  bz = Reshape (bx, none)  {_BIASED.format('bz')}",
        "float bx",
    ),
    "rows mixed": (f"m = MatMul (mix, h)  ui = MatMul (m, ri)  {_ROW}  {_END}", "float[2,2] mix"),
    "weights of another axis in front": (
        f"a3 = MatMul (xi, w)  ai = Squeeze (a3, zero1)  {_STATE}  {_END}",
        "float[1,3,4] w",
    ),
    "weights of other axes turned": (
        f"v = Transpose <perm = [0, 2, 1]> (w)  a3 = MatMul (xi, v)  ai = Squeeze (a3, zero1)"
        f"  {_STATE}  {_END}",
        "float[1,4,3] w",
    ),
    "a row turned in a product": (
        f"xt = Transpose (xi)  ai = Gemm <transA = 1> (xt, wi)  {_STATE}  {_END}",
        "",
    ),
    "a number that a product spreads over the rows of its weights": (
        f'x1 = ReduceSum (xi, one1)  ai = Einsum <equation = "bi,ij->bj"> (x1, wi)'
        f"  {_STATE}  {_END}",
        "",
    ),
    "half of a product": (f"ai = Gemm <alpha = 0.5> (xi, wi)  {_STATE}  {_END}", ""),
    "half of a bias": (f"ai = Gemm <beta = 0.5> (xi, wi, bi)  {_STATE}  {_END}", ""),
    "none of a bias": (f"ai = Gemm <beta = 0.0> (xi, wi, bi)  {_STATE}  {_END}", ""),
    "a bias of each row in a product": (
        f"ai = Gemm (xi, wi, bx)  {_STATE}  {_END}",
        "float[2,1] bx",
    ),
    "columns that one more was shared out to": (
        _CUT.format("w9", "rest, ai = Split <axis = -1, num_outputs = 2> (g)"),
        "float[3,9] w9",
    ),
    "every other column": (
        _CUT.format("w8", "ai = Slice (g, zero1, far1, last1, two1)"),
        "float[3,8] w8",
    ),
    "columns the other way round": (
        _CUT.format("wi", "ai = Slice (g, last1, least, last1, last1)"),
        "SIZES",
    ),
    "one row of two": (_CUT.format("wi", "ai = Slice (g, zero1, one1, zero1)"), ""),
    "the other row": (_CUT.format("wi", "rest, ai = Split <axis = 0> (g)"), ""),
    "one row of two by a share": (
        _CUT.format("wi", "ai, rest = Split <axis = -2, num_outputs = 2> (g)"),
        "",
    ),
    "one column": (_CUT.format("wi", "ai, rest = Split <axis = -1> (g, one_three)"), "SIZES"),
}
_SIZES = """sizes = Constant <value = int64[2] {4, 8}> ()  turned = Constant <value = int64[2] {8, 4}> ()
    before = Constant <value = int64[1] {-4}> ()  one_three = Constant <value = int64[2] {1, 3}> ()
    least = Constant <value = int64[1] {-9223372036854775807}> ()"""


def proven(nodes: str, more: str) -> set[str]:
    """Compare a cell of two rows with its Loop; return its loops and recurrent operators."""
    is_cut = more == "SIZES"
    prepare, inputs = (_SIZES, "") if is_cut else ("", more)
    text = cell_loop("counted", nodes, lead="2,", row="2,", prepare=prepare, inputs=inputs)
    before = model(text, opset=13 if " Split <axis = 0> (g)" in nodes else 18)
    found = read(before)
    given = {}
    for dims, name in re.findall(r"float(?:\[([\d,]*)\])? (\w+)", inputs):
        shape = [int(d) for d in dims.split(",") if d]
        given[name] = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    feeds = [{**cell_feeds(n), **given} for n in (0, 1, 5)]
    assert same(before, found.model, *feeds) == len(feeds)
    return found.operators.keys() & {"Loop", "RNN", "GRU", "LSTM"}


@pytest.mark.parametrize("name", INSIDE)
def test_what_the_operator_computes(name: str) -> None:
    assert proven(*INSIDE[name]) == {"RNN"}


@pytest.mark.parametrize("name", NEAR)
def test_what_it_does_not_compute_stays_a_loop(name: str) -> None:
    assert proven(*NEAR[name]) == {"Loop"}


_ZEROS = """given = Slice (whole, one1, two1)  sizes = {}
    zeros = Concat <axis = 0> (sizes, four1)
    start = ConstantOfShape <value = float[1] {{0.5}}> (zeros)"""


@pytest.mark.parametrize(
    ("sizes", "operators"),
    [
        ("Max (given, zero1)", {"RNN"}),
        ("Mul (given, more)", {"RNN"}),
        ("Identity (more)", {"RNN"}),
    ],
)
def test_a_first_state_whose_batch_no_type_tells(sizes: str, operators: set[str]) -> None:
    """That of the rows, or a number that is given: of 1 and 3 all become as many as the other."""
    prepare = _ZEROS.format(sizes)
    nodes = f"{_ROW}  {_STATE}  {_END}"
    text = cell_loop("counted", nodes, prepare=prepare, start="start", inputs="int64[1] more")
    before = model(text)
    found = read(before)
    batches = [(n, batch) for n in (0, 1, 5) for batch in (1, 3)]
    feeds = [{**cell_feeds(*one), "more": np.array([k])} for one in batches for k in (1, 3)]
    assert same(before, found.model, *feeds, open_rows=True) >= len(feeds) // 2
    assert found.operators.keys() & {"Loop", "RNN", "GRU", "LSTM"} == operators
