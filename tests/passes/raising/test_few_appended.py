"""Lists whose elements have any size: copies of the body append a few, and join them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.pipeline import rewrite
from tests.passes.loops import Feeds, model, read, same

APPENDED = """g (float[N,6,4] x, float[N,6] best, int64[N] wanted) => (float[R,5] r)
  <bool go = {1}, int64 zero = {0}, int64[1] one = {1}, float[1,5] first = {0,1,2,3,4}> {
  shape = Shape (x)  n = Gather (shape, zero)
  none = SequenceEmpty ()  begin = BEGIN
  rows = Loop (n, go, begin) <body = step (int64 i, bool c, seq(float[?,5]) s)
      => (bool d, seq(float[?,5]) s2) {
    d = Identity (c)  h = Gather (best, i)  w = Gather (wanted, i)  k = Reshape (w, one)
    v, places = TopK (h, k)  e = Gather (x, i)  found = Gather (e, places)
    column = Unsqueeze (v, one)  f = Concat <axis = 1> (found, column)
    APPEND }>
  r = ConcatFromSequence <axis = 0> (rows) }"""
ALWAYS = "s2 = SequenceInsert (s, f)"
TWO = "t = SequenceInsert (s, f)  g = Neg (f)  s2 = SequenceInsert (t, g)"
SOMETIMES = """enough = Greater (w, zero)
    s2 = If (enough) <then_branch = yes () => (seq(float[?,5]) t) { t = SequenceInsert (s, f) },
                      else_branch = no () => (seq(float[?,5]) u) { u = Identity (s) }>"""
NONE, ONE = "SequenceEmpty ()", "SequenceConstruct (first)"
INSERTED = "SequenceInsert (none, first)"
CASES = {
    "always, behind an element": (ONE, ALWAYS),
    "two, behind none": (NONE, TWO),
    "always, behind an inserted element": (INSERTED, ALWAYS),
    "sometimes, behind an element": (ONE, SOMETIMES),
    "sometimes, behind an inserted element": (INSERTED, SOMETIMES),
}


def before(begin: str, inserted: str) -> onnx.ModelProto:
    return model(APPENDED.replace("BEGIN", begin).replace("APPEND", inserted))


def feed(count: int) -> Feeds:
    rng = np.random.default_rng(count)
    return {
        "x": rng.standard_normal((count, 6, 4)).astype(np.float32),
        "best": rng.standard_normal((count, 6)).astype(np.float32),
        "wanted": rng.integers(0, 4, count),
    }


@pytest.mark.parametrize("case", CASES)
def test_copies_of_the_body_join_the_elements_of_a_few_iterations(case: str) -> None:
    given = before(*CASES[case])
    found = read(given, auto=True)
    (decision,) = found.decisions
    assert 1 < decision.few <= 8
    note = f"up to {decision.few} iterations run by copies of its body, which is faster"
    assert decision.notes[-1] == note
    assert found.loops == 0
    begins_empty = CASES[case][0] == NONE
    made = {name: node.op_type for node in found.model.graph.node for name in node.output}
    asked = [made[n.input[0]] for n in found.model.graph.node if n.op_type == "If"]
    assert ("Or" in asked) == begins_empty, "no iteration at all is asked for, too"
    counts = (0, 1, 2, decision.few, decision.few + 1, 40)[begins_empty:]
    assert same(given, found.model, *map(feed, counts)) == len(counts)


@pytest.mark.parametrize("case", CASES)
def test_no_copy_holds_a_list(case: str) -> None:
    report = rewrite(before(*CASES[case])).report
    assert "no loop, no sequence" in str(report)
    assert report.decisions[0].few


def test_a_list_that_may_stay_empty_has_no_copies() -> None:
    """Joined without an element it is an error as given, and has no rows when batched."""
    found = read(before(NONE, SOMETIMES), auto=True)
    assert not any("copies of its body" in note for one in found.decisions for note in one.notes)


@pytest.mark.parametrize("appended", [ALWAYS, SOMETIMES])
def test_a_number_is_carried_beside_the_list(appended: str) -> None:
    text = APPENDED.replace("BEGIN", ONE).replace("APPEND", f"{appended}  p2 = Add (p, w)")
    text = text.replace("rows = Loop (n, go, begin)", "rows, more = Loop (n, go, begin, zero)")
    text = text.replace("?,5]) s)", "?,5]) s, int64 p)").replace(
        "?,5]) s2)", "?,5]) s2, int64 p2)"
    )
    given = model(text.replace("(float[R,5] r)", "(float[R,5] r, int64 more)"))
    found = read(given, auto=True)
    few = found.decisions[0].few
    assert few
    assert same(given, found.model, *map(feed, (0, 1, few, few + 1))) == 4


def test_a_list_that_is_a_result_has_no_copies() -> None:
    text = APPENDED.replace("(float[R,5] r)", "(float[R,5] r, seq(float[?,5]) rows)")
    found = read(model(text.replace("BEGIN", ONE).replace("APPEND", ALWAYS)), auto=True)
    assert found.decisions[0].few == 0


def test_no_copies_where_a_target_has_no_if() -> None:
    found = read(before(ONE, ALWAYS), auto=True, lacks=("If",))
    assert found.operators["If"] == found.loops == 0
