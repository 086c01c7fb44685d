"""Puts what a map was planned to become into the place of its node."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason
from passes.fusing.bounded import write_bounded
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.questions import Questions
from passes.graph.builder import Builder, needed_nodes
from passes.graph.drafts import Draft
from passes.graph.hidden import hide_type
from passes.graph.opsets import find_misfit, to_opset_form
from passes.graph.splice import splice
from passes.loops.copied_loop import copied_loop
from passes.loops.copied_samples import CopiedSamples
from passes.loops.few_samples import FewSamples, write_by_count
from passes.loops.forms import Form
from passes.loops.write_if import Branch, knows_no_samples, no_samples, write_if
from passes.maps.element_source import ElementSource
from passes.maps.sequence_map import move_initializers, read_moved
from passes.maps.tensor_source import reversed_along
from passes.raising.originals import forget
from passes.raising.results import type_rows
from passes.sequence_operators import is_map
from passes.site import GuardCheck, MapResult, MapSite
from passes.typing import Typings

__all__ = ["apply_fusion"]


def apply_fusion(
    plan: FusionPlan, facts: FusionFacts, draft: Draft, beside: Sequence[ir.Node] = ()
) -> Decision:
    """Put a planned map into the place of its node, if its nodes fit the model's opset.

    What a map was raised from is gone then.

    Args:
        plan: What the map becomes.
        facts: What holds for all maps.
        draft: Holds whatever was recorded to find the plan.
        beside: What of that may be placed beside the plan.

    Returns:
        What was done; that it stays as it is, with the reason, if it does.
    """
    site, typings, model = plan.site, facts.typings, facts.model
    builder = Builder(site.path)
    values = _write_plan(builder, plan, typings)
    pairs = [(r.value, _turned(builder, r, v)) for r, v in zip(site.results, values, strict=True)]
    to_opset_form(builder.nodes, facts.opset)
    needed = needed_nodes(builder.nodes, [new for _, new in pairs])
    misfit = find_misfit([node for node in builder.nodes if node in needed], facts.opset)
    if misfit is not None:
        return dataclasses.replace(plan.loop.decision, reasons=[Reason(Code.OPSET, detail=misfit)])
    maps = [node for one in site.originals for node in one.written if is_map(node)]
    for body in (site.body, *(node.attributes["body"].as_graph() for node in maps)):
        move_initializers(body, model.graph)
    read_moved(builder.nodes, model.graph)
    draft.keep(builder.nodes, beside)
    # A later map may read the types of the new values.
    written = splice(builder, site.node, pairs)
    typings.copy(written)
    if any(result.kind == "sequence" for result in site.results):
        type_rows(site, written, typings)
    for original in site.originals:
        forget(original)
    return plan.decision


def _turned(builder: Builder, result: MapResult, value: ir.Value) -> ir.Value:
    return reversed_along(builder, value, result.axis) if result.is_reversed else value


def _write_plan(builder: Builder, plan: FusionPlan, typings: Typings) -> Sequence[ir.Value]:
    """Run the fused body if there are enough samples, and under its guard if it has one."""
    site = plan.site
    if not plan.fused:
        return write_by_count(builder, site, typings, plan.loop)
    is_alone = list(plan.fused) == [None] and not plan.needs_samples and not plan.few
    if is_alone and not plan.fused[None].walk.limits:
        return plan.fused[None].write(builder, typings)
    count = _trip_count(plan, typings) or site.elements[0][1].scalar_count(builder, typings.proven)
    if not plan.needs_samples and not plan.few:
        return _write_asked(builder, plan, typings, count)
    enough = builder.op("Greater", [count, builder.scalar(plan.few)])
    batches_none = (
        plan.is_copied and not plan.needs_samples and not knows_no_samples(site, typings)
    )
    if batches_none:
        none = builder.op("Equal", [count, builder.scalar(0)])
        enough = builder.op("Or", [enough, none])

    def write(inner: Builder) -> Sequence[ir.Value]:
        return _write_asked(inner, plan, typings, count)

    def write_few(inner: Builder) -> Sequence[ir.Value]:
        if plan.is_copied:
            return CopiedSamples(site, typings).write(inner, count, plan.few, is_some=batches_none)
        if plan.few:
            return _write_few(inner, plan, typings, count)
        return no_samples(inner, site, typings)

    return write_if(builder, site, typings, enough, write, write_few)


def _trip_count(plan: FusionPlan, typings: Typings) -> ir.Value | None:
    """Return how many iterations a Loop has at most, where no exact number is needed."""
    originals = plan.site.originals
    if plan.needs_samples or plan.is_copied or len(originals) != 1:
        return None
    return originals[0].trip_count(typings.proven)


def _write_few(
    builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value
) -> Sequence[ir.Value]:
    """Write the loop for few samples, which reads the sequences themselves where it may.

    A shape that is declared of their elements may be false: it must not come to be that of a
    tensor, and what an exporter declares may not even load.
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
    return FewSamples(site, plan.loop, typings, splits=True).write(builder, count)


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


def _write_asked(
    builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value
) -> Sequence[ir.Value]:
    """Ask what the fused bodies rely on, and write them and the branch behind them."""
    questions = Questions(builder, plan, typings, count)
    if plan.is_guarded:
        loop = _writes_unguarded_loop(plan, typings, questions, count)
        write = loop if plan.rest is None else _writes_rest(plan, plan.rest, typings, questions)
    else:
        loop = _writes_loop(plan, typings, count)
        write = _writes(plan, None, typings, loop)
    for check in reversed(plan.fused):
        if check is not None:
            holds, form = questions.holds(check), _writes(plan, check, typings, loop)
            write = _writes_choice(plan.site, typings, holds, form, write)
    for body in plan.fused.values():
        _hide_unchecked(body, plan, typings, questions)
    bodies = [body for body in (*plan.fused.values(), plan.rest) if body is not None]
    lengths = {s: questions.lengths(s) for body in bodies for s in body.asked}
    values = write(builder)
    found = {stood: lengths[s] for body in bodies for s, stood in body.asked.items()}
    for placeholder, value in found.items():
        placeholder.replace_all_uses_with(value)
    return [found.get(value, value) for value in values]


def _hide_unchecked(
    body: FusedBody, plan: FusionPlan, typings: Typings, questions: Questions
) -> None:
    """Let a body read sequences through their hidden type where no guard checks their numbers."""
    for inner, sequence in plan.site.sequences:
        if sequence not in plan.guarded:
            continue
        declared, checked = typings.declared.dims(inner), plan.relied.get(sequence)
        if not any(isinstance(d, int) for d in declared or ()) or declared == checked:
            continue
        for node in body.prelude.nodes:
            for index, value in enumerate(node.inputs):
                if value is sequence:
                    node.replace_input_with(index, questions.hidden(value))


def _writes(plan: FusionPlan, check: GuardCheck | None, typings: Typings, loop: Branch) -> Branch:
    fused, asks = plan.fused[check], plan.asks_sizes
    return lambda inner: write_bounded(inner, fused, typings, loop, asks_sizes=asks)


def _writes_loop(plan: FusionPlan, typings: Typings, count: ir.Value) -> Branch:
    return lambda inner: _write_few(inner, plan, typings, count)


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
