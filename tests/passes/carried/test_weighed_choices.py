"""Choices that are written as products with 0 and 1, as tf2onnx writes ``tf.where``."""

from __future__ import annotations

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.carried.carried import LENGTHS, feeds, loop
from tests.passes.carried.test_carried import INTS, ROW, Case
from tests.passes.loops import model, prove, read, same


def _choice(flag: str, chosen: str, other: str, result: str = "s2", to: int = 1) -> str:
    """Write that ``result`` is ``chosen`` where ``flag`` is true, and ``other`` elsewhere."""
    return f"""m_{result} = Cast <to = {to}> ({flag})  n_{result} = Not ({flag})
        w_{result} = Cast <to = {to}> (n_{result})
        a_{result} = Mul (m_{result}, {chosen})  b_{result} = Mul ({other}, w_{result})
        {result} = Add (a_{result}, b_{result})"""


LARGER = "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)"
SUM = "carried sum under a condition"
CASES = {
    "sum": Case(ROW, "v = Add (s, e)" + _choice("pe", "v", "s"), "b", SUM),
    "sum_turned": Case(ROW, "v = Add (s, e)" + _choice("pe", "s", "v"), "b", SUM),
    "sum_of_two": Case(ROW, "u = Sub (s, e)  v = Add (u, h4)" + _choice("pe", "v", "s"), "b", SUM),
    "sum_of_a_number": Case(ROW, f"{LARGER}  v = Add (s, h)" + _choice("pe", "v", "s"), "b", SUM),
    "sum_as_a_whole": Case(ROW, f"{LARGER}  v = Add (e, s)" + _choice("l", "v", "s"), "b", SUM),
    "sum_of_integers": Case(INTS, "v = Add (s, ke)" + _choice("pe", "v", "s", to=7), "c", SUM),
    "product_of_integers": Case(
        INTS,
        "v = Mul (s, ke)" + _choice("pe", "v", "s", to=7),
        "c",
        "carried product under a condition",
    ),
    "last": Case(ROW, _choice("pe", "e", "s"), "b", "last value where"),
    "last_row": Case(ROW, LARGER + _choice("l", "e", "s"), "b", "last value where"),
    "last_index": Case(
        "int64", LARGER + _choice("l", "i", "s", to=7), "one", "last value where", scans=False
    ),
    "largest": Case(ROW, "l = Greater (e, s)" + _choice("l", "e", "s"), "b", "best so far"),
    "least": Case(ROW, "l = Greater (s, e)" + _choice("l", "e", "s"), "b", "best so far"),
    "largest_number": Case(
        "float",
        "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, s)"
        + _choice("l", "h", "s"),
        "z",
        "best so far",
    ),
}


def _spoilt(length: int, seed: int) -> dict[str, np.ndarray]:
    """Make inputs of which some are infinite or NaN."""
    rng = np.random.default_rng((seed, length))
    one = dict(feeds(length, seed))
    share = rng.choice([0.03, 0.1, 0.3])
    for key in ("x", "b", "z"):
        spoilt = rng.choice([np.nan, np.inf, -np.inf, np.inf, -np.inf], np.shape(one[key]))
        is_spoilt = rng.random(np.shape(one[key])) < share
        one[key] = np.where(is_spoilt, spoilt, one[key]).astype(np.float32)
    return one


def _feeds() -> list[dict[str, np.ndarray]]:
    many = [dict(feeds(length)) for length in LENGTHS]
    return many + [_spoilt(n, seed) for n in (0, 1, 2, 7, 30) for seed in range(8)]


@pytest.mark.parametrize("dialect", ["counted", "while", "scan"])
@pytest.mark.parametrize("name", CASES)
def test_a_choice_by_products_ends_without_a_loop(name: str, dialect: str) -> None:
    case = CASES[name]
    if dialect == "scan" and not case.scans:
        return
    text = case.text(dialect).replace("wide = ", "f4 = Cast <to = 1> (f)  h4 = Exp (f4)  wide = ")
    many = [f for f in _feeds() if len(f["x"]) or dialect != "scan"]
    found = prove(text, *many)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED
    assert any(note.startswith(case.name) for note in decision.notes), decision.notes


def _kept(nodes: str, read: str = "s2") -> Case:
    return Case(ROW, f"{nodes} y = Identity ({read})", "b", "last value where", ROW)


KEPT = {
    "behind": _kept(_choice("pe", "e", "s")),
    "in_front": _kept(_choice("pe", "e", "s"), "s"),
    "turned": _kept(_choice("pe", "s", "e")),
    "rows": _kept(LARGER + _choice("l", "e", "s")),
    "read_further": _kept(_choice("pe", "e", "s") + " q = Sub (s2, e)", "q"),
    "number": Case(
        "float",
        "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)"
        + _choice("l", "h", "s")
        + " y = Identity (s2)",
        "z",
        "last value where",
        "float",
    ),
}


@pytest.mark.parametrize("dialect", ["counted", "while", "scan"])
@pytest.mark.parametrize("name", KEPT)
def test_the_last_value_of_each_iteration_is_spoilt_as_in_the_loop(
    name: str, dialect: str
) -> None:
    many = [f for f in _feeds() if len(f["x"]) or dialect != "scan"]
    found = prove(KEPT[name].text(dialect), *many)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED
    assert any(note.startswith(KEPT[name].name) for note in decision.notes), decision.notes


BESIDE = {
    "index": ("int64", _choice("l", "i", "s", to=7), "one"),
    "row": (ROW, _choice("l", "e", "s"), "b"),
    "row_by_where": (ROW, "s2 = Where (l, e, s)", "b"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("comparison", ["Greater (h, best)", "Less (h, best)", "Less (best, h)"])
@pytest.mark.parametrize("name", BESIDE)
def test_what_belongs_to_the_best_value_stays_once_it_is_spoilt(
    name: str, comparison: str
) -> None:
    state, chosen, begin = BESIDE[name]
    body = f"""h = ReduceSum <keepdims = 0> (e, zero1)  l = {comparison}
        {_choice("l", "h", "best", "best2")}
        {chosen}"""
    text = loop("counted", state, body, begin)
    text = text.replace(f"{state} s)", f"{state} s, float best)")
    text = text.replace(f"{state} s2)", f"{state} s2, float best2)")
    text = text.replace("(n, t, begin)", "(n, t, begin, z)")
    text = text.replace("r = Loop", "r, q = Loop").replace(f"({state} r)", f"({state} r, float q)")
    prove(text, *_feeds())


NEAR = {
    "maximum": (ROW, "v = Max (s, e)" + _choice("pe", "v", "s"), "b"),
    "product": (ROW, "v = Mul (s, e)" + _choice("pe", "v", "s"), "b"),
    "a_tie_takes_the_new_value": (
        ROW,
        "l = GreaterOrEqual (e, s)" + _choice("l", "e", "s"),
        "b",
    ),
    "weights_of_two_conditions": (
        ROW,
        "l = Greater (e, b)  v = Add (s, e)"
        + _choice("pe", "v", "s").replace("Not (pe)", "Not (l)"),
        "b",
    ),
    "weights_that_are_equal": (
        ROW,
        "v = Add (s, e)" + _choice("pe", "v", "s").replace("Not (pe)", "Identity (pe)"),
        "b",
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_close_to_a_choice_stays_a_loop(name: str) -> None:
    state, body, begin = NEAR[name]
    before = model(loop("counted", state, body, begin))
    found = read(before)
    assert found.loops == 1
    assert found.codes == ["recurrence"], found.details
    many = _feeds()
    assert same(before, found.model, *many) == len(many)
