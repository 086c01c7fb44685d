"""Records what a guard asks before the fused body of a map runs.

Two elements are compared with the first one before all of them are read: a list of different
shapes is found out at once, as a rule.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.shape_rows import LAST, Asked, Shapes, all_true, behind_first, read_rows
from passes.graph.builder import Builder
from passes.graph.hidden import hide_type
from passes.loops.write_if import more_than
from passes.site import GuardCheck, MapSite
from passes.typing import Typings
from passes.typing.value_types import is_number

__all__ = ["Questions", "read_shapes"]


def read_shapes(
    builder: Builder, count: ir.Value, asked: Sequence[Asked], *, gives_up: bool
) -> list[Shapes]:
    """Record the reading of the shapes of all elements of some sequences.

    Args:
        builder: Writes the graph that the sequences are read in.
        count: The number of elements that are read of each, an int64 scalar, at least 1.
        asked: The sequences.
        gives_up: Whether the others are not read where two elements are already not as the first
            one. What is asked does not hold then, and there are no lengths.

    Returns:
        What was read of each sequence.
    """
    wanted = [_wanted(builder, one) for one in asked]
    if not gives_up:
        return read_rows(builder, count, asked, wanted)
    last = builder.op("Sub", [count, builder.scalar(1)])
    probes = [last, builder.op("Div", [count, builder.scalar(2)])]
    pairs = zip(asked, wanted, strict=True)
    tests = [_are_as(builder, one, first, probes) for one, first in pairs]
    same = functools.reduce(lambda a, b: builder.op("And", [a, b]), tests)

    def write_all(inner: Builder) -> list[ir.Value]:
        return [v for shapes in read_rows(inner, count, asked, wanted) for v in shapes.values()]

    def write_none(inner: Builder) -> list[ir.Value]:
        no, none = inner.flag(False), inner.ints(0)
        return [value for one in asked for value in one.shapes_of(no, none).values()]

    graphs = {
        "then_branch": builder.subgraph("all", [], write_all),
        "else_branch": builder.subgraph("none", [], write_none),
    }
    count_of = len(graphs["then_branch"].outputs)
    outputs = iter(builder.node("If", [same], graphs, outputs=count_of).outputs)
    return [one.read_from(outputs) for one in asked]


def _wanted(builder: Builder, asked: Asked) -> ir.Value:
    """Return the shape that all elements must have, and a -1 behind it.

    A dimension that is relied on is a constant; the others are those of the first element.
    """
    dims = asked.dims
    if dims is not None and all(isinstance(d, int) for d in dims):
        return builder.constant(np.array([*dims, LAST], np.int64))
    first = builder.op("SequenceAt", [asked.sequence, builder.scalar(0)])
    shape = builder.op("Shape", [first])
    if dims is None:
        return builder.op("Concat", [shape, builder.ints(LAST)], {"axis": 0})
    # Whatever the rank of the first element is, no dimension may come out negative.
    width = len(dims) + 1
    filled = builder.op("Concat", [shape, builder.ints(*[0] * width)], {"axis": 0})
    filled = builder.op("Slice", [filled, builder.ints(0), builder.ints(width)])
    known = builder.constant(np.array([*(isinstance(d, int) for d in dims), True], np.bool_))
    numbers = builder.ints(*(d if isinstance(d, int) else 0 for d in dims), LAST)
    return builder.op("Where", [known, numbers, filled])


def _are_as(
    builder: Builder, asked: Asked, wanted: ir.Value, probes: Sequence[ir.Value]
) -> ir.Value:
    """Record whether some elements are as the first, and the last small: a boolean scalar."""
    elements = [builder.op("SequenceAt", [asked.sequence, probe]) for probe in probes]
    leaves_out = asked.by_rows and asked.may_differ is None
    rows = [_row(builder, asked, element, wanted, int(leaves_out)) for element in elements]
    if leaves_out:
        wanted = behind_first(builder, wanted)
    row = builder.op("Concat", rows, {"axis": 0})
    equal = builder.op("Equal", [row, builder.op("Tile", [wanted, builder.ints(len(rows))])])
    if asked.by_rows and asked.dims and asked.may_differ is not None:
        equal = _or_first(builder, equal, asked.may_differ, len(asked.dims) + 1, len(rows))
    same = all_true(builder, equal)
    if asked.most is None:
        return same
    size = builder.op("Size", [elements[0]])
    is_small = builder.op("LessOrEqual", [size, builder.scalar(asked.most)])
    return builder.op("And", [same, is_small])


def _or_first(
    builder: Builder, equal: ir.Value, may_differ: ir.Value, width: int, rows: int
) -> ir.Value:
    """Record what is equal of some rows, where the first number of each may differ."""
    firsts = builder.constant(np.array(([True] + [False] * (width - 1)) * rows))
    return builder.op("Or", [equal, builder.op("And", [firsts, may_differ])])


def _row(
    builder: Builder, asked: Asked, element: ir.Value, wanted: ir.Value, start: int
) -> ir.Value:
    """Return the shape of an element and what is behind it, as long as what is wanted.

    Without the number in front it is one shorter.
    """
    shape = builder.op("Shape", [element])
    row = builder.op("Concat", [shape, builder.ints(LAST), wanted], {"axis": 0})
    width = (
        builder.op("Shape", [wanted]) if asked.dims is None else builder.ints(len(asked.dims) + 1)
    )
    return builder.op("Slice", [row, builder.ints(start), width])


class Questions:
    """The questions about the samples of one map, asked where there are enough of them."""

    def __init__(
        self, builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value
    ) -> None:
        """Record the reading of the sequences that a guard, or packed samples, ask about.

        Args:
            builder: Writes the branch.
            plan: The map.
            typings: Both typings of the model.
            count: The number of samples, an int64 scalar, at least 1.
        """
        self._builder = builder
        self._plan = plan
        self._typings = typings
        self._hidden: dict[ir.Value, ir.Value] = {}
        self._shapes: dict[ir.Value, Shapes] = {}
        packed = dict.fromkeys(s for body in plan.choice.bodies for s in body.asked)
        by_rows = [c for c in plan.choice.forms if c in (GuardCheck.ROWS, GuardCheck.LENGTHS)]
        by_shape = GuardCheck.SHAPES in plan.choice.forms
        self._enough = {
            check: more_than(builder, count, few) for check, few in plan.choice.few_of.items()
        }
        enough = next(iter(self._enough.values()), None)
        asked = {}
        for sequence in dict.fromkeys([*plan.guarded, *packed]):
            dims = plan.choice.relied.get(sequence)
            if sequence not in plan.guarded:  # promised: only its lengths are wanted
                dims = (None,) * _declared_rank(plan.site, sequence, typings)
            rows = bool(dims) and (bool(by_rows) or sequence in packed)
            most = _most_numbers(sequence, plan) if sequence in plan.guarded else None
            asked[sequence] = Asked(self.hidden(sequence), dims, by_shape, rows, most, enough)
        if asked:
            unguarded = (plan.choice.forms.get(None), plan.choice.rest)
            always = {s for body in unguarded if body for s in body.asked}
            found = read_shapes(builder, count, list(asked.values()), gives_up=not always)
            self._shapes = dict(zip(asked, found, strict=True))

    def hidden(self, sequence: ir.Value) -> ir.Value:
        """Return a sequence through its hidden type."""
        if sequence not in self._hidden:
            dtype = self._typings.declared.dtype(sequence)
            self._hidden[sequence] = hide_type(self._builder, sequence, dtype)
        return self._hidden[sequence]

    def lengths(self, sequence: ir.Value) -> ir.Value:
        """Return the first dimension of all elements of a sequence, int64 ``[B]``."""
        lengths = self._shapes[sequence].lengths
        assert lengths is not None
        return lengths

    def holds(self, check: GuardCheck) -> ir.Value:
        """Record what a guard asks: a boolean scalar."""
        plan, builder = self._plan, self._builder
        condition = plan.choice.forms[check].site.condition
        if condition is not None:
            builder.nodes.extend(condition.builder.nodes)
            return condition.holds
        shapes = {s: self._shapes[s] for s in plan.guarded}
        if check is GuardCheck.SHAPES:
            flags = [one.equal for one in shapes.values()]
        else:  # nothing is relied on of elements of unknown rank, which stay per-sample
            known = [one for sequence, one in shapes.items() if sequence in plan.choice.relied]
            flags = [one.equal if one.alike is None else one.alike for one in known]
        tests = [flag for flag in flags if flag is not None]
        tests += _equal_lengths(builder, plan.site, self._typings)
        if check is GuardCheck.LENGTHS:
            lengths = [one.lengths for one in shapes.values() if one.lengths is not None]
            tests += [
                all_true(builder, builder.op("Equal", [lengths[0], other]))
                for other in lengths[1:]
            ]
        tests += [self._enough[check]] if check in self._enough else []
        return functools.reduce(lambda a, b: builder.op("And", [a, b]), tests)


def _declared_rank(site: MapSite, sequence: ir.Value, typings: Typings) -> int:
    """Return the rank of the elements of a sequence that is packed."""
    ranks = [typings.declared.rank(inner) for inner, s in site.sequences if s is sequence]
    return next(rank for rank in ranks if rank is not None)


def _most_numbers(sequence: ir.Value, plan: FusionPlan) -> int | None:
    """Return how many numbers an element may hold for a guard to pay, None for any number."""
    dtype = sequence.type.dtype if isinstance(sequence.type, ir.SequenceType) else None
    if plan.choice.most_bytes is None or not is_number(dtype):
        return None
    return int(plan.choice.most_bytes / dtype.itemsize)


def _equal_lengths(builder: Builder, site: MapSite, typings: Typings) -> list[ir.Value]:
    if site.lengths_are_equal(typings.proven):
        return []
    counts = [source.count(builder, typings.proven) for _, source in site.elements]
    return [
        builder.op("Squeeze", [builder.op("Equal", [counts[0], count]), builder.ints(0)])
        for count in counts[1:]
    ]
