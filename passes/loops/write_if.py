"""Writes an If that yields the results of a map, and what they are without samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.loops.forms import dims_of_samples
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["Branch", "knows_no_samples", "more_than", "no_samples", "write_if"]

Branch = Callable[[Builder], Sequence[ir.Value]]
"""Writes a branch and returns the value of each result of a map."""


def more_than(builder: Builder, count: ir.Value, few: int) -> ir.Value:
    """Record whether there are more samples than few, which another form is faster for."""
    return builder.op("Greater", [count, builder.scalar(few)])


def write_if(
    builder: Builder,
    site: MapSite,
    typings: Typings,
    condition: ir.Value,
    write_then: Branch,
    write_else: Branch,
) -> Sequence[ir.Value]:
    """Record an If and return the value of each result of a map.

    Args:
        builder: Records the If.
        site: The map.
        typings: Both typings of the model.
        condition: A boolean scalar.
        write_then: Records the branch where it holds, and returns the value of each result.
        write_else: The same for the other branch.
    """
    graphs = {
        "then_branch": builder.subgraph("then", [], write_then),
        "else_branch": builder.subgraph("else", [], write_else),
    }
    node = builder.node("If", [condition], graphs, outputs=len(site.results))
    for values in (node.outputs, *(graph.outputs for graph in graphs.values())):
        for result, value in zip(site.results, values, strict=True):
            dtype = typings.declared.dtype(site.body.outputs[result.output])
            if dtype is not None:
                tensor = ir.TensorType(dtype)
                value.type = ir.SequenceType(tensor) if result.kind == "sequence" else tensor
    return node.outputs


def no_samples(builder: Builder, site: MapSite, typings: Typings) -> list[ir.Value]:
    """Return each result of no samples: an empty sequence, or zero rows of what is known."""
    return [_nothing(builder, site, result, typings) for result in site.results]


def knows_no_samples(site: MapSite, typings: Typings) -> bool:
    """Whether nothing that `no_samples` returns has a dimension that is not known."""
    tensors = [result for result in site.results if result.kind != "sequence"]
    return all(None not in _dims_of_none(site, one, typings) for one in tensors)


def _nothing(builder: Builder, site: MapSite, result: MapResult, typings: Typings) -> ir.Value:
    dtype = typings.declared.dtype(site.body.outputs[result.output]) or ir.DataType.FLOAT
    if result.kind == "sequence":
        return builder.op("SequenceEmpty", [], {"dtype": int(dtype)})
    dims = [dim or 0 for dim in _dims_of_none(site, result, typings)]
    array = np.empty(dims or [0], object if dtype == ir.DataType.STRING else dtype.numpy())
    return builder.constant(array)


def _dims_of_none(site: MapSite, result: MapResult, typings: Typings) -> list[int | None]:
    """Return the dimensions of a result of no samples, none where not even the rank is known."""
    known = dims_of_samples(site.body.outputs[result.output], [result], typings)
    dims = [d if isinstance(d, int) else None for d in known or ()]
    given = _declared_by_loop(site, result)
    if len(given) == len(dims):
        dims = [d if n is None else n for d, n in zip(dims, given, strict=True)]
    if result.kind == "stacked":
        axis = result.axis % (len(dims) + 1)
        dims.insert(axis, 0)
        declared = typings.declared.dims(result.value) or ()
        if len(declared) == len(dims):
            dims = [o if isinstance(o, int) else d for d, o in zip(dims, declared, strict=True)]
            dims[axis] = 0
    elif dims:
        dims[result.axis % len(dims)] = 0
    return dims if known is not None else [None]


def _declared_by_loop(site: MapSite, result: MapResult) -> list[int | None]:
    """Return what a Loop declares of one iteration: without any, that is what it yields."""
    values = [pair for one in site.originals for pair in one.values]
    loop_value = next((old for old, new in values if new is result.value), None)
    node = None if loop_value is None else loop_value.producer()
    if loop_value is None or node is None or not is_operator(node, "Loop"):
        return []
    place = node.outputs.index(loop_value) + 1  # behind the condition
    shape = node.attributes["body"].as_graph().outputs[place].shape
    return [d if isinstance(d, int) else None for d in shape or ()]
