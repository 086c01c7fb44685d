"""Axes that must have size 1, or the graph fails: a Squeeze or a Reshape behind them removes them.

Of ``Squeeze(Resize(x[p : p + 1]), [0])`` there is no result if there is no place ``p``.
"""

from __future__ import annotations

import math

import onnx
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator, name_of
from passes.graph.made import axes_of, operand, operands, optional_operand
from passes.graph.whole_slices import constant_entries
from passes.numbers.folding import Folder
from passes.numbers.integer_reads import FAR, NumberReader
from passes.numbers.integers import Linear
from passes.numbers.made_sizes import made_size
from passes.numbers.slice_bounds import cut_of
from passes.typing.value_types import Typing

__all__ = ["may_lack_place", "needs_one", "show_places"]

_ROW_BY_ROW = frozenset(
    {"Abs", "Add", "Cast", "Clip", "Div", "Exp", "Identity", "Mul", "Neg", "Relu", "Sigmoid"}
    | {"Sqrt", "Sub", "Tanh"}
)
"""Operators that keep all axes of their first operand beside single numbers."""


def needs_one(reader: NumberReader, value: ir.Value, axis: int, rank: int) -> bool:
    """Whether a graph fails in which an axis of a value has size 0, and not 1.

    What only reads it where a branch is taken does not count.

    Args:
        reader: Knows ranks and dimensions.
        value: The value.
        axis: The axis, from 0.
        rank: How many axes it has.
    """
    made, waiting, seen = value.producer(), [(value, axis)], {value}
    while waiting:
        held, at = waiting.pop()
        for node, position in held.uses():
            if made is None or node.graph is not made.graph or position:
                continue
            if _is_read(node) and _removes(reader, node, at, rank):
                return True
            kept = _kept(reader, node, at, rank)
            if kept is not None and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                waiting.append((node.outputs[0], kept))
    return False


def _is_read(node: ir.Node) -> bool:
    return any(value.uses() or value.is_graph_output() for value in node.outputs)


def _removes(reader: NumberReader, node: ir.Node, axis: int, rank: int) -> bool:
    """Whether a node takes an axis of size 1 only: a Squeeze, or a Reshape to all others."""
    if is_operator(node, "Squeeze"):
        return axis in [a % rank for a in axes_of(node) or ()]
    target = constant_value(node.inputs[1]) if is_operator(node, "Reshape") else None
    dims = reader.dims(operand(node, 0))
    if target is None or dims is None or not (target > 0).all():
        return False
    others = [dim for at, dim in enumerate(dims) if at != axis]
    sizes = [dim for dim in others if isinstance(dim, int)]
    return len(sizes) == len(others) and math.prod(sizes) == math.prod(target.tolist())


def _kept(reader: NumberReader, node: ir.Node, axis: int, rank: int) -> int | None:
    """Return where a node has an axis that is empty if one of its first operand is, if anywhere.

    A Resize makes nothing of nothing, or fails.
    """
    if is_operator(node, "Transpose"):
        return list(node.attributes.get_ints("perm", range(rank)[::-1])).index(axis)
    if is_operator(node, "Resize"):
        return axis
    if not is_operator(node, _ROW_BY_ROW):
        return None
    return axis if all(reader.rank(other) == 0 for other in operands(node)[1:]) else None


def show_places(
    node: ir.Node, proto: onnx.NodeProto, graph: onnx.GraphProto, folder: Folder
) -> bool:
    """Let inference take a Slice of so many places for a Gather.

    It is one place, if nothing runs without it, or a window that lies within the data.
    """
    if proto.op_type == "Gather":
        return False
    place = _place(node, folder)
    window = _window(node, folder) if place is None else (place[0], 1)
    if window is None:
        return False
    axis, size = window
    # A type alone: inference would follow the numbers of a shape to known places.
    places = onnx.helper.make_tensor_value_info(
        f"{name_of(node.outputs[0])}/places", onnx.TensorProto.INT64, [size]
    )
    graph.value_info.append(places)
    _as_gather(node, proto, places.name, axis)
    return True


def _as_gather(node: ir.Node, proto: onnx.NodeProto, places: str, axis: int) -> None:
    proto.domain, proto.op_type = "", "Gather"
    del proto.input[:]
    del proto.attribute[:]
    proto.input.extend([name_of(operand(node, 0)), places])
    proto.attribute.append(onnx.helper.make_attribute("axis", axis))


def _window(node: ir.Node, folder: Folder) -> tuple[int, int] | None:
    """Return along which axis a Slice cuts windows of one size in all iterations, and the size."""
    axes = constant_entries(optional_operand(node, 3))
    rank = folder.rank(operand(node, 0))
    if folder.last is None or axes is None or axes.size != 1 or not rank:
        return None
    axis = int(axes.item()) % rank
    dims = folder.dims(node.outputs[0])
    if dims is not None and isinstance(dims[axis], int):
        return None
    size = made_size(folder, node.outputs[0], axis)
    return None if size is None or size.number is None else (axis, size.number)


def may_lack_place(node: ir.Node, typing: Typing) -> bool:
    """Whether a Slice is typed as one place that it may lack, so that what reads it fails.

    Where a graph does not run, nothing that rests on the place may run in its stead.
    """
    folder = Folder(typing)
    place = _place(node, folder) if is_operator(node, "Slice") else None
    if place is None:
        return False
    axis, start = place
    size = (folder.dims(node.inputs[0]) or ())[axis]
    return not isinstance(size, int) or start is None or not 0 <= start < size


def _place(node: ir.Node, folder: Folder) -> tuple[int, int | None] | None:
    """Return the axis along which a Slice takes one place that the graph needs, and the place.

    The place is None where it is not known. Of other axes that it names, as JAX's exporter names
    all, it takes everything.
    """
    if len(node.inputs) < 3:
        return None
    data, start = operand(node, 0), operand(node, 1)
    rank, axes = folder.rank(data), constant_value(optional_operand(node, 3))
    if not rank:  # ONNX refuses a Slice of a scalar, if it runs
        return None
    if folder.dims(start) == (1,) and (axes is None or axes.size == 1):
        axis = 0 if axes is None else int(axes.item()) % rank
        takes_one, place = _takes_one(node, folder), folder.integer(start)
    else:
        cut = cut_of(node, folder)
        if cut is None or cut.is_whole or cut.step != Linear(1):
            return None
        axis = cut.axis % rank
        takes_one, place = (cut.end - cut.start).number == 1, cut.start.number
    if not takes_one or not needs_one(folder, node.outputs[0], axis, rank):
        return None
    return axis, place


def _takes_one(node: ir.Node, folder: Folder) -> bool:
    """Whether a Slice of one axis takes one place at most."""
    steps = optional_operand(node, 4)
    step = 1 if steps is None else folder.integer(steps)
    if step is None or step >= FAR:
        return step is not None
    start, end = (folder.number(v) for v in node.inputs[1:3])
    return step == 1 and start is not None and end is not None and (end - start).number == 1
