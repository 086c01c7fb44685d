"""Decides that a Loop of a known few iterations runs by copies of its body.

What is batched for samples of different length takes very many operators: for two or three bags of
rows they take several times as long as the Loop. Copies of the body need no Loop either.
"""

from __future__ import annotations

from collections.abc import Sequence

from passes.decisions import Code, Decision, Reason, Verdict
from passes.fusing.copied_map import nodes_of_copy
from passes.fusing.cost import (
    Cost,
    cost_of_body,
    cost_of_given,
    cost_of_nodes,
    cost_of_stages,
)
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.measured_costs import KERNEL, LOOP, MARGIN
from passes.graph.graphs import walk_nodes
from passes.loops.unrolled import mark_for_copies
from passes.sequence_operators import is_map
from passes.site import MapSite, Original

__all__ = ["kept_for_copies", "mark_few"]

_MOST_NODES = 400
"""So many nodes all copies of a body may be; where they were more, what is batched pays."""


def kept_for_copies(plans: Sequence[FusionPlan], facts: FusionFacts) -> Decision | None:
    """Mark a Loop of a known few iterations that is slower batched; return why it stays.

    Args:
        plans: What the maps become that the Loop was raised to.
        facts: What holds for all maps.

    Returns:
        Why it is not batched; None where it is.
    """
    site = plans[0].site
    count = _known_few(site, facts)
    if count is None:
        return None
    (original,) = site.originals
    given = cost_of_given(original.node)
    allowed = LOOP + given.of(count)
    is_copied = any(plan.choice.runs_copies for plan in plans)
    margin = 1.0 if is_copied else MARGIN  # of the same nodes
    has_forms = all(plan.is_without_loop for plan in plans)
    if has_forms and margin * _batched(original, plans, facts).of(count) <= allowed:
        return None
    mark_for_copies(original.node)
    reason = Reason(Code.COST, detail=f"batching pays for more than {count} iterations")
    return Decision(original.path, original.node.op_type, Verdict.KEPT, "as it is", [reason])


def mark_few(site: MapSite, facts: FusionFacts) -> None:
    """Mark a Loop of a known few iterations that stays one: copies of its body are no slower."""
    if _known_few(site, facts) is not None:
        mark_for_copies(site.originals[0].node)


def _known_few(site: MapSite, facts: FusionFacts) -> int | None:
    """Return how many iterations a Loop has, if copies of its body may take its place."""
    options = facts.options
    count = site.elements[0][1].number(facts.typings.proven)
    if not count or not options.auto or options.lacks or options.for_device:
        return None
    if len(site.originals) != 1 or not facts.runs_once(site.graph):
        return None
    (original,) = site.originals
    is_few = not original.rest and count * _nodes(original) <= _MOST_NODES
    return count if is_few else None


def _nodes(original: Original) -> int:
    return sum(node.op_type != "Constant" for node in walk_nodes([original.node]))


def _batched(original: Original, plans: Sequence[FusionPlan], facts: FusionFacts) -> Cost:
    """Return what is batched costs in the dearest of its forms, with what stands behind it."""
    behind = cost_of_stages(node for node in original.written if not is_map(node))
    copied = sum(nodes_of_copy(plan.site) for plan in plans if plan.choice.runs_copies)
    bodies = [plan.choice.forms.values() for plan in plans if plan.choice.forms]
    forms = [[cost_of_body(body, facts.typings) for body in some] for some in bodies]
    dearest = [max(costs, key=lambda cost: cost.fixed) for costs in forms]
    asked = sum(_asked(body) for some in bodies for body in some)
    each = KERNEL * copied + sum(cost.each for cost in dearest)
    return Cost(behind + asked + sum(cost.fixed for cost in dearest), each)


def _asked(form: FusedBody) -> float:
    """Return what it costs to ask whether a form is right."""
    condition = form.site.condition
    return 0.0 if condition is None else cost_of_nodes(condition.builder.nodes)
