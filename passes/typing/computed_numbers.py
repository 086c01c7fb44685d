"""Numbers that follow from known dimensions, which ONNX's inference does not compute.

It adds and multiplies dimensions, but divides none, and it reads the bounds of a Slice from
constants only: ``x[:, : x.shape[1] // 2]`` would have an unknown number of columns. Of a Slice
from ``p`` to ``p + 1`` whose axis a Squeeze removes it does not see that it has one place.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from passes.folding import Folder
from passes.graph.graphs import constant_value, is_operator, name_of
from passes.graph.made import operand, optional_operand
from passes.reading.integer_reads import FAR
from passes.typing.corrections import is_whole
from passes.typing.inference import subgraph_pairs
from passes.typing.needed_places import needs_one
from passes.typing.value_types import Typing

__all__ = ["COMPUTED", "show_computed"]

COMPUTED = ("Div", "Mod", "Slice")
"""Operators whose numbers, or whose bounds, inference does not compute."""


def show_computed(graph: ir.Graph, proto: onnx.GraphProto, typing: Typing) -> bool:
    """Write numbers that follow from known dimensions as constants, for inference only.

    Args:
        graph: A graph.
        proto: The same for inference.
        typing: What inference has found so far.

    Returns:
        Whether there was such a number, so that inference may find more.
    """
    return _show(graph, proto, Folder(typing))


def _show(graph: ir.Graph, proto: onnx.GraphProto, folder: Folder) -> bool:
    found = False
    for node, node_proto in zip(graph, proto.node, strict=True):
        for inner, inner_proto in subgraph_pairs(node, node_proto):
            found |= _show(inner, inner_proto, folder)
        if is_operator(node, ("Div", "Mod")):
            found |= _show_quotient(node, node_proto, folder)
        elif is_operator(node, "Slice") and len(node.inputs) > 2 and not is_whole(node):
            found |= _show_bounds(node, node_proto, proto, folder)
            found |= _show_one_place(node, node_proto, folder)
    return found


def _show_quotient(node: ir.Node, proto: onnx.NodeProto, folder: Folder) -> bool:
    """Let inference take a known quotient for a constant."""
    number = None if proto.op_type == "Constant" else folder.value(node.outputs[0])
    if number is None:
        return False
    proto.op_type = "Constant"
    del proto.input[:]
    del proto.attribute[:]
    proto.attribute.append(
        onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(number))
    )
    return True


def _show_bounds(
    node: ir.Node, proto: onnx.NodeProto, graph: onnx.GraphProto, folder: Folder
) -> bool:
    """Let inference read the bounds of a Slice that are computed, and known."""
    computed = [v for v in _bounds(node) if constant_value(v) is None]
    names = {name_of(v): f"{name_of(node.outputs[0])}/{name_of(v)}/known" for v in computed}
    if not computed or any(name in names.values() for name in proto.input):
        return False
    numbers = {name_of(v): folder.value(v) for v in computed}
    if any(x is None for x in numbers.values()):
        return False
    for name, number in numbers.items():
        assert number is not None
        graph.initializer.append(onnx.numpy_helper.from_array(number, names[name]))
    proto.domain, proto.op_type = "", "Slice"
    del proto.input[:]
    del proto.attribute[:]
    proto.input.extend("" if v is None else names.get(name_of(v), name_of(v)) for v in node.inputs)
    return True


def _show_one_place(node: ir.Node, proto: onnx.NodeProto, folder: Folder) -> bool:
    """Let inference take a Slice of one place for a Gather, if nothing runs without a place."""
    data, start = operand(node, 0), operand(node, 1)
    rank, axes = folder.rank(data), constant_value(optional_operand(node, 3))
    is_alone = folder.dims(start) == (1,) and (axes is None or axes.size == 1)
    if proto.op_type == "Gather" or rank is None or not is_alone or not _takes_one(node, folder):
        return False
    axis = 0 if axes is None else int(axes.item()) % rank
    if not needs_one(folder, node.outputs[0], axis, rank):
        return False
    proto.domain, proto.op_type = "", "Gather"
    del proto.input[:]
    del proto.attribute[:]
    proto.input.extend([name_of(data), name_of(start)])
    proto.attribute.append(onnx.helper.make_attribute("axis", axis))
    return True


def _takes_one(node: ir.Node, folder: Folder) -> bool:
    """Whether a Slice of one axis takes one place at most."""
    steps = optional_operand(node, 4)
    step = 1 if steps is None else folder.integer(steps)
    if step is None or step >= FAR:
        return step is not None
    start, end = (folder.number(v) for v in node.inputs[1:3])
    return step == 1 and start is not None and end is not None and (end - start).number == 1


def _bounds(node: ir.Node) -> Iterator[ir.Value]:
    return (v for v in node.inputs[1:] if v is not None)
