"""A Slice of one place is typed as one where what reads it needs the place."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.typing import type_values
from passes.typing.needed_places import may_lack_place


@pytest.mark.parametrize(
    ("shape", "may_lack"),
    [("[N]", True), ("[1]", True), ("[2]", False), ("[3]", False), ("", False)],
)
def test_what_may_lack_the_place(shape: str, may_lack: bool) -> None:
    """A scalar has no axis: no Slice of it runs, and nothing is typed by its place."""
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 22]>
        g (float{shape} x) => (float y) {{
            one = Constant <value_ints = [1]> ()  two = Constant <value_ints = [2]> ()
            last = Constant <value_ints = [-1]> ()  first = Constant <value_ints = [0]> ()
            u = Slice (x, one, two, last)
            y = Squeeze (u, first) }}"""
    )
    (cut,) = (node for node in model.graph if node.op_type == "Slice")
    assert may_lack_place(cut, type_values(model, proven=True)) == may_lack


@pytest.mark.parametrize(
    ("shape", "may_lack"),
    [("[N,2]", True), ("[1,2]", True), ("[2,2]", False), ("[3,2]", False), ("[3,3]", False)],
)
def test_a_slice_that_names_every_axis(shape: str, may_lack: bool) -> None:
    """The other axis is taken whole; where it is cut too, nothing is typed by the place."""
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 22]>
        g (float{shape} x) => (float[2] y) {{
            from = Constant <value_ints = [1, 0]> ()  to = Constant <value_ints = [2, 2]> ()
            both = Constant <value_ints = [0, 1]> ()  first = Constant <value_ints = [0]> ()
            u = Slice (x, from, to, both)
            y = Squeeze (u, first) }}"""
    )
    (cut,) = (node for node in model.graph if node.op_type == "Slice")
    assert may_lack_place(cut, type_values(model, proven=True)) == may_lack
