"""Integers of an iteration that are sums of dimensions around it and of its own number.

PaddlePaddle computes ``i + 1`` in floats, and ``Shape(x[:, i:i + 1])`` is ``[d, 1]`` in every
iteration, which no type tells. They are written from what they are sums of.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import INTEGERS, Numbers
from passes.numbers.integers import ITERATION, Dim, IterationNumber, Linear
from passes.numbers.written_numbers import write_number

__all__ = ["is_around", "write_at", "write_known"]

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})


def write_known(
    builder: Builder, node: ir.Node, index: ir.Value, evaluator: Evaluator
) -> ir.Value | None:
    """Record the integers that a node cuts off floats, or the shape that no type tells.

    Args:
        builder: Writes the body.
        node: A node of the Loop or Scan.
        index: The number of the iteration.
        evaluator: Knows the numbers of the body.

    Returns:
        The integers; None where they are not known, or where the node is no such node.
    """
    if not _is_cut_off(node, evaluator) and not _is_untold(node, evaluator):
        return None
    output = node.outputs[0]
    numbers, rank, dtype = evaluator.of(output), evaluator.rank(output), evaluator.dtype(output)
    if not numbers or dtype is None or rank not in (0, 1) or not is_around(numbers, evaluator):
        return None
    parts = [write_at(builder, number, index) for number in numbers]
    made = parts[0] if len(parts) == 1 else builder.op("Concat", parts, {"axis": 0})
    if dtype != ir.DataType.INT64:
        made = builder.op("Cast", [made], {"to": int(dtype)})
    return made if rank else builder.op("Reshape", [made, builder.ints()])


def _is_cut_off(node: ir.Node, evaluator: Evaluator) -> bool:
    """Whether a node makes integers of floats."""
    return (
        is_operator(node, "Cast")
        and evaluator.dtype(operand(node, 0)) in _FLOATS
        and evaluator.dtype(node.outputs[0]) in INTEGERS
    )


def _is_untold(node: ir.Node, evaluator: Evaluator) -> bool:
    """Whether a node asks for a shape with a number that no type tells."""
    if not is_operator(node, "Shape") or not evaluator.is_inside(operand(node, 0)):
        return False
    dims, numbers = evaluator.dims(operand(node, 0)), evaluator.of(node.outputs[0])
    if dims is None or numbers is None or len(dims) != len(numbers):
        return False
    return any(
        n.number is not None and not isinstance(d, int) for n, d in zip(numbers, dims, strict=True)
    )


def is_around(numbers: Numbers, evaluator: Evaluator) -> bool:
    """Whether numbers are sums of the iteration's own and of dimensions around it."""
    atoms = {atom for number in numbers for atom in number.atoms()}
    return all(
        isinstance(atom, IterationNumber)
        or (isinstance(atom, Dim) and not evaluator.is_inside(atom.tensor))
        for atom in atoms
    )


def write_at(builder: Builder, number: Linear, index: ir.Value) -> ir.Value:
    """Record a number of an iteration as a vector ``[1]``.

    Args:
        builder: Writes the body.
        number: The number; `is_around` holds of it.
        index: The number of the iteration.
    """
    step, first = number.coefficient(ITERATION), number.without(ITERATION)
    if not step:
        return write_number(builder, first)
    counted = index if step == 1 else builder.op("Mul", [index, builder.scalar(step)])
    return builder.op("Add", [counted, write_number(builder, first)])
