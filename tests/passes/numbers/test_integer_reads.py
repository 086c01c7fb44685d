"""Integers that are read out of vectors and tables of known numbers."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.numbers.evaluate import Evaluator
from passes.numbers.folding import Folder
from passes.numbers.integers import Entry
from passes.typing import type_values

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[2,3] x, int64[1] n, float[] w, int64[K] v) => (int64[] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] many = {9}, int64[1] far = {9223372036854775807},
 int64[1] last = {-1}, int64[2] both = {0, 1}, int64[2,1] column = {1, 2}, int64[3,2] table = {1, 2, 3, 4, 5, 6}>
{ h = Shape (x) %s }"""
CASES = {
    "rows of a table": ("y = Slice (table, one, two)", [3, 4]),
    "rows by a named axis": ("y = Slice (table, zero, two, zero)", [1, 2, 3, 4]),
    "every second row": ("y = Slice (table, zero, many, zero, two)", [1, 2, 5, 6]),
    "rows from the back": ("y = Slice (table, last, many)", [5, 6]),
    "rows from nowhere known": ("y = Slice (table, n, two)", None),
    "one row from nowhere known": ("y = Slice (column, n, one)", None),
    "one row": ("y = Slice (column, one, two)", [2]),
    "rows to nowhere known": ("y = Slice (table, zero, n)", None),
    "rows by unknown steps": ("y = Slice (table, zero, two, zero, n)", None),
    "columns of a table": ("y = Slice (table, zero, one, one)", None),
    "part of a shape": ("y = Slice (h, one, many)", [3]),
    "part of a shape from nowhere known": ("y = Slice (h, n, many)", None),
    "part of a shape to nowhere known": ("y = Slice (h, zero, n)", None),
    "part of a shape by unknown steps": ("y = Slice (h, zero, many, zero, n)", None),
    "part of a shape from so many places": ("y = Slice (h, v, many)", None),
    "part of a shape by so many steps": ("y = Slice (h, zero, many, zero, v)", None),
    "part of a shape of no known length": ("s = Shape (w) y = Slice (s, one, many)", None),
    "an entry of a tail": ("t = Slice (v, one, far) y = Gather (t, one)", ["v", 2]),
    "an entry from nowhere known": ("t = Slice (v, n, far) y = Gather (t, one)", ["t", 1]),
    "an entry of every second": (
        "t = Slice (v, one, far, zero, two) y = Gather (t, one)",
        ["t", 1],
    ),
    "an entry of a head": ("t = Slice (v, zero, two) y = Gather (t, one)", ["t", 1]),
    "an entry": ("y = Gather (h, one)", [3]),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_what_is_read(name: str) -> None:
    text, expected = CASES[name]
    model = ir.from_onnx_text(TEXT % text)
    *_, node = model.graph
    found = Evaluator(type_values(model, proven=True)).of(node.outputs[0])
    if found is None or expected is None:
        assert found is expected
    elif isinstance(expected[0], str):
        ((atom, factor),) = found[0].terms
        assert isinstance(atom, Entry)
        assert [atom.vector.name, atom.position.number, factor] == [*expected, 1]
    else:
        assert [n.number for n in found] == expected


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("t = Slice (v, one, two) y = Squeeze (t, zero)", True),
        ("t = Slice (v, one, two) c = Cast <to = 6> (t) y = Squeeze (c, zero)", True),
        ("y = Slice (v, one, two)", False),
        ("t = Slice (v, one, two) y = Neg (t)", False),
    ],
    ids=["squeezed", "cast and squeezed", "given", "computed with"],
)
def test_an_entry_without_which_the_graph_fails_is_there(text: str, is_read: bool) -> None:
    """A place of a vector of any length, for who may ask nothing when the model runs."""
    model = ir.from_onnx_text(TEXT % text)
    *_, node = model.graph
    found = Folder(type_values(model, proven=True)).of(node.outputs[0]) or ()
    atoms = [atom for number in found for atom in number.atoms()]
    assert any(isinstance(atom, Entry) for atom in atoms) == is_read
