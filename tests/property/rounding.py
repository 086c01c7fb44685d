"""Which values of a body must come out bit for bit, by what the rule table says of its nodes."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from passes.batching import rules, table
from tests.property.bodies import Body, names_read
from tests.property.programs import Program

__all__ = ["settled_outputs"]

assert rules

_WIDE = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
"""What a Cast of narrower floats rounds none to."""


def settled_outputs(program: Program) -> frozenset[str]:
    """Return the outputs that rounding rules do not reach, or reach through discrete nodes only.

    Under ``exact`` these are the same, bit for bit, as when the body runs alone for each sample.
    """
    rough: set[str] = set()
    if program.first is not None:
        found = _rough_names(program.first, rough)
        rough = {"y"} if found & set(program.first.outputs) else set()
    rough = _rough_names(program.body, rough)
    return frozenset(program.body.outputs) - rough


def _rough_names(body: Body, given: set[str]) -> set[str]:
    """Return the values of a body that may come out with other last bits."""
    rough = set(given)
    for node in body.nodes:
        if _rounds(node, body.opset) or (
            rough & names_read(node) and not _is_discrete(node, body.opset)
        ):
            rough |= set(node.output)
    return rough


def _rounds(node: onnx.NodeProto, opset: int) -> bool:
    """Whether batching a node may change its results by rounding."""
    if any(_rounds(n, opset) for a in node.attribute for n in a.g.node):
        return True
    one = _read(node)
    row, packed = table.find(one, opset), table.find_packed(one, opset)
    if isinstance(row, table.Row):
        return row.rounding or (packed is not None and packed.rounding)
    return not isinstance(row, table.Unsupported)


def _read(node: onnx.NodeProto) -> ir.Node:
    return ir.Node(node.domain, node.op_type, [], num_outputs=1)


def _is_discrete(node: onnx.NodeProto, opset: int) -> bool:
    """Whether ``exact`` keeps a node per-sample where a rounding rule feeds it.

    A Cast to float or double may be one that rounds nothing, which is batched.
    """
    if any(a.HasField("g") for a in node.attribute):
        return False
    if node.op_type == "Cast" and any(a.name == "to" and a.i in _WIDE for a in node.attribute):
        return False
    row = table.find(_read(node), opset)
    return row.discrete if isinstance(row, table.Row) else isinstance(row, table.Unsupported)
