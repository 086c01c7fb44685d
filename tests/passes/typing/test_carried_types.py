"""What a Loop does with a carried sequence is not known from what it begins with."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import pytest

from passes.typing import type_values

LOOP = """<ir_version: 8, opset_import: ["" : 18]>
main (float[4,6] a, float[2,6] b, int64 n, int64 k, bool c) => (float[P,Q] y) {{
  s = SequenceConstruct (a)
  {before}
  t = Loop (n, "", s) <body = g (int64 i, bool c0, seq(float[]) u) => (bool d, seq(float[]) w) {{
    w = SequenceInsert (u, b)
    d = Identity (c0)
  }}>
  y = SequenceAt (t, k)
  {after}
}}"""


def dims(model: onnx.ModelProto, *, proven: bool) -> dict[str, Any]:
    taken = ir.from_proto(model)
    typing = type_values(taken, proven=proven, ranks=False)
    return {value.name or "": typing.dims(value) for node in taken.graph for value in node.outputs}


@pytest.mark.parametrize("proven", [True, False])
def test_elements_that_a_loop_appends_may_have_another_shape(*, proven: bool) -> None:
    known = dims(onnx.parser.parse_model(LOOP.format(before="", after="")), proven=proven)
    assert known["s"] == (4, 6)
    assert known["t"] is None
    assert known["y"] is None or all(not isinstance(d, int) for d in known["y"])


def test_loops_in_branches_are_seen() -> None:
    model = onnx.parser.parse_model(LOOP.format(before="", after=""))
    loop, at = model.graph.node[1], model.graph.node[2]
    inner = onnx.helper.make_graph([loop], "then", [], [onnx.ValueInfoProto(name="t")])
    other = onnx.parser.parse_graph("o () => (r) { r = Identity (s) }")
    branch = onnx.helper.make_node("If", ["c"], ["v"], then_branch=inner, else_branch=other)
    del model.graph.node[1:]
    at.input[0] = "v"
    model.graph.node.extend([branch, at])
    assert dims(model, proven=True)["v"] is None


def test_onnx_still_takes_a_carried_sequence_for_what_it_begins_with() -> None:
    model = onnx.parser.parse_model(LOOP.format(before="", after=""))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model)
    [t] = [value for value in inferred.graph.value_info if value.name == "t"]
    shape = t.type.sequence_type.elem_type.tensor_type.shape
    assert [d.dim_value for d in shape.dim] == [4, 6]  # mended? then hide_first_elements can go
