"""Chooses the form of a map: a loop, batched in part, or batched behind a guard."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.fusing.cost import (
    FURTHER_REFUTED,
    LARGEST,
    LOSS,
    MOST_BYTES,
    MOST_NUMBERS,
    REFUTED,
    USUAL,
    Cost,
    cost_of_body,
    cost_of_loop,
    work_of,
)
from passes.fusing.form_choice import FormChoice, Forms, few_without_guard, for_count
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.guarded_walks import Behind
from passes.loops.plan import LoopPlan
from passes.site import GuardCheck, MapSite

__all__ = ["choose_by_cost", "choose_guards"]

_HEAVY_SHARE = 50.0
"""A body is dominated by heavy operators that take so many times what batching saves."""


def choose_guards(
    site: MapSite, facts: FusionFacts, plain: FusedBody, behind: Behind
) -> FormChoice:
    """Choose the form that fuses the most, whatever it costs.

    A guard must at least double what is fused without one, if that is another form. Rows are
    asked for where that fuses as much as equal shapes do, unless a declared number says that
    shapes are equal; and after equal shapes where it fuses less, but more than no guard.
    """
    found = behind.found
    fused = {check: body.walk.fused for check, body in found.items()}
    stands = _stands(plain, site, facts)
    least = plain.walk.fused * (1 if site.originals else 2)
    gains = [check for check in found if fused[check] > least]
    packed = max(
        (c for c in gains if c is not GuardCheck.SHAPES), key=lambda c: fused[c], default=None
    )
    chosen: list[GuardCheck] = [GuardCheck.SHAPES] if GuardCheck.SHAPES in gains else []
    if packed is not None and not _first_is_number(site, facts):
        shapes_fuse_more = chosen and fused[GuardCheck.SHAPES] > fused[packed]
        chosen = [*chosen, packed] if shapes_fuse_more else [packed]
    if not chosen:
        return FormChoice({None: plain} if stands else {})
    forms: Forms = {check: found[check] for check in chosen}
    rest = plain if stands and plain.walk.fused else None
    return FormChoice(forms, rest=rest, relied=behind.relied)


def _stands(plain: FusedBody, site: MapSite, facts: FusionFacts) -> bool:
    """Whether what is batched without a guard may be taken; an original is fused as a whole."""
    return not site.originals or not plain.needs_loop(facts.typings)


def choose_by_cost(
    site: MapSite,
    facts: FusionFacts,
    loop: LoopPlan,
    plain: FusedBody,
    behind: Behind,
) -> FormChoice:
    """Choose the form that costs the least for a usual number of samples.

    Args:
        site: The map.
        facts: What holds for all maps.
        loop: The map as a loop.
        plain: What of it is batched without a guard.
        behind: What is batched behind each guard.
    """
    as_loop = cost_of_loop(site, loop.outputs, facts.typings.declared)
    without = cost_of_body(plain, facts.typings)
    is_whole = "Loop" in facts.options.lacks and not plain.needs_loop(facts.typings)
    gains = bool(plain.walk.fused or site.originals or is_whole)
    forms: Forms = {None: plain} if gains and _stands(plain, site, facts) else {}
    best = without if forms else as_loop
    if any(plain.walk.loops) and as_loop.of(USUAL) <= without.of(USUAL):
        forms, best = {}, as_loop
    guarded = _guarded_forms(site, facts, as_loop, plain, behind.found)
    reasons: list[Reason] = []
    count = plain.walk.reads_numbers
    if forms and site.sequences and not site.originals and count > MOST_NUMBERS:
        detail = f"samples of {count:,} numbers are padded faster one by one"
        return FormChoice({}, reasons=(Reason(Code.COST, detail=detail),))
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
            refuted = REFUTED + FURTHER_REFUTED * (len(guarded) - 1)
            few = max(few, cost.pays_from(as_loop) or 0, as_loop.bears(refuted, LOSS))
            is_known = all(facts.typings.declared.static_dims(v) for v in _asked(site, facts))
            most = None if is_known else MOST_BYTES
            choice = FormChoice(
                guarded,
                few,
                few_of=_few_of(guarded, few, site, facts, as_loop),
                most_bytes=most,
                rest=forms.get(None),
                relied=behind.relied,
            )
            return for_count(site, facts, choice)
    choice = FormChoice(forms)
    if forms and loop.outputs:
        choice = few_without_guard(site, facts, plain, as_loop)
    return for_count(site, facts, dataclasses.replace(choice, reasons=tuple(reasons)))


def _guarded_forms(
    site: MapSite,
    facts: FusionFacts,
    as_loop: Cost,
    plain: FusedBody,
    found: Mapping[GuardCheck, FusedBody],
) -> Forms:
    """Return the guards that could pay, in the order of asking.

    Rows are asked for where that costs hardly more than equal shapes do, and after them where it
    still costs less than a loop.
    """
    gains = {c: body for c, body in found.items() if body.walk.fused > plain.walk.fused}
    costs = {c: _cost({c: body}, site, facts).of(USUAL) for c, body in gains.items()}
    packed = min(
        (c for c in gains if c is not GuardCheck.SHAPES), key=lambda c: costs[c], default=None
    )
    chosen: list[GuardCheck] = [GuardCheck.SHAPES] if GuardCheck.SHAPES in gains else []
    if packed is not None and not _first_is_number(site, facts):
        if not chosen:
            chosen = [packed]
        elif costs[packed] <= 1.25 * costs[GuardCheck.SHAPES]:
            chosen = chosen if _needs_one_length(found[packed]) else [packed]
        elif costs[packed] <= as_loop.of(USUAL):
            chosen.append(packed)
    return {check: found[check] for check in chosen}


def _few_of(
    forms: Forms, few: int, site: MapSite, facts: FusionFacts, as_loop: Cost
) -> dict[GuardCheck, int]:
    """Return up to how many samples each further form is left out, where that is more."""
    found = {}
    for check in [one for one in forms if one is not None][1:]:
        cost = _cost({check: forms[check]}, site, facts)
        least = cost.pays_from(as_loop)
        found[check] = LARGEST if least is None else least
    return {check: least for check, least in found.items() if least > few}


def _needs_one_length(body: FusedBody) -> bool:
    """Whether samples of different length would fail in the end, since each result stacks them."""
    results = body.site.results
    outputs = [body.walk.read(body.site.body.outputs[r.output]) for r in results]
    return all(r.kind == "stacked" and x.is_packed for r, x in zip(results, outputs, strict=True))


def _cost(forms: Forms, site: MapSite, facts: FusionFacts) -> Cost:
    """Return the cost of the first body behind a guard."""
    body = next(iter(forms.values()))
    return cost_of_body(body, facts.typings, facts.unproven_sequences(site))


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
    unproven = facts.unproven_sequences(site)
    return [inner for inner, sequence in site.sequences if sequence in unproven]


def _least_bytes(inner: ir.Value, facts: FusionFacts) -> int:
    """Return the size of an element whose dimensions that are not declared are 1."""
    dims, dtype = facts.typings.declared.dims(inner), facts.typings.declared.dtype(inner)
    if dtype is None or dtype == ir.DataType.STRING:
        return 0
    known = math.prod(d for d in dims or () if isinstance(d, int))
    return math.ceil(known * dtype.itemsize)


def _first_is_number(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the declared elements of all sequences have a number for their first dimension."""
    dims = [facts.typings.declared.dims(inner) for inner, _ in site.sequences]
    return all(d and isinstance(d[0], int) for d in dims)
