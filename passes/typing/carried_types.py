"""Types of sequences that a Loop carries, which ONNX's inference takes for what they begin as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

__all__ = ["hide_first_elements"]


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
    return _hide(proto.graph, inferred.graph, {})


def _hide(
    graph: onnx.GraphProto, inferred: onnx.GraphProto, outer: Mapping[str, onnx.TypeProto]
) -> bool:
    own = (*inferred.value_info, *inferred.input, *inferred.output)
    types = {**outer, **{value.name: value.type for value in own}}
    found = False
    for node, typed in zip(graph.node, inferred.node, strict=True):
        for inner, typed_inner in zip(_graphs(node), _graphs(typed), strict=True):
            found |= _hide(inner, typed_inner, types)
        if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
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


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g


def _has_element_shape(type_: onnx.TypeProto) -> bool:
    return type_.HasField("sequence_type") and type_.sequence_type.elem_type.tensor_type.HasField(
        "shape"
    )
