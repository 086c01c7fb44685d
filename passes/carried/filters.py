"""Rows that some iterations add to a tensor or a sequence, at its end or in front of it.

``if flag_i: acc = Concat(acc, r_i)`` keeps of the rows ``[r0, r1, r2]`` with the flags
``[1, 0, 1]`` the rows ``[r0, r2]``; where each comes in front, it is ``[r2, r0]``.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.appends import (
    has_no_rows,
    like_initial,
    same_dims_beside,
    unsqueezed,
)
from passes.carried.in_branch import in_branch, may_fail_apart
from passes.carried.masks import flag_of
from passes.carried.pattern import (
    Joined,
    Pattern,
    Term,
    added,
    dependent_values,
    operator,
    path_through,
    same_dims,
)
from passes.carried.selections import find_selection, hoist
from passes.decisions import Code
from passes.graph.graphs import constant_value, is_default_domain
from passes.loops.escape import SPLITTABLE
from passes.maps.tensor_source import reversed_along
from passes.reading.facts import skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["Filter", "find_filter"]


@dataclasses.dataclass(frozen=True)
class Filter(Pattern):
    """A carried tensor or sequence that gains one row in some iterations.

    Attributes:
        carried: Where it stands.
        terms: The row; and whether the iteration adds it, if not all do.
        axis: Of a tensor: along which axis.
        is_sequence: Whether it is a sequence.
        is_reversed: Whether a row comes in front of those that are there.
        nodes: What computes the terms beside the body.
        speculated: The nodes of branches that the map runs in all iterations.
    """

    carried: Carried
    terms: tuple[Term, ...]
    axis: int
    is_sequence: bool
    is_reversed: bool
    nodes: tuple[ir.Node, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the report calls it."""
        kind = "rows in front" if self.is_reversed else "rows"
        return f"{kind} under a condition" if len(self.terms) > 1 else f"{kind} of a list"

    def write(self, joined: Joined) -> ir.Value:
        """Record the rows that are kept, joined to the initial ones."""
        builder, rows = joined.builder, joined.values[0]
        if len(self.terms) > 1:
            rows = builder.op("Compress", [rows, joined.values[1]], {"axis": self.axis})
        if self.is_reversed:
            rows = reversed_along(builder, rows, self.axis)
        if self.is_sequence:
            return self._split(joined, rows)
        initial, dims = self.carried.initial, joined.types[0].dims
        around, is_joined = joined.typing.dims(initial), self.terms[0].kind == "concatenated"
        if around is None or dims is None or len(around) != len(dims) + (not is_joined):
            detail = f"nothing tells the rank of '{self.carried.inner.name}'"
            raise NotAMapError(Code.UNKNOWN_RANK, detail, self.carried.next.producer())
        axis = self.axis % len(around)
        own = [*dims[:axis], None, *dims[axis + is_joined :]]
        if not same_dims_beside(joined.typing, initial, own, axis):
            rows = like_initial(builder, initial, rows, len(around), axis)
        if has_no_rows(initial, axis):
            return rows
        pair = [rows, initial] if self.is_reversed else [initial, rows]
        return builder.op("Concat", pair, {"axis": axis})

    def _split(self, joined: Joined, rows: ir.Value) -> ir.Value:
        known = joined.types[0].type
        if known is None or known.dtype not in SPLITTABLE:
            detail = f"the rows of '{self.carried.inner.name}' cannot be split"
            raise NotAMapError(Code.UNSPLITTABLE_TYPE, detail, self.carried.next.producer())
        rows = self._with_first_elements(joined, rows)
        return joined.builder.op("SplitToSequence", [rows], {"axis": 0, "keepdims": 0})

    def _with_first_elements(self, joined: Joined, rows: ir.Value) -> ir.Value:
        """Record the rows and the elements that the sequence starts with."""
        start = skip_identities(self.carried.initial).producer()
        if start is None or start.op_type != "SequenceConstruct":
            return rows
        builder, dims = joined.builder, joined.types[0].dims
        own = None if dims is None else dims[self.terms[0].kind == "concatenated" :]
        first = [v for v in start.inputs if v is not None]
        if own is None or not all(same_dims(joined.typing, v, own) for v in first):
            detail = (
                f"the elements of '{self.carried.inner.name}' are not proven to have one shape"
            )
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, self.carried.next.producer())
        single = [builder.op("Unsqueeze", [v, builder.ints(0)]) for v in first]
        if not joined.runs and any(not isinstance(d, int) for d in own):
            rows = like_initial(builder, single[0], rows, len(own) + 1, 0)
        parts = [rows, *single] if self.is_reversed else [*single, rows]
        return builder.op("Concat", parts, {"axis": 0})


def find_filter(carried: Carried, iteration: Iteration, typing: Typing) -> Filter | None:
    """Return which rows a carried value gains; None if an iteration does anything else with it."""
    body = iteration.body
    dependent = dependent_values(body, carried.inner)
    value = skip_identities(carried.next)
    mask = find_selection(value, body)
    graphs = [body]
    is_turned = False
    if mask is not None:
        if not mask.branches or mask.condition in dependent:
            return None
        is_turned = mask.chosen is carried.inner
        if carried.inner not in (mask.chosen, mask.other):
            return None
        value = mask.other if is_turned else mask.chosen
        dependent |= {v for g in mask.branches for v in dependent_values(g, carried.inner)}
        graphs += mask.branches
    node = next((n for g in graphs if (n := operator(value, g)) is not None), None)
    path = None if node is None else path_through(node, dependent)
    if node is None or path is None:
        return None
    found = _inserted(node, carried) or _joined(node, path, carried, graphs)
    if found is None:
        return None
    row, axis, is_reversed = found
    if mask is None and not is_reversed and node.op_type != "SequenceInsert":
        return None
    inner = row
    (row,), nodes, speculated = hoist([inner], graphs[1:])
    terms = [Term(row, "stacked", axis)]
    none = _no_rows(carried, inner, axis, typing) if may_fail_apart(speculated, typing) else []
    if mask is not None and none:
        axes = _constant(np.array([axis], np.int64))
        grown = added("Unsqueeze", [row, axes.outputs[0]])
        rows, copies = grown.outputs[0], [*nodes, axes, grown]
        made = in_branch(
            mask, rows, copies, none[-1].outputs[0], speculated, typing, is_turned=is_turned
        )
        terms = [Term(made.outputs[0], "concatenated", axis)]
        nodes, speculated = [*none, made], []
    elif mask is not None:
        flag, beside = flag_of(mask.condition, is_turned=is_turned)
        terms.append(Term(flag))
        nodes += beside
    is_sequence = node.op_type == "SequenceInsert"
    return Filter(
        carried, tuple(terms), axis, is_sequence, is_reversed, tuple(nodes), tuple(speculated)
    )


def _no_rows(carried: Carried, row: ir.Value, axis: int, typing: Typing) -> list[ir.Node]:
    """Return nodes, the last of which yields no rows; none if their shape is not known.

    They are like those that the tensor, or the sequence, starts with.
    """
    start = skip_identities(carried.initial).producer()
    first = axes = _constant(np.array([axis], np.int64))
    whole = carried.initial
    if typing.is_sequence(carried.initial):
        if start is None or start.op_type != "SequenceConstruct" or start.inputs[0] is None:
            dims, dtype = typing.dims(row), typing.dtype(row)
            sizes = [d for d in dims or () if isinstance(d, int)]
            if dtype is None or dims is None or len(sizes) < len(dims):
                return []
            return [_constant(np.zeros([0, *sizes], dtype.numpy()))]
        first = added("Unsqueeze", [start.inputs[0], axes.outputs[0]])
        whole = first.outputs[0]
    zero = _constant(np.array([0], np.int64))
    bounds = [zero.outputs[0], zero.outputs[0], axes.outputs[0]]
    made = [axes] if first is axes else [axes, first]
    return [*made, zero, added("Slice", [whole, *bounds])]


def _constant(array: np.ndarray) -> ir.Node:
    return added("Constant", [], {"value": ir.tensor(array)})


_STARTS = frozenset({"SequenceEmpty", "SequenceConstruct"})


def _inserted(node: ir.Node, carried: Carried) -> tuple[ir.Value, int, bool] | None:
    """Return what a node inserts into a sequence that is known, and whether in front."""
    start = skip_identities(carried.initial).producer()
    if node.op_type != "SequenceInsert" or start is None or start.op_type not in _STARTS:
        return None
    sequence, element = node.inputs[:2]
    if sequence is None or element is None or not is_default_domain(start):
        return None
    if skip_identities(sequence) is not carried.inner:
        return None
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return element, 0, False
    position = constant_value(node.inputs[2])
    return None if position is None or position.item() != 0 else (element, 0, True)


def _joined(
    node: ir.Node, path: tuple[int, list[ir.Value]], carried: Carried, graphs: list[ir.Graph]
) -> tuple[ir.Value, int, bool] | None:
    """Return the row that a Concat joins to a carried tensor, the axis, and whether in front."""
    at, others = path
    if node.op_type != "Concat" or len(others) != 1:
        return None
    whole = node.inputs[at]
    if whole is None or skip_identities(whole) is not carried.inner:
        return None
    axis = node.attributes.get_int("axis", 0) or 0
    part = skip_identities(others[0])
    row = next((r for g in graphs if (r := unsqueezed(part, g, axis)) is not None), None)
    return None if row is None or axis < 0 else (row, axis, at == 1)
