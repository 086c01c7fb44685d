"""Linear recurrences, ``s = a_i * s + b_i``: discounted sums, averages and states that decay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from passes.decisions import Verdict
from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop, nested, nested_feeds
from tests.passes.loops import Feeds, Read, model, read, same

PREPARE = """most = Constant <value = float {0.9}> ()
        turned = Constant <value = float {-0.7}> ()
        whole = Constant <value = float {1.0}> ()
        two = Constant <value = float {2.0}> ()
        ten = Constant <value = int64 {10}> ()"""
BOUNDED = {
    "discounted": "m = Mul (most, s)  s2 = Add (e, m)",
    "turns_its_sign": "m = Mul (s, turned)  s2 = Sub (e, m)",
    "moving_average": "d = Sub (e, s)  m = Mul (most, d)  s2 = Add (s, m)",
    "gated": """q = Sin (e)  l = Sigmoid (q)  h = Sub (whole, l)  m = Mul (l, s)
        u = Mul (h, e)  s2 = Add (m, u)""",
    "episodes_that_end": """l = Cast <to = 1> (pe)  h = Sub (whole, l)  d = Mul (h, most)
        m = Mul (d, s)  s2 = Add (m, e)""",
    "decays": "q = Abs (e)  l = Neg (q)  h = Exp (l)  m = Mul (h, s)  s2 = Add (m, e)",
    "cut_factors": "q = Exp (e)  h = Clip (q, , whole)  m = Mul (s, h)  s2 = Sub (m, e)",
    "several_steps": "u = Add (s, e)  m = Mul (u, most)  h = Neg (m)  s2 = Sub (h, b)",
    "alternating": "s2 = Sub (e, s)",
    "stays_where_masked": "m = Mul (most, s)  u = Add (m, e)  s2 = Where (pe, u, s)",
    "begins_anew": "m = Mul (most, s)  u = Add (m, e)  s2 = Where (pe, e, u)",
    "begins_anew_in_front": "u = Where (pe, b, s)  m = Mul (most, u)  s2 = Add (m, e)",
    "begins_anew_twice": """u = Where (pe, b, s)  l = Less (e, z)  q = Where (l, u, e)
        m = Mul (most, q)  s2 = Add (m, e)""",
    "turned_or_added_to": "u = Neg (s)  d = Add (s, e)  s2 = Where (pe, u, d)",
    "one_of_two": """m = Mul (most, s)  u = Add (m, e)  l = Mul (turned, s)  o = Add (l, b)
        s2 = Where (pe, u, o)""",
    "as_lerp_is_exported": """d = Sub (e, s)  m = Mul (most, d)  u = Add (s, m)
        l = Mul (turned, d)  o = Sub (e, l)  h = Less (most, whole)  s2 = Where (h, u, o)""",
    "an_average_where_masked": """d = Sub (e, s)  m = Mul (most, d)  u = Add (s, m)
        s2 = Where (pe, u, s)""",
    "in_a_branch": """q = ReduceSum <keepdims = 0> (e, zero1)  l = Greater (q, z)  s2 = If (l) <
        then_branch = yes () => (float[4] a1) { m = Mul (most, s)  a1 = Add (m, e) },
        else_branch = no () => (float[4] a2) { a2 = Identity (s) }>""",
    "anew_in_a_branch": """q = ReduceSum <keepdims = 0> (e, zero1)  l = Greater (q, z)
        u = If (l) <then_branch = yes () => (float[4] a1) { a1 = Tanh (e) },
        else_branch = no () => (float[4] a2) { a2 = Identity (s) }>
        m = Mul (most, u)  s2 = Add (m, e)""",
}
OPEN = {
    "factors_of_any_size": "m = Mul (e, s)  s2 = Add (m, b)",
    "flags_as_floats": "h = Sub (whole, e)  d = Mul (h, most)  m = Mul (d, s)  s2 = Add (e, m)",
    "added_to_or_multiplied": "u = Add (s, e)  d = Mul (s, e)  s2 = Where (pe, u, d)",
    "bytes_that_wrap_around": """u = Cast <to = 2> (pe)  l = Constant <value = uint8 {1}> ()
        o = Sub (l, l)  h = Clip (u, o, l)  q = Sub (h, l)  d = Cast <to = 1> (q)
        m = Mul (d, s)  s2 = Add (m, e)""",
}
"""Factors that may be larger than 1."""
INTEGERS = {
    "digits": "m = Mul (s, ten)  s2 = Add (m, ke)",
    "alternating": "s2 = Sub (ke, s)",
    "twice_and_again": "m = Mul (s, ten)  u = Add (m, s)  s2 = Add (u, ke)",
    "factors": "m = Mul (ke, s)  s2 = Sub (m, c)",
    "begins_anew": "m = Mul (s, ten)  u = Add (m, ke)  s2 = Where (pe, c, u)",
}
LEFT = {
    *("Add", "Concat", "Constant", "Gather", "Greater", "Identity", "Less", "Max", "Mul", "Sub"),
    "Where",
}
"""What stands in the Loops that are left, and what doubles the steps."""


def _text(body: str, dialect: str = "counted", output: str = "s2", state: str = "float[4]") -> str:
    begin = "c" if state.startswith("int") else "b"
    body = f"{body}  y = Identity ({output})"
    return loop(dialect, state, body, begin, collected=state, prepare=PREPARE)


def _in_loops(graph: onnx.GraphProto, *, inside: bool = False) -> Iterator[str]:
    """Yield the operators of a graph that stand in a Loop."""
    for node in graph.node:
        if inside:
            yield node.op_type
        for attribute in node.attribute:
            is_body = inside or node.op_type in ("Loop", "Scan")
            yield from _in_loops(attribute.g, inside=is_body)


def _found(before: onnx.ModelProto, dialect: str, *given: Feeds, **options: object) -> Read:
    found = read(before, **options)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED, decision.reasons
    lengths = [n for n in LENGTHS if n or dialect != "scan"]
    many = [*map(feeds, lengths), *given]
    assert same(before, found.model, *many) == len(many)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", BOUNDED | OPEN)
def test_rows_are_computed_in_steps(name: str, dialect: str) -> None:
    found = _found(model(_text((BOUNDED | OPEN)[name], dialect)), dialect)
    assert set(_in_loops(found.model.graph)) <= LEFT


@pytest.mark.sampled
@pytest.mark.parametrize("output", ["s", "s2"])
@pytest.mark.parametrize("name", BOUNDED)
def test_nothing_asks_where_a_target_has_no_loop(name: str, output: str) -> None:
    before = model(_text(BOUNDED[name], output=output))
    found = _found(before, "counted", feeds(700), lacks=("If", "Loop", "Scan"))
    assert not {"If", "Loop", "Scan"} & found.operators.keys()


@pytest.mark.quick
@pytest.mark.parametrize("name", OPEN)
def test_factors_that_may_be_large_keep_the_loop_where_nothing_asks(name: str) -> None:
    found = read(model(_text(OPEN[name])), lacks=("If",))
    assert found.loops == 1
    assert "its factor is not proven to lie between -1 and 1" in found.details


def _spoilt(largest: float) -> list[Feeds]:
    """Return rows in which some numbers are no numbers, infinite, or near both ends."""
    special = (np.nan, np.inf, -np.inf, largest, -largest, 1e-44, 0.0, 1e30)
    given = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        one = dict(feeds((3, 20, 40)[seed % 3], seed))
        for key in ("x", "x", "b")[: 1 + seed % 3]:
            at = rng.integers(0, one[key].size)
            one[key].reshape(-1)[at] = rng.choice(special)
        given.append(one)
    return given


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("lacks", "largest"),
    [((), 3e38), (("If", "Loop"), 1e38)],
    ids=["asked", "unasked"],
)
@pytest.mark.parametrize("name", BOUNDED | OPEN)
def test_what_is_not_finite_spoils_what_it_spoils_in_the_loop(
    name: str, lacks: tuple[str, ...], largest: float
) -> None:
    before = model(_text((BOUNDED | OPEN)[name]))
    given = _spoilt(largest)
    found = read(before, lacks=lacks)
    assert same(before, found.model, *given) == len(given)


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_exact_beyond_their_type(name: str, dialect: str) -> None:
    found = _found(model(_text(INTEGERS[name], dialect, state="int64[4]")), dialect, exact=True)
    assert found.loops == 0


@pytest.mark.sampled
@pytest.mark.parametrize("name", BOUNDED)
def test_in_a_map_rows_are_computed_for_all_samples(name: str) -> None:
    text = loop("counted", "float[4]", BOUNDED[name], "b", prepare=PREPARE)
    before = model(nested(text))
    found = read(before)
    assert found.loops == 0
    many = [nested_feeds(groups, length) for groups, length in ((0, 2), (2, 0), (3, 9))]
    assert same(before, found.model, *many) == len(many)


@pytest.mark.quick
def test_one_number_is_a_state_too() -> None:
    body = """o = ReduceSum <keepdims = 0> (e, zero1)  m = Mul (s, most)  s2 = Add (m, o)
        y = Identity (s2)"""
    before = model(loop("counted", "float", body, "z", collected="float", prepare=PREPARE))
    found = _found(before, "counted", lacks=("If", "Loop"))
    assert found.loops == 0


JOINED = {
    "as_it_is": "m = Mul (most, s)  s2 = Gemm <alpha = 0.5, transB = 1> (u, square, m)",
    "scaled": "s2 = Gemm <beta = -0.5> (u, square, s)",
    "scaled_twice": "m = Sub (e, s)  s2 = Gemm <beta = 0.5> (u, square, m)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", JOINED)
def test_a_product_that_gemm_joins_to_the_state(name: str, dialect: str) -> None:
    rows = "row = Unsqueeze (b, zero1)  square = Concat <axis = 0> (row, row, row, row)"
    body, state = f"u = Unsqueeze (e, zero1)  {JOINED[name]}  y = Identity (s2)", "float[1,4]"
    text = loop(dialect, state, body, "row", collected=state, prepare=f"{rows}  {PREPARE}")
    _found(model(text), dialect)
    found = _found(model(text), dialect, lacks=("If", "Loop", "Scan"))
    assert not {"If", "Loop", "Scan"} & found.operators.keys()


@pytest.mark.quick
def test_many_rows_that_decay_to_nothing() -> None:
    """A product of all factors is 0 long before the end, and an infinity stays one."""
    before = model(_text("m = Mul (most, s)  s2 = Add (e, m)"))
    given = [dict(feeds(2_000)) for _ in range(2)]
    given[1]["x"][3] = [np.inf, -np.inf, np.nan, 3e38]
    for lacks in ((), ("If", "Loop")):
        assert same(before, read(before, lacks=lacks).model, *given) == 2


NEAR = {
    "a_square": "m = Mul (s, s)  s2 = Add (m, e)",
    "a_product_of_two": "u = Add (s, e)  h = Mul (s, most)  m = Mul (u, h)  s2 = Add (m, e)",
    "grows": "m = Mul (two, s)  s2 = Add (m, e)",
    "two_factors_of_one_sign": "m = Mul (most, s)  h = Mul (s, s)  u = Add (m, s)  s2 = Add (u, e)",
    "within_bounds": "m = Mul (most, s)  u = Add (m, e)  s2 = Clip (u, turned, most)",
    "a_factor_of_the_state": "l = Sigmoid (s)  m = Mul (l, s)  s2 = Add (m, e)",
    "a_sum_that_is_multiplied": "u = Add (s, e)  s2 = Mul (u, e)",
    "a_condition_of_the_state": """m = Mul (most, s)  u = Add (m, e)  l = Less (s, e)
        s2 = Where (l, u, e)""",
    "chosen_by_itself": "m = Mul (most, s)  u = Where (pe, m, e)  h = Mul (u, s)  s2 = Add (h, e)",
    "divided": "m = Div (e, s)  s2 = Add (m, e)",
    "joined_to_a_product_by_0": """l = Unsqueeze (s, zero1)  q = Unsqueeze (e, zero1)
        h = Concat <axis = 0> (q, q, q, q)  m = Gemm <beta = 0.0> (q, h, l)
        s2 = Squeeze (m, zero1)""",
    "multiplied_by_a_matrix": """l = Unsqueeze (s, zero1)  h = Concat <axis = 0> (l, l, l, l)
        m = Gemm (l, h, e)  s2 = Squeeze (m, zero1)""",
    "a_product_of_matrices": """l = Unsqueeze (s, zero1)  h = Concat <axis = 0> (l, l, l, l)
        m = MatMul (s, h)  s2 = Add (m, e)""",
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", NEAR)
def test_what_is_not_linear_stays_a_loop(name: str) -> None:
    before = model(_text(NEAR[name]))
    found = read(before)
    assert "recurrence" in found.codes
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_two_states_that_need_each_other_stay_a_loop() -> None:
    text = _text("m = Mul (most, s)  s2 = Add (m, o)  o2 = Mul (s, e)")
    for old, new in (
        ("float[4] s)", "float[4] s, float[4] o)"),
        ("float[4] s2,", "float[4] s2, float[4] o2,"),
        ("r, ys =", "r, other, ys ="),
        ("(n, t, begin)", "(n, t, begin, b)"),
    ):
        text = text.replace(old, new)
    before = model(text)
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.quick
def test_the_caller_may_refuse_that_it_rounds() -> None:
    found = read(model(_text(BOUNDED["discounted"])), exact=True)
    assert found.loops == 1
    assert found.codes == ["exact"]


WIDE = """g (float[N,ROW] x, float[ROW] b) => (float[ROW] r, float[T,ROW] ys) {
    zero = Constant <value = int64 {0}> ()  most = Constant <value = float {0.9}> ()
    shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
    r, ys = Loop (n, , b) <body = step (int64 i, bool cond, float[ROW] s)
        => (bool go, float[ROW] s2, float[ROW] y) {
        e = Gather <axis = 0> (x, i)  q = Sin (e)  u = Exp (q)  m = Mul (most, s)
        s2 = Add (m, u)  y = Identity (s2)  go = Identity (cond)
    }>
}"""


@pytest.mark.quick
@pytest.mark.parametrize(("row", "verdict"), [(128, Verdict.FUSED), (129, Verdict.FISSIONED)])
def test_wide_rows_leave_the_recurrence_in_the_loop(row: int, verdict: Verdict) -> None:
    before = model(WIDE.replace("ROW", str(row)))
    found = read(before, auto=True)
    assert [d.verdict for d in found.decisions] == [verdict]
    is_beside = verdict is Verdict.FUSED  # the Loop as given, for few iterations
    assert ({"Sin", "Exp"} <= set(_in_loops(found.model.graph))) == is_beside
    rng = np.random.default_rng(0)
    given = [
        {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
        for shapes in ({"x": (n, row), "b": (row,)} for n in LENGTHS)
    ]
    assert same(before, found.model, *given) == len(given)


@pytest.mark.quick
@pytest.mark.parametrize("count", [3, 15, 16])
def test_a_few_iterations_of_a_known_number_stay_as_they_are(count: int) -> None:
    text = WIDE.replace("ROW", "4").replace("float[N,4] x", f"float[{count},4] x")
    found = read(model(text), auto=True)
    (decision,) = found.decisions
    assert (decision.verdict is Verdict.FUSED) == (count > 15)
