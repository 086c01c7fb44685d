"""Where the entries of tensors of integers lie, and which coordinate an iteration has alone."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir
import pytest

from passes.carried.places.coordinate_ranges import own_coordinate, own_span, span_of
from passes.carried.places.shared_coordinates import Reach
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Linear
from passes.typing import type_values
from tests.passes.loops import model, read, rows, same

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (int64 i, int64 j, bool b, bool[4] bs, int64[2] shape, float[4] w, int64[4] any, bool[2] two_bs)
  => (int64 z)
<int64 one = {1}, int64 two = {2}, int64 three = {3}, int64 four = {4}, int64 seven = {7},
 int64 eight = {8}, int64 nine = {9}, int64[1] at0 = {0},
 int64[1] at1 = {1}, int64[4] line = {0, 1, 2, 3}, int64[4] apart = {3, 5, 7, 4},
 int64[4] below = {-2, 1, 0, -1}, int64[0] none = {},
 int64[65] long = {9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
 1, 1, 1, 1, 4}>
{ by4 = Mul (i, four)  by4s = Unsqueeze (by4, at0)  by3 = Mul (i, three)  by2 = Mul (i, two)
  tile = Add (by4, line)  %s z = Identity (i) }"""
K = Linear.of(ITERATION)
IF = """y = If (b) <then_branch = t () => (int64[4] a) { %s }, else_branch = e () => (int64[4] c)
    { %s }>"""
SPANS: dict[str, tuple[str, Linear | int, int] | tuple[str, None, int]] = {
    "a number": ("y = Identity (by4)", K * 4, 1),
    "two numbers": ("next = Add (by4s, at1) y = Concat <axis = 0> (by4s, next)", K * 4, 2),
    "two numbers, apart": (
        "three1 = Unsqueeze (three, at0) next = Add (by4s, three1)"
        " y = Concat <axis = 0> (next, by4s)",
        K * 4,
        4,
    ),
    "numbers of different steps": (
        "s = Unsqueeze (by2, at0) y = Concat <axis = 0> (by4s, s)",
        None,
        0,
    ),
    "a constant": ("y = Identity (apart)", 3, 5),
    "a long constant": ("y = Identity (long)", 1, 9),
    "two long constants": ("y = Add (long, long)", 2, 17),
    "no numbers": ("y = Identity (none)", None, 0),
    "what is fed": ("y = Identity (any)", None, 0),
    "floats": ("y = Floor (w)", None, 0),
    "a tile": ("y = Identity (tile)", K * 4, 4),
    "a long tile": ("y = Add (by4, long)", K * 4 + 1, 9),
    "a long tile the other way round": ("y = Sub (by4, long)", K * 4 - 9, 9),
    "a long tile of two": ("a = Add (by4, long) y = Add (a, long)", K * 4 + 2, 17),
    "a sum with what is fed": ("y = Add (long, any)", None, 0),
    "a sum with vectors that are fed": ("y = Add (any, by4)", None, 0),
    "a product": ("y = Mul (long, by4)", None, 0),
    "expanded": ("a = Add (by4, long) y = Expand (a, shape)", K * 4 + 1, 9),
    "cast to other integers": ("a = Add (by4, long) y = Cast <to = 6> (a)", None, 0),
    "cast to what it is": ("a = Add (by4, long) y = Cast <to = 7> (a)", K * 4 + 1, 9),
    "joined": (
        "a = Add (by4, long) y = Concat <axis = 0> (a, tile)",
        K * 4,
        10,
    ),
    "joined with what is fed": ("a = Add (by4, long) y = Concat <axis = 0> (a, any)", None, 0),
    "joined with numbers of another step": (
        "a = Add (by4, long) c = Add (by3, long) y = Concat <axis = 0> (a, c)",
        None,
        0,
    ),
    "of either branch": (IF % ("a = Add (by4, line)", "c = Add (by4, apart)"), K * 4, 8),
    "of the branch that holds some": (
        IF % ("a = Add (by4, line)", "c = Constant <value = int64[0] {}> ()"),
        K * 4,
        4,
    ),
    "of a branch that is not known": (IF % ("a = Add (by4, line)", "c = Neg (any)"), None, 0),
    "chosen": ("c = Add (by4, apart) y = Where (bs, tile, c)", K * 4, 8),
    "chosen where less, never": (
        "c = Add (by4, apart) l = Less (c, tile) y = Where (l, c, tile)",
        K * 4,
        4,
    ),
    "chosen, always one": (
        "a = Add (by4, long) c = Sub (by4, long) l = Less (c, a) y = Where (l, a, any)",
        K * 4 + 1,
        9,
    ),
    "chosen, always the other one": (
        "a = Add (by4, long) c = Sub (by4, long) l = Less (a, c) y = Where (l, any, c)",
        K * 4 - 9,
        9,
    ),
    "chosen, less by one": (
        "a = Add (by4, long) c = Add (a, nine) l = Less (a, c) y = Where (l, a, any)",
        K * 4 + 1,
        9,
    ),
    "chosen, less or equal": (
        "a = Add (by4, long) c = Add (a, eight) l = Less (a, c) y = Where (l, a, any)",
        None,
        0,
    ),
    "chosen, never less": (
        "a = Add (by4, long) c = Sub (a, eight) l = Less (a, c) y = Where (l, any, a)",
        K * 4 + 1,
        9,
    ),
    "chosen, less in one place": (
        "a = Add (by4, long) c = Sub (a, seven) l = Less (a, c) y = Where (l, any, a)",
        None,
        0,
    ),
    "chosen by what is fed": ("l = Less (any, tile) y = Where (l, tile, any)", None, 0),
    "chosen by what compares with what is fed": (
        "l = Less (tile, any) y = Where (l, tile, any)",
        None,
        0,
    ),
}
"""The nodes that make ``y``, where its entries begin and how many numbers follow at most."""


def reader(lines: str) -> tuple[ir.Value, Evaluator]:
    """Return ``y``, and what reads it in an iteration."""
    model = ir.from_onnx_text(TEXT % lines)
    values = {v.name: v for node in model.graph for v in node.outputs}
    trip = model.graph.inputs[0]
    evaluator = Evaluator(type_values(model, proven=True), values.values(), {trip: [K]})
    return values["y"], evaluator


@pytest.mark.parametrize("name", SPANS)
def test_where_entries_lie(name: str) -> None:
    lines, first, width = SPANS[name]
    y, evaluator = reader(lines)
    expected = None if first is None else Reach(K * 0 + first, width)
    assert span_of(y, evaluator) == expected


OWN: dict[str, tuple[str, int | None]] = {
    "as many as the step": ("y = Add (by4, line)", 4),
    "fewer than the step": ("y = Add (by4, at1)", 1),
    "more than the step": ("y = Add (by3, line)", None),
    "as many as the step, backwards": ("n = Neg (by4) y = Add (n, line)", 4),
    "the same in each iteration": ("y = Identity (line)", None),
    "what is fed": ("y = Identity (any)", None),
}


@pytest.mark.parametrize("name", OWN)
def test_what_an_iteration_has_for_its_own(name: str) -> None:
    lines, width = OWN[name]
    span = own_span(*reader(lines))
    assert (None if span is None else span.width) == width


COLUMN = "{0}1 = Unsqueeze ({0}, at1) "
COLUMNS: dict[str, tuple[str, int | None]] = {
    "the first": (
        COLUMN.format("tile") + COLUMN.format("line") + "y = Concat <axis = 1> (tile1, line1)",
        0,
    ),
    "the second": (
        COLUMN.format("tile") + COLUMN.format("line") + "y = Concat <axis = -1> (line1, tile1)",
        1,
    ),
    "behind two": (
        COLUMN.format("tile")
        + COLUMN.format("line")
        + "y = Concat <axis = 1> (line1, line1, tile1)",
        2,
    ),
    "none": (COLUMN.format("line") + "y = Concat <axis = 1> (line1, line1)", None),
    "of rows below each other": (
        COLUMN.format("tile") + COLUMN.format("line") + "y = Concat <axis = 0> (tile1, line1)",
        None,
    ),
    "all there is": (COLUMN.format("tile") + "y = Identity (tile1)", 0),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_coordinate_of_its_own(name: str) -> None:
    lines, axis = COLUMNS[name]
    y, evaluator = reader(lines)
    found = own_coordinate(y, evaluator)
    assert found == (None if axis is None else Reach(K * 4, 4, axis))


def test_an_axis_is_part_of_what_is_compared() -> None:
    reach = Reach(K, 1)
    assert dataclasses.replace(reach, axis=0) != reach


LONG = f"""g (float[N,100] x, float[400] z) => (float[400] y)
  <bool go = {{1}}, int64 none = {{0}}, int64 hundred = {{100}}, int64 most = {{400}},
   int64[1] zero1 = {{0}}, int64[1] last = {{-1}},
   int64[100] many = {{{", ".join(map(str, range(100)))}}}>
{{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y = Loop (n, go, z) <body = b (int64 i, bool c, float[400] s) => (bool d, float[400] s2) {{
    e = Gather (x, i) first = Mul (i, hundred) p = Add (first, many) b = Less (p, none)
    turned = Add (p, most) w = Where (b, turned, p) at = Unsqueeze (w, last)
    s2 = ScatterND (s, at, e) d = Identity (c) }}> }}"""


def test_long_tiles_of_places_that_are_never_turned_round_are_written_at_once() -> None:
    """JAX's exporter turns round all places that are negative; no place of these is."""
    before = model(LONG, 18)
    found = read(before)
    assert (found.loops, found.operators["If"]) == (0, 0)
    assert found.operators["ScatterElements"] == 0, found.operators  # no place is met again
    feeds = [{"x": rows(n, 100), "z": rows(400, seed=1)} for n in (0, 1, 4)]
    assert same(before, found.model, *feeds) == len(feeds)
