"""An If that yields several carried values; the model reads some of them again behind it."""

from __future__ import annotations

import pytest

from passes.decisions import Verdict
from rewriter import rewrite
from tests.passes.carried.carried import COUNT, INPUTS, LENGTHS, SCALARS, feeds
from tests.passes.loops import model, read, same

WRITE = """a1 = Unsqueeze (m, zero1)  places = Unsqueeze (a1, minus1)  u = Unsqueeze (e, zero1)
                v = ScatterND (s, places, u)"""
AGAIN = "at1 = Unsqueeze (i, zero1)  at2 = Unsqueeze (at1, minus1)"
"""The place of an iteration."""


def loop(
    behind: str,
    state: str,
    begin: str,
    *,
    dialect: str = "counted",
    write: str = WRITE,
    flag: str = "flag = Gather <axis = 0> (pe, zero)",
) -> str:
    """Return a graph that counts and writes in an If, and reads the count behind it.

    Args:
        behind: Computes ``q2`` from ``q``, the count ``m2`` and the number ``i``.
        state: The type of ``q``.
        begin: What it starts as.
        dialect: Whether a counter of its own ends the loop.
        write: Computes ``v`` from the rows ``s``, where a row is written.
        flag: Computes whether it is.
    """
    is_while = dialect == "while"
    head, given = (", more", "zero, ") if is_while else ("n, t", "")
    own, first = ("int64 own, ", "int64 own2, ") if is_while else ("", "")
    goes_on = "own2 = Add (own, one)  go = Less (own2, n)" if is_while else "go = Identity (cond)"
    number = "i = Identity (own)" if is_while else "i = Identity (trip)"
    ended = "ended, " if is_while else ""
    return f"""g ({INPUTS}) => (int64 count, float[N,4] r, {state} again) {{ {SCALARS} {COUNT}
        minus1 = Constant <value = int64[1] {{-1}}> ()
        more = Less (zero, n)
        begin = Identity (w)
        begins = Identity (zero)
        wanted = {begin}
        {ended}count, r, again = Loop ({head}, {given}begins, begin, wanted) <
            body = step (int64 trip, bool cond, {own}int64 m, float[N,4] s, {state} q)
            => (bool go, {first}int64 m2, float[N,4] s2, {state} q2) {{
            {number}
            e = Gather <axis = 0> (x, i)
            pe = Gather <axis = 0> (p, i)
            {flag}
            m2, s2 = If (flag) <
                then_branch = one () => (int64 n2, float[N,4] v) {{ {write}  n2 = Add (m, one) }},
                else_branch = other () => (int64 n3, float[N,4] lo)
                    {{ n3 = Identity (m)  lo = Identity (s) }}>
            {behind}
            {goes_on}
        }}>
    }}"""


NUMBERS = ("int64[N]", "Identity (at)")
BEHIND = {
    "collected": (f"{AGAIN}  m1 = Unsqueeze (m2, zero1)  q2 = ScatterND (q, at2, m1)", *NUMBERS),
    "added": ("q2 = Add (q, m2)", "int64", "Identity (zero)"),
    "the_largest": ("h = Neg (m2)  q2 = Max (q, h)", "int64", "Identity (zero)"),
    "both_sides_of_it": (
        f"{AGAIN}  h = Sub (m2, m)  m1 = Unsqueeze (h, zero1)  q2 = ScatterND (q, at2, m1)",
        *NUMBERS,
    ),
    "as_a_place": (
        """d0 = Sub (m2, one)  d3 = Max (n, one)  d = Mod (d0, d3)  d1 = Unsqueeze (d, zero1)
            d2 = Unsqueeze (d1, minus1)  h1 = Unsqueeze (i, zero1)  q2 = ScatterND (q, d2, h1)""",
        *NUMBERS,
    ),
    "in_a_condition": (
        f"""c1 = Equal (m2, one)  h = Where (c1, i, one)
            {AGAIN}  m1 = Unsqueeze (h, zero1)  q2 = ScatterND (q, at2, m1)""",
        *NUMBERS,
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", ["counted", "while"])
@pytest.mark.parametrize("name", BEHIND)
def test_a_count_is_read_behind_the_if(name: str, dialect: str) -> None:
    before = model(loop(*BEHIND[name], dialect=dialect))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_target_without_control_flow_takes_it() -> None:
    before = model(loop(*BEHIND["collected"]))
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


TOTAL = """m2, s2, q1 = If (flag) <
                then_branch = one () => (int64 n2, float[N,4] v, float[4] b1)
                    {{ {write}  n2 = Add (m, one)  b1 = {family} (q, e) }},
                else_branch = other () => (int64 n3, float[N,4] lo, float[4] b2)
                    {{ n3 = Identity (m)  lo = Identity (s)  b2 = {other} }}>
            mf = Cast <to = 1> (m2)  """
TOTALS = {
    "added_behind": ("Add", "Identity (q)", "q2 = Add (q1, mf)"),
    "subtracted_behind": ("Add", "Identity (q)", "q2 = Sub (q1, mf)"),
    "twice": ("Add", "Identity (q)", "h = Add (q1, mf)  q2 = Sub (h, e)"),
    "otherwise": ("Sub", "Add (q, b)", "q2 = Add (mf, q1)"),
    "the_largest": ("Max", "Identity (q)", "q2 = Max (q1, mf)"),
}
OTHER_TOTALS = {
    "of_another_kind": ("Max", "Identity (q)", "q2 = Add (q1, mf)"),
    "its_size_subtracted_from": ("Add", "Identity (q)", "h = Abs (q1)  q2 = Sub (mf, h)"),
    "of_itself": ("Add", "Identity (q)", "h = Sin (q1)  q2 = Add (q1, h)"),
    "chosen_by_itself": ("Add", "Mul (q, q)", "q2 = Add (q1, mf)"),
}
LINES = {
    "subtracted_from": ("Add", "Identity (q)", "q2 = Sub (mf, q1)"),
    "less_itself": ("Add", "Sub (q, q)", "q2 = Add (q1, mf)"),
}


def totals(family: str, other: str, behind: str) -> str:
    """Return a graph that joins to ``q`` in an If, and again behind it."""
    text = loop(behind, "float[4]", "Identity (b)")
    start = text.index("m2, s2 = If")
    inside = TOTAL.format(write=WRITE, family=family, other=other)
    return text[:start] + inside + text[text.index(behind) :]


@pytest.mark.parametrize("name", TOTALS)
def test_a_total_is_joined_to_in_the_if_and_behind_it(name: str) -> None:
    before = model(totals(*TOTALS[name]))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", OTHER_TOTALS)
def test_another_total_stays_in_a_loop(name: str) -> None:
    before = model(totals(*OTHER_TOTALS[name]))
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", LINES)
def test_a_total_that_is_subtracted_is_a_linear_recurrence(name: str) -> None:
    before = model(totals(*LINES[name]))
    found = read(before)
    assert [d.verdict for d in found.decisions] == [Verdict.FUSED]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


NEAR = {
    "the_rows_are_read": loop(
        "h0 = ReduceMax <keepdims = 0> (s2)  h = Cast <to = 7> (h0)  q2 = Add (q, h)",
        "int64",
        "Identity (zero)",
    ),
    "a_row_says_whether": loop(
        *BEHIND["collected"],
        flag="h0 = ReduceMax <keepdims = 0> (s)  flag = Less (h0, z)",
    ),
    "what_is_behind_says_whether": loop(
        *BEHIND["added"], flag="big = Max (n, one)  h0 = Mod (q, big)  flag = Equal (h0, zero)"
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_what_depends_on_its_past_stays_in_a_loop(name: str) -> None:
    before = model(NEAR[name])
    found = read(before)
    assert found.loops >= 1
    assert {"recurrence", "carried-offset"} & set(found.codes), [
        (d.path, d.reasons) for d in found.decisions
    ]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
