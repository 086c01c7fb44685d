"""Carried values whose batched form pays from many iterations on: few run in the Loop as given."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.decisions import Verdict
from passes.fusing.cost import cost_of_given, cost_of_stages
from passes.fusing.measured_costs import KERNEL, PER_ITERATION, WRITTEN
from passes.graph.builder import BATCHED_KEY
from passes.graph.graphs import all_nodes
from rewriter.backends import open_session
from rewriter.pipeline import rewrite
from rewriter.proof.count_iterations import ITERATIONS, with_iterations
from tests.passes.carried.carried import DIALECTS, feeds, loop, nested, nested_feeds
from tests.passes.carried.test_carried import FLAGS, INTS, ROW, Case
from tests.passes.carried.test_row_updates import PREPARE, STATE, UPDATES
from tests.passes.loops import Read, model, read, same

TOTAL = "u = Add (s, e)  s2 = Where (pe, e, u)"
CASES = {
    "sum_that_begins_anew": Case(ROW, f"{TOTAL}  y = Identity (s2)", "b", "", ROW),
    "sum_that_is_not_collected": Case(ROW, TOTAL, "b", ""),
    "running_maximum": Case(ROW, "s2 = Max (s, e)  y = Identity (s2)", "b", "", ROW),
    "running_minimum": Case(INTS, "s2 = Min (s, ke)  y = Identity (s)", "c", "", INTS),
    "running_product_that_is_read": Case(ROW, "s2 = Mul (s, e)  y = Tanh (s2)", "b", "", ROW),
    "bits": Case(INTS, "s2 = BitwiseXor (s, ke)  y = Identity (s2)", "c", "", INTS, opset=18),
    "disjunction_that_begins_anew": Case(
        FLAGS,
        """h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)  s2 = If (l) <
            then_branch = yes () => (bool[4] v) { v = Identity (pe) },
            else_branch = no () => (bool[4] v2) { v2 = Or (s, pe) }>  y = Identity (s2)""",
        "f",
        "",
        FLAGS,
    ),
}
LOOPS = ("Loop", "Scan")
CHEAP = {
    "sum": Case(ROW, "s2 = Add (s, e)", "b", ""),
    "running_sum": Case(ROW, "s2 = Add (s, e)  y = Identity (s2)", "b", "", ROW),
    "maximum": Case(ROW, "s2 = Max (s, e)", "b", ""),
    "forward_fill": Case(ROW, "s2 = Where (pe, e, s)  y = Identity (s2)", "b", "", ROW),
}
MANY = {
    "integers_that_begin_anew": Case(
        INTS, "u = Add (s, ke)  s2 = Where (pe, ke, u)  y = Identity (s2)", "c", "", INTS
    ),
}
"""What becomes many operators without an If: they run for any number of iterations."""


def auto(case: Case, dialect: str = "counted") -> tuple[onnx.ModelProto, Read]:
    before = model(case.text(dialect), case.opset)
    return before, read(before, auto=True)


@pytest.mark.parametrize(
    ("name", "dialect"),
    [(n, d) for n in CASES for d in DIALECTS],
)
def test_few_iterations_run_in_the_loop_as_given(name: str, dialect: str) -> None:
    before, found = auto(CASES[name], dialect)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED
    few = decision.few
    assert 4 < few < 32
    note = f"up to {few} iterations run in the Loop as given, which is faster"
    assert decision.notes[-1] == note
    one, other = (n for n in all_nodes(ir.from_proto(found.model)) if n.op_type in LOOPS)
    assert {BATCHED_KEY in node.metadata_props for node in (one, other)} == {False, True}
    counted = open_session(ir.to_proto(with_iterations(found.model)))
    first = [0, 1] if dialect != "scan" else [1]
    fed = [feeds(n) for n in (*first, few - 1, few, few + 1, 100)]
    assert same(before, found.model, *fed) == len(fed)
    ran = [int(counted.run(feed)[ITERATIONS]) for feed in fed]
    assert ran == [*first, few - 1, few, *(steps(n, name) for n in (few + 1, 100))]


def steps(iterations: int, name: str) -> int:
    """How many of the steps of twice as many rows each a Loop takes: those of 8 rows and more.

    There is a row for the initial value. A product, or a sum of bits, may take one step too many.
    """
    if iterations + 1 <= 8:  # which need none
        return 0
    rows = iterations + 1 + (name in ("running_product_that_is_read", "bits"))
    return (rows - 1).bit_length() - 3


@pytest.mark.parametrize("name", CHEAP)
def test_what_is_cheap_at_no_iterations_asks_nothing(name: str) -> None:
    before, found = auto(CHEAP[name])
    (decision,) = found.decisions
    assert decision.few == 0
    assert found.loops == 0
    assert same(before, found.model, *map(feeds, (0, 1, 8))) == 3


@pytest.mark.parametrize("dialect", ["counted", "while"])
def test_the_loop_as_given_runs_no_iterations_of_what_becomes_many_operators(dialect: str) -> None:
    before, found = auto(MANY["integers_that_begin_anew"], dialect)
    (decision,) = found.decisions
    few = decision.few
    assert 0 < few <= 8
    assert decision.notes[-1].startswith(f"up to {few} iterations run in the Loop as given")
    counted = open_session(ir.to_proto(with_iterations(found.model)))
    fed = [feeds(n) for n in (0, 1, few, few + 1, 40)]
    assert same(before, found.model, *fed) == len(fed)
    assert [int(counted.run(feed)[ITERATIONS]) for feed in fed] == [0, 1, few, 0, 0]


@pytest.mark.parametrize(
    "options",
    [{}, {"auto": True, "lacks": ("Loop",)}, {"auto": True, "for_device": True}],
    ids=["fuse", "a target without Loop", "a device"],
)
def test_no_loop_is_left_where_none_is_wanted(options: dict[str, object]) -> None:
    before = model(CASES["running_maximum"].text("counted"))
    found = read(before, **options)
    assert found.loops == 0
    assert found.decisions[0].few == 0
    assert same(before, found.model, *map(feeds, (0, 1, 8, 70))) == 4


def test_no_if_is_written_where_the_target_has_none() -> None:
    before = model(CASES["running_maximum"].text("counted"))
    found = read(before, auto=True, lacks=("If",))
    assert found.loops == found.operators["If"] == 0
    assert same(before, found.model, *map(feeds, (0, 1, 8))) == 3


def test_a_known_number_of_iterations_is_no_question() -> None:
    text = CASES["running_maximum"].text("counted").replace("float[N,4] x", "float[40,4] x")
    found = read(model(text), auto=True)
    assert found.loops == found.operators["If"] == 0


def test_a_loop_in_a_loop_asks_nothing() -> None:
    case = dataclasses.replace(CASES["sum_that_is_not_collected"])
    before = model(nested(case.text("counted")))
    found = read(before, auto=True)
    assert found.loops == 0
    pairs = [(0, 3), (2, 1), (3, 7)]
    assert same(before, found.model, *(nested_feeds(*pair) for pair in pairs)) == len(pairs)


def test_a_body_that_hands_on_its_condition_is_not_copied() -> None:
    """onnxruntime ends the process on some of them in branches."""
    text = CASES["running_maximum"].text("counted").replace("go = Identity (cond)", "")
    text = text.replace("=> (bool go, ", "=> (bool cond, ")
    before = model(text)
    found = read(before, auto=True)
    assert found.loops == 0
    assert same(before, found.model, *map(feeds, (0, 1, 8))) == 3


def test_what_the_loop_collects_beside_and_what_reads_it_stay_as_they_are() -> None:
    """Results of the map itself, and a map of rows that the Loop yields."""
    case = Case(ROW, "s2 = Max (s, e)  y = Tanh (s2)", "b", "", ROW)
    text = case.text("counted").rstrip().removesuffix("}")
    text = text.replace("float[T,4] ys)", "float[T,4] ys, float[4] q, float[T,4] v)")
    text += """q = Neg (r)  v = Loop (n, , ) <body = rows (int64 j, bool on)
            => (bool on2, float[4] w2) {
            on2 = Identity (on)  w0 = Gather <axis = 0> (ys, j)  w2 = Exp (w0) }> }"""
    text = text.replace("Loop (n, , )", "Loop (n, t0)").replace(
        "q = Neg (r)", "q = Neg (r)  t0 = Constant <value = bool {1}> ()"
    )
    before = model(text)
    found = read(before, auto=True)
    assert {d.verdict for d in found.decisions} == {Verdict.FUSED}
    assert sorted(d.few > 0 for d in found.decisions) == [False, True]
    few = max(d.few for d in found.decisions)
    loops = [n for n in all_nodes(ir.from_proto(found.model)) if n.op_type in LOOPS]
    assert sorted(BATCHED_KEY in node.metadata_props for node in loops) == [False, True]
    assert same(before, found.model, *map(feeds, (0, 1, few, few + 1, 70))) == 5
    outputs = [o.name for o in found.model.graph.output]
    assert outputs == ["r", "ys", "q", "v"]


def test_the_report_tells_of_both_forms() -> None:
    result = rewrite(model(CASES["running_maximum"].text("counted")))
    assert "iterations run in the Loop as given" in str(result.report)
    assert result.report.decisions[0].few > 0
    second = rewrite(result.model)
    assert second.model == result.model


def test_no_loop_is_left_where_that_is_required() -> None:
    given = model(CASES["running_maximum"].text("counted"))
    result = rewrite(given, require=["loop-free"])
    operators = {n.op_type for n in ir.from_proto(result.model).graph.all_nodes()}
    assert "Loop" not in operators


def test_what_an_if_costs_that_asks_for_many_iterations() -> None:
    """The nodes of its longer branch, without what is for many more; constants cost nothing."""
    graph = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N] x, bool c) => (float[N] y) {
          one = Constant <value_float = 1.0> ()  a = Add (x, one)
          y = If (c) <
            then_branch = t () => (float[N] d) {
              b = Neg (a)  d = If (c) <
                then_branch = t2 () => (float[N] e) { f = Abs (b)  h = Neg (f)  e = Abs (h) },
                else_branch = e2 () => (float[N] q) { q = Identity (b) }> },
            else_branch = e1 () => (float[N] k) { k = Identity (a) }> }""").graph
    assert cost_of_stages(graph) == pytest.approx(4 * WRITTEN)


def test_what_an_iteration_of_the_loop_as_given_costs() -> None:
    before = ir.from_proto(model(CHEAP["sum"].text("counted")))
    (loop,) = [node for node in before.graph if node.op_type == "Loop"]
    nodes = len(loop.attributes["body"].as_graph())
    cost = cost_of_given(loop)
    assert cost.of(3) - cost.of(2) == pytest.approx(PER_ITERATION + KERNEL * nodes)
    assert cost.of(0) == 0.0


MEDIANS = """g (float[N] x) => (float[N] r) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    two = Constant <value = int64 {2}> ()
    three = Constant <value = int64 {3}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    none = ConstantOfShape (shape)
    r = Loop (n, t, none) <body = step (int64 i, bool cond, float[N] s)
        => (bool go, float[N] s2) {
        less = Sub (i, two)  from = Max (less, zero)
        more = Add (i, three)  to = Min (more, n)
        from1 = Unsqueeze (from, zero1)  to1 = Unsqueeze (to, zero1)
        e = Slice (x, from1, to1, zero1)
        size = Shape (e)
        ordered, places = TopK <axis = -1, largest = 0> (e, size)
        width = Sub (to, from)
        half = Div (width, two)
        v = Gather <axis = 0> (ordered, half)
        place = Unsqueeze (i, zero1)
        places1 = Unsqueeze (place, zero1)
        v1 = Unsqueeze (v, zero1)
        s2 = ScatterND (s, places1, v1)
        go = Identity (cond)
    }>
}"""


def test_both_questions_of_what_a_plan_tells_no_number_of_samples_for() -> None:
    before = model(MEDIANS)
    found = read(before, auto=True)
    assert found.operators["If"], found.details
    many = [{"x": np.random.default_rng(n).random(n).astype(np.float32)} for n in (0, 1, 2, 7, 64)]
    assert same(before, found.model, *many) == len(many)


DEAR = [("a_row", 13), ("backward", 13)]
"""What still becomes very many operators, and the opset that it is written for."""


@pytest.mark.parametrize("collected", ["", ROW], ids=["carried", "collected beside"])
@pytest.mark.parametrize("dialect", ["counted", "endless", "while"])
@pytest.mark.parametrize(("name", "opset"), DEAR)
@pytest.mark.long
def test_few_iterations_of_what_very_many_operators_replace_run_apart(
    name: str, opset: int, dialect: str, collected: str
) -> None:
    body = f"{UPDATES[name]}  {'y = Exp (e)' if collected else ''}"
    text = loop(dialect, STATE, body, "Identity (w)", prepare=PREPARE, collected=collected)
    before = model(text, opset)
    found = read(before, auto=True)
    (decision,) = found.decisions
    few = decision.few
    # Copies have no rows to collect where there are no iterations.
    how = "in the Loop as given" if collected else "by copies of its body"
    assert decision.notes[-1] == f"up to {few} iterations run {how}, which is faster"
    assert 1 < few <= 4
    assert found.loops == bool(collected)
    fed = [feeds(n) for n in (0, 1, 2, few - 1, few, few + 1, 40)]
    assert same(before, found.model, *fed) == len(fed)


LAST_WRITES = """g (int64[N,2] at, float[N,4] x, float[R,3,4] table) => (float[R,3,4] r) {
    zero = Constant <value = int64 {0}> ()
    pair = Constant <value = int64[3] {1, 1, 2}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    r = Loop (n, , table) <body = step (int64 i, bool cond, float[R,3,4] s)
        => (bool go, float[R,3,4] s2) {
        k = Gather <axis = 0> (at, i)
        place = Reshape (k, pair)
        e = Gather <axis = 0> (x, i)
        row = Unsqueeze <axes = [0, 1]> (e)
        s2 = ScatterND (s, place, row)
        go = Identity (cond)
    }>
}"""


def test_what_asks_for_few_iterations_has_the_form_of_an_old_opset() -> None:
    before = model(LAST_WRITES, 12)
    found = read(before, auto=True)
    assert found.decisions[0].few
    assert found.loops == 0
    onnx.checker.check_model(found.model, full_check=True)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((3, 3, 4)).astype(np.float32)
    many = [
        {
            "at": rng.integers(0, 3, (n, 2)),
            "x": rng.standard_normal((n, 4)).astype(np.float32),
            "table": table,
        }
        for n in (0, 1, 2, 7, 64)
    ]
    assert same(before, found.model, *many) == len(many)


SPANS = """g (float[t,4] x, int64[k,2] spans, bool[k] kind, float[k,4] z) => (float[k,4] y)
  <bool go = {1}, int64 zero = {0}, int64 one = {1}, int64[1] zero1 = {0}, int64[1] last = {-1}> {
  shape = Shape (spans)  n = Gather (shape, zero)
  y = Loop (n, go, z) <body = b (int64 i, bool c, float[k,4] s) => (bool d, float[k,4] s2) {
    d = Identity (c)  span = Gather (spans, i)  f = Gather (kind, i)
    a = Gather (span, zero)  e = Gather (span, one)  e1 = Add (e, one)
    from = Unsqueeze (a, zero1)  to = Unsqueeze (e1, zero1)  part = Slice (x, from, to, zero1)
    m = If (f) <
      then_branch = mean () => (float[4] v) { v = ReduceMean <axes = [0], keepdims = 0> (part) },
      else_branch = most () => (float[4] w) { w = ReduceMax <axes = [0], keepdims = 0> (part) }>
    i1 = Unsqueeze (i, zero1)  places = Unsqueeze (i1, last)  u = Unsqueeze (m, zero1)
    s2 = ScatterND (s, places, u) }> }"""


def test_few_iterations_are_asked_for_once() -> None:
    """The map that a Loop was raised to has no copies of its own: no few samples reach them."""
    before = model(SPANS)
    found = read(before, auto=True)
    (decision,) = found.decisions
    assert sum(note.startswith("up to ") for note in decision.notes) == 1
    assert found.loops == 0
    assert found.operators["If"] < 30
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 7, 64):
        begins = rng.integers(0, 30, count)
        feed = {
            "x": rng.standard_normal((40, 4)).astype(np.float32),
            "spans": np.stack([begins, begins + rng.integers(0, 9, count)], 1),
            "kind": rng.random(count) < 0.5,
            "z": rng.standard_normal((count, 4)).astype(np.float32),
        }
        assert same(before, found.model, feed) == 1
