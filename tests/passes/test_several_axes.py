"""Maps over elements of a sequence that differ along several axes, fused as far as that goes."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest

from rewriter.backends import open_session
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare

TEXT = """<ir_version: 10, opset_import: ["" : {opset}]>
g (seq(float{dims}) xs) => (seq(float{result}) ys) {{
    {outside}
    ys = SequenceMap (xs) <body = b (float{dims} x) => (float{result} y) {{ {body} }}>
}}"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A body over samples that differ along two axes or more.

    Attributes:
        body: Its nodes.
        dims: What an element is promised to be; a letter stands for a dimension that differs.
        rank: Rank of the output.
        outside: Nodes outside of the map.
        opset: The opset.
    """

    body: str
    dims: str
    rank: int
    outside: str = ""
    opset: int = 18


AXES = "axes = Constant <value_ints = [{}]> ()"
MEAN = "a = Sigmoid (x) b = Exp (a) y = ReduceMean <keepdims = 0> (b, axes)"

CASES = {
    "two axes": Case(AXES.format("0, 1") + MEAN, "H, W", 0),
    "no axes are all": Case(
        "a = Sigmoid (x) b = Exp (a) y = ReduceSum <keepdims = 0> (b)", "H, W", 0
    ),
    "axes behind": Case(AXES.format("0, 1") + MEAN, "H, W, 3", 1),
    "axes before": Case(AXES.format("-1, -2") + MEAN, "3, H, W", 1),
    "an axis between": Case(AXES.format("0, 1, 2") + MEAN, "H, 2, W", 0),
    "three axes": Case(AXES.format("0, 1, 2") + MEAN, "H, W, D", 0),
    "axes kept": Case(
        AXES.format("0, 1") + "a = Sigmoid (x) b = Exp (a) y = ReduceMax (b, axes)",
        "H, W, 3",
        3,
    ),
    "axes of the reduction behind, too": Case(AXES.format("0, 2, 1") + MEAN, "H, W, 3", 0),
    "axes as attribute": Case(
        "a = Sigmoid (x) b = Exp (a) y = ReduceMean <axes = [1, 2], keepdims = 1> (b)",
        "3, H, W",
        3,
        opset=17,
    ),
    "pooled images": Case(
        "a = Sigmoid (x) b = Exp (a) y = GlobalAveragePool (b)", "1, 3, H, W", 4
    ),
    "pooled by maximum": Case(
        "a = Sigmoid (x) b = Exp (a) y = GlobalMaxPool (b)", "2, 3, H, W", 4
    ),
    "a vector": Case(
        "t = Constant <value_ints = [-1]> () a = Sigmoid (x) b = Exp (a) y = Reshape (b, t)",
        "H, W",
        1,
    ),
    "rows": Case(
        "t = Constant <value_ints = [-1, 6]> () a = Sigmoid (x) b = Exp (a) y = Reshape (b, t)",
        "H, W, 6",
        2,
    ),
    "shared operands": Case(
        AXES.format("0, 1") + "a = Sub (x, m) b = Sigmoid (a) c = Mul (s, b) d = Exp (c) "
        "e = Where (p, d, k) y = ReduceMean <keepdims = 0> (e, axes)",
        "H, W, 3",
        1,
        outside="m = Constant <value_floats = [0.1, 0.2, 0.3]> () "
        "i = Constant <value_ints = [1, 1, 3]> () s = Reshape (m, i) "
        "j = Constant <value_ints = [1, 1, 1, 1]> () k1 = Constant <value_floats = [0.5]> () "
        "k2 = Reshape (k1, j) z = Constant <value_ints = [0]> () k = Squeeze (k2, z) "
        "zero = Constant <value_float = 0.2> () p = Greater (m, zero)",
    ),
    "shared operands behind": Case(
        AXES.format("1, 2") + "a = Sub (x, s) b = Sigmoid (a) d = Exp (b) "
        "y = ReduceMean <keepdims = 0> (d, axes)",
        "3, H, W",
        1,
        outside="m = Constant <value_floats = [0.1, 0.2, 0.3]> () "
        "i = Constant <value_ints = [3, 1, 1]> () s = Reshape (m, i)",
    ),
    "standardised by its own mean": Case(
        AXES.format("0, 1") + "a = Sigmoid (x) m = ReduceMean (a, axes) b = Sub (a, m) "
        "c = Mul (b, b) v = ReduceMean (c, axes) t = Constant <value_ints = [-1]> () "
        "d = Sqrt (v) e = Div (b, d) f = Exp (e) y = Reshape (f, t)",
        "H, W",
        1,
    ),
    "two flattened values meet": Case(
        AXES.format("0, 1") + "a = Sigmoid (x) b = Exp (x) c = Add (a, b) d = Div (c, x) "
        "y = ReduceMin <keepdims = 0> (d, axes)",
        "H, W",
        0,
    ),
    "what is read otherwise too stays": Case(
        AXES.format("0, 1") + "a = Sigmoid (x) t = Transpose (a) b = Exp (a) "
        "m = ReduceMean (b, axes) y = Add (t, m)",
        "H, W",
        2,
    ),
    "an axis that differs is left": Case(
        AXES.format("1") + "a = Sigmoid (x) b = Exp (a) y = ReduceMean <keepdims = 0> (b, axes)",
        "H, W",
        1,
    ),
    "a dimension copied by a Reshape": Case(
        "t = Constant <value_ints = [0, -1]> () a = Sigmoid (x) b = Exp (a) y = Reshape (b, t)",
        "H, W, 2",
        2,
    ),
    "the shape of another": Case(
        "t = Shape (x) a = Sigmoid (x) b = Exp (a) y = Reshape (b, t)", "H, W", 2
    ),
    "a reduction of nothing": Case(
        "none = Constant <value = int64[0] {}> () a = Sigmoid (x) b = Exp (a) "
        "y = ReduceSum <noop_with_empty_axes = 1> (b, none)",
        "H, W",
        2,
    ),
    "no axes, which would not be all": Case(
        "none = Constant <value = int64[0] {}> () a = Sigmoid (x) b = Exp (a) "
        "y = ReduceSum <noop_with_empty_axes = 0, keepdims = 0> (b, none)",
        "H, W",
        0,
    ),
    "axes from outside": Case(
        "a = Sigmoid (x) b = Exp (a) y = ReduceMean <keepdims = 0> (b, axes)",
        "H, W",
        0,
        outside="two = Constant <value_int = 2> () zero = Constant <value_int = 0> () "
        "k = SequenceLength (xs) z = Mul (k, zero) l = Add (z, two) "
        "one = Constant <value_int = 1> () axes = Range (z, l, one)",
    ),
    "what a branch reads": Case(
        AXES.format("0, 1") + "a = Sigmoid (x) b = Exp (a) n = Size (x) "
        "few = Constant <value_int = 4> () c = Less (n, few) "
        "y = If (c) <then_branch = t () => (p) { p = ReduceMean <keepdims = 0> (b, axes) }, "
        "else_branch = f () => (q) { q = ReduceMax <keepdims = 0> (b, axes) }>",
        "H, W",
        0,
    ),
    "what is yielded as it is": Case("a = Sigmoid (x) y = Exp (a)", "H, W", 2),
    "a row of its own width": Case(
        AXES.format("0, 1") + "z = Constant <value_ints = [0]> () r = ReduceMax (x, z) "
        "a = Sub (x, r) b = Exp (a) y = ReduceMean <keepdims = 0> (b, axes)",
        "H, W",
        0,
    ),
}

SIZES = {
    "none": [],
    "one": [{"H": 3, "W": 2, "D": 2}],
    "several": [
        {"H": 2, "W": 3, "D": 1},
        {"H": 1, "W": 4, "D": 2},
        {"H": 3, "W": 1, "D": 3},
    ],
    "equal": [{"H": 2, "W": 3, "D": 2}] * 3,
}


def _elements(dims: str, sizes: list[dict[str, int]]) -> list[np.ndarray]:
    names = dims.split(", ")
    shapes = [[one[n] if n in one else int(n) for n in names] for one in sizes]
    return [np.arange(np.prod(s), dtype=np.float32).reshape(s) % 7 / 5 for s in shapes]


def _rewritten(case: Case) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    rank = case.dims.count(",") + 1
    unknown = [
        f"[{', '.join(f'{letter}{i}' for i in range(n))}]"
        for letter, n in (("A", rank), ("R", case.rank))
    ]
    text = TEXT.format(
        opset=case.opset, dims=unknown[0], result=unknown[1], outside=case.outside, body=case.body
    )
    model = onnx.parser.parse_model(text)
    shape = [int(d) if d.isdigit() else None for d in case.dims.split(", ")]
    after = rewrite(model, strategy="fuse", input_shapes={"xs": shape}).model
    assert isinstance(after, onnx.ModelProto)
    return model, after


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_samples_that_differ_along_several_axes(name: str, sizes: str) -> None:
    case = CASES[name]
    before, after = _rewritten(case)
    feed = {"xs": _elements(case.dims, SIZES[sizes])}
    difference = compare(
        open_session(before, "reference").run(feed), open_session(after).run(feed)
    )
    assert difference.equal, difference.message
