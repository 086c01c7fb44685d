"""Lengths of samples and other integers of a body as sums, and which are the same for all.

Samples of lengths ``[2, 0, 3]`` that are padded by ``5 - length`` have ``length + (5 - length)``
rows: 5 each. So the result has one shape, though neither of its parts has.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import onnx_ir as ir

from passes.batching.chosen_numbers import cast_one_by_one, chosen_one_by_one
from passes.batching.counted_numbers import CountedNumbers
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.operators import Operators
from passes.batching.size_writes import write_number
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand
from passes.numbers.evaluate import Numbers
from passes.numbers.integer_reads import INTEGERS
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
from passes.numbers.last_iteration import maker
from passes.numbers.number_order import greatest, is_nonnegative, least
from passes.typing import Typing

__all__ = ["LengthKey", "SampleNumbers", "SizeReads", "difference", "sole_lengths"]

LengthKey: TypeAlias = ir.Value | Linear | tuple[Linear, ...]
"""The key of the lengths of samples: flags of rows, a sum, or sums."""

_MOST_ENTRIES = 64


class SizeReads(Protocol):
    """The walk over a body, as far as its numbers are read from it."""

    def held(self, value: ir.Value) -> Batched | None:
        """Return how a value of the body, or one around it, is held; None if it is not known."""

    def lengths_of(self, value: ir.Value) -> tuple[Lengths, int] | None:
        """Return the lengths of a packed value and their axis, None if it is not packed."""

    def lengths_named(self, dim: int | str | None) -> Lengths | None:
        """Return the lengths that a dimension of a sample stands for, None if for none."""

    def number_named(self, dim: int | str | None) -> int | None:
        """Return the number that a rule has proven of a symbol, None if none has."""


class SampleNumbers(CountedNumbers):
    """Reads small integer tensors of a body; the numbers of one sample are sums of atoms.

    A length of packed samples is an atom, or a sum of such (`Lengths.size`). So is a dimension
    of all samples, and a single number that nothing more is known of.
    """

    def __init__(self, typing: Typing, reads: SizeReads) -> None:
        """Set up the evaluator.

        Args:
            typing: The proven typing.
            reads: The walk over the body.
        """
        super().__init__(typing)
        self._reads = reads

    def is_inside(self, value: ir.Value) -> bool:
        """Whether a value may differ from sample to sample."""
        x = self._reads.held(value)
        return x is None or not x.is_shared

    def is_within(self, position: Linear, size: Linear) -> bool:
        """Never: nothing here is noted for later."""
        return False

    def notes_far(self) -> bool:
        """Never: nothing here is noted for later."""
        return False

    def is_followed_as_float(self, numbers: Numbers) -> bool:
        """Whether all are constants: a float32 would round a large length."""
        return all(n.number is not None for n in numbers)

    def _leaf(self, value: ir.Value) -> Numbers | None:
        """Return a constant, or what no node tells more of: a number, or entries of a vector."""
        found = super()._leaf(value)
        dims, dtype = self._proven.dims(value), self._proven.dtype(value)
        if found is not None or dims is None or len(dims) != 1 or dtype not in INTEGERS:
            return found
        (count,) = dims
        if not isinstance(count, int) or count > _MOST_ENTRIES:
            return None
        return tuple(Linear.of(Entry(value, Linear(i))) for i in range(count))

    def _compute(self, node: ir.Node) -> Numbers | None:
        found = super()._compute(node)
        if is_operator(node, "Where"):
            return chosen_one_by_one(self, node, found)
        if is_operator(node, "Cast"):
            return cast_one_by_one(self, node, found)
        return found

    def dimension(self, tensor: ir.Value, axis: int) -> Linear | None:
        """Return a dimension of one sample, None if nothing is known of it."""
        dims = self._proven.dims(tensor)
        if axis < 0 or dims is None or axis >= len(dims):
            return None
        dim, x = dims[axis], self._reads.held(tensor)
        number = dim if isinstance(dim, int) else self._reads.number_named(dim)
        packed = self._reads.lengths_of(tensor)
        if packed is not None and packed[1] == axis:
            return packed[0].size
        if x is not None and x.beside is not None and axis == len(dims) - 1:
            return x.beside.size
        if number is not None:
            return Linear(number)
        if x is not None and x.flat is not None and x.flat.place_beside(axis) is None:
            return x.flat.dimension(axis)
        named = self._reads.lengths_named(dim)
        if named is not None:
            return named.size
        if x is None or x.layout is Layout.PER_SAMPLE:
            return None
        filled = self._filled_shape(x.value) if x.is_shared else None
        if filled is not None and axis < len(filled):
            return filled[axis]
        first = self._first_rows(tensor, axis)
        if first is not None:
            return first
        key = dim if self._proven.is_same_number(dim) else (tensor, axis)
        return Linear.of(Dim(key, tensor, axis))

    def _filled_shape(self, value: ir.Value) -> Numbers | None:
        """Return the shape that a shared tensor is filled to, or counted up to, if it is known."""
        made = value.producer()
        if is_operator(made, "ConstantOfShape"):
            return self.of(made.inputs[0])
        limit = self.counted_to(value)
        return None if limit is None else (limit,)

    def counted_to(self, value: ir.Value) -> Linear | None:
        """Return up to which number, 0 or more, a tensor counts from 0; None if it does not."""
        made = value.producer()
        if not is_operator(made, "Range"):
            return None
        start, limit, step = (self.number(v) for v in made.inputs)
        if limit is None or (start, step) != (Linear(), Linear(1)):
            return None
        return limit if is_nonnegative(limit) else None

    def _first_rows(self, tensor: ir.Value, axis: int) -> Linear | None:
        """Return how many rows a Slice of the first few of a tensor has, None if it is none."""
        made = tensor.producer()
        if not is_operator(made, "Slice"):
            return None
        if len(made.inputs) != 4:
            return None
        found = [constant_value(v) for v in made.inputs[1:]]
        starts, ends, axes = ([] if v is None else v.reshape(-1).tolist() for v in found)
        size = self.dimension(operand(made, 0), axis)
        bounds = [(s, e) for s, e, a in zip(starts, ends, axes, strict=False) if a == axis]
        if size is None or len(bounds) != 1 or bounds[0][0] or bounds[0][1] < 0:
            return None
        return least([size, Linear(bounds[0][1])])

    def is_shared(self, number: Linear) -> bool:
        """Whether a number is proven to be the same for all samples."""
        return all(self._is_shared_atom(atom) for atom in number.atoms())

    def _is_shared_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Dim):
            if isinstance(atom.key, Lengths):
                return False
            x = self._reads.held(atom.tensor)
            return x is not None and not (x.is_packed and x.axis == atom.axis)
        if isinstance(atom, Least | Greatest):
            return True  # their members are atoms of the number, too
        value = atom.value if isinstance(atom, Scalar) else None
        value = atom.vector if isinstance(atom, Entry) else value
        return value is not None and not self.is_inside(value)

    def is_of_sizes(self, number: Linear) -> bool:
        """Whether a number is a sum of sizes, and of products of such: none is negative."""
        return number.constant >= 0 and all(
            count > 0 and self._is_of_sizes(atom) for atom, count in number.terms
        )

    def _is_of_sizes(self, atom: Atom) -> bool:
        if isinstance(atom, Dim):
            return True
        made = maker(atom.value) if isinstance(atom, Scalar) else None
        if not is_operator(made, "Mul"):
            return False
        factors = [self.number(value) for value in made.inputs]
        return all(n is not None and self.is_of_sizes(n) for n in factors)

    def write(self, ops: Operators, number: Linear) -> ir.Value:
        """Record a number: int64 ``[1]`` if all samples share it, else ``[1]`` or ``[B]``.

        Args:
            ops: Records the nodes.
            number: What `is_at_hand` holds of.
        """
        return write_number(ops, number, self._reads.held, self.index)

    def is_at_hand(self, number: Linear) -> bool:
        """Whether all that a number is the sum of can be read outside of loops."""
        return all(self._is_shared_atom(a) or self._is_stacked_atom(a) for a in number.atoms())

    def _is_stacked_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Dim):
            return isinstance(atom.key, Lengths)
        value = self.index if isinstance(atom, IterationNumber) else None
        value = atom.value if isinstance(atom, Scalar) else value
        if isinstance(atom, Entry) and self.is_shared(atom.position):
            value = atom.vector
        x = None if value is None else self._reads.held(value)
        return x is not None and x.is_stacked


def sole_lengths(number: Linear) -> Lengths | None:
    """Return the lengths that a number is, once, and nothing else; None if there are none."""
    if number.constant or len(number.terms) != 1:
        return None
    ((atom, count),) = number.terms
    if count == 1 and isinstance(atom, Dim) and isinstance(atom.key, Lengths):
        return atom.key
    return None


def difference(one: Linear, other: Linear) -> Linear:
    """Return ``one - other`` in the form in which equal differences are equal.

    Less the least of some numbers is the greatest of what is left by each, and the reverse.
    """
    for atom, count in other.terms:
        if count == 1 and isinstance(atom, Least | Greatest):
            rest = difference(one, other.without(atom))
            parts = [difference(rest, member) for member in atom.members]
            return greatest(parts) if isinstance(atom, Least) else least(parts)
    return one - other
