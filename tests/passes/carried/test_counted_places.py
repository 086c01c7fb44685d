"""Rows that some iterations write to the next free places of a buffer, which a count names."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import COUNT, INPUTS, LENGTHS, SCALARS, feeds
from tests.passes.loops import model, read, same

GROW = "n2 = Add (m, one)"
KEEP = "n3 = Identity (m)"


def place(number: str = "m") -> str:
    """Write the row to a place of the buffer."""
    return f"""a1 = Unsqueeze ({number}, zero1)
                places = Unsqueeze (a1, minus1)
                u = Unsqueeze (e, zero1)
                v = ScatterND (s, places, u)"""


def compaction(
    dialect: str = "counted",
    *,
    first: str = "zero",
    taken: str = f"{place()}  {GROW}",
    other: str = KEEP,
    flag: str = "flag = Gather <axis = 0> (pe, zero)",
) -> str:
    """Return a graph whose Loop writes rows of ``x`` to ``s`` at a count that it carries."""
    head = "n, t" if dialect == "counted" else ", more"
    given = "" if dialect == "counted" else "zero, "
    own = "" if dialect == "counted" else "int64 own, "
    i = "i" if dialect == "counted" else "own"
    goes_on = "go = Identity (cond)"
    yields = ""
    if dialect == "while":
        goes_on = "own2 = Add (own, one)  go = Less (own2, n)"
        yields = "int64 own2, "
    last = "" if dialect == "counted" else "ended, "
    return f"""g ({INPUTS}) => (int64 count, float[N,4] r) {{ {SCALARS} {COUNT}
        minus1 = Constant <value = int64[1] {{-1}}> ()
        minus_one = Constant <value = int64 {{-1}}> ()
        more = Less (zero, n)
        begin = Identity (w)
        begins = Identity ({first})
        {last}count, r = Loop ({head}, {given}begins, begin) <
            body = step (int64 i, bool cond, {own}int64 m, float[N,4] s)
            => (bool go, {yields}int64 m2, float[N,4] s2) {{
            e = Gather <axis = 0> (x, {i})
            pe = Gather <axis = 0> (p, {i})
            {flag}
            m2, s2 = If (flag) <
                then_branch = one () => (int64 n2, float[N,4] v) {{ {taken} }},
                else_branch = other () => (int64 n3, float[N,4] lo)
                    {{ {other}  lo = Identity (s) }}>
            {goes_on}
        }}>
    }}"""


COUNTED = {
    "at_the_count": compaction(),
    "in_a_while": compaction("while"),
    "behind_the_count": compaction(taken=f"{GROW}  {place('n2')}", first="minus_one"),
    "two_further": compaction(taken=f"{place()}  h2 = Add (m, one)  n2 = Add (h2, zero)"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_rows_at_a_count_end_without_a_loop(name: str) -> None:
    before = model(COUNTED[name])
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_target_without_control_flow_takes_them() -> None:
    before = model(COUNTED["at_the_count"])
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


AGAIN = {
    "it_begins_in_front": compaction(first="minus_one"),
    "it_shrinks_elsewhere": compaction(other="n3 = Sub (m, one)", first="one"),
    "it_begins_anywhere": compaction(first="one").replace(
        "Identity (one)", "ReduceMin <keepdims = 0> (c)"
    ),
}


@pytest.mark.parametrize("name", AGAIN)
def test_places_that_may_be_written_twice(name: str) -> None:
    """What is written last to a place holds, which one scatter of both would leave open."""
    before = model(AGAIN[name])
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators["TopK"] == 1
    given = [feeds(n, c=np.ones(4, np.int64)) for n in LENGTHS]
    assert same(before, found.model, *given) >= 3


NEAR = {
    "it_stays": compaction(taken=f"{place()}  n2 = Identity (m)"),
    "it_reads_the_buffer": compaction(
        flag="old = Gather <axis = 0> (s, i)  q = ReduceSum <keepdims = 0> (old)  flag = Less (q, z)"
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_places_that_what_was_written_decides_stay_in_a_loop(name: str) -> None:
    before = model(NEAR[name])
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    same(before, found.model, *(feeds(n, c=np.ones(4, np.int64)) for n in LENGTHS))
