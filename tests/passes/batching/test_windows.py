"""Windows of one size that begin at multiples of a number, along any axis."""

from __future__ import annotations

import collections

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.graph.graphs import all_graphs
from tests.passes.batching.harness import run_model

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, t] x) => (float[a, b, c] y) {{
  s = Shape (x)
  axis = Constant <value_int = {axis}> ()
  size = Gather (s, axis)
  past = Constant <value_int = {past}> ()
  rest = Sub (size, past)
  f = Cast <to = 1> (rest)
  hop = Constant <value_float = {hop}.0> ()
  q = Div (f, hop)
  c = Ceil (q)
  trips = Cast <to = 7> (c)
  go = Constant <value = bool {{1}}> ()
  none = SequenceEmpty <dtype = 1> ()
  all = Loop (trips, go, none) <body = b (int64 i, bool on, seq(float[k, l]) acc)
      => (bool further, seq(float[k, l]) more) {{
    h = Constant <value_int = {hop}> ()
    w = Constant <value_int = {width}> ()
    first = Mul (i, h)
    last = Add (first, w)
    zero = Constant <value_ints = [0]> ()
    axes = Constant <value_ints = [{axis}]> ()
    begin = Unsqueeze (first, zero)
    end = Unsqueeze (last, zero)
    window = Slice (x, begin, end, axes)
    r = Softmax <axis = {axis}> (window)
    further = Identity (on)
    more = SequenceInsert (acc, r)
  }}>
  y = ConcatFromSequence <axis = 0, new_axis = {new_axis}> (all)
}}"""


def operators(model: onnx.ModelProto) -> collections.Counter[str]:
    """Return how often each operator stands in a model."""
    return collections.Counter(n.op_type for g in all_graphs(ir.from_proto(model)) for n in g)


def loops_of_many(model: onnx.ModelProto) -> int:
    """Return how many loops run where there are many samples."""
    read = ir.from_proto(model)
    inside = {
        graph
        for node in read.graph
        if node.op_type == "If"
        for graph in [node.attributes["else_branch"].as_graph()]
    }
    return sum(node.op_type == "Loop" for g in all_graphs(read) if g not in inside for node in g)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("hop", "width", "past"), [(4, 8, 7), (3, 3, 2), (5, 2, 1), (1, 4, 3)])
def test_windows_are_one_gather(axis: int, hop: int, width: int, past: int) -> None:
    text = MODEL.format(axis=axis, hop=hop, width=width, past=past, new_axis=1)
    model = onnx.parser.parse_model(text)
    new = rewriter.optimize(model)
    found = operators(new)
    read = 2 if hop > 1 else 1  # the windows, and the size that is divided
    assert (found["Gather"], found["If"], found["Loop"]) == (read, 0, 0)
    for size in (width, width + 1, 40, 61):
        shape = (size, 3) if axis == 0 else (3, size)
        x = np.random.default_rng(size).standard_normal(shape).astype(np.float32)
        (want,), (got,) = (run_model(m, {"x": x}) for m in (model, new))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("hop", "width"), [(4, 8), (3, 3), (1, 4)])
def test_windows_counted_by_whole_numbers_are_one_gather(axis: int, hop: int, width: int) -> None:
    """ONNX divides towards 0: of a tensor shorter than a window there may be one, of all of it."""
    text = MODEL.format(axis=axis, hop=hop, width=width, past=width, new_axis=1)
    before, _, after = text.partition("f = Cast")
    _, _, after = after.partition("go =")
    text = f"""{before} by = Constant <value_int = {hop}> ()  one = Constant <value_int = 1> ()
        q = Div (rest, by)  trips = Add (q, one)  go ={after}"""
    model = onnx.parser.parse_model(text)
    new = rewriter.optimize(model)
    assert not loops_of_many(new)
    for size in (max(width - hop + 1, 1), width, width + 1, 40, 61):
        shape = (size, 3) if axis == 0 else (3, size)
        x = np.random.default_rng(size).standard_normal(shape).astype(np.float32)
        (want,), (got,) = (run_model(m, {"x": x}) for m in (model, new))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("hop", "width", "past"), [(4, 8, 7), (3, 3, 2)])
def test_windows_counted_by_whole_numbers_rounded_up(hop: int, width: int, past: int) -> None:
    text = MODEL.format(axis=0, hop=hop, width=width, past=past - hop + 1, new_axis=1)
    before, _, after = text.partition("f = Cast")
    _, _, after = after.partition("go =")
    text = f"{before} by = Constant <value_int = {hop}> ()  trips = Div (rest, by)  go ={after}"
    model = onnx.parser.parse_model(text)
    new = rewriter.optimize(model)
    found = operators(new)
    assert (found["Gather"], found["If"], found["Loop"]) == (2, 0, 0)
    for size in (width, width + 1, 40, 61):
        x = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
        (want,), (got,) = (run_model(m, {"x": x}) for m in (model, new))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("is_rounded_up", [True, False])
def test_windows_of_every_second_row(is_rounded_up: bool) -> None:
    text = MODEL.format(axis=0, hop=4, width=8, past=7, new_axis=0)
    text = text.replace(
        "window = Slice (x, begin, end, axes)",
        """
        steps = Constant <value_ints = [2]> ()  window = Slice (x, begin, end, axes, steps)""",
    )
    if not is_rounded_up:
        text = text.replace("past = Constant <value_int = 7>", "past = Constant <value_int = 8>")
        before, _, after = text.partition("f = Cast")
        _, _, after = after.partition("go =")
        text = f"""{before} by = Constant <value_int = 4> ()  one = Constant <value_int = 1> ()
            q = Div (rest, by)  trips = Add (q, one)  go ={after}"""
    model = onnx.parser.parse_model(text.replace("float[a, b, c] y", "float[a, b] y"))
    new = rewriter.optimize(model)
    for size in (8, 9, 40, 61):
        x = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
        (want,), (got,) = (run_model(m, {"x": x}) for m in (model, new))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("axis", "by"), [(0, "4.0"), (1, "4.0"), (0, "2.5"), (0, "0.5")], ids=lambda one: str(one)
)
def test_a_last_window_that_is_shorter_stays_shorter(axis: int, by: str) -> None:
    """Windows behind the end are empty: so many there are if they are counted by less."""
    text = MODEL.format(axis=axis, hop=4, width=8, past=3, new_axis=0).replace("4.0", by)
    text = text.replace("<axis = 0, new_axis = 0>", f"<axis = {axis}, new_axis = 0>")
    model = onnx.parser.parse_model(text.replace("float[a, b, c] y", "float[a, b] y"))
    new = rewriter.optimize(model)
    for size in (8, 40, 41, 42, 43):
        shape = (size, 3) if axis == 0 else (3, size)
        x = np.random.default_rng(size).standard_normal(shape).astype(np.float32)
        (want,), (got,) = (run_model(m, {"x": x}) for m in (model, new))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


COUNTED = {
    "beside another size": "q = Div (rest, by) more = Add (q, columns) trips = Add (more, one)",
    "twice": "q = Div (rest, by) more = Add (q, q) trips = Add (more, one)",
    "and one more": "q = Div (rest, by) more = Add (q, one) trips = Add (more, one)",
    "by fewer rows": "q = Div (rest, one) trips = Add (q, one)",
    "less a part": "q = Div (rest, by) p = Div (rest, four) d = Sub (q, p) trips = Add (d, one)",
    "of a product": "q = Mul (rest, by) trips = Add (q, one)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", COUNTED)
def test_windows_that_are_not_counted_by_what_fits(name: str) -> None:
    """Those behind the last row are empty."""
    text = MODEL.format(axis=0, hop=2, width=4, past=4, new_axis=0)
    before, _, after = text.replace("float[a, b, c]", "float[b, c]").partition("f = Cast")
    _, _, after = after.partition("go =")
    text = f"""{before} by = Constant <value_int = 2> ()  one = Constant <value_int = 1> ()
        four = Constant <value_int = 4> ()  columns = Gather (s, one)  {COUNTED[name]}
        go ={after}"""
    model = onnx.parser.parse_model(text)
    new = rewriter.optimize(model, strategy="fuse")
    for size in (4, 5, 11):
        x = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
        (want,), (got,) = (run_model(m, {"x": x}) for m in (model, new))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


BY_SHAPE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 4] x, float[k, 4] f, int64 given) => (float[m] y) {{
  sx = Shape (x)  sf = Shape (f)  zero = Constant <value_int = 0> ()
  n = Gather (sx, zero)  k = Gather (sf, zero)  w = {width}
  past = Sub (n, w)  one = Constant <value_int = {more}> ()  trips = Add (past, one)
  go = Constant <value = bool {{1}}> ()
  y = Loop (trips, go) <body = b (int64 i, bool on) => (bool further, float r) {{
    last = Add (i, w)  first1 = Constant <value_ints = [0]> ()
    begin = Unsqueeze (i, first1)  end = Unsqueeze (last, first1)
    window = Slice (x, begin, end, first1)  p = {product}
    r = ReduceSum <keepdims = 0> (p)  further = Identity (on)
  }}>
}}"""
WIDTHS = {
    "of the shape of a filter": ("Identity (k)", 1, "Mul (window, f)"),
    "an input": ("Identity (given)", 1, "Tanh (window)"),
    "cut at the end": ("Identity (k)", 2, "Tanh (window)"),
}


@pytest.mark.parametrize("name", WIDTHS)
def test_windows_of_a_width_that_is_known_when_it_runs(name: str) -> None:
    width, more, product = WIDTHS[name]
    text = BY_SHAPE.format(width=width, more=more, product=product)
    model = onnx.parser.parse_model(text)
    new = rewriter.optimize(model, target="portable")
    found = operators(rewriter.optimize(model))
    assert (found["If"], found["Loop"]) == (0, 0) or "Mul" not in product
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 7, 64):
        for wide in (0, 1, 3) if "Mul" in product else (-2, 0, 1, 3):
            feeds = {
                "x": rng.standard_normal((size, 4)).astype(np.float32),
                "f": rng.standard_normal((max(wide, 0), 4)).astype(np.float32),
                "given": np.array(wide),
            }
            (want,), (got,) = (run_model(m, feeds) for m in (model, new))
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
