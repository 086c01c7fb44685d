"""Plans a map with nodes that stay in loops, or that stays a loop itself."""

from __future__ import annotations

import dataclasses

from passes.decisions import Code, Decision, Reason, Verdict
from passes.fusing.alternatives import walk_alternative
from passes.fusing.cost import cost_of_body, cost_of_loop
from passes.fusing.form_choice import FormChoice
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.guard_choice import choose_guards
from passes.fusing.guarded_walks import Behind
from passes.fusing.measured_costs import USUAL
from passes.fusing.plan_decision import plan_decision
from passes.fusing.walk_site import walk_site
from passes.loops.forms import Form
from passes.loops.plan import LoopPlan
from passes.site import GuardCheck, MapSite

__all__ = ["OPEN_RESULT", "ask_sizes", "is_carried", "least_in_loops", "plan_unfused"]

OPEN_RESULT = Reason(Code.RAGGED, detail="what it yields is not proven to have one shape")

_OF_SHAPES = (Code.RAGGED, Code.UNKNOWN_RANK)

_COULD_ASK = (
    "an If could ask at run time whether all elements have one shape, but would make this slower: "
    "--strategy fuse writes it, --uniform spares it"
)


def least_in_loops(site: MapSite, facts: FusionFacts, plain: FusedBody) -> FusedBody:
    """Return the form of a body without a guard that leaves the least to loops.

    Loops may collect lengths beside their values. For ``auto`` that must pay.

    Args:
        site: The map.
        facts: What holds for all maps.
        plain: Its body, walked over without lengths, with a part in loops.
    """
    body = walk_site(site, facts, None, collects_lengths=True)
    if facts.options.auto:
        before, after = (cost_of_body(one, facts.typings).of(USUAL) for one in (plain, body))
        return body if after < before else plain
    return body if body.nodes_in_loops < plain.nodes_in_loops else plain


def plan_unfused(
    site: MapSite,
    facts: FusionFacts,
    loop: LoopPlan,
    plain: FusedBody,
    behind: Behind,
    choice: FormChoice,
) -> FusionPlan | Decision:
    """Plan a map for which no form was chosen; a `Decision` alone says why it stays.

    Args:
        site: The map.
        facts: What holds for all maps.
        loop: The map as a loop.
        plain: What is batched without a guard.
        behind: What is batched behind each guard.
        choice: Why no form was chosen.
    """
    kept = _kept_as_loop(loop, plain, choice)
    could_ask = choice.reasons and choose_guards(site, facts, plain, behind).is_guarded
    if site.originals and could_ask:
        kept.notes.append(_COULD_ASK)
    return _where_sizes_agree(site, facts, loop, kept) or _as_loop(site, facts, loop, kept) or kept


def _kept_as_loop(loop: LoopPlan, plain: FusedBody, choice: FormChoice) -> Decision:
    """Say why a map is not fused."""
    # What the loop yields may differ in shape for the same causes.
    of_loop = loop.decision.reasons
    others = [r for r in of_loop if not plain.walk.reasons or r.code not in _OF_SHAPES]
    is_kept = loop.decision.verdict is Verdict.KEPT
    causes = plain.walk.reasons or ([OPEN_RESULT] if is_kept else [])
    return dataclasses.replace(loop.decision, reasons=[*causes, *choice.reasons, *others])


def _as_loop(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, kept: Decision
) -> FusionPlan | None:
    """Plan a loop that collects, in the place of one that copies all it has in each iteration."""
    if not all(one.grows for one in site.originals) or not site.originals or not loop.outputs:
        return None
    forms = {one.form for one in loop.outputs.values()}
    if facts.options.lacks and forms != {Form.SCAN_OUTPUT}:
        return None
    form = "Loop with " + " and ".join(sorted(one.value for one in forms))
    patterns = [line for one in site.originals for line in one.patterns]
    decision = dataclasses.replace(
        kept, verdict=Verdict.EXPANDED, form=form, notes=[*kept.notes, *patterns]
    )
    original = dataclasses.replace(loop, decision=kept)
    return FusionPlan(site, FormChoice({}), [], False, original, decision)


def _where_sizes_agree(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, kept: Decision
) -> FusionPlan | None:
    """Plan a map that stays a loop for tensors that turn out to be equally long, if that helps."""
    if not any(r.code is Code.RAGGED or r.dependents for r in kept.reasons):
        return None
    return ask_sizes(site, facts, loop)


def ask_sizes(site: MapSite, facts: FusionFacts, loop: LoopPlan) -> FusionPlan | None:
    """Plan a map for tensors that turn out to be equally long, None if it reads none of these."""
    if is_carried(site):
        return None
    body = walk_alternative(site, facts, GuardCheck.SIZES)
    if body is None:
        return None
    choice = FormChoice({GuardCheck.SIZES: body}, few=_few(site, facts, loop, body))
    return FusionPlan(site, choice, [], True, loop, plan_decision(site, choice, [], facts))


def _few(site: MapSite, facts: FusionFacts, loop: LoopPlan, body: FusedBody) -> int:
    """Return up to how many samples the loop is faster, where it is there for none anyway."""
    is_known = site.elements[0][1].number(facts.typings.proven) is not None
    options = facts.options
    if is_known or not options.auto or options.for_device or not loop.outputs:
        return 0
    as_loop = cost_of_loop(site, loop.outputs, facts.typings.declared)
    return cost_of_body(body, facts.typings).pays_from(as_loop) or 0


def is_carried(site: MapSite) -> bool:
    """Whether operators behind the map read all values of it at once.

    A loop in another branch would have to stack what may differ in shape, which the Loop as given
    need not: it carries one value at a time.
    """
    return any(one.patterns and not one.grows for one in site.originals)
