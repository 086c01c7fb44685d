"""Carried sums, products, extremes and logical totals: ``acc = acc op f(x_i)``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.in_branch import in_branch, may_fail_apart
from passes.carried.masks import masked_terms, neutral_value
from passes.carried.pattern import (
    FLOATS,
    Joined,
    Pattern,
    Term,
    dependent_values,
    operator,
    path_through,
)
from passes.carried.running import running, total_of
from passes.carried.selections import find_selection, hoist
from passes.carried.totals import reduce_rows, truth_of
from passes.carried.weighed import weigh_totals, weighed_terms
from passes.reading.facts import skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["Reduction", "find_reduction"]

_FAMILIES = {
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

_NUMBERS = FLOATS | {ir.DataType.INT32, ir.DataType.INT64}
_BOOL = frozenset({ir.DataType.BOOL})
_SIGNED = {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64}
_UNSIGNED = {ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64}
_BITS = _SIGNED | _UNSIGNED
_LARGE = frozenset({ir.DataType.UINT32, ir.DataType.UINT64})
_TYPES = {
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
        carried: Where it stands.
        terms: What is joined.
        signs: For each term of a sum whether it is added (1) or subtracted (-1).
        family: The operator that joins two totals.
        name: What the report calls it.
        dtype: Its element type.
        nodes: What leaves out the iterations in which a condition does not hold.
        speculated: The nodes of branches that the map runs in all iterations.
        weighs: Whether iterations in which a condition does not hold add products with 0.
    """

    carried: Carried
    terms: tuple[Term, ...]
    signs: tuple[int, ...]
    family: str
    name: str
    dtype: ir.DataType
    nodes: tuple[ir.Node, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()
    weighs: bool = False

    @property
    def rounds(self) -> bool:  # type: ignore[override]
        """Whether the order of the operations changes the result."""
        return self.dtype in FLOATS and self.family in ("Add", "Mul")

    def write(self, joined: Joined) -> ir.Value:
        """Record the reductions over all iterations, joined to the initial value."""
        if self.family.startswith("Bitwise") or self.dtype in _LARGE:
            return total_of(joined, self.carried, self._joined_terms(joined), self.family)
        total = self.carried.initial
        for at, (value, sign) in enumerate(zip(joined.values, self.signs, strict=True)):
            joined.needs_shape(at, self.carried)
            part = reduce_rows(joined, value, self.family, self.dtype)
            op_type = "Sub" if sign < 0 else self.family
            total = joined.builder.op(op_type, [total, part])
        if self.weighs:
            return weigh_totals(joined, total, self.carried.initial, joined.values)
        return total

    def check_shape(self, joined: Joined) -> None:
        """Check that no term is larger than what it is joined to."""
        for at in range(len(self.terms)):
            joined.needs_shape(at, self.carried, always=True)

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the totals of all iterations can be computed at once."""
        return not self.weighs and (self.family != "Add" or self.dtype in _CUMULATED)

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the running totals: a cumulative sum, or totals of twice as many rows each."""
        rows = self._joined_terms(joined)
        if self.family not in ("Add", "And", "Or", "Xor"):
            return running(joined, self.carried, rows, self.family, is_after=is_after)
        builder = joined.builder
        options = {} if is_after else {"exclusive": 1}
        sums = builder.op("CumSum", [rows, builder.scalar(0)], options)
        if self.dtype == ir.DataType.BOOL:
            sums = truth_of(builder, sums, self.family)
        return builder.op(self.family, [self.carried.initial, sums])

    def _joined_terms(self, joined: Joined) -> ir.Value:
        """Record what each iteration adds, as numbers."""
        builder, rank = joined.builder, joined.typing.rank(self.carried.initial)
        join, leave = (
            ("Add", "Sub") if self.family in ("And", "Or", "Xor") else (self.family, "Sub")
        )
        rows: ir.Value | None = None
        for at, (value, sign) in enumerate(zip(joined.values, self.signs, strict=True)):
            joined.needs_shape(at, self.carried, always=True)
            dims = joined.types[at].dims
            assert dims is not None
            assert rank is not None
            own = value
            if len(dims) < rank:
                axes = range(1, 1 + rank - len(dims))
                own = builder.op("Unsqueeze", [value, builder.ints(*axes)])
            if self.dtype == ir.DataType.BOOL:
                own = builder.op("Not", [own]) if self.family == "And" else own
                own = builder.op("Cast", [own], {"to": int(ir.DataType.INT64)})
            if rows is None:
                rows = own if sign > 0 else builder.op("Neg", [own])
            else:
                rows = builder.op(join if sign > 0 else leave, [rows, own])
        assert rows is not None
        return rows


def find_reduction(carried: Carried, iteration: Iteration, typing: Typing) -> Reduction | None:
    """Return what a carried value reduces, None if it is no reduction."""
    dtype = typing.dtype(carried.initial) or typing.dtype(carried.inner)
    dependent = dependent_values(iteration.body, carried.inner)
    value = skip_identities(carried.next)
    mask = find_selection(value, iteration.body, weighed=True)
    is_turned = mask is not None and mask.chosen is carried.inner
    graphs = [iteration.body]
    if mask is not None:
        if mask.condition in dependent or carried.inner not in (mask.chosen, mask.other):
            return None
        value = mask.other if is_turned else mask.chosen
        dependent |= {v for g in mask.branches for v in dependent_values(g, carried.inner)}
        graphs += mask.branches
    last = _operator(value, graphs)
    if last is None or last.op_type not in _FAMILIES or value not in dependent:
        return None
    family, name = _FAMILIES[last.op_type]
    if dtype is None or dtype not in _TYPES[family]:
        return None
    if mask is not None and mask.weighs and (family != "Add" or dtype not in FLOATS):
        return None
    found: list[tuple[ir.Value, int]] = []
    while value is not carried.inner:
        node = _operator(value, graphs)
        if node is None or _FAMILIES.get(node.op_type, ("",))[0] != family:
            return None
        path = path_through(node, dependent)
        if path is None or (node.op_type == "Sub" and path[0] != 0):
            return None
        sign = -1 if node.op_type == "Sub" else 1
        found[:0] = [(term, sign) for term in path[1]]
        operand = node.inputs[path[0]]
        assert operand is not None
        value = skip_identities(operand)
    terms = [skip_identities(term) for term, _ in found]
    values, nodes, speculated = hoist(terms, graphs[1:])
    if mask is not None and len(values) == 1 and may_fail_apart(speculated, typing):
        copies, is_scalar = nodes, typing.dims(carried.initial) == ()
        none, nodes = neutral_value(carried.inner, family, dtype, is_scalar=is_scalar)
        taken = in_branch(mask, values[0], copies, none, speculated, typing, is_turned=is_turned)
        nodes.append(taken)
        values, speculated = [nodes[-1].outputs[0]], []
        name += " under a condition"
    elif mask is not None and mask.weighs:
        values, nodes = weighed_terms(values, mask, dtype, is_turned=is_turned)
        name += " under a condition"
    elif mask is not None:
        values, beside = masked_terms(values, mask, is_turned, family, dtype)
        nodes += beside
        name += " under a condition"
    return Reduction(
        carried,
        tuple(map(Term, values)),
        tuple(sign for _, sign in found),
        family,
        f"carried {name}",
        dtype,
        tuple(nodes),
        tuple(speculated),
        weighs=mask is not None and mask.weighs,
    )


def _operator(value: ir.Value, graphs: Sequence[ir.Graph]) -> ir.Node | None:
    """Return the node of ONNX's own that computes a value in one of some graphs."""
    return next((node for graph in graphs if (node := operator(value, graph)) is not None), None)
