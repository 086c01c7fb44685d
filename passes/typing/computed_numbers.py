"""Numbers that follow from known dimensions, which ONNX's inference does not compute.

It adds and multiplies dimensions, but divides and chooses none, and it reads bounds and shapes
from such sums only: ``x[:, : x.shape[1] // 2]`` would have an unknown number of columns, and
``k.expand(3, 1, 1, 5)``, for which PyTorch writes a Where, no known dimension. Of a Slice from
``p`` to ``p + 1`` whose axis a Squeeze removes it does not see that it has one place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import onnx
import onnx_ir as ir

from passes.folding import Folder
from passes.graph.graphs import constant_value, is_operator, name_of
from passes.graph.made import operands, optional_operand
from passes.typing.corrections import is_whole
from passes.typing.inference import subgraph_pairs
from passes.typing.needed_places import show_one_place
from passes.typing.shape_functions import stand_in_cut, stand_in_shaped
from passes.typing.value_types import Typing

__all__ = ["COMPUTED", "show_computed"]

_BY_NUMBERS = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Slice": 1, "Tile": 1}
"""The operand from which on an operator reads the numbers that its shape follows from."""

COMPUTED = ("Div", "Mod", "Pad", *_BY_NUMBERS)
"""Operators whose numbers, or whose bounds or shapes, inference does not compute."""


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
        elif is_operator(node, tuple(_BY_NUMBERS)) and _is_open(node, folder):
            if node.op_type == "Slice" and show_one_place(node, node_proto, folder):
                found = True
            elif node_proto.op_type != "Gather":
                found |= _show_operands(node, node_proto, proto, folder) or _show_rank(
                    node, node_proto, folder
                )
        elif is_operator(node, "Pad") and len(node.inputs) > 1 and _is_open(node, folder):
            found |= _show_amounts(node, node_proto, proto, folder)
    return found


def _is_open(node: ir.Node, folder: Folder) -> bool:
    """Whether a node may have more dimensions than inference has found."""
    if node.op_type == "Slice":
        return len(node.inputs) > 2 and not is_whole(node)
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


def _show_rank(node: ir.Node, proto: onnx.NodeProto, folder: Folder) -> bool:
    """Let inference know how many axes a Reshape makes, and those whose sizes are known.

    Below opset 13 it follows no number through an Unsqueeze, as exporters put shapes together. It
    cancels no unknown dimension either: ``[1, L, 32]`` that becomes ``[1, L, -1, 8]`` has 4 heads.
    """
    if node.op_type != "Reshape" or proto.domain:
        return False
    found = _reshaped(node, folder)
    dims = folder.dims(node.outputs[0])
    if found is None:
        found = _counted(node, folder) if dims is None else None
    elif dims is not None and isinstance(dims[found.open], int):
        return False
    if found is None or not found.sizes:
        return False
    stand_in_shaped(proto, found.sizes, found.axes)
    return True


@dataclasses.dataclass(frozen=True)
class _Reshaped:
    """What is known of the dimensions that a Reshape makes.

    Attributes:
        sizes: Each dimension, None where it is not known.
        axes: The axis of the data of the same size, None where there is none.
        open: Which takes what the others leave.
    """

    sizes: Sequence[int | None]
    axes: Sequence[int | None]
    open: int = 0


def _counted(node: ir.Node, folder: Folder) -> _Reshaped:
    """Return how many dimensions are asked for, and their numbers where they are constants."""
    numbers, counted = folder.of(node.inputs[1]), folder.dims(node.inputs[1])
    sizes = [n.number for n in numbers or ()]
    if numbers is None:
        count = counted[0] if counted is not None and len(counted) == 1 else None
        sizes = [None] * count if isinstance(count, int) else []
    return _Reshaped([n if n is not None and n > 0 else None for n in sizes], [None] * len(sizes))


def _reshaped(node: ir.Node, folder: Folder) -> _Reshaped | None:
    """Return the dimensions where what the others leave is a number; None where it is not."""
    data, numbers = operands(node)[0], folder.of(node.inputs[1])
    rank = folder.rank(data)
    sides = [folder.dimension(data, axis) for axis in range(rank or 0)]
    opened = [at for at, n in enumerate(numbers or ()) if n.number == -1]
    if rank is None or numbers is None or len(opened) != 1 or any(n.number == 0 for n in numbers):
        return None
    left = {axis: side for axis, side in enumerate(sides) if side is None or side.number is None}
    axes: list[int | None] = [None] * len(numbers)
    for at, number in enumerate(numbers):
        if number.number is None:
            axis = next((axis for axis, side in left.items() if side == number), None)
            if axis is None:
                return None
            axes[at] = axis
            del left[axis]
    total = math.prod(
        side.number for side in sides if side is not None and side.number is not None
    )
    by = math.prod(n.number for n in numbers if n.number not in (None, -1))
    if left or not by or total % by:
        return None
    sizes = [n.number for n in numbers]
    sizes[opened[0]] = total // by
    return _Reshaped(sizes, axes, opened[0])


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
