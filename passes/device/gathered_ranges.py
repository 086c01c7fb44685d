"""Ranges that a Gather reads, in a form that onnxruntime leaves alone.

It makes one Slice of a Range that one Gather alone reads. The bounds of the Range are on the host,
those of the Slice are put together on the device, and the Slice reads them on the host: three
copies to the host, in each iteration where it stands in a loop.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import all_nodes, default_opset, is_operator
from passes.graph.names import make_names_unique

__all__ = ["GatheredRangesPass"]

_INTEGER_MAX = 12
"""The opset from which on Max takes integers."""


class GatheredRangesPass(ir.passes.InPlacePass):
    """Put a Max of one operand, which is that operand, between a Range and the Gather."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph and subgraphs."""
        if default_opset(model) < _INTEGER_MAX:
            return ir.passes.PassResult(model, modified=False)
        found = [node for node in all_nodes(model) if _is_gathered(node)]
        for node in found:
            _part(node)
        if found:
            make_names_unique(model)
        return ir.passes.PassResult(model, bool(found))


def _is_gathered(node: ir.Node) -> bool:
    if not is_operator(node, "Range"):
        return False
    (output,) = node.outputs
    uses = list(output.uses())
    if len(uses) != 1 or output.is_graph_output():
        return False
    return uses[0].node.op_type == "Gather" and uses[0].idx == 1


def _part(node: ir.Node) -> None:
    (output,), graph = node.outputs, node.graph
    assert graph is not None
    (use,) = output.uses()
    builder = Builder.at(node)
    same = builder.op("Max", [output])
    same.type, same.shape = output.type, output.shape
    use.node.replace_input_with(use.idx, same)
    graph.insert_after(node, builder.nodes)
