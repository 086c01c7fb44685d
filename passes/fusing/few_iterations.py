"""Runs a Loop as given for few iterations, where what replaces its carried values pays later.

A sum or a last value becomes operators that run once: they are slower than a Loop of a few
iterations by some 20 microseconds at most, and leave neither a Loop nor an If. What doubles its
steps is slower for up to 15 iterations, and asks for their number as it is: it may ask once more.
Where many operators take the place of a Loop, the few iterations for which they are slower run by
copies of its body, also where it appends to a list that is joined to a tensor. They run in the
Loop as given where copies would be very many nodes to load, or collect rows: copies have none
without iterations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.fusing.cost import Cost, cost_of_body, cost_of_given, cost_of_stages
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.loop_beside import FewIterations, LoopCopy
from passes.fusing.measured_costs import WRITTEN
from passes.graph.builder import Builder
from passes.graph.drafts import note
from passes.graph.graphs import is_operator, is_used, walk_nodes
from passes.graph.made import operand, that_run
from passes.graph.opsets import to_opset_form
from passes.loops.copied_loop import copied_original, may_be_copied
from passes.loops.iteration_chain import ChainResult, IterationChain
from passes.loops.write_if import more_than
from passes.sequence_operators import is_map
from passes.site import MapSite, Original

__all__ = ["few_iterations"]

_FEWEST = 4
"""Fewer iterations are not worth a Loop that is left, where more are asked for anyway."""

_DEAR = 14.0
"""So many microseconds are worth a question; for fewer it costs what it saves."""

_QUESTIONS = 6
"""What asks for the number of iterations costs as much as so many operators: an If as two."""

_MOST_COPIED, _MOST_NODES = 8, 300
"""So many iterations may have a copy of the body each, and so many nodes the copies in all."""


def few_iterations(plans: Sequence[FusionPlan], facts: FusionFacts) -> FewIterations | None:
    """Return how a Loop is run for few iterations; None where it is not worth it.

    Args:
        plans: What the maps become that the Loop was raised to.
        facts: What holds for all maps.
    """
    site = plans[0].site
    if not facts.options.auto or not all(_is_batched_whole(plan) for plan in plans):
        return None
    (original,) = site.originals
    lacks = facts.options.lacks
    if not original.patterns and not original.rest:
        return None
    if "If" in lacks or original.node.op_type in lacks:
        return None
    limits = [flag for plan in plans for flag in plan.choice.forms[None].walk.limits]
    if limits and (len(plans) > 1 or plans[0].needs_samples):
        return None
    is_known = site.elements[0][1].number(facts.typings.proven) is not None
    if facts.options.for_device or (is_known and not limits):
        return None
    if not facts.runs_once(site.graph):
        return None
    behind = that_run([node for node in original.written if not is_map(node)])
    asks = limits or original.few or any(node.op_type == "If" for node in behind)
    if not asks and (is_known or not _is_dear(plans, behind, facts)):
        return None
    if not asks and not original.rest:
        copied = _copied(site, _copies(plans, behind, facts), facts)
        if copied is not None:
            return copied
    if asks:
        few = 0 if is_known else _few(plans, behind, facts)
    else:
        few = max(_needed(plans, behind, facts), 1)
    if not few and not limits:
        return None
    builder = Builder(original.path)
    early = [flag for plan in plans for flag in plan.choice.forms[None].walk.early]
    tried = [_copy(site, facts) for asked in (few, early, limits) if asked]
    copies = [copy for copy in tried if copy is not None]
    if len(copies) < len(tried):
        return None
    count = original.trip_count(facts.typings.proven) or site.elements[0][1].scalar_count(
        builder, facts.typings.proven
    )
    enough = more_than(builder, count, few)
    to_opset_form(builder.nodes, facts.opset)
    path, opset = original.path, facts.opset
    return FewIterations(few, enough, builder.nodes, limits, early, copies, path, opset)


def _copies(plans: Sequence[FusionPlan], behind: Sequence[ir.Node], facts: FusionFacts) -> int:
    """Return how many iterations have a copy of the body each, 0 where these were too many nodes.

    These are those for which the batched form behind a question is not as fast as it has to be, as
    far as copies may go, but one at least: none at all are asked for with it.
    """
    (original,) = plans[0].site.originals
    copies = min(max(_needed(plans, behind, facts), 1), _MOST_COPIED)
    nodes = sum(node.op_type != "Constant" for node in walk_nodes([original.node]))
    return copies if copies * nodes <= _MOST_NODES else 0


def _needed(plans: Sequence[FusionPlan], behind: Sequence[ir.Node], facts: FusionFacts) -> int:
    """Return up to how many iterations the batched form behind a question is not fast enough."""
    told = max(plan.choice.few for plan in plans)
    cost = _cost(plans, behind, facts)
    asked = dataclasses.replace(cost, fixed=cost.fixed + _QUESTIONS * WRITTEN)
    return told or asked.stands_from(cost_of_given(plans[0].site.originals[0].node)) - 1


def _copied(site: MapSite, few: int, facts: FusionFacts) -> FewIterations | None:
    """Record copies of the body of a Loop for few iterations; None where that cannot be."""
    (original,) = site.originals
    builder = Builder(original.path)
    read = _read(original, facts)
    chain = None if read is None else IterationChain.of(original.node, read, few, facts.typings)
    if not few or chain is None or chain.collected:  # which has no rows without iterations
        return None
    if not may_be_copied(original.node, site, facts.typings):
        return None
    count = site.elements[0][1].scalar_count(builder, facts.typings.proven)
    enough = more_than(builder, count, few)
    if chain.needs_one:
        none = builder.op("Equal", [count, builder.scalar(0)])
        enough = builder.op("Or", [enough, none])
    to_opset_form(builder.nodes, facts.opset)
    asked = list(builder.nodes)
    copies = Builder(original.path)
    values = chain.write(copies, count)
    to_opset_form(copies.nodes, facts.opset)
    reader = ir.node("Identity", chain.results)
    note(reader)
    copy = LoopCopy(copies.nodes, values, reader)
    path, opset = original.path, facts.opset
    return FewIterations(few, enough, asked, [], [], [copy], path, opset, is_copied=True)


def _read(original: Original, facts: FusionFacts) -> list[ChainResult] | None:
    """Return what is read of a Loop, where that is tensors; a list would leave the If as one."""
    read = []
    for old, new in original.values:
        node = old.producer()
        if not is_used(new):
            continue
        if is_operator(node, "ConcatFromSequence"):
            read.append(ChainResult(new, operand(node, 0), node))
        elif not facts.typings.declared.is_sequence(old):
            read.append(ChainResult(new, old))
        else:
            joins = [use.node for use in new.uses()]
            if new.is_graph_output() or not all(_joins(node, new) for node in joins):
                return None
            read += [ChainResult(node.outputs[0], old, node) for node in joins]
    return read


def _joins(node: ir.Node, values: ir.Value) -> bool:
    """Whether a node beside what yields a list makes a tensor of it."""
    producer = values.producer()
    is_beside = producer is not None and node.graph is producer.graph
    return is_beside and is_operator(node, "ConcatFromSequence")


def _is_dear(plans: Sequence[FusionPlan], behind: Sequence[ir.Node], facts: FusionFacts) -> bool:
    """Whether very many operators take the place of a Loop that yields tensors."""
    if _read(plans[0].site.originals[0], facts) is None:
        return False
    return _cost(plans, behind, facts).fixed >= _DEAR


def _few(plans: Sequence[FusionPlan], behind: Sequence[ir.Node], facts: FusionFacts) -> int:
    """Return up to how many iterations the Loop as given is faster, 0 for too few to ask."""
    told = max(plan.choice.few for plan in plans) or plans[0].site.originals[0].few
    given = cost_of_given(plans[0].site.originals[0].node)
    few = told or _cost(plans, behind, facts).pays_from(given) or 0
    return few if few > _FEWEST else 0


def _copy(site: MapSite, facts: FusionFacts) -> LoopCopy | None:
    """Record a Loop as given once more, None where that cannot be."""
    found = copied_original(site, facts.typings)
    if found is None:
        return None
    copies, values = found
    read = {new: copy for new, copy in values.items() if is_used(new)}
    reader = ir.node("Identity", list(read))
    note(reader)
    return LoopCopy(copies, list(read.values()), reader)


def _is_batched_whole(plan: FusionPlan) -> bool:
    """Whether a map is batched in one form, which needs no loop and no other form beside it."""
    return len(plan.site.originals) == 1 and list(plan.choice.forms) == [None]


def _cost(plans: Sequence[FusionPlan], behind: Sequence[ir.Node], facts: FusionFacts) -> Cost:
    """Return what the maps cost, and the operators behind them, and what is left of the Loop."""
    costs = [cost_of_body(plan.choice.forms[None], facts.typings) for plan in plans]
    rest = plans[0].site.originals[0].rest
    if rest is not None:
        costs.append(cost_of_given(rest.node))  # it starts as the Loop as given does
    fixed = sum(cost.fixed for cost in costs) + cost_of_stages(behind)
    return Cost(fixed, sum(cost.each for cost in costs))
