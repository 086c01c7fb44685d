"""What is said of a tensor that an iteration reads and writes at places, and that stays a loop."""

from __future__ import annotations

import pytest

from tests.passes.loops import model, read

pytestmark = pytest.mark.quick

TEXT = """g (float[N] x, float[8,8] z, int64[N,2] places) => (float[8,8] y)
  <bool go = {1}, int64 none = {0}, int64 one = {1}, int64 eight = {8}, int64[1] zero1 = {0},
   int64[1] flat = {-1}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y = Loop (n, go, z) <body = b (int64 i, bool c, float[8,8] s) => (bool d, float[8,8] s2) {
    e = Gather (x, i) place = Gather (places, i)
    row = Gather (place, none) column = Gather (place, one)
    line = Flatten <axis = 2> (s) before = Mul (row, eight) at = Add (column, before)
    vector = Reshape (line, flat) old = Gather (vector, at) new = JOIN
    s2 = ScatterND (s, place, new) d = Identity (c) }> }"""

PLACES = "nothing proves that 's' is read where it is written, each place once"
READ = (
    "an iteration writes to 's', and reads it by Flatten: "
    "nothing proves that it reads no place that another one wrote"
)
CASES = {
    "a sum": ("Add (old, e)", PLACES),
    "a difference": ("Sub (old, e)", PLACES),
    "what is negated": ("Neg (old)", READ),
    "a sum with what is weighed": (
        "Add (weighed, e)",
        READ,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reason_names_the_places(name: str) -> None:
    join, detail = CASES[name]
    text = TEXT.replace("JOIN", join).replace("new =", "weighed = Sin (old) new =")
    found = read(model(text, 18))
    assert found.loops == 1
    assert detail in found.details


BEHIND = "if no two places are equal, collect them, and write behind the loop by one ScatterND"
ROWS = """g (float[N,8] x, float[8,8] z) => (float[8,8] y, float[M,8] read)
  <bool go = {1}, int64[1] zero1 = {0}, int64[8,1] all = {0, 1, 2, 3, 4, 5, 6, 7}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y, read = Loop (n, go, z) <body = b (int64 i, bool c, float[8,8] "13")
      => (bool d, float[8,8] "17", float[8] old) {
    e = Gather (x, i) row = Unsqueeze (i, zero1) place = Unsqueeze (row, zero1)
    e1 = Unsqueeze (e, zero1) "14" = ScatterND ("13", place, e1)
    line = Expand (row, shape8) line1 = Unsqueeze (line, minus)
    places = Concat <axis = 1> (all, line1) column = Unsqueeze (e, minus)
    "17" = SECOND
    old = READ d = Identity (c) }> }""".replace(
    "int64[1] zero1", "int64[1] minus = {-1}, int64[1] shape8 = {8}, int64[1] zero1"
)


COLUMN = 'ScatterElements <axis = 1> ("14", line1, column)'
PLACED = 'ScatterND ("14", places, e)'


def test_rows_and_columns_of_one_iteration_are_told_by_the_name_outside() -> None:
    """TorchScript's exporter numbers the values of a body."""
    found = read(model(ROWS.replace("READ", "Identity (e)").replace("SECOND", COLUMN), 18))
    detail = "an iteration writes to 'z' 2 times: nothing proves that no other one writes to these"
    assert f"{detail} places" in found.details
    assert BEHIND in {reason.remedy for one in found.decisions for reason in one.reasons}


def test_a_shape_is_no_read_and_a_row_is_one() -> None:
    found = read(model(ROWS.replace("READ", 'Gather ("17", i)').replace("SECOND", COLUMN), 18))
    assert "'z', and reads it by Gather" in found.details


def test_places_along_axes_of_different_number_are_told() -> None:
    found = read(model(ROWS.replace("READ", "Identity (e)").replace("SECOND", PLACED), 18))
    assert "an iteration writes to whole rows of 'z', and to parts of some" in found.details
