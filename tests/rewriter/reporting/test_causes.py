"""One cause is reported once, with the nodes that follow from it."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import pytest

from passes.decisions import Code, Reason, Verdict
from rewriter.pipeline import explain

HEADER = '<ir_version: 9, opset_import: ["" : 18, "mine" : 1]>\n'


def parse(graph: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + graph)


def reasons(graph: str, **options: Any) -> list[Reason]:
    (decision,) = explain(parse(graph), **options).decisions
    return decision.reasons


CHAIN = "\n".join(f"c{i + 1} = {op} (c{i})" for i, op in enumerate(("Relu", "Tanh", "Neg") * 6))
TWIN = f"""g (seq(float[]) xs, bool flag) => (seq(float[]) ys) {{
  [map] ys = SequenceMap (xs, flag) <body = b (float[] e, bool f) => (float[] y) {{
    flat = Constant <value_ints = [-1]> ()
    row = Constant <value_ints = [1, -1]> ()
    one = Constant <value = int64 {{1}}> ()
    first = Constant <value_ints = [0]> ()
    [choose] v = If (f) <
      then_branch = p () => (float[] r) {{ r = Reshape (e, flat) }},
      else_branch = q () => (float[] s) {{ s = Reshape (e, row) }}>
    [root] sh = Shape (v)
    rank = Size (sh)
    is_row = Equal (rank, one)
    [again] c0 = If (is_row) <
      then_branch = t () => (float[] m) {{ m = Unsqueeze (v, first) }},
      else_branch = u () => (float[] n) {{ n = Identity (v) }}>
    {CHAIN}
    y = Exp (c18) }}> }}"""
"""A twin of an exported recurrent network: branches of different rank, and all that follows.

What collects lengths (``fuse``) batches the size of the shape that the root is read for.
"""


@pytest.mark.parametrize(
    "options", [{"input_shapes": {"xs": (1, 5)}}, {"uniform": ["xs"]}], ids=["shape", "uniform"]
)
@pytest.mark.parametrize(
    ("strategy", "verdict", "dependents"),
    [("auto", Verdict.EXPANDED, 21), ("fuse", Verdict.FISSIONED, 20)],
)
def test_a_promise_that_was_given_is_no_remedy_for_what_follows(
    options: dict[str, Any], strategy: str, verdict: Verdict, dependents: int
) -> None:
    report = explain(parse(TWIN), strategy=strategy, **options)
    (decision,) = report.decisions
    assert decision.verdict is verdict
    (root,) = decision.reasons
    assert (root.code, root.node) == (Code.UNKNOWN_RANK, "map/body/root")
    assert root.detail == "nothing tells the rank of 'v'"
    assert len(root.dependents) == dependents
    text = report.to_text()
    assert "--uniform" not in text
    assert "--input-shape" not in text
    assert text.count("nodes that depend on it") == 1


def seq_map(body: str, declared: str = "N,6") -> str:
    return (
        f"g (seq(float[{declared}]) xs) => (seq(float[A,B]) ys) "
        f"{{ [map] ys = SequenceMap (xs) <body = b (float[{declared}] e) => (float[A,B] y) "
        f"{{ {body} }}> }}"
    )


FOLDED = {
    "an operator without a rule": (
        seq_map("[a] p = mine.Some (e)  [c] q = Neg (p)  [d] y = Relu (q)"),
        [("no-rule", "map/body/a", ["map/body/c", "map/body/d"])],
    ),
    "two causes": (
        seq_map(
            "[a] p = mine.Some (e)  [c] q = Neg (p)  [d] r = mine.Some (e)  [f] s = Neg (r)"
            "  [h] y = MatMul (q, s)"
        ),
        [
            ("no-rule", "map/body/a", ["map/body/c", "map/body/h"]),
            ("no-rule", "map/body/d", ["map/body/f"]),
        ],
    ),
    "numbers of a shape": (
        seq_map(
            "[a] p = mine.Some (e)  [c] s = Shape (p)  [d] z = ConstantOfShape (s)"
            "  [f] y = Add (p, z)"
        ),
        [("no-rule", "map/body/a", ["map/body/c", "map/body/d", "map/body/f"])],
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_what_follows_from_a_cause_is_no_reason_of_its_own(name: str) -> None:
    graph, expected = FOLDED[name]
    found = reasons(graph, uniform=["xs"])
    told = [(r.code.value, r.node, list(r.dependents)) for r in found]
    assert told == expected


def test_a_sequence_that_is_not_proven_is_one_cause() -> None:
    """Both nodes that read the element, and the one behind them, follow from one fact.

    The elements are too large for a guard to pay.
    """
    graph = seq_map("[a] p = Softmax (e)  [c] q = Neg (e)  [d] y = Add (p, q)", "N,4096")
    (first, *others) = reasons(graph)
    assert (first.code, first.node) == (Code.RAGGED, "map/body/a")
    assert first.detail == "it reads 'e', which is not proven to have one shape"
    assert first.dependents == ("map/body/c", "map/body/d")
    assert Code.RAGGED not in [r.code for r in others if r.node]


def test_what_is_known_to_differ_is_said_to() -> None:
    graph = """g (float[2,3] x, float[4,5] z) => (seq(float[A,B]) ys, seq(float[A,B]) ws) {
      xs = SequenceConstruct (x, z)
      [map] ys, ws = SequenceMap (xs) <body = b (float[C,D] e)
        => (float[A,B] y, float[A,B] w) {
        [a] y = Softmax (e)
        [draw] w = RandomNormalLike (e) }> }"""
    first, *_ = reasons(graph)
    assert (first.node, first.detail) == ("map/body/a", "it reads 'e', which differs in shape")


IMAGES = """g (seq(float[H,W,3,3]) xs) => (seq(float[h,w]) ys) {{
  {before} }}"""
AS_MAP = """[map] ys = SequenceMap (xs) <body = one (float[H,W,3,3] x) => (float[h,w] y) {
    [a] a = Relu (x)  [d] b = Det (a)  [n] y = Neg (b) }>"""
AS_LOOP = """n = SequenceLength (xs)  t = Constant <value = bool {1}> ()
  none = SequenceEmpty <dtype = 1> ()
  [map] ys = Loop (n, t, none) <body = one (int64 i, bool c, seq(float[h,w]) before)
      => (bool go, seq(float[h,w]) behind) {
    go = Identity (c)  x = SequenceAt (xs, i)
    [a] a = Relu (x)  [d] b = Det (a)  [n] y = Neg (b)  behind = SequenceInsert (before, y) }>"""


@pytest.mark.parametrize("written", [AS_MAP, AS_LOOP], ids=["a map", "a loop"])
def test_what_has_no_rule_for_flat_samples_is_named_wherever_something_is_left(
    written: str,
) -> None:
    """Not that shapes may differ, which they may: each left node, and the output, has the cause."""
    before = parse(IMAGES.format(before=written))
    report = explain(before, target="portable", tensor_io=True)
    detail = "it has no rule for samples that differ along several axes"
    told = [r for d in report.decisions for r in d.reasons if r.code is not Code.SURPLUS_IGNORED]
    assert {(r.code, r.node, r.detail) for r in told} == {(Code.NO_RULE, "map/body/d", detail)}
    beside = ("SequenceEmpty_", "SequenceLength_")
    reasons = [left.reason for left in report.unreached if not left.node.startswith(beside)]
    assert reasons
    assert all(detail in reason for reason in reasons), reasons


def test_what_an_earlier_walk_declined_is_the_cause_of_what_reads_it() -> None:
    """The grid is first stacked by rows, which its sizes forbid; the reader of it follows."""
    graph = (
        "g (seq(float[1,3,H,W]) xs, seq(float[1,2,3]) thetas) => (seq(float[1,3,H,W]) ys) { "
        "[map] ys = SequenceMap (xs, thetas) <body = b (float[1,3,H,W] x, float[1,2,3] theta) => "
        "(float[1,3,H,W] y) { size = Shape (x) [grid] places = AffineGrid (theta, size) "
        "[sample] y = GridSample (x, places) }> }"
    )
    model = onnx.parser.parse_model(HEADER.replace("18", "20") + graph)
    decisions = explain(model, target="portable", tensor_io=True).decisions
    (decision,) = (one for one in decisions if one.path == "map")
    cause = decision.reasons[0]
    assert (cause.code, cause.node) == (Code.BATCHED_OPERAND, "map/body/grid")
    assert cause.detail == "samples differ in its size"
    assert cause.dependents == ("map/body/sample",)


def test_what_goes_over_the_elements_of_a_list_is_no_loop_of_the_model() -> None:
    """The shapes of elements are read by a Scan, which no author wrote."""
    model = pathlib.Path(__file__).parents[3] / "models" / "authored" / "text.onnx"
    left = explain(model, target="portable").blocked
    (scan,) = (one for one in left if one.op_type == "Scan")
    assert (scan.cause, scan.reason) == ("", "target portable rules out Scan")
    assert scan.remedy == "use --tensor-io, or stack or concatenate the elements in the model"
