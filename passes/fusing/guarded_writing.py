"""Writes what runs where questions are asked first: fused bodies, and loops in other branches.

A map with a guard becomes ``If (shapes are equal) then batched else loop``; one that pays from
some number of samples on stands in a further If around it. A body that pads samples has a loop
beside it, for samples that would waste too much.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.questions import Questions
from passes.graph.builder import Builder, needed_nodes
from passes.graph.hidden import hide_type
from passes.loops.copied_loop import copied_loop
from passes.loops.few_samples import FewSamples, write_by_count
from passes.loops.forms import Form
from passes.loops.write_if import Branch, write_if
from passes.maps.element_source import ElementSource
from passes.site import GuardCheck, MapSite
from passes.typing import Typings

__all__ = ["write_asked", "write_few"]


def write_bounded(
    builder: Builder,
    fused: FusedBody,
    typings: Typings,
    write_loop: Branch,
    *,
    asks_sizes: bool,
) -> Sequence[ir.Value]:
    """Record a fused body behind an If on what its padding takes, if anything bounds that.

    The lengths that the condition asks for are computed in front of the If.

    Args:
        builder: Writes the graph.
        fused: The body.
        typings: Both typings of the model.
        write_loop: Writes the map as a loop.
        asks_sizes: Whether what follows from sizes alone is asked first, before lengths are
            computed.

    Returns:
        The value of each result.
    """
    limits, early = fused.walk.limits, fused.walk.early if asks_sizes else ()
    if not limits:
        return fused.write(builder, typings)
    inside = Builder(builder.origin, builder.opset)
    values = fused.write(inside, typings)
    conditions = [_all_of(inside, flags) for flags in (early, limits) if flags]

    def write_from(branch: Builder, step: int) -> Sequence[ir.Value]:
        known = needed_nodes(inside.nodes, conditions[:step])
        if step == len(conditions):
            branch.nodes.extend(node for node in inside.nodes if node not in known)
            return values
        asked = needed_nodes(inside.nodes, [conditions[step]]) - known
        branch.nodes.extend(node for node in inside.nodes if node in asked)
        return write_if(
            branch,
            fused.site,
            typings,
            conditions[step],
            lambda inner: write_from(inner, step + 1),
            write_loop,
        )

    return write_from(builder, 0)


def _all_of(builder: Builder, flags: Iterable[ir.Value]) -> ir.Value:
    return functools.reduce(lambda a, b: builder.op("And", [a, b]), flags)


def write_asked(
    builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value
) -> Sequence[ir.Value]:
    """Ask what the fused bodies rely on, and write them and the branch behind them."""
    questions = Questions(builder, plan, typings, count)
    if plan.choice.is_guarded:
        loop = _writes_unguarded_loop(plan, typings, questions, count)
        rest = plan.choice.rest
        write = loop if rest is None else _writes_rest(plan, rest, typings, questions)
    else:
        loop = _writes_loop(plan, typings, count)
        write = _writes(plan, None, typings, loop)
    for check in reversed(plan.choice.forms):
        if check is not None:
            holds, form = questions.holds(check), _writes(plan, check, typings, loop)
            write = _writes_choice(plan.site, typings, holds, form, write)
    for body in plan.choice.forms.values():
        _hide_unchecked(body, plan, typings, questions)
    bodies = plan.choice.bodies
    lengths = {s: questions.lengths(s) for body in bodies for s in body.asked}
    values = write(builder)
    found = {stood: lengths[s] for body in bodies for s, stood in body.asked.items()}
    for placeholder, value in found.items():
        placeholder.replace_all_uses_with(value)
    return [found.get(value, value) for value in values]


def write_few(
    builder: Builder,
    plan: FusionPlan,
    typings: Typings,
    count: ir.Value,
    *,
    splits: bool = True,
) -> Sequence[ir.Value]:
    """Write the loop for few samples, which reads the sequences themselves where it may.

    A shape that is declared of their elements may be false: it must not come to be that of a
    tensor, and what an exporter declares may not even load.

    Args:
        builder: Writes the graph that the map stands in.
        plan: What the map becomes.
        typings: Both typings of the model.
        count: The number of samples, an int64 scalar.
        splits: Whether slices of given sizes are cut beforehand, as the map had them.
    """
    site = plan.site
    copied = copied_loop(site, typings)
    if copied is not None:
        return copied.write(builder)
    if _is_tensor(plan):
        site = dataclasses.replace(
            site,
            elements=[
                (inner, _through_hidden(builder, inner, source, typings))
                for inner, source in site.elements
            ],
        )
    return FewSamples(site, plan.loop, typings, splits=splits).write(builder, count)


def _is_tensor(plan: FusionPlan) -> bool:
    """Whether what is declared of elements could come to be the shape of a tensor in a loop."""
    is_stacked = any(one.form is Form.SCAN_OUTPUT for one in plan.loop.outputs.values())
    return is_stacked or bool(plan.site.originals)


def _through_hidden(
    builder: Builder, inner: ir.Value, source: ElementSource, typings: Typings
) -> ElementSource:
    """Return a sequence through its hidden type where numbers are declared of its elements."""
    declared = typings.declared
    if not any(isinstance(d, int) for d in declared.dims(inner) or ()):
        return source
    return source.through(lambda sequence: hide_type(builder, sequence, declared.dtype(sequence)))


def _hide_unchecked(
    body: FusedBody, plan: FusionPlan, typings: Typings, questions: Questions
) -> None:
    """Let a body read sequences through their hidden type where no guard checks their numbers."""
    for inner, sequence in plan.site.sequences:
        if sequence not in plan.guarded:
            continue
        declared, checked = typings.declared.dims(inner), plan.choice.relied.get(sequence)
        if not any(isinstance(d, int) for d in declared or ()) or declared == checked:
            continue
        for node in body.prelude.nodes:
            for index, value in enumerate(node.inputs):
                if value is sequence:
                    node.replace_input_with(index, questions.hidden(value))


def _writes(plan: FusionPlan, check: GuardCheck | None, typings: Typings, loop: Branch) -> Branch:
    fused, asks = plan.choice.forms[check], plan.asks_sizes
    return lambda inner: write_bounded(inner, fused, typings, loop, asks_sizes=asks)


def _writes_loop(plan: FusionPlan, typings: Typings, count: ir.Value) -> Branch:
    splits = not plan.choice.forms[None].asks_rows
    return lambda inner: write_few(inner, plan, typings, count, splits=splits)


def _writes_choice(
    site: MapSite, typings: Typings, condition: ir.Value, write_then: Branch, write_else: Branch
) -> Branch:
    return lambda inner: write_if(inner, site, typings, condition, write_then, write_else)


def _writes_rest(
    plan: FusionPlan, rest: FusedBody, typings: Typings, questions: Questions
) -> Branch:
    """Return what writes the branch of no guard where a part is batched all the same."""
    sources = {
        inner: _read_unguarded(plan, inner, source, typings, questions)
        for inner, source in rest.sources.items()
    }
    body = dataclasses.replace(rest, sources=sources)
    return lambda inner: body.write(inner, typings)


def _writes_unguarded_loop(
    plan: FusionPlan, typings: Typings, questions: Questions, count: ir.Value
) -> Branch:
    """Return what writes the branch of no guard as a loop.

    Where a loop inserts each sample into a sequence, a Loop of the model's own does the same, with
    the types that onnxruntime shares memory by.
    """
    given = copied_loop(plan.site, typings)
    if given is not None and all(one.form is Form.INSERTION for one in plan.loop.outputs.values()):
        return given.write
    elements = [
        (inner, _read_unguarded(plan, inner, source, typings, questions))
        for inner, source in plan.site.elements
    ]
    other = dataclasses.replace(plan.site, elements=elements)
    few = None if _is_tensor(plan) else plan.site
    return lambda inner: write_by_count(inner, other, typings, plan.loop, count, few)


def _read_unguarded(
    plan: FusionPlan,
    inner: ir.Value,
    source: ElementSource,
    typings: Typings,
    questions: Questions,
) -> ElementSource:
    """Return a sequence through its hidden type where numbers are declared of the elements.

    They may be false behind no guard. Elsewhere onnxruntime gains from the declared type: values
    of one shape share their memory.
    """
    dims = typings.declared.dims(inner)
    if dims is not None and not any(isinstance(d, int) for d in dims):
        return source
    return source.through(lambda s: questions.hidden(s) if s in plan.guarded else s)
