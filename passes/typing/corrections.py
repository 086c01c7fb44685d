"""Corrects ONNX's inference: sequences that a Loop carries, whole slices, and counts."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence

import onnx
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import made_by, only_number, operand, shaped
from passes.graph.whole_slices import END, constant_entries
from passes.typing.protos import graphs_of, is_written, types_of

__all__ = [
    "asked_dimension",
    "axes_of_cut",
    "counted_axis",
    "hide_first_elements",
    "pass_whole",
]


def hide_first_elements(proto: onnx.ModelProto, inferred: onnx.ModelProto) -> bool:
    """Let Loops begin with sequences whose elements have no known shape.

    ONNX's inference gives what a Loop yields the element shape that the carried sequence begins
    with, whatever the body puts into it.

    Args:
        proto: The model; the sequences that its Loops read are renamed, for inference only.
        inferred: The same after inference.

    Returns:
        Whether there was such a sequence, so that inference has to be done again.
    """
    return _hide(proto.graph, inferred.graph, ChainMap())


def _hide(
    graph: onnx.GraphProto, inferred: onnx.GraphProto, outer: ChainMap[str, onnx.TypeProto]
) -> bool:
    types = outer.new_child(types_of(inferred))
    found = False
    for node, typed in zip(graph.node, inferred.node, strict=True):
        for inner, typed_inner in zip(graphs_of(node), graphs_of(typed), strict=True):
            found |= _hide(inner, typed_inner, types)
        if not is_written(node, {"Loop"}):
            continue
        for position, name in enumerate(node.input):
            type_ = types.get(name)
            if position < 2 or type_ is None or not _has_element_shape(type_):
                continue
            hidden = graph.value_info.add(name=f"{node.output[position - 2]}/first")
            hidden.type.CopyFrom(type_)
            hidden.type.sequence_type.elem_type.tensor_type.ClearField("shape")
            node.input[position] = hidden.name
            found = True
    return found


def _has_element_shape(type_: onnx.TypeProto) -> bool:
    return type_.HasField("sequence_type") and type_.sequence_type.elem_type.tensor_type.HasField(
        "shape"
    )


def axes_of_cut(node: ir.Node) -> Sequence[int] | None:
    """Return the axes that a Slice or crop by unknown bounds names, None for all else.

    ONNX's inference knows no dimension of its result then, and of a crop not even the rank. A
    Slice that names no axes cuts the first ones: of such a one none are returned.
    """
    if is_operator(node, "CenterCropPad"):
        is_inferred = constant_value(node.inputs[1]) is not None
        return None if is_inferred else node.attributes.get_ints("axes", None)
    if not is_operator(node, "Slice") or len(node.inputs) < 3:
        return None
    given = [value for value in node.inputs[1:4] if value is not None]
    if all(constant_value(value) is not None for value in given):
        return None
    if len(given) < 3:
        return []
    axes = constant_entries(given[2])
    return None if axes is None or not axes.size else [int(axis) for axis in axes.reshape(-1)]


def counted_axis(node: ir.Node) -> tuple[ir.Value, int] | None:
    """Return the dimension up to which a Range counts from 0, as its tensor and its axis.

    ONNX's inference gives the result a dimension of a new name.
    """
    if not is_operator(node, "Range") or len(node.inputs) != 3:
        return None
    start, step = (constant_entries(node.inputs[at]) for at in (0, 2))
    if start is None or step is None or start.any() or not (step == 1).all():
        return None
    return asked_dimension(node.inputs[1])


_BOUNDS = 2
_WHOLE_TYPES = frozenset({int(ir.DataType.INT32), int(ir.DataType.INT64)})


def asked_dimension(value: ir.Value | None) -> tuple[ir.Value, int] | None:
    """Return the dimension that one number is, as its tensor and its axis."""
    while (around := made_by(value, "Reshape", "Squeeze", "Unsqueeze", "Cast")) is not None:
        if around.op_type == "Cast" and around.attributes.get_int("to", 0) not in _WHOLE_TYPES:
            return None
        value = operand(around, 0)
    node = made_by(value, "Shape", "Gather", "Slice")
    if node is None:
        return None
    if node.op_type == "Shape":
        start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end")
        return (operand(node, 0), start) if _is_one(start, end) else None
    whole = shaped(node.inputs[0])
    at = _start_of_one(node) if node.op_type == "Slice" else only_number(operand(node, 1))
    return None if at is None or whole is None else (whole, int(at))


def _is_one(start: int, end: int | None) -> bool:
    """Whether there is one place from a start to an end."""
    return start == -1 if end is None else start == end - 1 != -1


def _start_of_one(node: ir.Node) -> int | None:
    """Return where a Slice of a vector begins that takes one number, None for any other."""
    bounds = [constant_entries(value) for value in node.inputs[1:]]
    numbers = [one.item() for one in bounds if one is not None and one.size == 1]
    if len(numbers) != len(bounds) or len(numbers) < _BOUNDS:
        return None
    start, end, *rest = numbers
    is_plain = rest in ([], [0], [0, 1])
    return start if is_plain and _is_one(start, None if end >= END else end) else None


def pass_whole(proto: onnx.NodeProto) -> None:
    """Let inference take a node for one that hands its first input on."""
    proto.op_type = "Identity"
    del proto.input[1:]
    del proto.attribute[:]
