"""Chooses the form of a map; few samples, for which it does not pay, run in a loop or copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from passes.decisions import Code, Reason
from passes.fusing.cost import Cost, cost_of_body, cost_of_loop, cost_of_nodes
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts, Relied
from passes.fusing.measured_costs import MOST_NUMBERS, USUAL
from passes.graph.graphs import walk_nodes
from passes.loops.copies import FEW_NODES
from passes.loops.plan import LoopPlan
from passes.site import GuardCheck, MapSite

__all__ = [
    "FormChoice",
    "Forms",
    "choose_without_guard",
    "for_count",
    "may_stand",
    "with_question",
]

Forms = dict[GuardCheck | None, FusedBody]
"""The fused bodies of a map by the guard that each needs; none where it stays a loop."""

_DEAR = 25.0
"""So many microseconds more than a loop of two samples takes are worth copies of a body."""

_FEWEST = 2
"""Fewer samples are not worth a question."""

_FEW_FOR_STEPS = 26
"""Up to so many samples of different length it is faster to go through them one by one."""

_MOST_COPIED, _MOST_NODES = 8, 200
"""So many copies of a body there may be, and so many nodes they may hold in all: fewer where a
loop is left anyway."""


@dataclasses.dataclass(frozen=True)
class FormChoice:
    """The form of a map.

    Attributes:
        forms: Its fused bodies.
        few: Up to how many samples a loop is used, or a copy of the body for each.
        is_copied: Whether it is the copies.
        few_of: Up to how many samples a further form is left out, where that is more.
        most_bytes: Above which size of an element it is faster, too; None if that is known.
        rest: What runs where no guard holds; None for a loop.
        relied: What the guards check of the elements of sequences.
        reasons: Why there is no guard, where there could be one.
    """

    forms: Forms
    few: int = 0
    is_copied: bool = False
    few_of: Mapping[GuardCheck, int] = dataclasses.field(default_factory=dict)
    most_bytes: int | None = None
    rest: FusedBody | None = None
    relied: Relied = dataclasses.field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()

    @property
    def bodies(self) -> list[FusedBody]:
        """All that is batched, behind whatever guard."""
        return [body for body in (*self.forms.values(), self.rest) if body is not None]

    @property
    def is_guarded(self) -> bool:
        """Whether all its bodies stand behind guards."""
        return bool(self.forms) and None not in self.forms

    @property
    def runs_copies(self) -> bool:
        """Whether all samples, a known few, run by copies of the body."""
        return self.is_copied and not self.forms

    @property
    def few_note(self) -> str:
        """Says in the report what runs for few samples."""
        where = "by copies of the body" if self.is_copied else "in one loop"
        run = "sample runs" if self.few == 1 else "samples run"
        return f"up to {self.few} {run} {where}, which is faster"

    def few_for(self, check: GuardCheck | None) -> int:
        """Return up to how many samples the form behind a guard is left out."""
        return self.few if check is None else self.few_of.get(check, self.few)


def may_stand(plain: FusedBody, site: MapSite, facts: FusionFacts) -> bool:
    """Whether a body without a guard may be taken; one with an original is fused as a whole."""
    return not site.originals or not plain.needs_loop(facts.typings)


def choose_without_guard(
    site: MapSite, facts: FusionFacts, as_loop: Cost, plain: FusedBody
) -> FormChoice:
    """Choose between a loop and what is batched without a guard, by what they cost.

    Args:
        site: The map.
        facts: What holds for all maps.
        as_loop: What a loop costs.
        plain: What is batched without a guard.
    """
    needs_loop = plain.needs_loop(facts.typings)
    is_whole = "Loop" in facts.options.lacks and not needs_loop
    gains = bool(plain.walk.fused or site.originals) or not needs_loop
    if not gains or not may_stand(plain, site, facts):
        return FormChoice({})
    if not is_whole and (any(plain.walk.loops) or plain.walk.meets):
        cost = cost_of_body(plain, facts.typings)
        if as_loop.of(USUAL) <= cost.of(USUAL):
            return FormChoice({})
    count = plain.walk.reads_numbers
    if site.sequences and not site.originals and count > MOST_NUMBERS:
        detail = f"samples of {count:,} numbers are padded faster one by one"
        return FormChoice({}, reasons=(Reason(Code.COST, detail=detail),))
    return few_without_guard(site, facts, plain, as_loop)


def with_question(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, plain: FusedBody, choice: FormChoice
) -> FormChoice:
    """Return the choice of a body without a guard, if another body stands before it.

    For samples that the other one is not for, the condition is asked in vain.

    Args:
        site: The map, as the other body has it.
        facts: What holds for all maps.
        loop: The map as a loop.
        plain: The body without a guard.
        choice: The choice without the other body.
    """
    if not facts.options.auto or not loop.outputs or site.condition is None:
        return choice
    asked = cost_of_nodes(site.condition.builder.nodes)
    as_loop = cost_of_loop(plain.site, loop.outputs, facts.typings.declared)
    few = few_without_guard(plain.site, facts, plain, as_loop, asked)
    return for_count(plain.site, facts, dataclasses.replace(few, reasons=choice.reasons))


def few_without_guard(
    site: MapSite, facts: FusionFacts, plain: FusedBody, as_loop: Cost, asked: float = 0.0
) -> FormChoice:
    """Choose what needs no guard, and what runs instead of it for few samples.

    Packed samples that a Loop or Scan goes through take as many steps as the longest has.
    """
    if plain.asks_rows:
        return FormChoice({None: plain}, plain.walk.few)
    cost = cost_of_body(plain, facts.typings)
    cost = dataclasses.replace(cost, fixed=cost.fixed + asked)
    copied = None if plain.needs_loop(facts.typings) else _copies(site, cost, as_loop)
    few = cost.pays_from(as_loop) or 0
    nodes = (node for stage in plain.walk.stages for node in stage.nodes)
    if plain.is_packed and any(node.op_type in ("Loop", "Scan") for node in nodes):
        few = max(few, _FEW_FOR_STEPS)
    elif copied is not None:
        is_large = copied * _nodes(site) > FEW_NODES and _has_loop_beside(site, plain)
        return FormChoice({None: plain}, copied, is_copied=copied > 0 and not is_large)
    return FormChoice({None: plain}, few if few > _FEWEST else 0)


def _copies(site: MapSite, cost: Cost, as_loop: Cost) -> int | None:
    """Return how many samples are run by copies of the body so that no loop is needed.

    Where operators behind the map compute what a Loop carried, they run for few samples too:
    another If is slower for two samples than copies gain for one, unless the map is dear.

    Returns:
        The number, 0 if none need be or the body is too large; None for elements of a sequence,
        which a loop reads best.
    """
    if site.sequences:
        return None
    if any(one.patterns for one in site.originals) and cost.of(2) < as_loop.of(2) + _DEAR:
        return 0
    needed = cost.stands_from(as_loop) - 1
    return min(needed, _MOST_COPIED, _MOST_NODES // max(_nodes(site), 1))


def _nodes(site: MapSite) -> int:
    return sum(node.op_type != "Constant" for node in walk_nodes(site.body))


def _has_loop_beside(site: MapSite, plain: FusedBody) -> bool:
    """Whether a loop is left for what a limit does not hold of; it may run few samples, too.

    Operators behind the map, which compute what a Loop carried or read sizes of no samples too,
    may do without one.
    """
    is_read_behind = any(one.patterns or one.needs_sizes for one in site.originals)
    return bool(plain.walk.limits) and not is_read_behind


def for_count(site: MapSite, facts: FusionFacts, choice: FormChoice) -> FormChoice:
    """Return a choice that does not ask for the number of samples where it is known."""
    count = site.elements[0][1].number(facts.typings.proven)
    if not choice.few or facts.options.lacks or _is_alone(site, facts, choice):
        return _without_questions(choice, choice.forms)
    if count is None:
        return choice
    if count > choice.few:
        forms = {c: f for c, f in choice.forms.items() if count > choice.few_for(c)}
        return _without_questions(choice, forms)
    plain = choice.forms.get(None)
    if site.originals and plain is not None and not plain.asks_rows:
        return _without_questions(choice, choice.forms)
    reason = Reason(Code.COST, detail=f"batching pays for more than {choice.few} samples")
    return FormChoice({}, reasons=(*choice.reasons, reason))


def _without_questions(choice: FormChoice, forms: Forms) -> FormChoice:
    """Return a choice of some of its forms that does not ask for the number of samples."""
    return dataclasses.replace(choice, forms=forms, few=0, is_copied=False, few_of={})


def _is_alone(site: MapSite, facts: FusionFacts, choice: FormChoice) -> bool:
    """Return whether a form that needs no guard has no other form beside it."""
    if choice.is_guarded:
        return False
    ends_as_tensor = not site.sequences and any(r.kind == "sequence" for r in site.results)
    return facts.options.for_device or (facts.options.for_tensors and ends_as_tensor)
