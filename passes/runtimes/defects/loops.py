"""Loops, Scans and Ifs that runtimes get wrong, and what they read of the graphs around them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import skip_identities
from passes.graph.node_copies import copy_body
from passes.runtimes.beside import is_captured
from passes.runtimes.defects.reshapes import from_front
from passes.runtimes.types import Types

__all__ = [
    "along_the_first_axis",
    "before_the_casts",
    "expanded_to_its_shape",
    "is_along_another_axis",
    "is_cast_back_and_captured",
    "is_read_early",
    "lacks_condition",
    "made_constant",
    "reads_nothing",
    "with_condition",
    "with_made_beginnings",
    "with_made_constants",
    "yields_nothing",
]


def is_along_another_axis(node: ir.Node, types: Types) -> bool:
    """Whether what a Scan slices or stacks along a later axis may have no elements."""
    values = [node.inputs[place] for place, _, _ in _later_axes(node, "input", types)]
    values += [node.outputs[place] for place, _, _ in _later_axes(node, "output", types)]
    return any(value is not None and types.may_be_empty(value) for value in values)


def along_the_first_axis(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same along the first axis, between Transposes."""
    sources, results = (_later_axes(node, side, types) for side in ("input", "output"))
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


def _later_axes(node: ir.Node, side: str, types: Types) -> list[tuple[int, int, int]]:
    """Return position, axis and rank of each input, or output, that is cut along a later axis."""
    body, first = node.attributes["body"].as_graph(), len(node.inputs) - _scanned(node)
    values, parts = (node.inputs, body.inputs) if side == "input" else (node.outputs, body.outputs)
    found = []
    for place, axis in enumerate(node.attributes.get_ints(f"scan_{side}_axes", ()), first):
        value = values[place]
        assert value is not None
        rank, rank_of_part = types.rank(value), types.rank(parts[place])
        if rank is None and rank_of_part is not None:
            rank = rank_of_part + 1
        front = None if rank is None else from_front([axis], rank)
        if rank is not None and front is not None and front[0]:
            found.append((place, front[0], rank))
    return found


def _scanned(node: ir.Node) -> int:
    return node.attributes.get_int("num_scan_inputs", 0)


def _set_axes(scan: ir.Node, name: str, count: int, first: list[int]) -> None:
    """Let the first axis take the place of some of the axes that an attribute names."""
    axes = list(scan.attributes.get_ints(name, [0] * count))
    scan.attributes[name] = ir.AttrInt64s(
        name, [0 if i in first else a for i, a in enumerate(axes)]
    )


def lacks_condition(node: ir.Node, types: Types) -> bool:
    """Whether a Loop in a branch begins without a condition, and hands on what it is given."""
    if node.inputs[1] is not None:
        return False
    body = node.attributes["body"].as_graph()
    condition = body.outputs[0]
    return skip_identities(condition) is body.inputs[1] and types.is_in_branch(node)


def with_condition(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same Loop with a condition that is true, and stays so."""
    node.replace_input_with(1, builder.flag(True))
    return list(node.outputs)


def begins_with_nothing(node: ir.Node, types: Types) -> bool:
    """Whether a Loop carries what begins as a constant without elements."""
    return any(_is_nothing(value) for value in node.inputs[2:])


def _is_nothing(value: ir.Value | None) -> bool:
    known = constant_value(value)
    return known is not None and not known.size and known.dtype.kind in "biuf"


def with_made_beginnings(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same Loop, where a node makes what has no elements."""
    return _with_made(node, builder, range(2, len(node.inputs)))


def reads_nothing(node: ir.Node, types: Types) -> bool:
    """Whether a node reads a constant without elements as data."""
    return any(_is_nothing(node.inputs[at]) for at in _data_of(node))


def with_made_constants(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same node, where another one makes what has no elements."""
    return _with_made(node, builder, _data_of(node))


def _data_of(node: ir.Node) -> range:
    """Return which operands are no shapes, axes or positions."""
    return range(len(node.inputs) if node.op_type in ("Concat", "Where") else 1)


def _with_made(node: ir.Node, builder: Builder, places: range) -> list[ir.Value]:
    for at in places:
        value = node.inputs[at]
        if value is not None and _is_nothing(value):
            node.replace_input_with(at, _made(builder, value))
    return list(node.outputs)


def _made(builder: Builder, nothing: ir.Value) -> ir.Value:
    known = constant_value(nothing)
    assert known is not None
    zero = {"value": ir.tensor(np.zeros(1, known.dtype))}
    return builder.op("ConstantOfShape", [builder.ints(*known.shape)], zero)


def yields_nothing(node: ir.Node, types: Types) -> bool:
    """Whether a graph yields a constant without elements."""
    return node.outputs[0].is_graph_output() and _is_nothing(node.outputs[0])


def made_constant(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same, made by a node."""
    return [_made(builder, node.outputs[0])]


_WAITS = ("Expand", "Shape")
"""Operators that read an If's output in time, each as the form of the row has it."""


def is_read_early(node: ir.Node, types: Types) -> bool:
    """Whether other nodes read what an If yields.

    OpenVINO prepares the nodes that follow before the If has told the shapes of its outputs. What
    they compute is not defined whenever a shape is larger than all before it.
    """
    if not all(types.is_tensor(out) for out in node.outputs):
        return False
    readers = (use.node for out in node.outputs for use in out.uses())
    return any(reader.op_type not in _WAITS for reader in readers)


def expanded_to_its_shape(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """Each output that is read expanded to the shape that it has: OpenVINO has to wait for it."""
    return [
        builder.op("Expand", [out, builder.op("Shape", [out])]) if out.uses() else out
        for out in node.outputs
    ]


_CASTS = ("Cast", "CastLike")


def is_cast_back_and_captured(node: ir.Node, types: Types) -> bool:
    """Whether a value is cast to a wider type and back, and a graph inside of a node reads it.

    onnxruntime drops both casts and does not tell the readers inside of If, Loop and Scan.
    """
    return is_captured(node) and _source(node, types) is not None


def before_the_casts(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The value before both casts, which it equals."""
    source = _source(node, types)
    return None if source is None else [source]


def _source(node: ir.Node, types: Types) -> ir.Value | None:
    """Return the value that casts to wider types, then to its own again, have not changed."""
    dtype = types.dtype(node.outputs[0])
    value, source = node.inputs[0], None
    is_wider = False
    while value is not None and dtype is not None:
        found = types.dtype(value)
        if found == dtype and is_wider:
            source = value
        elif found is not None and found != dtype and _holds(found, dtype):
            is_wider = True
        elif found != dtype:
            break
        producer = value.producer()
        if not is_operator(producer, (*_CASTS, "Identity")):
            break
        value = producer.inputs[0]
    return source


def _holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether a type has all numbers of another one."""
    if narrow == ir.DataType.BOOL:
        return wide.is_integer() or wide.is_floating_point()
    if narrow.is_floating_point():
        return _holds_float(wide, narrow)
    if not (narrow.is_integer() and wide.is_integer()):
        return False
    if wide.is_signed() == narrow.is_signed():
        return wide.itemsize >= narrow.itemsize
    return wide.is_signed() and wide.itemsize > narrow.itemsize


def _holds_float(wide: ir.DataType, narrow: ir.DataType) -> bool:
    order = [ir.DataType.FLOAT, ir.DataType.DOUBLE]
    if narrow in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return wide in order
    return narrow == ir.DataType.FLOAT and wide == ir.DataType.DOUBLE
