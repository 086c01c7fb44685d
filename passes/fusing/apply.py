"""Writes the plan of a map into the graph, in the place of the map's node."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.guarded_writing import write_asked, write_few
from passes.fusing.measured_costs import MOST_CUT
from passes.graph.builder import Builder, needed_nodes
from passes.graph.drafts import Draft
from passes.graph.opsets import find_misfit, to_opset_form
from passes.graph.splice import splice
from passes.loops.copied_samples import CopiedSamples
from passes.loops.few_samples import cut_beforehand, write_by_count
from passes.loops.write_if import Branch, knows_no_samples, more_than, no_samples, write_if
from passes.maps.sequence_map import move_initializers, read_moved
from passes.maps.tensor_source import reversed_along
from passes.raising.originals import forget
from passes.raising.results import type_rows
from passes.sequence_operators import is_map
from passes.site import MapResult
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
    site, choice = plan.site, plan.choice
    if choice.runs_copies:
        return CopiedSamples(site, typings, choice.few).write_all(builder)
    if not choice.forms:
        return write_by_count(builder, site, typings, plan.loop)
    is_alone = list(choice.forms) == [None] and not plan.needs_samples and not choice.few
    if is_alone and not choice.forms[None].walk.limits:
        return choice.forms[None].write(builder, typings)
    count = _trip_count(plan, typings) or site.elements[0][1].scalar_count(builder, typings.proven)
    if not plan.needs_samples and not choice.few:
        return write_asked(builder, plan, typings, count)

    def write(inner: Builder) -> Sequence[ir.Value]:
        return write_asked(inner, plan, typings, count)

    if choice.is_copied:
        return _write_copied(builder, plan, typings, count, write)

    def write_instead(inner: Builder) -> Sequence[ir.Value]:
        if choice.few:
            return write_few(inner, plan, typings, count)
        return no_samples(inner, site, typings)

    enough = _asks_enough(builder, plan, typings, count)
    return write_if(builder, site, typings, enough, write, write_instead)


def _asks_enough(
    builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value
) -> ir.Value:
    """Record whether there are enough samples for the branch that is not for few: a scalar.

    Few samples are cut beforehand, which copies all of them once more. Where that is much, the
    other branch has a loop for many rows, which does not.
    """
    enough = more_than(builder, count, plan.choice.few)
    plain = plan.choice.forms.get(None)
    if not plan.choice.few or plain is None or not plain.asks_rows:
        return enough
    for source in cut_beforehand(plan.site, typings):
        size = builder.op("Size", [source.values[0]])
        is_much = builder.op("Greater", [size, builder.scalar(MOST_CUT)])
        enough = builder.op("Or", [enough, is_much])
    return enough


def _write_copied(
    builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value, write: Branch
) -> Sequence[ir.Value]:
    """Run copies of the body for few samples; no sample is one of few only if it must be."""
    site, few = plan.site, plan.choice.few
    copies = CopiedSamples(site, typings, few)
    if plan.needs_samples or knows_no_samples(site, typings):
        return copies.write_beside(builder, count, write)
    enough = more_than(builder, count, few)
    none = builder.op("Equal", [count, builder.scalar(0)])
    enough = builder.op("Or", [enough, none])
    return write_if(
        builder, site, typings, enough, write, lambda inner: copies.write(inner, count)
    )


def _trip_count(plan: FusionPlan, typings: Typings) -> ir.Value | None:
    """Return how many iterations a Loop has at most, where no exact number is needed."""
    originals = plan.site.originals
    if plan.needs_samples or plan.choice.is_copied or len(originals) != 1:
        return None
    return originals[0].trip_count(typings.proven)
