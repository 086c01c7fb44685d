"""Writes a map as the specification of SequenceMap does."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder, tensor_value
from passes.graph.node_copies import copy_body
from passes.site import MapSite

__all__ = ["write_plain"]


def write_plain(builder: Builder, site: MapSite, dtypes: Sequence[ir.DataType]) -> list[ir.Value]:
    """Record a Loop that reads by SequenceAt, collects by SequenceInsert, and nothing else.

    Args:
        builder: Writes the graph that the map stands in.
        site: The map, read without its boundaries: all its sources are sequences.
        dtypes: The element type of each output of the body.

    Returns:
        The sequence of each output of the body.
    """
    sequences = site.sequences
    assert len(sequences) == len(site.elements)
    index = tensor_value("i", ir.DataType.INT64, [])
    condition = tensor_value("cond", ir.DataType.BOOL, [])
    types = [ir.SequenceType(ir.TensorType(dtype)) for dtype in dtypes]
    states = [ir.Value(name="collected", type=type_) for type_ in types]

    def write(inner: Builder) -> list[ir.Value]:
        goes_on = inner.op("Identity", [condition])
        goes_on.type, goes_on.shape = condition.type, condition.shape
        values: dict[ir.Value, ir.Value | None] = {}
        for value, sequence in sequences:
            values[value] = inner.op("SequenceAt", [sequence, index])
        for value, outer in site.shared:
            values[value] = inner.op("Identity", [outer])
        inner.nodes.extend(copy_body(site.body, values))
        outputs = [goes_on]
        for state, old in zip(states, site.body.outputs, strict=True):
            grown = inner.op("SequenceInsert", [state, values.get(old, old)])
            grown.type = state.type
            outputs.append(grown)
        return outputs

    body = builder.subgraph("samples", [index, condition, *states], write)
    count = builder.op("SequenceLength", [sequences[0][1]])
    empty = [builder.op("SequenceEmpty", [], {"dtype": int(dtype)}) for dtype in dtypes]
    for value, type_ in zip(empty, types, strict=True):
        value.type = type_
    loop = builder.node(
        "Loop", [count, builder.flag(True), *empty], {"body": body}, outputs=len(states)
    )
    for value, type_ in zip(loop.outputs, types, strict=True):
        value.type = type_
    return list(loop.outputs)
