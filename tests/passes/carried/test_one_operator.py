"""States that one operator makes anew: of them and a row, of them alone, or of a row alone."""

from __future__ import annotations

import pytest

from tests.passes.carried.carried import feeds, loop
from tests.passes.carried.test_carried import FLAGS, INTS, ROW, ROWS
from tests.passes.loops import model, read, same

FAR = "far = Constant <value = int64[1] {9223372036854775807}> ()"
BACK = "back = Constant <value = int64[1] {-1}> ()"
ABOVE = "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)"
BOUNDS = """low = Constant <value = float {-1}> ()  high = Constant <value = float {1}> ()"""
THREE = "three = Constant <value = int64 {3}> ()"
WRAPPED = (
    "three = Constant <value = int64 {{3}}> ()  m = Mod (i, three)  {}  row = Reshape (spots, one1)"
    "  places = Unsqueeze (row, zero1)"
)
UPDATE = "u = Unsqueeze (e, zero1)"


def _if(one: str, other: str) -> str:
    return f"""{ABOVE}  s2 = If (l) <then_branch = yes () => (float[4] v) {{ v = {one} }},
        else_branch = no () => (float[4] v2) {{ v2 = {other} }}>"""


ENDS = {
    "the largest of one and of it": (ROW, "m = Max (e)  s2 = Max (s, m)", "b"),
    "the largest of both alone": (ROW, "m = Max (s, e)  s2 = Max (m)", "b"),
    "the sum of both alone": (ROW, "m = Sum (s, e)  s2 = Sum (m)", "b"),
    "a sum with what cancels": (ROW, "o = Sub (e, e)  s2 = Sum (s, o, e)", "b"),
    "a sum of a row twice": (ROW, "s2 = Sum (s, e, e)", "b"),
    "times 0": (ROW, "o = Constant <value = float {0}> ()  s2 = Mul (s, o)", "b"),
    "divided": (ROW, "s2 = Div (s, e)", "b"),
    "the other sign": (ROW, "s2 = Neg (s)", "b"),
    "one sum in both branches": (ROW, _if("Add (s, e)", "Add (s, e)"), "b"),
    "a sum or a difference": (ROW, _if("Add (s, e)", "Sub (s, e)"), "b"),
    "what no state decides": (ROW, _if("Identity (e)", "Identity (b)"), "b"),
    "a row where that is sure": (ROW, "s2 = Where (t, e, s)", "b"),
    "a row where that never is": (ROW, "never = Not (t)  s2 = Where (never, e, s)", "b"),
    "all elements at their places": (
        ROW,
        "spots = Constant <value = int64[4,1] {3, 2, 1, 0}> ()  s2 = ScatterND (s, spots, e)",
        "b",
    ),
    "one element": (
        ROW,
        "spots = Constant <value = int64[1] {2}> ()  u = Gather (e, zero)  s2 = ScatterND (s, spots, u)",
        "b",
    ),
    "the last row": (
        ROWS,
        f"spots = Constant <value = int64[1,1] {{-1}}> ()  {UPDATE}  s2 = ScatterND (s, spots, u)",
        "start",
    ),
    "a row in turn": (
        ROWS,
        f"{WRAPPED.format('spots = Identity (m)')}  {UPDATE}  s2 = ScatterND (s, places, u)",
        "start",
    ),
    "a row in turn from the end": (
        ROWS,
        f"{WRAPPED.format('spots = Sub (m, three)')}  {UPDATE}  s2 = ScatterND (s, places, u)",
        "start",
    ),
    "squares": (INTS, "q = Mul (ke, ke)  s2 = Add (q, s)", "c"),
    "within bounds": (ROW, f"{BOUNDS}  s2 = Clip (s, low, high)", "b"),
    "a row within bounds": (ROW, f"{BOUNDS}  r = Clip (e, low)  s2 = Add (s, r)", "b"),
    "not": (FLAGS, "s2 = Not (s)", "f"),
    "one of two": (FLAGS, "s2 = Xor (s, pe)", "f"),
    "one of itself": (FLAGS, "s2 = Xor (s, s)", "f"),
    "and not": (FLAGS, "o = Not (pe)  s2 = And (s, o)", "f"),
    "counted": ("int64", "s2 = Add (s, one)", "zero"),
    "counted down": ("int64", "s2 = Sub (s, one)", "one"),
    "counted from the other side": ("int64", "s2 = Sub (one, s)", "one"),
    "the number": ("int64", "s2 = Identity (i)", "one"),
    "the sum of numbers": ("int64", "s2 = Add (i, s)", "one"),
}
"""What ends without a loop, if the value behind the last iteration alone is read."""
STAYS = {
    "a Concat of one tensor, whole": (
        ROWS,
        f"{FAR}  q = Concat <axis = 0> (s)  s2 = Slice (q, zero1, far)",
        "start",
    ),
    "a Concat of one tensor, cut": (
        ROWS,
        f"{FAR}  q = Concat <axis = 0> (s)  s2 = Slice (q, one1, far)",
        "start",
    ),
    "a slice of all, joined to nothing": (
        ROWS,
        f"{FAR}  q = Slice (s, zero1, far)  s2 = Concat <axis = 0> (q)",
        "start",
    ),
    "twice itself": (ROWS, "s2 = Concat <axis = 0> (s, s)", "start"),
    "turned by one row": (
        ROWS,
        f"{FAR}  q = Slice (s, one1, far)  o = Slice (s, zero1, one1)  s2 = Concat <axis = 0> (q, o)",
        "start",
    ),
    "turned by one row back": (
        ROWS,
        f"{FAR}  {BACK}  q = Slice (s, back, far)  o = Slice (s, zero1, back)"
        "  s2 = Concat <axis = 0> (q, o)",
        "start",
    ),
    "the other way round": (
        ROWS,
        f"{BACK}  least = Constant <value = int64[1] {{-9223372036854775807}}> ()"
        "  s2 = Slice (s, back, least, zero1, back)",
        "start",
    ),
    "zeros from one side": (
        ROWS,
        f"{BACK}  pads = Constant <value = int64[4] {{1, 0, 0, 0}}> ()  q = Pad (s, pads)"
        "  s2 = Slice (q, zero1, back)",
        "start",
    ),
    "the sum and itself": (ROW, "u = Add (s, e)  s2 = Add (u, s)", "b"),
    "the sum of itself": (ROW, "s2 = Sum (s, s)", "b"),
    "less itself": (ROW, "s2 = Sub (s, s)", "b"),
    "divided by it": (ROW, "s2 = Div (e, s)", "b"),
    "the state in both branches": (ROW, _if("Identity (s)", "Identity (s)"), "b"),
    "the state wherever": (ROW, "s2 = Where (pe, s, s)", "b"),
    "elements in another order": (
        ROW,
        "spots = Constant <value = int64[4] {1, 2, 3, 0}> ()  s2 = Gather (s, spots)",
        "b",
    ),
    "elements twice": (
        ROW,
        "spots = Constant <value = int64[4] {1, 1, 3, 3}> ()  s2 = GatherElements (s, spots)",
        "b",
    ),
    "bounds that cross": (
        ROW,
        f"{BOUNDS}  u = Add (s, e)  s2 = Clip (u, high, low)",
        "b",
    ),
    "a rest": (INTS, f"{THREE}  s2 = Mod (s, three)", "c"),
    "a share": (INTS, f"{THREE}  s2 = Div (s, three)", "c"),
    "equal or not": (FLAGS, "s2 = Equal (s, pe)", "f"),
    "rounded": (ROW, "q = Cast <to = 7> (s)  s2 = Cast <to = 1> (q)", "b"),
    "sorted": (ROW, "four1 = Constant <value = int64[1] {4}> ()  s2, o = TopK (s, four1)", "b"),
    "totals": (ROW, "s2 = CumSum (s, zero)", "b"),
    "doubled": ("int64", "s2 = Add (s, s)", "one"),
}
CHANGES_SHAPE = ("a Concat of one tensor, cut", "twice itself")
CASES = [
    (name, collects)
    for name in (*ENDS, *STAYS)
    for collects in ("its end", "all")
    if collects == "its end" or name not in CHANGES_SHAPE
]


@pytest.mark.parametrize(("name", "collects"), CASES)
def test_what_one_operator_makes(name: str, collects: str) -> None:
    state, body, begin = (ENDS | STAYS)[name]
    collected = state if collects == "all" else ""
    if collected:
        body += "  y = Identity (s2)"
    before = model(loop("counted", state, body, begin, collected=collected))
    found = read(before)
    counts = [feeds(n) for n in (0, 1, 4)]
    assert same(before, found.model, *counts, open_rows=True) == len(counts)
    if not collected:
        assert found.loops == (name in STAYS), found.details


@pytest.mark.parametrize("name", [name for name in STAYS if "joined" in name or "Concat" in name])
def test_what_is_joined_of_one_tensor(name: str) -> None:
    state, body, begin = STAYS[name]
    assert read(model(loop("counted", state, body, begin))).loops == 1
