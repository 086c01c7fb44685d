"""State of each key: places that the data names, read and written by one iteration."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS, feeds, loop
from tests.passes.loops import model, read, same

STATE = "float[3,4]"
PREPARE = """three = Constant <value = int64 {3}> ()
        minus1 = Constant <value = int64[1] {-1}> ()"""
KEY = """first = Gather <axis = 0> (ke, zero)  j = Mod (first, three)  j1 = Unsqueeze (j, zero1)
            places = Unsqueeze (j1, minus1)"""
OLD = "old = Gather <axis = 0> (s, j)"


def _written(value: str) -> str:
    return f"u = Unsqueeze ({value}, zero1)  s2 = ScatterND (s, places, u)"


NEW = "y = Gather <axis = 0> (s2, j)"
SEEN = {
    "what_was_there": f"{KEY}  {OLD}  {_written('e')}  y = Sub (e, old)",
    "what_is_there": f"{KEY}  {_written('e')}  {NEW}",
    "a_total_so_far": f"{KEY}  {OLD}  v = Add (old, e)  {_written('v')}  y = Identity (old)",
    "a_total": f"{KEY}  {OLD}  v = Add (e, old)  {_written('v')}  {NEW}",
    "a_difference": f"{KEY}  {OLD}  v = Sub (old, e)  {_written('v')}  {NEW}",
    "the_largest": f"{KEY}  {OLD}  v = Max (old, e)  {_written('v')}  {NEW}",
    "the_least_of_one_number": f"""{KEY}  {OLD}  n0 = Gather <axis = 0> (e, zero)
            v = Min (old, n0)  {_written("v")}  y = Add (old, e)""",
    "a_product": f"{KEY}  {OLD}  v = Mul (old, e)  {_written('v')}  y = Neg (old)",
    "a_key_counted_from_the_end": f"""{KEY.replace("j = Mod (first, three)", "m = Mod (first, three)  j = Sub (m, three)")}
            {OLD}  v = Add (old, e)  {_written("v")}  {NEW}""",
}


FAR = """keys0 = ArgMax <axis = 1, keepdims = 0> (x)  keys = Mod (keys0, three)
        far = Constant <value = int64[1] {1000000000}> ()"""
CUT = """i1 = Unsqueeze (i, zero1)  j = Slice (keys, i1, far, zero1, far)
            j2 = Slice (keys, i1, far, zero1, far)  places = Unsqueeze (j2, one1)
            behind = Add (j, one1)  end = Max (behind, far)
            cut = Slice (s, j, end, zero1, far)  old = Squeeze (cut, zero1)
            u = Unsqueeze (e, zero1)  y = Sub (e, old)
            """
SEEN |= {
    "what_was_there_by_slices": f"{CUT} s2 = ScatterND (s, places, u)",
    "a_sum_by_slices": f'{CUT} s2 = ScatterND <reduction = "add"> (s, places, u)',
    "the_largest_by_slices": f'{CUT} s2 = ScatterND <reduction = "max"> (s, places, u)',
}
"""As TensorFlow's exporter reads and writes them."""


def _text(name: str, dialect: str = "counted") -> str:
    begin, prepare = "Identity (start)", f"{PREPARE}  {FAR}"
    return loop(dialect, STATE, SEEN[name], begin, collected="float[4]", prepare=prepare)


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", ["counted", "endless", "while", "scan"])
@pytest.mark.parametrize("name", SEEN)
def test_state_of_each_key_ends_without_a_loop(name: str, dialect: str) -> None:
    if "slices" in name and dialect == "scan":
        pytest.skip("it has no number")
    before = model(_text(name, dialect), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    lengths = [n for n in LENGTHS if n or dialect != "scan"]
    assert same(before, found.model, *map(feeds, lengths)) == len(lengths)


COUNT = f"""{KEY}  {OLD}  v = Add (old, one)
            u = Unsqueeze (v, zero1)  s2 = ScatterND (s, places, u)  y = Identity (old)"""
FLAG = f"""{KEY}  {OLD}  yes = Constant <value = bool {{1}}> ()
            u = Unsqueeze (yes, zero1)  s2 = ScatterND (s, places, u)  y = Not (old)"""


@pytest.mark.parametrize(
    ("body", "dtype", "begin"),
    [
        (COUNT, "int64", "Constant <value = int64[3] {0, 5, 9223372036854775807}> ()"),
        (FLAG, "bool", "Constant <value = bool[3] {0, 0, 1}> ()"),
    ],
    ids=["ranks", "first_occurrences"],
)
def test_counts_and_flags_of_keys(body: str, dtype: str, begin: str) -> None:
    text = loop("counted", f"{dtype}[3]", body, begin, collected=dtype, prepare=PREPARE)
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_an_infinity_stays_with_its_key() -> None:
    keys = np.zeros((4, 4), np.int64)
    keys[:, 0] = [0, 1, 0, 1]
    rows = np.array([[np.inf] * 4, [1] * 4, [-np.inf] * 4, [np.nan] * 4], np.float32)
    for name in ("a_total", "the_largest"):
        before = model(_text(name))
        assert same(before, read(before).model, feeds(4, k=keys, x=rows)) == 1


def test_a_target_without_control_flow_takes_them() -> None:
    before = model(_text("a_total"))
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


NEAR = {
    "a_decayed_total": f"""{KEY}  {OLD}  half = Constant <value = float {{0.5}}> ()
            less = Mul (old, half)  v = Add (less, e)  {_written("v")}  y = Identity (old)""",
    "another_key": f"""{KEY}  a1 = Add (j, one)  a = Mod (a1, three)
            old = Gather <axis = 0> (s, a)  v = Add (old, e)  {_written("v")}
            y = Identity (old)""",
    "the_whole_state": f"""{KEY}  {OLD}  {_written("e")}
            y = ReduceSum <keepdims = 0> (s, zero1)""",
    "a_key_that_the_state_names": f"""top = ReduceMax <axes = [1], keepdims = 0> (s)
            j = ArgMax <axis = 0, keepdims = 0> (top)  j1 = Unsqueeze (j, zero1)
            places = Unsqueeze (j1, minus1)  {OLD}  {_written("e")}  y = Identity (old)""",
}


@pytest.mark.parametrize("name", NEAR)
def test_state_that_more_tells_stays_in_a_loop(name: str) -> None:
    text = loop(
        "counted", STATE, NEAR[name], "Identity (start)", collected="float[4]", prepare=PREPARE
    )
    before = model(text)
    found = read(before)
    assert found.loops >= 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_what_may_be_broadcast_to_a_row_stays_in_a_loop() -> None:
    """A known number of iterations proves no shape: the rows are put beside those of the state."""
    before = model(_text("a_total_so_far").replace("float[N,4] x", "float[7,K] x"))
    found = read(before)
    assert found.loops >= 1
    columns = (4, 1)
    given = [feeds(7, x=np.ones((7, size), np.float32)) for size in columns]
    assert same(before, found.model, *given) == len(columns)
