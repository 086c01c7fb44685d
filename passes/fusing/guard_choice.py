"""Chooses the form of a map: a loop, batched in part, or batched behind a guard."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.fusing.cost import (
    LOSS,
    MOST_BYTES,
    REFUTED,
    USUAL,
    Cost,
    cost_of_body,
    cost_of_loop,
    work_of,
)
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import Check, FusionFacts, Relied
from passes.fusing.guarded_walks import Behind, unproven_sequences
from passes.fusing.stack import static_count
from passes.loops.plan import LoopPlan
from passes.site import MapSite, SequenceSource

__all__ = [
    "Choice",
    "Forms",
    "choose_by_cost",
    "choose_guards",
    "few_without_guard",
    "for_count",
]

Forms = dict[Check | None, FusedBody]
"""The fused bodies of a map by the guard that each needs; none where it stays a loop."""

_FEWEST = 2
"""Fewer samples are not worth a question."""

_FEW_FOR_STEPS = 26
"""Up to so many samples of different length it is faster to go through them one by one."""

_HEAVY_SHARE = 50.0
"""A body is dominated by heavy operators that take so many times what batching saves."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """The form of a map.

    Attributes:
        forms: Its fused bodies.
        few: Up to how many samples a loop is faster.
        most_bytes: Above which size of an element it is faster, too; None if that is known.
        rest: What runs where no guard holds; None for a loop.
        relied: What the guards check of the elements of sequences.
        reasons: Why there is no guard, where there could be one.
    """

    forms: Forms
    few: int = 0
    most_bytes: int | None = None
    rest: FusedBody | None = None
    relied: Relied = dataclasses.field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()

    @property
    def is_guarded(self) -> bool:
        """Whether all its bodies stand behind guards."""
        return bool(self.forms) and None not in self.forms


def choose_guards(site: MapSite, facts: FusionFacts, plain: FusedBody, behind: Behind) -> Choice:
    """Choose the form that fuses the most, whatever it costs.

    A guard must at least double what is fused without one, if that is another form. Rows are
    asked for where that fuses as much as equal shapes do, unless a declared number says that
    shapes are equal; and after equal shapes where it fuses less, but more than no guard.
    """
    found = behind.found
    fused = {check: body.walk.fused for check, body in found.items()}
    least = plain.walk.fused * (1 if site.was_loop else 2)
    gains = [check for check in found if fused[check] > least]
    packed = max((c for c in gains if c is not Check.SHAPES), key=lambda c: fused[c], default=None)
    chosen: list[Check] = [Check.SHAPES] if Check.SHAPES in gains else []
    if packed is not None and not _first_is_number(site, facts):
        shapes_fuse_more = chosen and fused[Check.SHAPES] > fused[packed]
        chosen = [*chosen, packed] if shapes_fuse_more else [packed]
    if not chosen:
        return Choice({None: plain})
    forms: Forms = {check: found[check] for check in chosen}
    return Choice(forms, rest=plain if plain.walk.fused else None, relied=behind.relied)


def choose_by_cost(
    site: MapSite,
    facts: FusionFacts,
    loop: LoopPlan,
    plain: FusedBody,
    behind: Behind,
) -> Choice:
    """Choose the form that costs the least for a usual number of samples.

    Args:
        site: The map.
        facts: What holds for all maps.
        loop: The map as a loop.
        plain: What of it is batched without a guard.
        behind: What is batched behind each guard.
    """
    as_loop = cost_of_loop(site, loop.outputs)
    without = cost_of_body(plain, facts.typings)
    # A map that was a Loop is fused as a whole or not at all.
    forms: Forms = {None: plain} if plain.walk.fused and not site.was_loop else {}
    best = without if forms else as_loop
    if any(plain.walk.loops) and as_loop.of(USUAL) <= without.of(USUAL):
        forms, best = {}, as_loop
    guarded = _guarded_forms(site, facts, as_loop, plain, behind.found)
    reasons: list[Reason] = []
    least = max((_least_bytes(inner, facts) for inner in _asked(site, facts)), default=0)
    if guarded and least > MOST_BYTES:
        detail = f"samples of {least:,} bytes are faster one by one"
        reasons.append(Reason(Code.COST, detail=detail))
    elif guarded:
        cost = _cost(guarded, site, facts)
        saved = best.of(USUAL) - cost.of(USUAL)
        work = work_of(site.body, facts.typings.declared) * USUAL
        few = cost.pays_from(best)
        if few is None or saved <= 0 or work > _HEAVY_SHARE * saved:
            reasons.append(Reason(Code.COST, detail=_explain(saved / USUAL, work / USUAL)))
        else:
            few = max(few, cost.pays_from(as_loop) or 0, as_loop.bears(REFUTED, LOSS))
            is_known = all(facts.typings.declared.static_dims(v) for v in _asked(site, facts))
            most = None if is_known else MOST_BYTES
            choice = Choice(guarded, few, most, forms.get(None), behind.relied)
            return for_count(site, facts, choice)
    few = few_without_guard(plain, facts, as_loop) if forms else 0
    return for_count(site, facts, Choice(forms, few, reasons=tuple(reasons)))


def few_without_guard(plain: FusedBody, facts: FusionFacts, as_loop: Cost) -> int:
    """Return up to how many samples a loop is faster than what needs no guard.

    Packed samples that a Loop or Scan goes through take as many steps as the longest has.
    """
    few = cost_of_body(plain, facts.typings).pays_from(as_loop) or 0
    nodes = (node for stage in plain.walk.stages for node in stage.nodes)
    if plain.is_packed and any(node.op_type in ("Loop", "Scan") for node in nodes):
        few = max(few, _FEW_FOR_STEPS)
    return few if few > _FEWEST else 0


def _guarded_forms(
    site: MapSite,
    facts: FusionFacts,
    as_loop: Cost,
    plain: FusedBody,
    found: Mapping[Check, FusedBody],
) -> Forms:
    """Return the guards that could pay, in the order of asking.

    Rows are asked for where that costs hardly more than equal shapes do, and after them where it
    still costs less than a loop.
    """
    gains = {c: body for c, body in found.items() if body.walk.fused > plain.walk.fused}
    costs = {c: _cost({c: body}, site, facts).of(USUAL) for c, body in gains.items()}
    packed = min((c for c in gains if c is not Check.SHAPES), key=lambda c: costs[c], default=None)
    chosen: list[Check] = [Check.SHAPES] if Check.SHAPES in gains else []
    if packed is not None and not _first_is_number(site, facts):
        if not chosen or costs[packed] <= 1.25 * costs[Check.SHAPES]:
            chosen = [packed]
        elif costs[packed] <= as_loop.of(USUAL):
            chosen.append(packed)
    return {check: found[check] for check in chosen}


def _cost(forms: Forms, site: MapSite, facts: FusionFacts) -> Cost:
    """Return the cost of the first body behind a guard."""
    body = next(iter(forms.values()))
    return cost_of_body(body, facts.typings, unproven_sequences(site, facts))


def for_count(site: MapSite, facts: FusionFacts, choice: Choice) -> Choice:
    """Return a choice that asks nothing of a number of samples that is known."""
    count = static_count(site.elements[0][1], facts.typings)
    if not choice.few or facts.lacks:
        return dataclasses.replace(choice, few=0)
    if count is None:
        return choice
    if count > choice.few:
        return dataclasses.replace(choice, few=0)
    reason = Reason(Code.COST, detail=f"batching pays for more than {choice.few} samples")
    return Choice({}, reasons=(*choice.reasons, reason))


def _explain(saved: float, work: float) -> str:
    """Say in one clause what was weighed."""
    if saved <= 0:
        return "a guard would cost more than batching saves"
    return (
        f"heavy operators take about {work:.0f} us a sample, and batching would save "
        f"{saved:.0f} us of overhead"
    )


def _asked(site: MapSite, facts: FusionFacts) -> list[ir.Value]:
    """Return the inputs of the body that read a sequence of unproven shapes."""
    unproven = unproven_sequences(site, facts)
    return [
        inner
        for inner, source in site.elements
        if isinstance(source, SequenceSource) and source.sequence in unproven
    ]


def _least_bytes(inner: ir.Value, facts: FusionFacts) -> int:
    """Return the size of an element whose dimensions that are not declared are 1."""
    dims, dtype = facts.typings.declared.dims(inner), facts.typings.declared.dtype(inner)
    if dtype is None or dtype == ir.DataType.STRING:
        return 0
    known = math.prod(d for d in dims or () if isinstance(d, int))
    return math.ceil(known * dtype.itemsize)


def _first_is_number(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the declared elements of all sequences have a number for their first dimension."""
    dims = [
        facts.typings.declared.dims(inner)
        for inner, source in site.elements
        if isinstance(source, SequenceSource)
    ]
    return all(d and isinstance(d[0], int) for d in dims)
