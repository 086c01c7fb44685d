"""Writes sums of lengths and dimensions as nodes.

``2 * length + 1`` of packed samples becomes ``Add(Mul(lengths, [2]), [1])``, one number a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.operators import Operators
from passes.graph.graphs import name_of
from passes.numbers.integers import (
    Atom,
    Dim,
    Entry,
    Greatest,
    IterationNumber,
    Least,
    Linear,
    Scalar,
)

__all__ = ["Held", "write_number"]

Held: TypeAlias = Callable[[ir.Value], Batched | None]
"""How a value of the body is held; None if it is not known."""


def write_number(
    ops: Operators, number: Linear, held: Held, index: ir.Value | None = None
) -> ir.Value:
    """Record a sum: int64 ``[1]`` if all samples share it, else ``[1]`` or ``[B]``.

    Args:
        ops: Records the nodes.
        number: A sum of what can be read outside of loops.
        held: How a value of the body is held.
        index: The input of the body that is the number of the sample, if there is one.
    """
    terms = sorted(number.terms, key=_order_of_term)
    written = ((_write_atom(ops, atom, held, index), count) for atom, count in terms)
    return ops.builder.weighted_sum(written, number.constant)


def _write_atom(ops: Operators, atom: Atom, held: Held, index: ir.Value | None) -> ir.Value:
    if isinstance(atom, Least | Greatest):
        members = [write_number(ops, m, held, index) for m in sorted(atom.members, key=_order)]
        return ops.op("Min" if isinstance(atom, Least) else "Max", members)
    if isinstance(atom, Dim) and isinstance(atom.key, Lengths):
        return atom.key.value
    value = atom.tensor if isinstance(atom, Dim) else None
    value = atom.vector if isinstance(atom, Entry) else value
    value = atom.value if isinstance(atom, Scalar) else value
    value = index if isinstance(atom, IterationNumber) else value
    x = None if value is None else held(value)
    assert x is not None
    if isinstance(atom, Dim):
        axis = atom.axis + x.is_stacked if x.flat is None else x.flat.place_beside(atom.axis)
        assert axis is not None
        return ops.shape(x.value, axis, axis + 1)
    if isinstance(atom, Entry):
        position = write_number(ops, atom.position, held, index)
        entry = ops.op("Gather", [x.value, position], {"axis": int(x.is_stacked)})
        return _as_vector(ops, x, entry, of_each=not x.is_stacked)
    return _as_vector(ops, x, x.value)


def _as_vector(ops: Operators, x: Batched, number: ir.Value, *, of_each: bool = False) -> ir.Value:
    """Return numbers as an int64 vector, the entries of a vector as they are."""
    if x.is_stacked:
        number = ops.op("Reshape", [number, ops.ints(-1)])
    elif not of_each and x.type.dims != (1,):
        number = ops.op("Reshape", [number, ops.ints(1)])
    if x.dtype == ir.DataType.INT64:
        return number
    return ops.op("Cast", [number], {"to": ir.DataType.INT64})


def _order(number: Linear) -> str:
    """Return what sums are sorted by: sets have another order in each process."""
    return " ".join([str(number.constant), *sorted(map(_order_of_term, number.terms))])


def _order_of_term(term: tuple[Atom, int]) -> str:
    atom, count = term
    if isinstance(atom, Least | Greatest):
        inner = ", ".join(sorted(map(_order, atom.members)))
    elif isinstance(atom, Dim):
        inner = f"{atom.tensor.name} {atom.axis}"
    elif isinstance(atom, Entry):
        inner = f"{atom.vector.name} {_order(atom.position)}"
    else:
        inner = name_of(atom.value) if isinstance(atom, Scalar) else ""
    return f"{count} {type(atom).__name__} ({inner})"
