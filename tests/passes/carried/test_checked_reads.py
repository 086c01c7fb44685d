"""How checked places are read: one number in whatever shape, a picked row, a Slice of one row."""

from __future__ import annotations

from typing import cast

import onnx_ir as ir
import pytest

from passes.carried.places.checked_places import CheckedPlaces
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.reading.facts import LoopFacts
from passes.typing import type_values

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (int64 k, int32 h, int64 j, float[5,3] x, float[5,3] z, int64[2] pair, int64[A] any) => (int64 r)
<int64 zero = {0}, int64 four = {4}, int64 five = {5}, int64[1] at0 = {0}, int64[1] at1 = {1},
 int64[1] one1 = {1}, int64[1,1] one2 = {1}, int64[2] both = {0, 1}, int64[2] turned = {1, 0},
 int64[2] ends = {9, 9}, int64[2] sizes = {1, 3}, int64[2] wide = {2, 3}, int64[2] short = {1, 2},
 int64[2] sizes2 = {3, 1}, int64[2] ones = {1, 1}, int64[2] steps = {2, 1}, int64[3] three = {1, 1, 3}>
{ k1 = Unsqueeze (k, at0) j1 = Unsqueeze (j, at0) t = Unsqueeze (k1, at1)
  %s r = Identity (k) }"""
FLAG = """column = Gather <axis = 1> (t, zero) low = {} (column, {}) high = {} (column, {})
    flag = {} ({}) flat = Squeeze (flag, at1) found = NonZero (flat)
    down = Transpose <perm = [1, 0]> (found) kept = Squeeze (down, at1) """
CHECKED = FLAG.format("GreaterOrEqual", "zero", "LessOrEqual", "four", "And", "low, high")


def reader(lines: str) -> tuple[CheckedPlaces, dict[str, ir.Value]]:
    """Return what reads the places of a body, and its values."""
    graph = (model := ir.from_onnx_text(TEXT % lines)).graph
    values = {str(v.name): v for v in graph.inputs}
    values |= {str(v.name): v for node in graph for v in node.outputs}
    values |= dict(graph.initializers)

    class Facts:
        scope = Scope((graph,), frozenset())
        evaluator = Evaluator(type_values(model, proven=True))

    return CheckedPlaces(cast("LoopFacts", Facts)), values


ROOTS = {
    "itself": ("v = Identity (k)", "k"),
    "in another shape": ("v = Reshape (k, one2)", "k"),
    "expanded": ("v = Expand (t, one2)", "k"),
    "squeezed": ("v = Squeeze (t)", "k"),
    "wider": ("v = Cast <to = 7> (h)", "h"),
    "as wide": ("v = Cast <to = 7> (k)", "k"),
    "narrower": ("v = Cast <to = 6> (k)", "v"),
    "narrower, and back": ("a = Cast <to = 6> (k) v = Cast <to = 7> (a)", "a"),
    "as a float": ("v = Cast <to = 1> (k)", "v"),
    "computed": ("v = Neg (k)", "v"),
}


@pytest.mark.parametrize("name", ROOTS)
def test_what_one_number_was(name: str) -> None:
    lines, expected = ROOTS[name]
    places, values = reader(lines)
    assert places.root(values["v"]) is values[expected]


def check(first: str, least: str, second: str, most: str, of: str = "And", by: str = "") -> str:
    """Return how a place is compared with two numbers."""
    return FLAG.format(first, least, second, most, of, by or "low, high")


PICK = "v = Gather <axis = 0> (t, kept)"
UNCHECKED: dict[str, tuple[str, bool]] = {
    "a row in the tensor": (CHECKED + PICK, True),
    "asked the other way round": (
        check("GreaterOrEqual", "zero", "LessOrEqual", "four", by="high, low") + PICK,
        True,
    ),
    "one row more": (check("GreaterOrEqual", "zero", "LessOrEqual", "five") + PICK, False),
    "a row less": (check("GreaterOrEqual", "at1", "LessOrEqual", "four") + PICK, False),
    "either": (check("GreaterOrEqual", "zero", "LessOrEqual", "four", of="Or") + PICK, False),
    "below twice": (check("LessOrEqual", "zero", "LessOrEqual", "four") + PICK, False),
    "above twice": (check("GreaterOrEqual", "zero", "GreaterOrEqual", "four") + PICK, False),
    "the other two bounds": (check("LessOrEqual", "zero", "GreaterOrEqual", "four") + PICK, False),
    "less, not equal": (check("GreaterOrEqual", "zero", "Less", "four") + PICK, False),
    "by what is fed": (check("GreaterOrEqual", "zero", "LessOrEqual", "j") + PICK, False),
    "columns": (CHECKED + "v = Gather <axis = 1> (t, kept)", False),
    "another number's check": (
        CHECKED.replace("(t, zero)", "(s, zero)").replace(
            "column =", "s = Reshape (j, one2) column ="
        )
        + PICK,
        False,
    ),
    "several rows": (CHECKED + "v = Gather <axis = 0> (any, kept)", False),
    "all places": (CHECKED + "v = Gather <axis = 0> (t, at0)", False),
    "no Gather": (CHECKED + "v = Neg (t)", False),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_a_place_without_its_check(name: str) -> None:
    lines, expected = UNCHECKED[name]
    places, values = reader(lines)
    found = places.unchecked(values["v"], values["x"])
    assert found is (values["t"] if expected else None)


PICKED: dict[str, tuple[str, bool]] = {
    "by the same": ("v = Gather (x, k1) p = Gather (z, k1)", True),
    "by another number": ("v = Gather (x, k1) p = Gather (z, j1)", False),
    "of columns": ("v = Gather <axis = 1> (x, k1) p = Gather (z, k1)", False),
    "all of it": ("v = Neg (x) p = Gather (z, k1)", False),
    "at all places": ("v = Gather (x, k1) p = Neg (z)", False),
}


@pytest.mark.parametrize("name", PICKED)
def test_what_is_picked_as_places_are(name: str) -> None:
    lines, expected = PICKED[name]
    places, values = reader(lines)
    assert places.picked(values["v"], values["p"]) is (values["x"] if expected else None)


START = "from = Concat <axis = 0> (k1, at0) "
CUT = START + "to = Add (from, sizes) s = Slice (x, from, to, both) "
READS: dict[str, tuple[str, bool]] = {
    "a Gather": ("v = Gather (x, k)", True),
    "a Gather of one in a vector": ("v = Gather (x, k1)", True),
    "a Gather of columns": ("v = Gather <axis = 1> (x, k)", False),
    "a Gather of several": ("v = Gather (x, pair)", False),
    "a Gather of another tensor": ("v = Gather (z, k)", False),
    "a Gather at another place": ("v = Gather (x, j)", False),
    "a Slice": (CUT + "v = Squeeze (s, at0)", True),
    "a Slice as it is": (CUT + "v = Identity (s)", False),
    "a Slice without another axis": (CUT + "v = Squeeze (s, at1)", False),
    "a Slice with steps": (
        START + "to = Add (from, sizes) s = Slice (x, from, to, both, ones) v = Squeeze (s, at0)",
        True,
    ),
    "a Slice by twos": (
        START + "to = Add (from, sizes) s = Slice (x, from, to, both, steps) v = Squeeze (s, at0)",
        False,
    ),
    "a Slice of all axes but named first": (
        "from = Concat <axis = 0> (at0, k1) to = Add (sizes2, from) "
        "s = Slice (x, from, to, turned) v = Squeeze (s, at0)",
        True,
    ),
    "a Slice of two rows": (
        START + "to = Add (from, wide) s = Slice (x, from, to, both) v = Squeeze (s, at0)",
        False,
    ),
    "a Slice of a part of a row": (
        START + "to = Add (from, short) s = Slice (x, from, to, both) v = Squeeze (s, at0)",
        False,
    ),
    "a Slice to an end": (START + "s = Slice (x, from, ends, both) v = Squeeze (s, at0)", False),
    "a Slice to what is added to another": (
        START + "o = Concat <axis = 0> (j1, at0) to = Add (o, sizes) "
        "s = Slice (x, from, to, both) v = Squeeze (s, at0)",
        False,
    ),
    "a Slice of the first axis": (
        "to = Add (k1, one1) s = Slice (x, k1, to, at0) v = Squeeze (s, at0)",
        False,
    ),
    "a Slice without axes": (
        START + "to = Add (from, sizes) s = Slice (x, from, to) v = Squeeze (s, at0)",
        False,
    ),
    "a Slice from a pair": (
        "to = Add (pair, sizes) s = Slice (x, pair, to, both) v = Squeeze (s, at0)",
        False,
    ),
    "a Slice of another tensor": (CUT.replace("(x", "(z") + "v = Squeeze (s, at0)", False),
}


@pytest.mark.parametrize("name", READS)
def test_the_row_at_a_place(name: str) -> None:
    lines, expected = READS[name]
    places, values = reader(lines)
    assert places.reads(values["v"], values["k"], values["x"]) is expected
