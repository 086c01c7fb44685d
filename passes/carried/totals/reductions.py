"""Carried sums, products, extremes and logical totals: ``acc = acc op f(x_i)``."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.common.widths import EXTREMES, check_width
from passes.carried.joined import Joined, covers, same_dims, unknown_rank
from passes.carried.pattern import FLOATS, Pattern
from passes.carried.totals.running import running, total_of, without_one
from passes.carried.totals.totals import (
    behind_initial,
    reduce_rows,
    rounds_in_order,
    rows_to_join,
    truth_of,
)
from passes.carried.totals.weighed import weigh_totals
from passes.graph.made import skip_identities
from passes.numbers.integer_reads import INTEGERS

__all__ = ["FAMILIES", "TYPES", "Reduction"]

FAMILIES = {
    "Add": ("Add", "sum"),
    "Sum": ("Add", "sum"),
    "Sub": ("Add", "sum"),
    "Mul": ("Mul", "product"),
    "Max": ("Max", "maximum"),
    "Min": ("Min", "minimum"),
    "And": ("And", "conjunction"),
    "Or": ("Or", "disjunction"),
    "Xor": ("Xor", "parity"),
    "BitwiseAnd": ("BitwiseAnd", "bitwise and"),
    "BitwiseOr": ("BitwiseOr", "bitwise or"),
    "BitwiseXor": ("BitwiseXor", "bitwise xor"),
}
"""For each operator the one that joins two totals, and the name of the pattern."""

_LEAVES = {"Add": "Sub", "Mul": "Div"}
"""For operators that join totals what takes a term back."""

_NUMBERS = FLOATS | INTEGERS
_BOOL = frozenset({ir.DataType.BOOL})
_SIGNED = {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64}
_UNSIGNED = {ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64}
_BITS = _SIGNED | _UNSIGNED
_LARGE = frozenset({ir.DataType.UINT32, ir.DataType.UINT64})
TYPES = {
    "Add": _NUMBERS,
    "Mul": _NUMBERS,
    "Max": _NUMBERS | _LARGE | {ir.DataType.INT8, ir.DataType.UINT8},
    "Min": _NUMBERS | _LARGE | {ir.DataType.INT8, ir.DataType.UINT8},
    "And": _BOOL,
    "Or": _BOOL,
    "Xor": _BOOL,
    "BitwiseAnd": _BITS,
    "BitwiseOr": _BITS,
    "BitwiseXor": _BITS,
}
"""The element types for which runtimes have the reduction, or the operator where there is none."""

_CUMULATED = _NUMBERS - {ir.DataType.FLOAT16}


@dataclasses.dataclass(frozen=True)
class Reduction(Pattern):
    """A carried value that each iteration joins to a value of its own, by one operator.

    Attributes:
        terms: What is joined.
        signs: For each term of a sum whether it is added (1) or subtracted (-1), and for each of
            a product whether it is a factor (1) or a divisor (-1).
        family: The operator that joins two totals.
        name: What the report calls it.
        dtype: Its element type.
        weighs: Whether iterations in which a condition does not hold add products with 0.
        counts: Whether what is summed are counts.
    """

    signs: tuple[int, ...]
    family: str
    name: str
    dtype: ir.DataType
    weighs: bool = False
    counts: bool = False
    keeps_shape = "by its terms"

    @property
    def rounds(self) -> bool:  # type: ignore[override]
        """Whether the order of the operations changes the result."""
        return rounds_in_order(self.family, self.dtype)

    def write(self, joined: Joined) -> ir.Value:
        """Record the reductions over all iterations, joined to the initial value."""
        is_running = joined.is_collected and not self._is_cumulated
        if is_running or self._lacks_reduction:
            return total_of(joined, self.carried, self._joined_terms(joined), self.family)
        if self._begins_rows(joined) and (joined.is_collected or not joined.runs):
            return self._of_rows_begun(joined)
        if self.family in ("Max", "Min"):
            check_width(joined, self.carried, EXTREMES)
        total = self.carried.initial
        if self._joins_own_terms(joined):
            rows = reduce_rows(joined, self._joined_terms(joined), self.family, self.dtype)
            return joined.builder.op(self.family, [total, rows])
        for at, sign in enumerate(self.signs):
            rows = self._given(joined, at)
            part = reduce_rows(joined, rows, self.family, self.dtype, are_counts=self.counts)
            op_type = _LEAVES[self.family] if sign < 0 else self.family
            total = joined.builder.op(op_type, [total, part])
        if self.weighs:
            return weigh_totals(joined, total, self.carried.initial, joined.values)
        return total

    @property
    def _lacks_reduction(self) -> bool:
        """Whether no reduction joins the rows, or none but by doubles, which hold 53 bits."""
        is_product = self.family == "Mul" and self.dtype not in FLOATS
        return self.family.startswith("Bitwise") or self.dtype in _LARGE or is_product

    @property
    def _sums_exactly(self) -> bool:
        """Whether sums need all 64 bits, which only a cumulative sum keeps."""
        return self.family == "Add" and self.dtype == ir.DataType.INT64 and not self.counts

    def _begins_rows(self, joined: Joined) -> bool:
        """Whether the initial value may stand as one row in front of the others.

        It has their shape, and what is joined is the same in any order. What a Loop around
        carries stays apart: it is read as a total there if one node joins it to others.
        """
        if not (self._sums_exactly or self.family in ("Max", "Min")):
            return False
        initial = self.carried.initial
        if joined.is_inside and skip_identities(initial).producer() is None:
            return False
        return all(same_dims(joined.typing, initial, known.dims) for known in joined.types)

    def _of_rows_begun(self, joined: Joined) -> ir.Value:
        """Record the total of rows; the first row is the initial value."""
        if self._sums_exactly:
            return joined.last_of(self._sums_begun(joined))
        check_width(joined, self.carried, EXTREMES)
        rows = behind_initial(joined, self.carried.initial, self._joined_terms(joined))
        return reduce_rows(joined, rows, self.family, self.dtype, has_rows=True)

    def _sums_begun(self, joined: Joined) -> ir.Value:
        """Record the initial value and the sums behind all iterations."""
        builder, initial = joined.builder, self.carried.initial

        def write() -> ir.Value:
            rows = behind_initial(joined, initial, self._joined_terms(joined))
            return builder.op("CumSum", [rows, builder.scalar(0)])

        return joined.once(self.carried.inner, write)

    def _joins_own_terms(self, joined: Joined) -> bool:
        """Whether the terms of one iteration are joined first, whose sizes may cancel out.

        The product of all large factors may overflow, and that of all small ones vanish.
        """
        if len(self.terms) < 2 or self.weighs or not self.rounds:
            return False
        initial = self.carried.initial
        return all(covers(joined.typing, initial, known.dims) for known in joined.types)

    @property
    def _is_cumulated(self) -> bool:
        """Whether a cumulative sum gives the totals of all iterations."""
        if self.family == "Add":
            return self.dtype in _CUMULATED
        return self.family in ("And", "Or", "Xor")

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the totals of all iterations can be computed at once."""
        return not self.weighs

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the running totals: a cumulative sum, or totals of twice as many rows each."""
        if self._sums_exactly and self._begins_rows(joined):
            return without_one(joined.builder, self._sums_begun(joined), is_last=not is_after)
        rows = self._joined_terms(joined, keeps_shape=not is_after or not self._is_cumulated)
        if not self._is_cumulated:
            return running(joined, self.carried, rows, self.family, is_after=is_after)
        builder = joined.builder
        options = {} if is_after else {"exclusive": 1}
        sums = builder.op("CumSum", [rows, builder.scalar(0)], options)
        if self.dtype == ir.DataType.BOOL:
            sums = truth_of(builder, sums, self.family)
        return builder.op(self.family, [self.carried.initial, sums])

    def _given(self, joined: Joined, at: int) -> ir.Value:
        """Record a term of all iterations, which may be larger than the initial value.

        In a branch it may not: an iteration that does not take it leaves the shape as it is.
        """
        if self.nodes:
            joined.needs_shape(at, self.carried)
        return rows_to_join(joined, self.carried, at)

    def _joined_terms(self, joined: Joined, *, keeps_shape: bool = True) -> ir.Value:
        """Record what each iteration adds, as numbers.

        Args:
            joined: Writes the graph.
            keeps_shape: Whether no term may be larger than the initial value.
        """
        builder, rank = joined.builder, joined.typing.rank(self.carried.initial)
        join = "Add" if self.family in ("And", "Or", "Xor") else self.family
        rows: ir.Value | None = None
        for at, (value, sign) in enumerate(zip(joined.values, self.signs, strict=True)):
            if keeps_shape:
                joined.needs_shape(at, self.carried, always=True)
            dims = joined.types[at].dims
            own = value if keeps_shape else self._given(joined, at)
            if dims is None or rank is None:
                raise unknown_rank(self.carried)
            if own is value and len(dims) < rank:
                axes = range(1, 1 + rank - len(dims))
                own = builder.op("Unsqueeze", [value, builder.ints(*axes)])
            if self.dtype == ir.DataType.BOOL:
                own = builder.op("Not", [own]) if self.family == "And" else own
                own = builder.op("Cast", [own], {"to": int(ir.DataType.INT64)})
            if rows is None:
                turn = "Reciprocal" if join == "Mul" else "Neg"
                rows = own if sign > 0 else builder.op(turn, [own])
            else:
                rows = builder.op(join if sign > 0 else _LEAVES[join], [rows, own])
        assert rows is not None
        return rows
