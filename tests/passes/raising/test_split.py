"""Loops with a recurrence: what does not depend on it runs before, what only reads it behind."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.carried.carried import (
    COUNT,
    DIALECTS,
    INPUTS,
    LENGTHS,
    SCALARS,
    feeds,
    loop,
    nested,
    nested_feeds,
)
from tests.passes.loops import kept, model, read, same
from tests.passes.raising.test_give_back import raised_and_given_back

PREPARE = """
    wide = Concat <axis = 0> (start, start)
    wt = Constant <value = float[4,4] {0.1,0.2,0.3,0.4,-0.5,0.6,-0.7,0.8,0.9,-0.1,0.2,0.3,0.4,0.5,-0.6,0.7}> ()
    halves = Constant <value = int64[2] {2, 2}> ()
"""


@dataclasses.dataclass(frozen=True)
class Split:
    """A loop that carries ``s`` and yields ``y``.

    Attributes:
        body: Computes ``s2`` and ``y``.
        moved: Operators that must have left the Loop.
        state: The type of ``s``.
        begin: What it starts as.
        collected: The type of ``y``.
        scans: Whether a Scan can be written.
    """

    body: str
    moved: tuple[str, ...]
    state: str = "float[4]"
    begin: str = "b"
    collected: str = "float[4]"
    scans: bool = True

    def text(self, dialect: str) -> str:
        """Return the graph."""
        return loop(
            dialect,
            self.state,
            self.body,
            self.begin,
            collected=self.collected,
            prepare=PREPARE,
        )


CELL = "h = MatMul (s, wt)  m = Add (h, v)  s2 = Tanh (m)"
SPLITS = {
    "input_projection": Split(
        f"q = MatMul (e, wt)  u = Sigmoid (q)  v = Mul (u, e)  {CELL}  y = Identity (s2)",
        ("Sigmoid", "Mul"),
    ),
    "output_projection": Split(
        f"v = Identity (e)  {CELL}  l = MatMul (s2, wt)  d = Relu (l)  y = Softmax (d)",
        ("Relu", "Softmax"),
    ),
    "both_projections": Split(
        f"""q = MatMul (e, wt)  u = Sigmoid (q)  v = Mul (u, e)  {CELL}
            l = MatMul (s2, wt)  d = Relu (l)  y = Add (d, u)""",
        ("Sigmoid", "Mul", "Relu"),
    ),
    "output_of_both_ends": Split(
        f"v = Identity (e)  {CELL}  l = MatMul (s2, wt)  d = Relu (l)  y = Sub (d, s)", ("Relu",)
    ),
    "a_projection_that_is_split": Split(
        """q = MatMul (e, wt)  v = Relu (q)  l, m = Split (v, halves)
            o = Concat <axis = 0> (m, l)  h = Mul (s, o)  d = MatMul (h, wt)  s2 = Tanh (d)
            u = Concat <axis = 0> (l, m)  y = Mul (s2, u)""",
        ("Relu", "Concat"),
    ),
    "best_path": Split(
        """q = MatMul (e, wt)  o = Sin (q)  u = LogSoftmax (o)  l = Unsqueeze (s, one1)  m = Add (l, wt)
            h = ReduceMax <axes = [0], keepdims = 0> (m)  s2 = Add (h, u)
            y = ArgMax <axis = 0, keepdims = 0> (m)""",
        ("LogSoftmax",),
        collected="int64[4]",
    ),
    "running_total_in_the_recurrence": Split(
        """q = Exp (e)  u = Sin (q)  h = Mul (s, u)  s2 = Cos (h)
            l = MatMul (s2, wt)  d = Relu (l)  y = Mul (d, q)""",
        ("Exp", "Sin", "Relu"),
    ),
    "what_depends_on_no_state": Split(
        f"v = Identity (e)  {CELL}  l = MatMul (e, wt)  d = Relu (l)  y = Softmax (d)",
        ("Relu", "Softmax"),
    ),
    "the_iteration_number": Split(
        f"""o = Cast <to = 1> (i)  l = Sin (o)  q = Mul (e, l)  v = Exp (q)  {CELL}
            y = Mul (s2, l)""",
        ("Sin", "Exp"),
        scans=False,
    ),
    "beside_what_cannot_be_batched": Split(
        """n1 = Unique <sorted = 1> (e)  n2 = Exp (n1)  o = ReduceSum <keepdims = 0> (n2)
            q = MatMul (e, wt)  u = Sigmoid (q)  l = Mul (u, e)  v = Add (l, o)
            h = MatMul (s, wt)  m = Add (h, v)  s2 = Tanh (m)  y = Relu (s2)""",
        ("Sigmoid",),
    ),
    "a_condition": Split(
        """q = MatMul (e, wt)  u = Sigmoid (q)  d = Mul (s, u)  m = Tanh (d)  l = Not (pe)
            s2 = Where (l, m, s)  o = Where (pe, s2, u)  y = Exp (o)""",
        ("Sigmoid", "Exp"),
    ),
}


def _cases() -> list[tuple[str, str]]:
    return [(n, d) for n, case in SPLITS.items() for d in DIALECTS if case.scans or d != "scan"]


@pytest.mark.parametrize(("name", "dialect"), _cases())
def test_a_loop_keeps_its_recurrence_alone(name: str, dialect: str) -> None:
    case = SPLITS[name]
    before = model(case.text(dialect))
    found = read(before)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FISSIONED, decision.reasons
    assert "recurrence" in found.codes
    assert found.loops == 1
    left = operators_in_loops(found.model)
    assert not left.intersection(case.moved), left
    lengths = [n for n in LENGTHS if n or dialect != "scan"]
    assert same(before, found.model, *map(feeds, lengths)) == len(lengths)


GROWS = """q = MatMul (e, wt)  u = Sigmoid (q)  v = Mul (u, e)  h = Tanh (s)
            joined = Concat <axis = 0> (h, v)  s2 = {} (joined)
            l = Exp (s2)  d = Sin (l)  m = Cos (d)  y = ReduceSum <keepdims = 0> (m)"""
READS_SOME = """{}  n2 = Exp (n1)  n3 = Log (n2)
            h = ReduceMax <keepdims = 0> (s)  m = Mul (n3, h)  o = ReduceSum <keepdims = 0> (m)
            g = Add (s, o)  s2 = Tanh (g)  l = MatMul (s2, wt)  d = Relu (l)  y = Softmax (d)"""
ONE_SIDE = {
    "behind it stays what reads tensors of any length": (
        GROWS.format("Identity"), "float[K]", "float", {"MatMul", "Sigmoid"}, {"Sin", "Cos"},
    ),
    "behind it stays what reads tensors of any rank": (
        GROWS.format("Squeeze"), "float[K]", "float", {"MatMul", "Sigmoid"}, {"Sin", "Cos"},
    ),
    "in front of it stays what yields as many as there are": (
        READS_SOME.format("n1 = Compress <axis = 0> (e, pe)"), "float[4]", "float[4]",
        {"MatMul", "Softmax"}, {"Compress", "Log"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_SIDE)
def test_what_cannot_leave_on_one_side_keeps_nothing_on_the_other(name: str) -> None:
    body, state, collected, moved, stays = ONE_SIDE[name]
    text = loop("counted", state, body, "b", collected=collected, prepare=PREPARE)
    before = model(text.replace("float[K] s2", "s2"))
    found = read(before)
    left = operators_in_loops(found.model)
    assert (found.loops, left & {*moved, *stays}) == (1, stays)
    assert same(before, found.model, *map(feeds, LENGTHS[:-1])) == len(LENGTHS) - 1


def operators_in_loops(given: object) -> set[str]:
    """Return the operators in the bodies of all Loops and Scans of the main graph."""
    nodes = given.graph.node  # type: ignore[attr-defined]
    bodies = (a.g for node in nodes for a in node.attribute if a.name == "body")
    return {node.op_type for body in bodies for node in body.node}


def carried(
    state: str,
    body: str,
    starts: str,
    inner: str,
    after: str,
    outputs: str,
    names: str,
    prepare: str = "",
) -> str:
    """Return a graph whose Loop carries several values."""
    return f"""g ({INPUTS}) => ({outputs}) {{ {SCALARS} {COUNT} {PREPARE} {prepare}
        {names} = Loop (n, t, {starts}) <body = step (int64 i, bool cond, {inner})
            => (bool go, {after}) {{
            e = Gather <axis = 0> (x, i)
            pe = Gather <axis = 0> (p, i)
            {body}
            go = Identity (cond)
        }}>
        {state}
    }}"""


IN_FRONT = "q = MatMul (e, wt)  u = Sigmoid (q)  v = Mul (u, e)"
SEVERAL = {
    "appended_to_a_sequence": carried(
        "ys = ConcatFromSequence <axis = 0, new_axis = 1> (all)",
        f"{IN_FRONT}  {CELL}  l = MatMul (s2, wt)  d = Relu (l)  c2 = SequenceInsert (c1, d)",
        "b, none",
        "float[4] s, seq(float[4]) c1",
        "float[4] s2, seq(float[4]) c2",
        "float[4] r, float[T,4] ys",
        "r, all",
        "none = SequenceEmpty <dtype = 1> ()",
    ),
    "appended_by_concat": carried(
        "",
        f"{IN_FRONT}  {CELL}  l = MatMul (s2, wt)  d = Relu (l)  o = Unsqueeze (d, zero1)"
        "  c2 = Concat <axis = 0> (c1, o)",
        "b, start",
        "float[4] s, float[R,4] c1",
        "float[4] s2, float[R2,4] c2",
        "float[4] r, float[Q,4] ys",
        "r, ys",
    ),
    "a_sum_of_what_it_yields": carried(
        "",
        f"{IN_FRONT}  {CELL}  l = MatMul (s2, wt)  d = Relu (l)  c2 = Add (c1, d)",
        "b, w0",
        "float[4] s, float[4] c1",
        "float[4] s2, float[4] c2",
        "float[4] r, float[4] ys",
        "r, ys",
        "w0 = Neg (b)",
    ),
    "a_sum_that_it_reads": carried(
        "",
        f"c2 = Add (c1, e)  q = MatMul (c2, wt)  v = Sigmoid (q)  {CELL}",
        "b, w0",
        "float[4] s, float[4] c1",
        "float[4] s2, float[4] c2",
        "float[4] r, float[4] ys",
        "r, ys",
        "w0 = Neg (b)",
    ),
    "a_best_beside_it": carried(
        "",
        f"{IN_FRONT}  {CELL}  l = Greater (u, c1)  c2 = Where (l, u, c1)",
        "b, w0",
        "float[4] s, float[4] c1",
        "float[4] s2, float[4] c2",
        "float[4] r, float[4] ys",
        "r, ys",
        "w0 = Neg (b)",
    ),
    "two_recurrences": carried(
        "",
        f"{IN_FRONT}  h = Mul (s, c1)  m = Add (h, v)  s2 = Tanh (m)  l = Add (s2, c1)"
        "  c2 = Cos (l)  d = MatMul (c2, wt)  o = Relu (d)  y = Exp (o)",
        "b, w0",
        "float[4] s, float[4] c1",
        "float[4] s2, float[4] c2, float[4] y",
        "float[4] r, float[4] ys, float[T,4] zs",
        "r, ys, zs",
        "w0 = Neg (b)",
    ),
    "a_counter_that_it_yields": carried(
        "",
        f"{IN_FRONT}  {CELL}  c2 = Add (c1, one)  l = Cast <to = 1> (c1)  d = Add (l, s2)"
        "  o = Sin (d)  y = Exp (o)",
        "b, one",
        "float[4] s, int64 c1",
        "float[4] s2, int64 c2, float[4] y",
        "float[4] r, int64 ys, float[T,4] zs",
        "r, ys, zs",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_loop_that_carries_several_values_keeps_its_recurrence(name: str, auto: bool) -> None:
    before = model(SEVERAL[name])
    found = read(before, auto=auto)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FISSIONED, decision.reasons
    assert found.loops == 1
    assert not operators_in_loops(found.model) & {"Sigmoid", "Relu", "Exp", "Concat"}
    joins = "ConcatFromSequence" in SEVERAL[name]  # of nothing it is an error
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS) - joins


@pytest.mark.parametrize("name", [n for n, case in SPLITS.items() if case.scans])
def test_a_loop_inside_of_a_loop(name: str) -> None:
    """The outer one is a map: whether it is batched or not, the results are right."""
    text = loop("counted", "float[4]", SPLITS[name].body, "b", prepare=PREPARE)
    before = model(nested(text))
    found = read(before)
    sizes = ((0, 3), (1, 0), (2, 3), (3, 1))
    assert same(before, found.model, *(nested_feeds(*size) for size in sizes)) == len(sizes)


STAYS = {
    "nothing_beside_it": ("v = Identity (e)  {cell}", "recurrence"),
    "no_more_than_a_view": ("v = Identity (e)  {cell}  y = Unsqueeze (s2, zero1)", "recurrence"),
    "what_cannot_be_batched": (
        "q = Unique <sorted = 1> (e)  u = Exp (q)  v = ReduceSum <keepdims = 0> (u)  {cell}",
        "recurrence",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_a_loop_from_which_nothing_can_be_taken_stays(name: str) -> None:
    body, code = STAYS[name]
    collected = "float[1,4]" if "y =" in body else ""
    body = body.format(cell=CELL)
    found = kept(loop("counted", "float[4]", body, "b", collected=collected, prepare=PREPARE))
    assert code in found.codes


def test_a_loop_that_ends_by_what_it_computes_stays() -> None:
    text = SPLITS["both_projections"].text("counted")
    text = text.replace(
        "go = Identity (cond)", "l9 = ReduceMax <keepdims = 0> (s2)  go = Less (l9, z)"
    )
    assert kept(text).codes == ["early-exit"]


@pytest.mark.parametrize("count", [8, 9])
def test_a_loop_with_many_nodes_in_the_way_is_tried_no_more(count: int) -> None:
    """What stays says first that there is a recurrence, and then each node."""
    in_the_way = "  ".join(
        f"n{k} = Unique <sorted = 1> (a{k})  o{k} = ReduceSum <keepdims = 0> (n{k})"
        f"  a{k + 1} = Mul (a{k}, o{k})"
        for k in range(count)
    )
    body = f"""a0 = Sin (e)  {in_the_way}  q = MatMul (e, wt)  u = Sigmoid (q)  l = Mul (u, e)
        v = Add (l, a{count})  {CELL}  y = Relu (s2)"""
    (decision,) = read(model(Split(body, ()).text("counted"))).decisions
    codes = [reason.code.value for reason in decision.reasons]
    if count == 8:
        assert decision.verdict is Verdict.FISSIONED
        assert codes[0] == "recurrence"
    else:
        assert decision.verdict is Verdict.KEPT
        assert codes == ["recurrence", *["no-rule"] * count]


def test_exact_keeps_what_would_round_otherwise() -> None:
    before = model(SPLITS["input_projection"].text("counted"))
    found = read(before, exact=True)
    assert not operators_in_loops(read(before).model) & {"Sigmoid"}
    assert "MatMul" in operators_in_loops(found.model)
    assert found.decisions[0].verdict is Verdict.KEPT


def test_exact_takes_what_rounds_alike_from_in_front_of_what_does_not() -> None:
    body = f"""q = Abs (e)  u = Sqrt (q)  o = Neg (u)  v = Mul (o, e)  {CELL}
        l = MatMul (s2, wt)  d = Relu (l)  y = Softmax (d)"""
    text = loop("counted", "float[4]", body, "b", collected="float[4]", prepare=PREPARE)
    found = operators_in_loops(read(model(text), exact=True).model)
    assert "Sqrt" not in found
    assert {"Relu", "Softmax"} <= found


@pytest.mark.parametrize(
    ("front", "rounds"),
    [
        ("q = MatMul (e, wt)  u = Sigmoid (q)  v = Mul (u, e)", True),
        ("q = Abs (e)  u = Sqrt (q)  o = Neg (u)  v = Mul (o, e)", False),
    ],
    ids=["a product", "elementwise"],
)
def test_the_report_says_whether_a_split_rounds_otherwise(front: str, rounds: bool) -> None:
    body = f"{front}  {CELL}  y = Identity (s2)"
    text = loop("counted", "float[4]", body, "b", collected="float[4]", prepare=PREPARE)
    (decision,) = read(model(text)).decisions
    assert decision.verdict is Verdict.FISSIONED
    assert any("rounds otherwise" in note for note in decision.notes) == rounds


def test_a_target_without_loops_gets_no_other_loop() -> None:
    before = model(SPLITS["input_projection"].text("counted"))
    assert read(before, lacks=["Loop"]).decisions[0].verdict is Verdict.KEPT


@pytest.mark.parametrize("opset", [13, 20])
def test_other_opsets(opset: int) -> None:
    before = model(SPLITS["both_projections"].text("counted"), opset)
    found = read(before)
    assert found.decisions[0].verdict is Verdict.FISSIONED
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_the_map_behind_may_ask_how_many_iterations_there_were() -> None:
    """A node that may fail without samples stands behind an If on their number."""
    body = f"""v = Identity (e)  {CELL}  o = ReduceSum <keepdims = 0> (b)  q = Cast <to = 7> (o)
            m2 = Abs (q)  k2 = Add (m2, one)  l = Div (k2, m2)  u = Cast <to = 1> (l)
            d = Mul (s2, u)  h2 = Relu (d)  y = Softmax (h2)"""
    before = model(loop("counted", "float[4]", body, "b", collected="float[4]", prepare=PREPARE))
    found = read(before)
    assert found.decisions[0].verdict is Verdict.FISSIONED
    same(before, found.model, *map(feeds, LENGTHS))


def _with_many_operators() -> str:
    front, behind = (
        "  ".join(f"{name}{n + 1} = Sin ({name}{n})" for n in range(20)) for name in ("a", "o")
    )
    body = f"""a0 = MatMul (e, wt)  {front}  v = Add (a20, e)  {CELL}
            o0 = MatMul (s2, wt)  {behind}  y = Relu (o20)"""
    return Split(body, ()).text("counted")


def _with_own_numbers(count: int) -> str:
    """Let the body hold so many numbers of its own, and hand on its condition as it is."""
    text = _with_many_operators().replace("go = Identity (cond)", "")
    old = "=> (bool go, float[4] s2, float[4] y) {"
    assert old in text
    numbers = ", ".join(["0.5"] * count)
    own = f"=> (bool cond, float[4] s2, float[4] y) <float[{count // 4},4] own = {{{numbers}}}> {{"
    more = "own1 = ReduceMax <keepdims = 0> (own)  y = Add (y0, own1)"
    return text.replace(old, own).replace("y = Relu (o20)", f"y0 = Relu (o20)  {more}")


@pytest.mark.parametrize("text", [_with_many_operators(), _with_own_numbers(4)])
def test_auto_runs_very_few_iterations_of_many_operators_in_the_loop_as_given(text: str) -> None:
    before = model(text)
    found = read(before, auto=True)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FISSIONED
    assert decision.few == 1
    note = "up to 1 iteration runs in the Loop as given, which is faster"
    assert note in decision.notes
    assert found.loops == 2
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_loop_with_large_weights_of_its_own_is_not_copied() -> None:
    before = model(_with_own_numbers(2000))
    found = read(before, auto=True)
    assert (found.decisions[0].verdict, found.loops) == (Verdict.FISSIONED, 1)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", SPLITS)
def test_a_loop_that_is_raised_in_vain_comes_back_to_the_byte(name: str) -> None:
    assert not raised_and_given_back(model(SPLITS[name].text("counted")))


def test_what_a_loop_collects_is_no_sequence() -> None:
    """The window of the last elements is a recurrence; what reads it stays with it."""
    text = """g (float[N] x) => (seq(float) r) {
        t = Constant <value = bool {1}> ()
        zero = Constant <value = int64 {0}> ()
        three = Constant <value = int64 {3}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        none = SequenceEmpty ()
        start = SequenceEmpty ()
        w, r = Loop (n, t, none, start) <body = step (int64 i, bool cond, seq(float) s, seq(float) o)
            => (bool go, seq(float) s2, seq(float) o2) {
            e = Gather <axis = 0> (x, i)
            more = SequenceInsert (s, e)
            many = SequenceLength (more)
            full = Greater (many, three)
            s2 = If (full) <
                then_branch = drop () => (seq(float) a) { a = SequenceErase (more, zero) },
                else_branch = keep () => (seq(float) b) { b = Identity (more) }>
            rows = ConcatFromSequence <axis = 0, new_axis = 1> (s2)
            mean = ReduceMean <keepdims = 0> (rows)
            o2 = SequenceInsert (o, mean)
            go = Identity (cond)
        }>
    }"""
    before = model(text)
    found = read(before)
    assert found.loops == 1
    given = [{"x": np.arange(n, dtype=np.float32)} for n in (0, 1, 2, 7, 64)]
    assert same(before, found.model, *given) == len(given)


UNTOLD = """g (float[N,4] x, float[4] b, float[4] w) => (float[P] r, float[Q,S] ys) {
    zero = Constant <value = int64 {0}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    r, ys = Loop (n, , b) <body = step (int64 i, bool cond, float[M] s)
        => (bool go, float[M2] s2, float[M3] y) {
        e = Gather <axis = 0> (x, i)
        half = Mul (s, w)
        sum = Add (half, e)
        s2 = Softsign (sum)
        u = Tanh (s)  v = Sigmoid (e)  q = Exp (u)  d = Mul (q, v)
        y = Add (d, e)
        go = Identity (cond)
    }>
}"""


def test_what_reads_rows_behind_no_iterations_has_their_size() -> None:
    """Without iterations a Loop tells 0 for each dimension that its body does not declare."""
    before = model(UNTOLD)
    found = read(before)
    (body,) = [n.attribute[0].g for n in found.model.graph.node if n.op_type == "Loop"]
    assert "Exp" not in {node.op_type for node in body.node}
    rng = np.random.default_rng(0)
    shared = {key: rng.standard_normal(4).astype(np.float32) for key in "bw"}
    many = [{"x": rng.standard_normal((n, 4)).astype(np.float32), **shared} for n in LENGTHS]
    assert same(before, found.model, *many) == len(many)


PROJECTED = """g (float[N,4] x, float[4] b, float[4,4] w, float[4,4] v) => (float[4] r, float[T,4] ys) {
    BEFORE
    r, ys = LOOP
}"""
CHEAP_CELL = """q = MatMul (e, w)  h = MatMul (s, v)  m = Add (q, h)  s2 = Selu (m)
        y = MatMul (s2, w)"""


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("dialect", ["counted", "scan"])
def test_a_small_product_that_takes_the_place_of_a_row_leaves_the_loop(
    dialect: str, *, auto: bool
) -> None:
    """The Loop reads as many rows as before, and collects as many."""
    count = """zero = Constant <value = int64 {0}> ()
    shape = Shape (x)  n = Gather <axis = 0> (shape, zero)"""
    loops = {
        "counted": f"""Loop (n, , b) <body = step (int64 i, bool cond, float[4] s)
        => (bool go, float[4] s2, float[4] y) {{
        e = Gather <axis = 0> (x, i)  {CHEAP_CELL}  go = Identity (cond)
    }}>""",
        "scan": f"""Scan <body = step (float[4] s, float[4] e) => (float[4] s2, float[4] y) {{
        {CHEAP_CELL}
    }}, num_scan_inputs = 1> (b, x)""",
    }
    text = PROJECTED.replace("LOOP", loops[dialect])
    before = model(text.replace("BEFORE", count if dialect == "counted" else ""))
    found = read(before, auto=auto)
    bodies = [
        one.g
        for node in found.model.graph.node
        if node.op_type in ("Loop", "Scan")
        for one in node.attribute
        if one.name == "body"
    ]
    assert [node.op_type for node in bodies[0].node].count("MatMul") == 1
    rng = np.random.default_rng(0)
    shared = {"b": rng.standard_normal(4).astype(np.float32)}
    shared |= {key: rng.standard_normal((4, 4)).astype(np.float32) for key in "wv"}
    lengths = [n for n in LENGTHS if n or dialect == "counted"]
    many = [{"x": rng.standard_normal((n, 4)).astype(np.float32), **shared} for n in lengths]
    assert same(before, found.model, *many) == len(many)


def test_the_projection_of_a_batch_of_open_size_leaves_the_loop() -> None:
    """One row at least is projected in each iteration."""
    text = """g (float[T,B,64] x, float[64,64] w, float[64,64] u) => (float[T,B,64] y)
      <int64[1] one = {1}, int64[1] two = {2}, int64[1] h = {64}, float z = {0}, int64 i0 = {0}> {
      s = Shape (x) n = Gather (s, i0) b = Slice (s, one, two) d = Concat <axis = 0> (b, h)
      first = Expand (z, d)
      last, y = Loop (n, , first) <body = step (int64 i, bool c, float[B,64] h1)
        => (bool go, float[B,64] h2, float[B,64] o) {
        go = Identity (c) e = Gather (x, i) p = MatMul (e, w) q = MatMul (h1, u) m = Add (p, q)
        h2 = Selu (m) o = MatMul (h2, w) }> }"""
    before = model(text)
    found = read(before)
    (left,) = [node for node in found.model.graph.node if node.op_type == "Loop"]
    assert [node.op_type for node in left.attribute[0].g.node].count("MatMul") == 1
    rng = np.random.default_rng(0)
    shared = {key: rng.standard_normal((64, 64)).astype(np.float32) / 8 for key in "wu"}
    sizes = [(0, 2), (1, 1), (5, 3)]
    many = [{"x": rng.standard_normal((*two, 64)).astype(np.float32), **shared} for two in sizes]
    assert same(before, found.model, *many) == len(many)


CARRIED_WEIGHTS = """g (float[T,B,64] x, float[B,64] h0, float[64,64] w, float[64,64] u)
  => (float[T,B,64] ys)
  <bool t = {1}, int64 zero = {0}> {
  shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
  h, w9, ys = Loop (n, t, h0, w) <body = step (int64 i, bool c, float[B,64] s, float[?,?] v)
      => (bool d, float[B,64] s2, float[?,?] v2, float[B,64] y) {
    e = Gather <axis = 0> (x, i)  q = MatMul (e, v)  r = MatMul (s, u)  m = Add (q, r)
    s2 = Selu (m)  y = Identity (s2)  v2 = Identity (v)  d = Identity (c) }> }"""


def test_a_product_with_weights_that_the_loop_hands_on_leaves_it() -> None:
    """Keras hands weights on as carried values, of which inference knows no shape."""
    before = model(CARRIED_WEIGHTS)
    found = read(before)
    (loop_left,) = (n for n in found.model.graph.node if n.op_type in ("Loop", "Scan"))
    body = next(a.g for a in loop_left.attribute if a.name == "body")
    assert [n.op_type for n in body.node].count("MatMul") == 1
    rng = np.random.default_rng(1)
    given = [
        {
            "x": rng.standard_normal((n, 2, 64)).astype(np.float32),
            "h0": np.zeros((2, 64), np.float32),
            "w": rng.standard_normal((64, 64)).astype(np.float32) / 8,
            "u": rng.standard_normal((64, 64)).astype(np.float32) / 8,
        }
        for n in LENGTHS
    ]
    assert same(before, found.model, *given) == len(LENGTHS)
