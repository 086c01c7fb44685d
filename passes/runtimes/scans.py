"""Scans along other axes than the first, at which onnxruntime divides by a size of 0."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.builder import Builder
from passes.node_copies import copy_body
from passes.runtimes.axes import from_front
from passes.runtimes.types import Types

__all__ = ["along_the_first_axis", "is_along_another_axis"]


def is_along_another_axis(node: ir.Node, types: Types) -> bool:
    """Whether what a Scan slices or stacks along a later axis may have no elements."""
    values = [node.inputs[place] for place, _, _ in _inputs(node, types)]
    values += [node.outputs[place] for place, _, _ in _outputs(node, types)]
    return any(value is not None and types.may_be_empty(value) for value in values)


def along_the_first_axis(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same along the first axis, between Transposes."""
    sources, results = list(_inputs(node, types)), list(_outputs(node, types))
    (scan,) = copy_body([node], {})
    for place, axis, rank in sources:
        order = [axis, *(i for i in range(rank) if i != axis)]
        turned = builder.op("Transpose", [node.inputs[place]], {"perm": order})
        scan.replace_input_with(place, turned)
    states = len(node.inputs) - _scanned(node)
    _set_axes(scan, "scan_input_axes", _scanned(node), [p - states for p, _, _ in sources])
    _set_axes(
        scan, "scan_output_axes", len(node.outputs) - states, [p - states for p, _, _ in results]
    )
    builder.nodes.append(scan)
    outputs = list(scan.outputs)
    for place, axis, rank in results:
        order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
        outputs[place] = builder.op("Transpose", [outputs[place]], {"perm": order})
    return outputs


def _inputs(node: ir.Node, types: Types) -> Iterator[tuple[int, int, int]]:
    """Yield position, axis and rank of each input that is sliced along a later axis."""
    first = len(node.inputs) - _scanned(node)
    for i, axis in enumerate(node.attributes.get_ints("scan_input_axes") or ()):
        value = node.inputs[first + i]
        yield from _later_axis(first + i, value, axis, types)


def _outputs(node: ir.Node, types: Types) -> Iterator[tuple[int, int, int]]:
    """Yield position, axis and rank of each output that is stacked along a later axis."""
    first = len(node.inputs) - _scanned(node)
    for i, axis in enumerate(node.attributes.get_ints("scan_output_axes") or ()):
        yield from _later_axis(first + i, node.outputs[first + i], axis, types)


def _later_axis(
    place: int, value: ir.Value | None, axis: int, types: Types
) -> Iterator[tuple[int, int, int]]:
    rank = None if value is None else types.rank(value)
    front = None if rank is None else from_front([axis], rank)
    if rank is not None and front is not None and front[0]:
        yield place, front[0], rank


def _scanned(node: ir.Node) -> int:
    return node.attributes.get_int("num_scan_inputs", 0) or 0


def _set_axes(scan: ir.Node, name: str, count: int, first: list[int]) -> None:
    """Let the first axis take the place of some of the axes that an attribute names."""
    axes = list(scan.attributes.get_ints(name) or [0] * count)
    scan.attributes[name] = ir.AttrInt64s(
        name, [0 if i in first else a for i, a in enumerate(axes)]
    )
