"""Writes a map as one Loop, in the form that is fastest for few samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.loops.forms import SPLITTABLE, Form, OutputPlan
from passes.loops.one_shape import lacks_dims
from passes.loops.plan import LoopPlan, write_results
from passes.loops.write_if import Branch, more_than, no_samples, write_if
from passes.maps.element_source import ElementSource
from passes.maps.sequence_source import SequenceSource
from passes.site import MapSite
from passes.typing import Typings

__all__ = ["FewSamples", "cut_beforehand", "write_by_count"]

_FEW_FOR_BLOCKS = 450
"""Up to so many samples it is faster to insert all of them into one sequence."""


class FewSamples:
    """A map as one Loop: blocks pay for long lists only, and so do bounds that are computed."""

    def __init__(
        self, site: MapSite, plan: LoopPlan, typings: Typings, *, splits: bool = False
    ) -> None:
        """Choose the form.

        Args:
            site: The map.
            plan: How a loop over any number of samples collects its results.
            typings: Both typings of the model.
            splits: Whether slices of given sizes are cut beforehand, as the map had them.
        """
        self._site = site
        self._cut = cut_beforehand(site, typings) if splits else []
        self._typings = typings
        outputs = {
            i: self._inserted(i, one) if one.form is Form.BLOCKS else one
            for i, one in plan.outputs.items()
        }
        self._plan = dataclasses.replace(plan, outputs=outputs)

    def write(
        self, builder: Builder, count: ir.Value, *, is_some: bool = False
    ) -> Sequence[ir.Value]:
        """Record the Loop and return the value of each result.

        Args:
            builder: Writes the graph that the map stands in.
            count: The number of samples, an int64 scalar.
            is_some: Whether there is at least one.
        """
        if is_some or not _asks_for_samples(self._site, self._plan):
            return self._write_loop(builder, count, is_some=is_some)
        return _write_where_some(
            builder,
            self._site,
            self._typings,
            count,
            lambda inner: self._write_loop(inner, count, is_some=True),
        )

    def _write_loop(
        self, builder: Builder, count: ir.Value, *, is_some: bool
    ) -> Sequence[ir.Value]:
        elements = [
            (inner, self._read_from(builder, source)) for inner, source in self._site.elements
        ]
        site = dataclasses.replace(self._site, elements=elements)
        return write_results(builder, site, self._typings, self._plan, count, is_some=is_some)

    def _inserted(self, output: int, plan: OutputPlan) -> OutputPlan:
        """Return the plan of an output that inserts its samples into one sequence."""
        results = [r for r in self._site.results if r.output == output]
        dims = [None] if plan.dims is None else list(plan.dims)
        known = [0 if axis == plan.axis else d for axis, d in enumerate(dims)]
        numbers = tuple(d for d in known if isinstance(d, int))
        is_joined = all(r.kind == "concatenated" for r in results) and not plan.declared_axes
        is_known = plan.dims is not None and len(numbers) == len(known)
        begin = numbers if is_joined and is_known else None
        return dataclasses.replace(plan, form=Form.INSERTION, begin=begin)

    def _read_from(self, builder: Builder, source: ElementSource) -> ElementSource:
        """Return a sequence for the slices that SplitToSequence cut."""
        if source not in self._cut:
            return source
        cut = source.as_slices
        assert cut is not None
        parts = [cut.tensor, cut.split]
        return SequenceSource(builder.op("SplitToSequence", parts, {"axis": cut.axis}))


def cut_beforehand(site: MapSite, typings: Typings) -> list[ElementSource]:
    """Return the slices of given sizes that a map of the model reads from a sequence.

    Args:
        site: The map.
        typings: Both typings of the model.
    """
    sources = [] if site.originals else [source for _, source in site.elements]
    return [
        source
        for source in sources
        if (cut := source.as_slices) is not None
        and cut.split is not None
        and typings.declared.dtype(cut.tensor) in SPLITTABLE
    ]


def _asks_for_samples(site: MapSite, plan: LoopPlan) -> bool:
    """Whether a loop of no steps would yield a tensor without its dimensions, or none at all.

    A Reshape behind the loop would give the dimensions, too, but copies what the model yields.
    """
    plans = [plan.outputs[r.output] for r in site.results if r.kind != "sequence"]
    return any(
        lacks_dims(one) or (one.form is Form.INSERTION and one.begin is None) for one in plans
    )


def _write_where_some(
    builder: Builder, site: MapSite, typings: Typings, count: ir.Value, write: Branch
) -> Sequence[ir.Value]:
    """Record an If: what is there without samples, and what a function writes for some."""
    some = builder.op("Greater", [count, builder.scalar(0)])
    return write_if(
        builder, site, typings, some, write, lambda inner: no_samples(inner, site, typings)
    )


def write_by_count(
    builder: Builder,
    site: MapSite,
    typings: Typings,
    plan: LoopPlan,
    count: ir.Value | None = None,
    few_site: MapSite | None = None,
) -> Sequence[ir.Value]:
    """Record a map as a Loop, in blocks for many samples only.

    Args:
        builder: Writes the graph that the map stands in.
        site: The map.
        typings: Both typings of the model.
        plan: How a loop over any number of samples collects its results.
        count: The number of samples, an int64 scalar, where there is at least one.
        few_site: The map as a Loop for few samples reads it, where that is another way.

    Returns:
        The value of each result.
    """
    known = site.elements[0][1].number(typings.proven)
    is_some = count is not None or bool(known)
    has_blocks = any(one.form is Form.BLOCKS for one in plan.outputs.values())
    is_plain = not plan.by_count or site.has_grown or (known or 0) > _FEW_FOR_BLOCKS
    if is_plain or not (has_blocks or (_asks_for_samples(site, plan) and not is_some)):
        return write_results(builder, site, typings, plan, count, is_some=is_some)
    samples = site.elements[0][1].scalar_count(builder, typings.proven) if count is None else count
    if not has_blocks:
        return _write_where_some(
            builder,
            site,
            typings,
            samples,
            lambda inner: write_results(inner, site, typings, plan, samples, is_some=True),
        )
    few = FewSamples(few_site or site, plan, typings)
    if known is not None:
        return few.write(builder, samples, is_some=is_some)
    return write_if(
        builder,
        site,
        typings,
        more_than(builder, samples, _FEW_FOR_BLOCKS),
        lambda inner: write_results(inner, site, typings, plan, samples, is_some=True),
        lambda inner: few.write(inner, samples, is_some=is_some),
    )
