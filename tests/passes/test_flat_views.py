"""Sequences that are rows and sizes, read as such."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.flat_views import read_view

TEXT = """<ir_version: 10, opset_import: ["" : 17]>
g (float[R,1] rows, int64[B,1] given) => (seq(float[3,?,1]) ys) {{
    three = Constant <value_ints = [{three}]> () sizes = {sizes} (given)
    products = ReduceProd <axes = [{along}], keepdims = 0> ({counted}) areas = Mul (products, three)
    pieces = SplitToSequence <axis = {axis}> (rows, areas)
    tables = SplitToSequence <axis = 0, keepdims = 0> (sizes)
    ys = SequenceMap (pieces, tables) <body = e (float[?,1] r, int64[1] size) => (float[3,?,1] y) {{
        a = Constant <value_ints = [3]> () b = {behind}
        t = Concat <axis = 0> (a, size, b) y = Reshape <allowzero = {allowzero}> (r, t) }}> }}"""
PLAIN = {
    "three": 3,
    "sizes": "Identity",
    "along": 1,
    "counted": "sizes",
    "axis": 0,
    "allowzero": 1,
    "behind": "Constant <value_ints = [1]> ()",
}
OTHERS = {
    "cut along another axis": {"axis": 1},
    "zeros copy dimensions": {"allowzero": 0},
    "cut by other areas": {"three": 2},
    "cut by the areas of others": {"counted": "given"},
    "areas along another axis": {"along": 0},
    "a dimension that is computed": {"behind": "Identity (size)"},
    "a dimension that is left open": {"behind": "Constant <value_ints = [-1]> ()"},
}


def sequence(changes: dict[str, object], dims: tuple[object, ...] | None) -> ir.Value:
    model = ir.from_onnx_text(TEXT.format(**PLAIN | changes))
    (sizes,) = (v for node in model.graph for v in node.outputs if v.name == "sizes")
    sizes.shape = None if dims is None else ir.Shape(dims)
    return model.graph.outputs[0]


def test_a_view() -> None:
    view = read_view(sequence({}, ("B", 1)))
    assert view is not None
    assert (view.lead, view.rest, view.count) == ((3,), (1,), 1)


@pytest.mark.parametrize("name", OTHERS)
def test_no_view(name: str) -> None:
    assert read_view(sequence(OTHERS[name], ("B", 1))) is None


@pytest.mark.parametrize("dims", [None, ("B",), ("B", None), ("B", 1, 1)], ids=str)
def test_no_view_by_sizes_of_no_known_number(dims: tuple[object, ...] | None) -> None:
    assert read_view(sequence({}, dims)) is None


PAIRS = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[A,C]) xs, seq(float[D,E]) zs) => (float[B] y) {
  ys = SequenceMap (xs, zs) <body = b (float[A,C] x, float[D,E] z) => (float p) {
    e = Exp (x) s = ReduceSum <keepdims = 0> (e)
    f = Neg (z) t = ReduceMax <keepdims = 0> (f) p = Sub (s, t) }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }"""


def test_two_views_have_sizes_of_their_own() -> None:
    model = onnx.parser.parse_model(PAIRS)
    after = rewriter.optimize(model, strategy="fuse", target="openvino", tensor_io=True)
    rng = np.random.default_rng(0)
    feeds = {
        "xs": [rng.random(shape, np.float32) for shape in ((2, 3), (1, 4), (3, 1))],
        "zs": [rng.random(shape, np.float32) for shape in ((1, 2), (4, 2), (1, 1))],
    }
    check = rewriter.validate(model, after, inputs=feeds)
    assert check.ok, check


SOME = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[A,C]) xs, seq(float[D,E]) zs) => (float[B] y) {{
  n = SequenceLength (xs) t = Constant <value = bool {{1}}> ()
  y = Loop (n, t) <body = b (int64 i, bool c) => (bool d, float p) {{
    x = SequenceAt (xs, i) z = SequenceAt (zs, i) one = Constant <value = int64 {{1}}> ()
    e = Exp (x) s = ReduceMean <keepdims = 0> (e)
    f = Neg (z) t = ReduceMax <keepdims = 0> (f) p = Sub (s, t) d = {goes_on} }}> }}"""


@pytest.mark.parametrize("goes_on", ["Identity (c)", "Less (i, one)"])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_elements_that_no_iteration_reads_are_left_out(goes_on: str, length: int) -> None:
    model = onnx.parser.parse_model(SOME.format(goes_on=goes_on))
    after = rewriter.optimize(model, strategy="fuse", target="openvino", tensor_io=True)
    rng = np.random.default_rng(length)
    feeds = {
        name: [rng.random(rng.integers(1, 4, 2), np.float32) for _ in range(length + more)]
        for name, more in (("xs", 0), ("zs", 2))
    }
    check = rewriter.validate(model, after, inputs=feeds)
    assert check.ok, check
