"""Places of a carried tensor that are read again: fills, running totals, delays, rings."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS, SCALARS, feeds, loop
from tests.passes.loops import model, read, same

STATE, RING = "float[N,4]", "float[R,4]"
PREPARE = """minus1 = Constant <value = int64[1] {-1}> ()
        minus = Constant <value = int64 {-1}> ()
        two = Constant <value = int64 {2}> ()
        three = Constant <value = int64 {3}> ()
        final = Add (n, minus)
        size0 = Shape (start)
        size = Gather <axis = 0> (size0, zero)"""
DIALECTS = ["counted", "endless", "while"]


def write(row: str, place: str = "i") -> str:
    """Write a row to a place."""
    return f"""{row}
            o1 = Unsqueeze ({place}, zero1)  o2 = Unsqueeze (o1, minus1)
            u = Unsqueeze (new, zero1)  s2 = ScatterND (s, o2, u)"""


PAST = "k1 = Add (i, minus)  past = Gather <axis = 0> (s, k1)"
BACK = "back = Sub (final, i)  k1 = Add (back, one)  past = Gather <axis = 0> (s, k1)"
SPOT = "spot = Mod (i, size)"
THREE = "spot = Mod (i, three)"
OLD = "old = Gather <axis = 0> (s, spot)"
READS = {
    "filled": (STATE, write(f"{PAST}  new = Where (pe, e, past)")),
    "filled_where_it_does_not_hold": (STATE, write(f"{PAST}  new = Where (pe, past, e)")),
    "filled_in_place": (
        STATE,
        write(f"{PAST}  mine = Gather <axis = 0> (s, i)  new = Where (pe, mine, past)"),
    ),
    "total": (STATE, write(f"{PAST}  new = Add (past, e)")),
    "greatest": (STATE, write(f"{PAST}  new = Max (e, past)")),
    "what_the_one_before_wrote": (
        STATE,
        write("k1 = Sub (i, one)  past = Gather <axis = 0> (s, k1)  new = Identity (e)"),
    ),
    "delayed_in_a_ring": (RING, write(f"{SPOT}  {OLD}  new = Identity (e)", "spot")),
    "delayed_by_three": (RING, write(f"{THREE}  {OLD}  new = Identity (e)", "spot")),
    "the_oldest_but_one": (
        RING,
        write(
            f"""{THREE}  j = Add (i, one)  k1 = Mod (j, three)
            old = Gather <axis = 0> (s, k1)  new = Identity (e)""",
            "spot",
        ),
    ),
    "always_one_place": (
        RING,
        write("old = Gather <axis = 0> (s, two)  new = Identity (e)", "two"),
    ),
    "a_place_beside_the_one_that_is_written": (
        RING,
        write("old = Gather <axis = 0> (s, one)  new = Sub (e, old)", "two"),
    ),
    "running_in_one_place": (
        RING,
        write("old = Gather <axis = 0> (s, two)  new = Where (pe, e, old)", "two"),
    ),
    "all_of_a_ring": (
        RING,
        write(f"{SPOT}  old = ReduceMean <keepdims = 0, axes = [0]> (s)  new = Neg (e)", "spot"),
    ),
    "a_ring_that_asks_how_large_it_is": (
        RING,
        write(
            """h0 = Shape (s)  m = Gather <axis = 0> (h0, zero)  spot = Mod (i, m)
            old = ReduceMax <keepdims = 0, axes = [0]> (s)  new = Neg (e)""",
            "spot",
        ),
    ),
    "a_ring_that_names_the_first_size_of_all": (
        RING,
        write(
            """h0 = Shape <start = 0> (s)  m = Gather <axis = 0> (h0, zero)  spot = Mod (i, m)
            old = ReduceMax <keepdims = 0, axes = [0]> (s)  new = Neg (e)""",
            "spot",
        ),
    ),
}
BEGIN = {STATE: "w", RING: "start"}
COLLECTED = {"past", "old"}


def graph(name: str, dialect: str) -> str:
    """Return a graph whose Loop reads again, and collects what it reads."""
    state, body = READS[name]
    read_ = next((v for v in COLLECTED if f"{v} = " in body), None)
    body += f"  y = Tanh ({read_})" if read_ else ""
    collected = "float[4]" if read_ else ""
    return loop(dialect, state, body, BEGIN[state], prepare=PREPARE, collected=collected)


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", READS)
def test_places_that_are_read_again(name: str, dialect: str) -> None:
    before = model(graph(name, dialect))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_from_the_end() -> None:
    """The last row but one reads the last one; so there is one iteration less."""
    body = write(f"{BACK}  new = Where (pe, e, past)", "back")
    text = loop("counted", STATE, body, "w", prepare=PREPARE)
    text = text.replace("n = Gather", "n0 = Gather").replace(
        "final = Add (n, minus)", "n = Sub (n0, one)  final = Sub (n0, two)"
    )
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS[1:])) == len(LENGTHS) - 1


def test_a_target_without_control_flow_takes_them() -> None:
    before = model(graph("filled", "counted"))
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_what_is_not_a_number_is_kept_where_it_is() -> None:
    before = model(graph("filled", "counted"))
    x = np.full((7, 4), np.nan, np.float32)
    x[3] = np.inf
    assert same(before, read(before).model, feeds(7, x=x)) == 1


NEAR = {
    "a_recurrence": (STATE, write(f"{PAST}  t1 = Tanh (past)  new = Add (t1, e)")),
    "two_places_of_the_past": (
        STATE,
        write(
            f"""{PAST}  k2 = Sub (i, two)  k3 = Max (k2, zero)
            old = Gather <axis = 0> (s, k3)  both = Add (past, old)  new = Add (both, e)"""
        ),
    ),
    "lag_of_two_that_adds": (
        STATE,
        write("k1 = Sub (i, two)  past = Gather <axis = 0> (s, k1)  new = Add (past, e)"),
    ),
    "a_place_of_the_data": (
        STATE,
        write(
            """k0 = ReduceMax <keepdims = 0> (ke)  k1 = Mod (k0, n)
            past = Gather <axis = 0> (s, k1)  new = Add (past, e)"""
        ),
    ),
    "places_of_a_ring_that_may_be_one": (
        RING,
        write(
            """five = Add (two, three)  spot = Mod (two, size)  there = Mod (five, size)
            past = Gather <axis = 0> (s, there)  new = Add (past, e)""",
            "spot",
        ),
    ),
    "a_ring_that_fades": (RING, write(f"{THREE}  {OLD}  kept = Mul (old, b)  new = Add (kept, e)", "spot")),
    "it_goes_round_to_what_it_wrote": (
        STATE,
        write("back = Sub (final, i)  k1 = Sub (back, one)  past = Gather <axis = 0> (s, k1)"
              "  new = Add (past, e)", "back"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", NEAR)
def test_near_misses_stay_in_a_loop(name: str, dialect: str) -> None:
    state, body = NEAR[name]
    before = model(loop(dialect, state, body, BEGIN[state], prepare=PREPARE))
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    same(before, rewrite(before).model, *map(feeds, LENGTHS))


def test_all_of_a_ring_whose_places_have_signs_is_read_in_a_loop() -> None:
    text = graph("a_ring_that_asks_how_large_it_is", "counted")
    before = model(text.replace("Mod (i, m)", "Mod <fmod = 1> (i, m)"))
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


SHIFTED = """{more}  a = Unsqueeze (i, zero1)  o = Unsqueeze (k1, zero1)
            new = Slice (x, a, o, zero1)  kept = Slice (s, one1, far, zero1)
            s2 = Concat <axis = 0> (kept, new)  first = Gather <axis = 0> (s, zero)
            y = Neg (first)"""


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("more", "loops"), [("one", 0), ("two", 1)])
def test_what_a_buffer_gains_by_slices(dialect: str, more: str, loops: int) -> None:
    """``s = cat(s[1:], x[i:i+1])``; a slice of two may end behind the last row."""
    prepare = """far = Constant <value = int64[1] {9223372036854775807}> ()
        two = Constant <value = int64 {2}> ()
        form = Constant <value = int64[2] {3, 4}> ()"""
    body = SHIFTED.format(more=f"k1 = Add (i, {more})")
    state = "float[3,4]" if more == "one" else "float[Q,4]"
    text = loop(
        dialect, state, body, "ConstantOfShape (form)", prepare=prepare, collected="float[4]"
    )
    before = model(text)
    found = read(before)
    assert found.loops == loops, [(d.path, d.reasons) for d in found.decisions]
    assert loops == 0 or "recurrence" in found.codes
    ran = same(before, found.model, *map(feeds, LENGTHS))
    assert ran == len(LENGTHS) or more == "two"


TURNS = {
    "modulo": "k1 = Add (k0, one)  k2 = Mod (k1, three)",
    "two_steps": "k1 = Add (k0, two)  k2 = Mod (k1, three)",
    "where": "k1 = Add (k0, one)  q = Equal (k1, three)  k2 = Where (q, zero, k1)",
    "asked_before_it_grows": "k1 = Add (k0, one)  q = Equal (k0, two)  k2 = Where (q, zero, k1)",
    "as_long_as_it_is_less": "k1 = Add (k0, one)  q = Less (k0, two)  k2 = Where (q, k1, zero)",
    "no_more_than": "k1 = Add (k0, one)  q = LessOrEqual (k1, two)  k2 = Where (q, k1, zero)",
    "more_than": "k1 = Add (k0, one)  q = Greater (k1, two)  k2 = Where (q, zero, k1)",
    "if": """k1 = Add (k0, one)  q = GreaterOrEqual (k1, three)
            k2 = If (q) <then_branch = full () => (int64 v1) { v1 = Identity (zero) },
                else_branch = more () => (int64 v2) { v2 = Identity (k1) }>""",
}
NO_TURNS = {
    "begins_elsewhere": "k1 = Add (k0, one)  q = Equal (k1, three)  k2 = Where (q, one, k1)",
    "grows_by_the_data": "g = ReduceMax <keepdims = 0> (ke)  k1 = Add (k0, g)  k2 = Mod (k1, three)",
}


def turning(body: str, first: str) -> str:
    """Return a graph with a counter that begins anew, which names a row of a buffer."""
    return f"""g (float[N,4] x, int64[N,4] k, float[3,4] start) => (float[3,4] r, int64 last, float[T,4] ys) {{
        {SCALARS} {PREPARE}
        shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
        r, last, ys = Loop (n, t, start, {first}) <body = step (int64 i, bool cond, float[3,4] s, int64 k0)
            => (bool go, float[3,4] s2, int64 k2, float[4] y) {{
            e = Gather <axis = 0> (x, i)  ke = Gather <axis = 0> (k, i)
            old = Gather <axis = 0> (s, k0)  y = Neg (old)
            {write("new = Tanh (e)", "k0")}
            {body}
            go = Identity (cond)
        }}>
    }}""".replace("final = Add (n, minus)", "")


def turning_feeds(length: int) -> dict[str, np.ndarray]:
    fed = feeds(length)
    return {name: fed[name] for name in ("x", "k", "start")}


@pytest.mark.parametrize("first", ["zero", "two"])
@pytest.mark.parametrize("name", TURNS)
def test_counters_that_begin_anew(name: str, first: str) -> None:
    before = model(turning(TURNS[name], first))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(turning_feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", NO_TURNS)
def test_other_counters_stay_in_a_loop(name: str) -> None:
    before = model(turning(NO_TURNS[name], "one"))
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    same(before, found.model, *map(turning_feeds, LENGTHS))


def test_a_counter_that_begins_anew_where_the_data_say_names_keys() -> None:
    body = """k1 = Add (k0, one)  g = ReduceMax <keepdims = 0> (ke)
            q = Greater (g, two)  k2 = Where (q, zero, k1)"""
    before = model(turning(body, "one"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    keys = np.full((64, 4), -9)
    keys[::2] = 9
    given = [turning_feeds(length) | {"k": keys[:length]} for length in LENGTHS]
    assert same(before, found.model, *given) == len(LENGTHS)
