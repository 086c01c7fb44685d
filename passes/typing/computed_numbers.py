"""Numbers that follow from known dimensions, which ONNX's inference does not compute.

It adds and multiplies dimensions, but divides and chooses none, and it reads bounds and shapes
from such sums only: ``x[:, : x.shape[1] // 2]`` would have an unknown number of columns, and
``k.expand(3, 1, 1, 5)``, for which PyTorch writes a Where, no known dimension. Of a Slice from
``p`` to ``p + 1`` whose axis a Squeeze removes it does not see that it has one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator, name_of
from passes.graph.made import operands, optional_operand
from passes.graph.whole_slices import takes_all
from passes.numbers.folding import Folder
from passes.typing.made_shapes import MAKERS, show_made_shape
from passes.typing.needed_places import show_places
from passes.typing.protos import subgraph_pairs
from passes.typing.stand_ins import stand_in_cut

__all__ = ["COMPUTED", "show_computed"]

_BY_NUMBERS = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Slice": 1, "Tile": 1}
"""The operand from which on an operator reads the numbers that its shape follows from."""

COMPUTED = ("Div", "Mod", "Pad", *_BY_NUMBERS)
"""Operators whose numbers, or whose bounds or shapes, inference does not compute."""


def show_computed(graph: ir.Graph, proto: onnx.GraphProto, folder: Folder) -> bool:
    """Write numbers that follow from known dimensions as constants, for inference only.

    Args:
        graph: A graph.
        proto: The same for inference.
        folder: Knows what inference has found so far.

    Returns:
        Whether there was such a number, so that inference may find more.
    """
    found = False
    for node, node_proto in zip(graph, proto.node, strict=True):
        for inner, inner_proto in subgraph_pairs(node, node_proto):
            found |= show_computed(inner, inner_proto, folder)
        if is_operator(node, ("Div", "Mod")):
            found |= _show_quotient(node, node_proto, folder)
        elif is_operator(node, tuple(_BY_NUMBERS)) and _is_open(node, folder):
            if node.op_type == "Slice" and show_places(node, node_proto, proto, folder):
                found = True
            elif node_proto.op_type != "Gather":
                found |= _show_operands(node, node_proto, proto, folder) or show_made_shape(
                    node, node_proto, folder
                )
        elif is_operator(node, "Pad") and len(node.inputs) > 1 and _is_open(node, folder):
            found |= _show_amounts(node, node_proto, proto, folder)
    return found


def _is_open(node: ir.Node, folder: Folder) -> bool:
    """Whether a node may have more dimensions than inference has found."""
    if node.op_type == "Slice":
        return len(node.inputs) > 2 and not takes_all(node)
    dims = folder.dims(node.outputs[0])
    return dims is None or not all(isinstance(dim, int) for dim in dims)


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


def _show_operands(
    node: ir.Node, proto: onnx.NodeProto, graph: onnx.GraphProto, folder: Folder
) -> bool:
    """Let inference read the bounds or the shape of a node that are computed, and known."""
    if node.op_type in MAKERS and proto.domain:
        return False  # its shape is made already
    computed = [v for v in _numbers_of(node) if constant_value(v) is None]
    return _show_values(node, proto, graph, folder, computed)


def _show_values(
    node: ir.Node,
    proto: onnx.NodeProto,
    graph: onnx.GraphProto,
    folder: Folder,
    computed: Sequence[ir.Value],
) -> bool:
    """Let inference read constants in the place of operands, if all of them are known."""
    names = {name_of(v): f"{name_of(node.outputs[0])}/{name_of(v)}/known" for v in computed}
    if not computed or any(name in names.values() for name in proto.input):
        return False
    numbers = {name_of(v): folder.value(v) for v in computed}
    if any(x is None for x in numbers.values()):
        return False
    for name, number in numbers.items():
        assert number is not None
        graph.initializer.append(onnx.numpy_helper.from_array(number, names[name]))
    proto.domain, proto.op_type = "", node.op_type
    del proto.input[:]
    if node.op_type == "Slice":
        del proto.attribute[:]
    proto.input.extend("" if v is None else names.get(name_of(v), name_of(v)) for v in node.inputs)
    return True


def _show_amounts(
    node: ir.Node, proto: onnx.NodeProto, graph: onnx.GraphProto, folder: Folder
) -> bool:
    """Let inference know by how much a Pad pads, or along which axes it does not pad at all."""
    if proto.domain or constant_value(node.inputs[1]) is not None:
        return False
    if folder.value(node.inputs[1]) is not None:
        return _show_values(node, proto, graph, folder, operands(node)[1:2])
    numbers, axes = folder.of(node.inputs[1]), _axes_of_pad(node, folder)
    if numbers is None or axes is None or len(numbers) != 2 * len(axes):
        return False
    pairs = zip(numbers, numbers[len(axes) :], strict=False)
    padded = [a for a, pair in zip(axes, pairs, strict=False) if any(n.number != 0 for n in pair)]
    if not padded:
        return False
    stand_in_cut(proto, padded)
    return True


def _axes_of_pad(node: ir.Node, folder: Folder) -> list[int] | None:
    """Return the axes that a Pad has amounts for."""
    given, rank = optional_operand(node, 3), folder.rank(node.inputs[0])
    if given is not None:
        axes = constant_value(given)
        return None if axes is None else [int(axis) for axis in axes.reshape(-1)]
    return None if rank is None else list(range(rank))


def _numbers_of(node: ir.Node) -> Iterator[ir.Value]:
    return (v for v in node.inputs[_BY_NUMBERS[node.op_type] :] if v is not None)
