"""One map in five spellings ends as the same nodes, with the same verdict."""

from __future__ import annotations

import collections

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.graph.graphs import walk_nodes
from rewriter.proof.compare import compare

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
COUNT = """
  axes = Constant <value = int64[1] {0}> ()
  rows = Shape <start = 0, end = 1> (xs)
  n = Squeeze (rows, axes)"""
TRUE = "t = Constant <value = bool {1}> ()"

# Of a sample x of 4 floats: its nodes, and the dimensions of what they yield.
BODIES = {
    "a product and its tanh": ("m = MatMul (x, w)  y = Tanh (m)", "5"),
    "a sum to a scalar": (
        "two = Constant <value = float {2.0}> ()  p = Mul (x, two)  y = ReduceSum <keepdims = 0> (p)",
        "",
    ),
    "a softmax": ("y = Softmax <axis = 0> (x)", "4"),
    "a row beside it": (
        "first_row = Constant <value = int64 {0}> ()  u = Gather <axis = 0> (w, first_row)"
        "  y = Concat <axis = 0> (x, u)",
        "9",
    ),
    "a norm": (
        "m = ReduceMean <axes = [0]> (x)  d = Sub (x, m)  s = Mul (d, d)  v = ReduceSum (s)"
        "  r = Sqrt (v)  y = Div (d, r)",
        "4",
    ),
    "a branch that the rank decides": (
        "q = Shape (x)  u = Size (q)  o = Constant <value = int64 {1}> ()  f = Equal (u, o)"
        "  y = If <then_branch = yes () => (SAMPLE p) { p = Neg (x) }, "
        "else_branch = no () => (SAMPLE z) { z = Abs (x) }> (f)",
        "4",
    ),
}

# The same over the rows of xs, as ONNX's own operator and as exporters write it.
ROWS = {
    "SequenceMap": """
      split = SplitToSequence <axis = 0, keepdims = 0> (xs)
      list = SequenceMap <body = each (ELEMENT x) => (SAMPLE y) { BODY }> (split)
      ys = ConcatFromSequence <axis = 0, new_axis = 1> (list)""",
    "TorchScript": """COUNT TRUE
      none = SequenceEmpty <dtype = 1> ()
      list = Loop <body = each (int64 i, bool c, seq(float[]) before)
          => (bool go, seq(float[]) after) {
        x = Gather <axis = 0> (xs, i)
        BODY
        after = SequenceInsert (before, y)
        go = Identity (c)
      }> (n, t, none)
      ys = ConcatFromSequence <axis = 0, new_axis = 1> (list)""",
    "dynamo": """COUNT TRUE
      ys = Loop <body = each (int64 i, bool c) => (bool go, SAMPLE y) {
        x = Gather <axis = 0> (xs, i)
        BODY
        go = Identity (c)
      }> (n, t)""",
    "TensorFlow": """COUNT
      zero = Constant <value = int64 {0}> ()
      one = Constant <value = int64 {1}> ()
      most = Constant <value = int64 {2147483647}> ()
      first = Less (zero, n)
      last, ys = Loop <body = each (int64 i, bool c, int64 j) => (bool go, int64 k, SAMPLE y) {
        x = Gather <axis = 0> (xs, j)
        BODY
        k = Add (j, one)
        go = Less (k, n)
      }> (most, first, zero)""",
    "Scan": """
      ys = Scan <num_scan_inputs = 1, body = each (ELEMENT x) => (SAMPLE y) { BODY }> (xs)""",
}

# The same over a list whose elements have one shape by promise.
LISTS = {
    "SequenceMap": """
      list = SequenceMap <body = each (ELEMENT x) => (SAMPLE y) { BODY }> (xs)
      ys = ConcatFromSequence <axis = 0, new_axis = 1> (list)""",
    "TorchScript": """TRUE
      n = SequenceLength (xs)
      none = SequenceEmpty <dtype = 1> ()
      list = Loop <body = each (int64 i, bool c, seq(float[]) before)
          => (bool go, seq(float[]) after) {
        x = SequenceAt (xs, i)
        BODY
        after = SequenceInsert (before, y)
        go = Identity (c)
      }> (n, t, none)
      ys = ConcatFromSequence <axis = 0, new_axis = 1> (list)""",
    "dynamo": """TRUE
      n = SequenceLength (xs)
      ys = Loop <body = each (int64 i, bool c) => (bool go, SAMPLE y) {
        x = SequenceAt (xs, i)
        BODY
        go = Identity (c)
      }> (n, t)""",
}


def spelled(spelling: str, body: str, *, given: str) -> onnx.ModelProto:
    """Return the model of one body in one spelling."""
    nodes, dims = BODIES[body]
    sample = f"float[{dims}]" if dims else "float"
    text = spelling.replace("COUNT", COUNT).replace("TRUE", TRUE)
    text = text.replace("BODY", nodes).replace("ELEMENT", "float[4]").replace("SAMPLE", sample)
    result = f"float[B, {dims}]" if dims else "float[B]"
    model = onnx.parser.parse_model(
        f"{HEAD} main ({given} xs, float[4,5] w) => ({result} ys) {{ {text} }}"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def became(model: onnx.ModelProto, **options: object) -> tuple[onnx.ModelProto, object]:
    result = rewriter.rewrite(model, **options)
    nodes = walk_nodes(ir.from_proto(result.model).graph)
    kinds = collections.Counter(node.op_type for node in nodes)
    verdicts = [str(decision.verdict) for decision in result.report.decisions]
    return result.model, (verdicts, kinds)


def prove(before: onnx.ModelProto, after: onnx.ModelProto, xs: object) -> None:
    feeds = {"xs": xs, "w": np.random.default_rng(1).standard_normal((4, 5), np.float32)}
    found = [rewriter.ReferenceEvaluator(m).run(None, feeds) for m in (before, after)]
    difference = compare(*({"ys": values[0]} for values in found))
    assert difference.equal, difference.message


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize("body", BODIES)
def test_a_map_over_rows(body: str, strategy: str) -> None:
    xs = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    found = {}
    for name, spelling in ROWS.items():
        before = spelled(spelling, body, given="float[B,4]")
        after, found[name] = became(before, strategy=strategy)
        prove(before, after, xs)
    assert found == dict.fromkeys(ROWS, (["fused"], found["SequenceMap"][1]))
    assert not found["SequenceMap"][1].keys() & {"Loop", "Scan", "If", "SequenceMap"}


# What the declared rank of an element decides is folded in a Loop only; and the number of
# iterations of a Loop is a scalar, which takes a Reshape to be a vector.
ALIKE = [body for body in BODIES if "rank" not in body and "beside" not in body]


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize("body", ALIKE)
def test_a_map_over_a_list_of_one_shape(body: str, strategy: str) -> None:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(4, np.float32) for _ in range(3)]
    found = {}
    for name, spelling in LISTS.items():
        before = spelled(spelling, body, given="seq(float[4])")
        after, found[name] = became(before, strategy=strategy, uniform=["xs"])
        prove(before, after, xs)
    first = found["SequenceMap"]
    assert first[0] == ["fused"]
    assert found == dict.fromkeys(LISTS, first)
