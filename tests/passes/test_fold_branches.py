"""An If in a Loop whose condition shapes decide is the branch that it takes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.fold_branches import FoldBranchesPass
from passes.graph.graphs import all_graphs
from tests.passes.batching.harness import run_model

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n,m,4] boxes, float[n,m] scores, bool flag) => (float[k] y) {{
  shape = Shape (boxes)
  zero = Constant <value_int = 0> ()
  trips = Gather (shape, zero)
  go = Constant <value = bool {{1}}> ()
  none = SequenceEmpty <dtype = 1> ()
  all = Loop (trips, go, none) <body = b (int64 i, bool on, seq(float[p]) acc)
      => (bool further, seq(float[p]) more) {{
    own = Gather (boxes, i)
    mine = Gather (scores, i)
    first = Constant <value_ints = [0]> ()
    both = Constant <value_ints = [0, 1]> ()
    u = Unsqueeze (own, first)
    v = Unsqueeze (mine, both)
    most = Constant <value_ints = [3]> ()
    found = NonMaxSuppression (u, v, most)
    last = Constant <value_ints = [2]> ()
    column = Gather <axis = 1> (found, last)
    s = Shape (column)
    where = Constant <value_ints = [{axis}]> ()
    d = Gather (s, where)
    one = Constant <value_ints = [1]> ()
    condition = Equal (d, one)
    chosen = If ({condition}) <then_branch = t () => (int64[q] squeezed) {{
      squeezed = Squeeze (column, one)
    }}, else_branch = e () => (int64[q, r] same) {{
      same = Identity (column)
    }}>
    flat = Constant <value_ints = [-1]> ()
    rows = Reshape (chosen, flat)
    r = Gather (mine, rows)
    further = Identity (on)
    more = SequenceInsert (acc, r)
  }}>
  y = ConcatFromSequence <axis = 0> (all)
}}"""


def ifs_of(model: ir.Model) -> int:
    return sum(node.op_type == "If" for graph in all_graphs(model) for node in graph)


@pytest.mark.parametrize(
    ("axis", "condition", "folds"),
    [(1, "condition", True), (-1, "condition", True), (0, "condition", False), (1, "flag", False)],
)
def test_a_condition_by_shape_is_folded(axis: int, condition: str, folds: bool) -> None:
    before = onnx.parser.parse_model(MODEL.format(axis=axis, condition=condition))
    model = ir.from_proto(before)
    assert FoldBranchesPass()(model).modified is folds
    assert ifs_of(model) == (not folds)
    nodes = [node.op_type for graph in all_graphs(model) for node in graph]
    assert nodes.count("Identity") == 2 - folds
    assert not FoldBranchesPass()(model).modified
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 5, (3, 6, 2))
    boxes = np.concatenate([corners, corners + 2], 2).astype(np.float32)
    feeds = {
        "boxes": boxes,
        "scores": rng.uniform(0.1, 1, (3, 6)).astype(np.float32),
        "flag": np.array(True),
    }
    (want,), (got,) = (run_model(m, feeds) for m in (before, after))
    np.testing.assert_array_equal(got, want)


RESULTS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n,4] x, int64 trips) => (float[n,4] y, float[n,4] z) {{
  go = Constant <value = bool {{1}}> ()
  y, z = Loop (trips, go) <body = b (int64 i, bool on) => (bool on2, float[4] r, float[4] s) {{
    on2 = Constant <value = bool {{1}}> () e = Gather (x, i) yes = Constant <value = bool {{1}}> ()
    f = Abs (e)
    r, s = If (yes) <then_branch = t () => (float[4] p, float[4] q) {{ {nodes} }},
      else_branch = u () => (float[4] p2, float[4] q2) {{ p2 = Abs (e) q2 = Neg (e) }}>
  }}> }}"""


@pytest.mark.parametrize(
    ("nodes", "copies"),
    [("p = Neg (e) q = Exp (e)", 0), ("p = Neg (e) q = Identity (f)", 1)],
    ids=["computed", "passed on"],
)
def test_results_of_a_branch_are_results_of_the_body(nodes: str, copies: int) -> None:
    before = onnx.parser.parse_model(RESULTS.format(nodes=nodes))
    model = ir.from_proto(before)
    assert FoldBranchesPass()(model).modified
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    operators = [node.op_type for graph in all_graphs(model) for node in graph]
    assert (operators.count("If"), operators.count("Identity")) == (0, copies)
    feeds = {"x": np.ones((3, 4), np.float32), "trips": np.array(3)}
    for got, want in zip(run_model(after, feeds), run_model(before, feeds), strict=True):
        np.testing.assert_array_equal(got, want)


AROUND = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n,6] x, int64[2] given) => (float[n,6] y) {{
  end = Constant <value_ints = [{end}]> ()
  begin = Constant <value_ints = [1]> ()
  shape = Shape <start = {axis}, end = {behind}> (x)
  stop = Min (shape, end)
  empty = LessOrEqual (stop, begin)
  number = Cast <to = 7> (empty)
  total = ReduceSum <keepdims = 0> (number)
  condition = Cast <to = 9> (total)
  y = If (condition) <then_branch = t () => (float[n,6] same) {{
      same = Identity (x)
    }}, else_branch = e () => (float[n,6] made) {{
      one = Constant <value_int = 1> ()
      s = SplitToSequence (given, one)
      q = SequenceMap (s) <body = b (int64[1] k) => (float[p] r) {{ r = Cast <to = 1> (k) }}>
      all = ConcatFromSequence <axis = 0> (q)
      sum = ReduceSum (all)
      made = Add (x, sum)
    }}>
}}"""


@pytest.mark.parametrize(
    ("axis", "end", "folds"), [(1, 3, True), (1, 1, True), (0, 3, False), (0, 1, True)]
)
def test_an_if_around_a_map_goes_where_its_condition_is_known(
    axis: int, end: int, folds: bool
) -> None:
    before = onnx.parser.parse_model(AROUND.format(axis=axis, behind=axis + 1, end=end))
    model = ir.from_proto(before)
    assert FoldBranchesPass()(model).modified is folds
    assert ifs_of(model) == (not folds)
    x, given = np.ones((4, 6), np.float32), np.array([2, 3])
    feed = {"x": x, "given": given}
    expected, made = (run_model(one, feed) for one in (before, ir.to_proto(model)))
    np.testing.assert_array_equal(made[0], expected[0])


@pytest.mark.parametrize("nodes", ["p = Mul (e, w) q = Exp (e)", "p = Neg (e)"])
def test_a_branch_brings_its_initializers_along(nodes: str) -> None:
    """TensorFlow's exporter gives each branch constants of its own."""
    given = RESULTS.format(nodes=nodes if "q =" in nodes else nodes + " q = Identity (w)")
    before = onnx.parser.parse_model(
        given.replace("float[4] q) {", "float[4] q) <float[4] w = {1, 2, 3, 4}> {", 1)
    )
    model = ir.from_proto(before)
    assert FoldBranchesPass()(model).modified
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    feeds = {"x": np.ones((3, 4), np.float32), "trips": np.array(3)}
    for got, want in zip(run_model(after, feeds), run_model(before, feeds), strict=True):
        np.testing.assert_array_equal(got, want)
    assert rewriter.explain(before, require=["loop-free"]).reached
