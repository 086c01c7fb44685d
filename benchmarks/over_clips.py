"""A model that is applied to each element of a list: the model as the body of a SequenceMap."""

from __future__ import annotations

import onnx
from onnx import helper

__all__ = ["over_clips"]

_OPSET = 17
"""The first one that has SequenceMap."""


def over_clips(given: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Map a model over one of its inputs, for one clip at a time.

    Args:
        given: The model. What it takes besides is the same for all clips.
        name: The input. The new model takes ``name_seq``, a list of unknown shapes.
    """
    body = onnx.GraphProto()
    body.CopyFrom(given.graph)
    inputs = list(body.input)
    del body.input[:]
    body.input.extend(value for value in inputs if value.name == name)
    shared = [_of_one_clip(value) for value in inputs if value.name != name]
    outputs = [_list_of(value) for value in body.output]
    node = helper.make_node(
        "SequenceMap",
        [f"{name}_seq"],
        [value.name for value in outputs],
        name="SequenceMap_0",
        body=body,
    )
    graph = helper.make_graph([node], f"{name}_clips", [_list_of(body.input[0]), *shared], outputs)
    opset = max(_OPSET, *(entry.version for entry in given.opset_import if not entry.domain))
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=given.ir_version
    )


def _list_of(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    element = helper.make_tensor_type_proto(value.type.tensor_type.elem_type, None)
    return helper.make_value_info(f"{value.name}_seq", helper.make_sequence_type_proto(element))


def _of_one_clip(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param:
            dim.dim_value = 1
    return value
