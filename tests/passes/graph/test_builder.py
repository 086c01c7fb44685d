"""How a builder records what many files record."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from passes.graph.builder import END, Builder

pytestmark = pytest.mark.quick


def recorded(opset: int | None) -> tuple[list[str], list[list[int]]]:
    """Record dimensions of a tensor ``[2, 3, 4]``; return the operators, and the numbers."""
    builder = Builder("", opset)
    x = ir.val("x", ir.DataType.FLOAT, (2, 3, 4))
    found = [
        builder.dimension(x, 1),
        builder.dimension(x, -1),
        builder.shape(x, 1),
        builder.shape(x, 0, 1),
        builder.shape(x, -1),
        builder.shape(x, 1, -1),
        builder.shape(x, 2, END),
        builder.shape(x, 3),
    ]
    for number, value in enumerate(found):
        value.name, value.dtype, value.shape = f"y{number}", ir.DataType.INT64, ir.Shape([None])
    for number, node in enumerate(builder.nodes):
        node.name = f"n{number}"
        if node.op_type == "Constant" or node.outputs[0] not in found:
            node.outputs[0].name = f"v{number}"
    graph = ir.Graph([x], found, nodes=builder.nodes, opset_imports={"": opset or 14}, name="g")
    proto = ir.to_proto(ir.Model(graph, ir_version=8))
    onnx.checker.check_model(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    numbers = session.run(None, {"x": np.zeros((2, 3, 4), np.float32)})
    return [node.op_type for node in builder.nodes], [list(one) for one in numbers]


@pytest.mark.parametrize("opset", [None, 14, 15, 18])
def test_dimensions_of_a_tensor(opset: int | None) -> None:
    written, numbers = recorded(opset)
    assert numbers == [[3], [4], [3, 4], [2], [4], [3], [4], []]
    assert (set(written) == {"Shape"}) == (opset is not None and opset >= 15)
