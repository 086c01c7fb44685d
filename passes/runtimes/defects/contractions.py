"""An Einsum as products of matrices, since onnxruntime ends the process on one of nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.equations import lettered
from passes.graph.made import operands
from passes.runtimes.types import Types

__all__ = [
    "as_matrix_products",
    "is_sum_of_products",
]


def is_sum_of_products(node: ir.Node, types: Types) -> bool:
    """Whether an Einsum multiplies operands and one may be empty: that ends the process."""
    return len(node.inputs) > 1 and any(map(types.may_be_empty, operands(node)))


def as_matrix_products(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """A MatMul for each operand after the first.

    ``btd,bsd->bts`` is ``MatMul(x, Transpose(y))``. What may be spread from size 1 before it is
    summed is spread. None where an operand has a letter twice.
    """
    first, *rest = values = operands(node)
    shapes = [dims for value in values if (dims := types.dims(value)) is not None]
    found = (
        lettered(node.attributes.get_string("equation", ""), list(map(len, shapes)))
        if len(shapes) == len(values)
        else None
    )
    if found is None or any(len(term) != len(set(term)) for term in found[0]):
        return None
    terms, result = found
    even = _even(values, terms, types)
    product = _Term(first, terms[0]).kept(builder, "".join([result, *terms[1:]]))
    for i, (value, letters) in enumerate(zip(rest, terms[1:], strict=True), 1):
        later = "".join([result, *terms[i + 1 :]])
        right = _Term(value, letters).kept(builder, later + product.letters)
        product = product.times(builder, right, later, even)
    return [product.spread(builder, result).value]


def _even(values: Sequence[ir.Value], terms: Sequence[str], types: Types) -> set[str]:
    """Return the letters that have one size wherever they stand, by proof."""
    sizes: dict[str, list[int | str | None]] = {}
    for value, term in zip(values, terms, strict=True):
        for letter, dim in zip(term, types.dims(value) or (), strict=True):
            sizes.setdefault(letter, []).append(dim)
    return {letter for letter, dims in sizes.items() if types.are_one_size(dims)}


@dataclasses.dataclass(frozen=True)
class _Term:
    """A tensor with a letter for each axis."""

    value: ir.Value
    letters: str

    def kept(self, builder: Builder, wanted: str) -> _Term:
        """Return the sums along all axes but the wanted ones."""
        axes = [i for i, letter in enumerate(self.letters) if letter not in wanted]
        if not axes:
            return self
        total = builder.op("ReduceSum", [self.value, builder.ints(*axes)], {"keepdims": 0})
        return _Term(total, "".join(c for c in self.letters if c in wanted))

    def spread(self, builder: Builder, order: str) -> _Term:
        """Return it with its axes in this order, and one of size 1 where it has none."""
        here = "".join(c for c in order if c in self.letters)
        value = self.value
        if here != self.letters:
            perm = [self.letters.index(c) for c in here]
            value = builder.op("Transpose", [value], {"perm": perm})
        new = [i for i, letter in enumerate(order) if letter not in self.letters]
        if new:
            value = builder.op("Unsqueeze", [value, builder.ints(*new)])
        return _Term(value, order)

    def times(self, builder: Builder, right: _Term, later: str, even: Collection[str]) -> _Term:
        """Return the product, summed over what both have and nothing reads later.

        Args:
            builder: Records it.
            right: The right side.
            later: The letters that are read later.
            even: Those that have one size on both sides.
        """
        shared = [c for c in self.letters if c in right.letters]
        summed = "".join(c for c in shared if c not in later)
        rows = "".join(c for c in self.letters if c not in shared)
        columns = "".join(c for c in right.letters if c not in shared)
        both = "".join(c for c in shared if c in later)
        batch = both + summed[:-1] + rows[:-1] + columns[:-1]
        row, column, inner = rows[-1:] or "+", columns[-1:] or "-", summed[-1:] or "*"
        uneven = [c for c in summed if c not in even]
        left, right = self.widened(builder, right, uneven), right.widened(builder, self, uneven)
        factors = (
            left.spread(builder, batch + row + inner),
            right.spread(builder, batch + inner + column),
        )
        product = builder.op("MatMul", [factor.value for factor in factors])
        return _Term(product, batch + row + column).squeezed(builder).kept(builder, later)

    def widened(self, builder: Builder, other: _Term, letters: Collection[str]) -> _Term:
        """Return it with axes of size 1 as long as those of another one."""
        if not letters:
            return self
        sizes = builder.op("Shape", [other.value])
        wanted = [
            builder.op("Gather", [sizes, builder.ints(other.letters.index(c))])
            if c in letters
            else builder.ints(1)
            for c in self.letters
        ]
        shape = builder.op("Concat", wanted, {"axis": 0})
        return _Term(builder.op("Expand", [self.value, shape]), self.letters)

    def squeezed(self, builder: Builder) -> _Term:
        """Return it without the axes that have no letter of the equation."""
        axes = [i for i, letter in enumerate(self.letters) if not letter.isalpha()]
        if not axes:
            return self
        value = builder.op("Squeeze", [self.value, builder.ints(*axes)])
        return _Term(value, "".join(c for c in self.letters if c.isalpha()))
