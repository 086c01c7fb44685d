from __future__ import annotations

import onnx
import pytest

from passes.decisions import Code, Verdict
from rewriter.pipeline import explain
from rewriter.reporting.remedies import naming

LISTS = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[N,6]) xs, seq(float[N,6]) other, float[COLUMNS,5] w, int64[K] lengths, float[M,6] rows)
    => (seq(float[A,B]) ys, int64 n)
{
  go = Constant <value = bool {1}> ()
  n = SequenceLength (SOURCE)
  none = SequenceEmpty ()
  [each] ys = Loop (n, go, none) <body = b (int64 i, bool c, seq(float[A,B]) s) =>
      (bool d, seq(float[A,B]) t)
    { e = SequenceAt (SOURCE, i)  BODY  t = SequenceInsert (s, y)  d = Identity (c) }>
}"""
TWO = "m = MatMul (e, w)  y = Tanh (m)"
GEMM = "m = Gemm <transB = 0> (e, w)  y = Tanh (m)"
LONG = "y = Softmax <axis = 0> (e)"
LARGE = "N,9999"  # elements that a loop is faster for


def lists(body: str, source: str = "xs", declared: str = "N,6") -> onnx.ModelProto:
    text = LISTS.replace("BODY", body).replace("SOURCE", source)
    text = text.replace("COLUMNS", declared.split(",")[1])
    return onnx.parser.parse_model(text.replace("N,6", declared))


@pytest.mark.parametrize(
    ("body", "declared", "is_told"),
    [(TWO, LARGE, True), (LONG, LARGE, True), (GEMM, LARGE, True), (GEMM, "3,6", False)],
    ids=["two", "one", "Gemm", "Gemm on numbers"],
)
def test_what_fuse_would_write_is_told_only_if_it_does(
    body: str, declared: str, is_told: bool
) -> None:
    model = lists(body, declared=declared)
    report = explain(model)
    (auto,) = report.decisions
    (fuse,) = explain(model, strategy="fuse").decisions
    remedies = [one.candidate.option for one in report.remedies.maps.get(auto.path, ())]
    assert fuse.verdict is Verdict.GUARDED
    assert ("--strategy fuse" in remedies) is (auto.verdict is Verdict.KEPT) is is_told


def test_a_map_in_a_function_may_read_any_input() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
    g (seq(float[H,W]) xs, float[K] w) => (seq(float[A,B]) ys) { ys = local.each (xs) }
    <domain: "local", opset_import: ["" : 18]>
    each (xs) => (ys) {
      [map] ys = SequenceMap (xs) <body = b (float[H,W] p) => (float[A,B] q)
        { s = Softmax (p)  t = Transpose (s)  q = Softmax (t) }> }"""
    (decision,) = explain(onnx.parser.parse_model(text), strategy="expand").decisions
    told = [reason.remedy for reason in decision.reasons if "--uniform" in reason.remedy]
    assert told
    assert all("with --uniform xs, " in remedy for remedy in told)


def test_the_input_that_a_map_reads_is_named() -> None:
    """A value inside of the model is no name that --uniform takes."""
    (decision,) = explain(lists(TWO, declared=LARGE)).decisions
    assert decision.verdict is Verdict.KEPT
    *reasons, cost = decision.reasons
    assert cost.code is Code.COST
    for reason in reasons:
        assert reason.remedy.startswith("promise equal shapes with --uniform xs, or ")
    assert explain(lists(TWO), uniform=["xs"]).decisions[0].verdict is Verdict.FUSED


def test_a_promise_that_cannot_be_made_is_no_remedy() -> None:
    split = onnx.helper.make_node("SplitToSequence", ["rows", "lengths"], ["cut"], axis=0)
    model = lists(TWO, "cut")
    model.graph.node.insert(0, split)
    report = explain(model, strategy="expand", require=["loop-free"])
    assert "--uniform" not in "".join(r.remedy for d in report.decisions for r in d.reasons)


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("promise with --uniform, or wait", ["xs"], "promise with --uniform xs, or wait"),
        ("use --uniform", ["a", "b"], "use --uniform a --uniform b"),
        ("promise with --uniform, or wait", [], "wait"),
        ("use --uniform", [], "use --uniform"),
        ("wait", ["a"], "wait"),
    ],
)
def test_naming(text: str, names: list[str], expected: str) -> None:
    assert naming(text, names) == expected


BRANCHES = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N,3] x, float[3] w) => (float[A,B] ys)
{
  go = Constant <value = bool {1}> ()
  zero = Constant <value = float {0}> ()
  shape = Shape <start = 0, end = 1> (x)
  n = Squeeze (shape)
  none = SequenceEmpty ()
  s9 = Loop (n, go, none) <body = b (int64 i, bool c, seq(float[A]) s) =>
      (bool d, seq(float[A]) t)
    { e = Gather (x, i)  a = ReduceSum <keepdims = 0> (e)  p = Greater (a, zero)
      [if] t = If (p) <then_branch = h () => (seq(float[A]) u) { y = Mul (e, w) FIRST },
                  else_branch = k () => (seq(float[A]) v) { z = Sub (e, w) SECOND }>
      d = Identity (c) }>
  ys = ConcatFromSequence <axis = 0, new_axis = 1> (s9)
}"""


def test_branches_that_append() -> None:
    text = BRANCHES.replace("FIRST", "u = SequenceInsert (s, y)")
    text = text.replace("SECOND", "v = SequenceInsert (s, z)")
    (decision,) = explain(onnx.parser.parse_model(text)).decisions
    assert decision.verdict is Verdict.FUSED


def test_branches_that_append_at_both_ends() -> None:
    text = BRANCHES.replace("FIRST", "u = SequenceInsert (s, y)")
    front = "o = Constant <value_int = 0> () v = SequenceInsert (s, z, o)"
    (decision,) = explain(onnx.parser.parse_model(text.replace("SECOND", front))).decisions
    (reason,) = decision.reasons
    assert (reason.code, reason.op_type) == (Code.CONTROL_FLOW, "If")
    assert reason.detail == "each branch adds to 's' in a way of its own"
    assert reason.remedy == "let the branches yield the element, and append it after the If"


def test_a_branch_that_appends_is_a_filter() -> None:
    text = BRANCHES.replace("FIRST", "u = SequenceInsert (s, y)")
    text = text.replace("SECOND", "v = Identity (s)")
    (decision,) = explain(onnx.parser.parse_model(text)).decisions
    assert decision.verdict is Verdict.FUSED


IN_A_LOOP = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[N]) xs) => (seq(float[N]) ys) {
  turns = Constant <value_int = 3> ()
  go = Constant <value = bool {1}> ()
  [loop] ys = Loop (turns, go, xs) <body = b (int64 i, bool c, seq(float[N]) s)
      => (bool d, seq(float[N]) t) {
    d = Identity (c)
    [each] t = SequenceMap (s) <body = m (float[N] x) => (float[N] y) { y = Exp (x) }> }>
}"""


def test_a_list_that_a_map_makes_anew_is_carried() -> None:
    """What is written in the place of the map is an If that inserts, which no author knows."""
    (outer,) = (
        d for d in explain(onnx.parser.parse_model(IN_A_LOOP)).decisions if d.path == "loop"
    )
    (reason,) = outer.reasons
    assert (reason.code, reason.node, reason.op_type) == (
        Code.RECURRENCE,
        "loop/body/each",
        "SequenceMap",
    )
    assert reason.detail == "'s' depends on its own past"
