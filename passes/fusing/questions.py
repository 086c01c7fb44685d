"""Records what a guard asks before the fused body of a map runs."""

from __future__ import annotations

import functools

import onnx_ir as ir

from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.guards import read_shapes
from passes.fusing.shape_rows import Asked, Shapes, all_true
from passes.graph.builder import Builder
from passes.graph.hidden import hide_type
from passes.site import GuardCheck, MapSite
from passes.typing import Typings
from passes.typing.value_types import is_number

__all__ = ["Questions"]


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
            check: builder.op("Greater", [count, builder.scalar(few)])
            for check, few in plan.choice.few_of.items()
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
