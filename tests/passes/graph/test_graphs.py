"""What is read of a model without any pass."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.graphs import default_opset


@pytest.mark.parametrize(
    ("imports", "version"),
    [({}, 1), ({"": 18}, 18), ({"ai.onnx": 13}, 13), ({"": 18, "ai.onnx": 13}, 18), ({"x": 3}, 1)],
)
def test_default_opset(imports: dict[str, int], version: int) -> None:
    graph = ir.Graph([], [], nodes=[], opset_imports=imports)
    assert default_opset(ir.Model(graph, ir_version=8)) == version
