"""Copies the nodes of one iteration, and leaves out what need not be computed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_default_domain, is_operator, subgraphs, walk_nodes
from passes.graph.if_outputs import drop_unread, with_outputs
from passes.graph.made import operand
from passes.graph.node_copies import copy_node, rank_alone
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import FAR, INTEGERS

__all__ = [
    "become_constant",
    "by_type",
    "constant_of",
    "copy_into",
    "ends_far",
    "is_same_work",
    "passed_on",
    "write_range",
]


def copy_into(
    builder: Builder,
    node: ir.Node,
    values: dict[ir.Value, ir.Value | None],
    evaluator: Evaluator,
    needed: Collection[ir.Value | ir.Node] | None = None,
) -> None:
    """Record a copy of a node that declares no types: they are inferred anew.

    A CastLike becomes a Cast. A Slice of the first axis says so in the copy: the dimensions of
    the others are known then.
    What a Scan yields keeps its rank, without which onnxruntime refuses the Scan. A number inside
    of it that is known becomes a constant, which the axes of a Slice have to be.

    Args:
        builder: Records it.
        node: The node.
        values: What values became in the copy; it gains the outputs.
        evaluator: Knows the numbers of the body.
        needed: The outputs of an If with several of them that the copy has; None for all.
    """
    kept = [at for at, v in enumerate(node.outputs) if needed is None or v in needed]
    is_part = is_operator(node, "If") and len(kept) < len(node.outputs)
    inside = dict(values) if is_part else values
    copied = copy_node(node, inside)
    ranks = [(v, v.type, rank_alone(v.shape)) for v in _yielded_by_scans(copied)]
    for old, new in zip(walk_nodes([node]), walk_nodes([copied]), strict=True):
        cast = by_type(old, evaluator)
        if cast is not None:
            new.op_type = "Cast"
            new.resize_inputs(1)
            new.attributes["to"] = ir.AttrInt64("to", int(cast[1]))
        for value in new.outputs:
            value.shape = None
        if not is_operator(old, "Slice") or len(old.inputs) != 3:
            continue
        numbers, dtype = evaluator.of(old.inputs[1]), evaluator.dtype(old.inputs[1])
        if numbers is not None and len(numbers) == 1 and dtype in INTEGERS:
            new.resize_inputs(4)
            new.replace_input_with(3, builder.constant(np.zeros(1, dtype.numpy())))
    for old, new in list(zip(walk_nodes([node]), walk_nodes([copied]), strict=True))[1:]:
        _fold(old, new, evaluator)
    for value, type_, shape in ranks:
        value.type, value.shape = type_, shape
    if is_part:
        copied = with_outputs(copied, kept)
        values |= {node.outputs[at]: v for at, v in zip(kept, copied.outputs, strict=True)}
    if is_operator(node, "If") and len(node.outputs) > 1:
        drop_unread(copied)
    builder.nodes.append(copied)


def by_type(node: ir.Node, evaluator: Evaluator) -> tuple[ir.Value, ir.DataType] | None:
    """Return what a CastLike casts and to which type, None if that is not known.

    onnxscript writes one around each number, often like a value that is carried.
    """
    if not is_operator(node, "CastLike"):
        return None
    dtypes = (evaluator.dtype(value) for value in (node.outputs[0], operand(node, 1)))
    dtype = next((found for found in dtypes if found is not None), None)  # a copy has no type yet
    return None if dtype is None else (operand(node, 0), dtype)


def _fold(old: ir.Node, new: ir.Node, evaluator: Evaluator) -> None:
    """Make a constant of the copy of a node if that is what the node computes."""
    is_read = is_default_domain(old) and bool(old.inputs) and len(old.outputs) == 1
    array = constant_of(old, evaluator) if is_read else None
    if array is not None and not any(True for _ in subgraphs(old)):
        become_constant(new, array)


def become_constant(node: ir.Node, array: np.ndarray) -> None:
    """Make a node of one output a Constant."""
    node.resize_inputs(0)
    node.attributes.clear()
    node.op_type = "Constant"
    node.attributes["value"] = ir.AttrTensor("value", ir.tensor(array))


def _yielded_by_scans(node: ir.Node) -> list[ir.Value]:
    scans = (inner for inner in walk_nodes([node]) if inner.op_type == "Scan")
    outputs = (value for scan in scans for _, body in subgraphs(scan) for value in body.outputs)
    return [value for value in outputs if value.producer() is not None]


_END = int(np.iinfo(np.int32).max)
"""Most exporters end a Slice that goes to the end here, or farther; TensorFlow's at 10^9."""


def passed_on(node: ir.Node, evaluator: Evaluator) -> ir.Value | None:
    """Return what a node passes on unchanged: Identity, a Slice that cuts nothing off, a check.

    TensorFlow's exporter writes such a Slice wherever the source says ``x[:]``, that of JAX and of
    PaddlePaddle a Where or Min wherever a position could be negative, or behind the end.
    """
    if is_operator(node, ("Where", "Min", "Max")):
        return _checked(node, evaluator)
    if not is_operator(node, ("Identity", "Slice")):
        return None
    whole = node.inputs[0]
    return whole if node.op_type == "Identity" or _cuts_nothing(node, evaluator) else None


def _checked(node: ir.Node, evaluator: Evaluator) -> ir.Value | None:
    """Return the operand whose numbers are those of the result in every iteration."""
    output = node.outputs[0]
    numbers, kind = evaluator.of(output), (evaluator.dtype(output), evaluator.dims(output))
    if numbers is None or None in kind:
        return None
    given = node.inputs[node.op_type == "Where" :]
    same = (v for v in given if (evaluator.dtype(v), evaluator.dims(v)) == kind)
    return next((v for v in same if evaluator.of(v) == numbers), None)


def ends_far(node: ir.Node, evaluator: Evaluator) -> bool:
    """Whether a Slice takes all of an axis only if no dimension is larger than 10^9."""
    if not is_operator(node, "Slice"):
        return False
    ends, dims = _numbers(node.inputs[2], evaluator), evaluator.dims(node.inputs[0])
    is_known = dims is not None and all(isinstance(dim, int) for dim in dims)
    return not is_known and any(FAR <= end < _END for end in ends or ())


def _cuts_nothing(node: ir.Node, evaluator: Evaluator) -> bool:
    dims = evaluator.dims(node.inputs[0])
    known = [_numbers(v, evaluator) for v in node.inputs[1:]]
    if not dims or len(known) < 2 or None in known:
        return False
    starts, ends, *more = (numbers or [] for numbers in known)
    axes = more[0] if more else range(len(starts))
    steps = more[1] if len(more) > 1 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=False):
        dim = dims[axis % len(dims)]
        least = dim if isinstance(dim, int) else FAR
        if start != 0 or step != 1 or end < least:
            return False
    return True


def constant_of(node: ir.Node, evaluator: Evaluator) -> np.ndarray | None:
    """Return the integers that a node computes in every iteration, if they are known."""
    output = node.outputs[0]
    dtype, rank = evaluator.dtype(output), evaluator.rank(output)
    if dtype not in INTEGERS or rank not in (0, 1) or len(node.outputs) > 1:
        return None
    numbers = _numbers(output, evaluator)
    if numbers is None or (rank == 0 and len(numbers) != 1):
        return None
    array = np.array(numbers, dtype.numpy())
    return array if rank else array.reshape(())


def write_range(
    builder: Builder, node: ir.Node, start: ir.Value, evaluator: Evaluator
) -> ir.Value | None:
    """Record the numbers of a Range as its first one and what is added to it, None if not known.

    Args:
        builder: Writes the body.
        node: A node.
        start: What stands for its first operand.
        evaluator: Knows the numbers of the body.
    """
    numbers = evaluator.of(node.outputs[0]) if is_operator(node, "Range") else None
    dtype = evaluator.dtype(node.outputs[0])
    if not numbers or dtype not in INTEGERS:
        return None
    steps = [(number - numbers[0]).number for number in numbers]
    return builder.op("Add", [start, builder.constant(np.array(steps, dtype.numpy()))])


def _numbers(value: ir.Value | None, evaluator: Evaluator) -> list[int] | None:
    """Return the integers that a value is in every iteration, if all are known."""
    found = evaluator.of(value)
    if found is None:
        return None
    numbers = [n.number for n in found if n.number is not None]
    return numbers if len(numbers) == len(found) else None


def is_same_work(one: ir.Node, other: ir.Node) -> bool:
    """Whether two nodes compute the same of the same operands."""
    if one.op_identifier() != other.op_identifier() or list(one.inputs) != list(other.inputs):
        return False
    return not any(True for _ in subgraphs(one)) and dict(one.attributes) == dict(other.attributes)
