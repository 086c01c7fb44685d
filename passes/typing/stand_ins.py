"""Nodes that stand in for those that ONNX's inference knows too little of, with shapes of ours.

For inference only, such a node becomes an operator of `passes.typing.shape_functions`; what is
known of its operands goes into attributes.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from passes.typing.shape_functions import DOMAIN, stand_in_typed

__all__ = [
    "stand_in_contracted",
    "stand_in_counted",
    "stand_in_cut",
    "stand_in_framed",
    "stand_in_pooled",
    "stand_in_resized",
    "stand_in_shaped",
    "stand_in_sorted",
]


def stand_in_cut(node: onnx.NodeProto, axes: Iterable[int]) -> None:
    """Let inference keep the axes of a Slice or crop that it does not name.

    Args:
        node: A node whose bounds are not known.
        axes: The axes that it names; none where it cuts as many of the first ones as it has
            bounds.
    """
    named = [int(axis) for axis in axes]
    del node.input[1 if named else 2 :]
    del node.attribute[:]
    if named:
        node.attribute.append(onnx.helper.make_attribute("axes", named))
    node.domain, node.op_type = DOMAIN, "Cut"
    stand_in_typed(node)


def stand_in_contracted(node: onnx.NodeProto) -> None:
    """Let inference spread the axes of size 1 of the operands of an Einsum."""
    node.domain, node.op_type = DOMAIN, "Contracted"
    stand_in_typed(node)


def stand_in_counted(node: onnx.NodeProto, tensor: str, axis: int) -> None:
    """Let inference know how many numbers a Range counts.

    Args:
        node: A Range from 0 to a dimension in steps of 1.
        tensor: The tensor that has the dimension.
        axis: Which it is.
    """
    del node.input[1:]
    node.input.append(tensor)
    del node.attribute[:]
    node.attribute.append(onnx.helper.make_attribute("axis", axis))
    node.domain, node.op_type = DOMAIN, "Counted"
    stand_in_typed(node)


def stand_in_framed(node: onnx.NodeProto, step: int | None, size: int | None) -> None:
    """Let inference know the frames and frequencies of an STFT.

    Args:
        node: The STFT.
        step: From one frame to the next, None if unknown.
        size: How long a frame is, None if unknown.
    """
    del node.input[1:]
    for name, number in (("step", step), ("size", size)):
        if number is not None:
            node.attribute.append(onnx.helper.make_attribute(name, number))
    node.domain, node.op_type = DOMAIN, "Framed"
    stand_in_typed(node)


def stand_in_pooled(node: onnx.NodeProto) -> None:
    """Let inference count the windows of a pool that rounds up as runtimes do."""
    node.domain, node.op_type = DOMAIN, "Pooled"
    stand_in_typed(node)


def stand_in_resized(node: onnx.NodeProto, scales: Iterable[float]) -> None:
    """Let inference name no size of a Resize on which runtimes do not agree.

    Args:
        node: A Resize by scales.
        scales: How many times as large each of its axes becomes.
    """
    del node.input[1:]
    node.attribute.append(onnx.helper.make_attribute("scales", [float(s) for s in scales]))
    node.domain, node.op_type = DOMAIN, "Resized"
    stand_in_typed(node)


def stand_in_shaped(
    node: onnx.NodeProto, dims: Iterable[int | None], places: Iterable[tuple[str, int] | None]
) -> None:
    """Let inference know some of the dimensions that a node makes.

    Args:
        node: A ConstantOfShape, an Expand or a Reshape.
        dims: Its dimensions, None for one that is not a known number.
        places: For each a tensor and the axis of it of the same size, None where none is known.
    """
    found = list(places)
    tensors = list(dict.fromkeys(place[0] for place in found if place is not None))
    filled = [_filled_type(node)] if node.op_type == "ConstantOfShape" else []
    numbers = {
        "elem_types": filled,
        "sizes": [-1 if number is None else number for number in dims],
        "axes": [-1 if place is None else place[1] for place in found],
        "tensors": [-1 if place is None else 1 + tensors.index(place[0]) for place in found],
    }
    del node.attribute[:]
    for name, known in numbers.items():
        if known:
            node.attribute.append(onnx.helper.make_attribute(name, known))
    node.input[1:] = tensors
    node.domain, node.op_type = DOMAIN, "Shaped"
    stand_in_typed(node)


def _filled_type(node: onnx.NodeProto) -> int:
    """Return the element type that a ConstantOfShape gives."""
    value = next((one.t for one in node.attribute if one.name == "value"), None)
    return onnx.TensorProto.FLOAT if value is None else value.data_type


def stand_in_sorted(node: onnx.NodeProto) -> None:
    """Let inference keep the axes of a TopK along which it picks none.

    Args:
        node: A TopK of a number that is not known.
    """
    node.domain, node.op_type = DOMAIN, "Sorted"
    stand_in_typed(node)
