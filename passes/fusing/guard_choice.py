"""Chooses the guards of a map: those that fuse the most, or those that pay."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.fusing.cost import Cost, cost_of_body
from passes.fusing.form_choice import FormChoice, Forms, may_stand
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.guarded_walks import Behind
from passes.fusing.heavy_work import work_of
from passes.fusing.measured_costs import FURTHER_REFUTED, LARGEST, MOST_BYTES, REFUTED, USUAL
from passes.site import GuardCheck, MapSite
from passes.typing.value_types import is_number

__all__ = ["choose_guarded_by_cost", "choose_guards"]

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
    stands = may_stand(plain, site, facts)
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


def choose_guarded_by_cost(
    site: MapSite,
    facts: FusionFacts,
    as_loop: Cost,
    least: FormChoice,
    plain: FusedBody,
    behind: Behind,
) -> FormChoice:
    """Choose the guards that pay; a choice without forms says why none do.

    Args:
        site: The map.
        facts: What holds for all maps.
        as_loop: What a loop costs.
        least: The choice without a guard.
        plain: What is batched without a guard.
        behind: What is batched behind each guard.
    """
    guarded = _guarded_forms(site, facts, as_loop, plain, behind.found)
    if not guarded:
        return FormChoice({})
    smallest = max((_least_bytes(inner, facts) for inner in _asked(site, facts)), default=0)
    if smallest > MOST_BYTES:
        detail = f"samples of {smallest:,} bytes are faster one by one"
        return FormChoice({}, reasons=(Reason(Code.COST, detail=detail),))
    best = cost_of_body(plain, facts.typings) if least.forms else as_loop
    cost = _cost(guarded, site, facts)
    saved = best.of(USUAL) - cost.of(USUAL)
    work = work_of(site.body, facts.typings.declared) * USUAL
    few = cost.pays_from(best)
    if few is None or work >= _HEAVY_SHARE * saved:
        detail = _explain(saved / USUAL, work / USUAL)
        return FormChoice({}, reasons=(Reason(Code.COST, detail=detail),))
    refuted = REFUTED + FURTHER_REFUTED * (len(guarded) - 1)
    few = max(few, cost.pays_from(as_loop) or 0, as_loop.bears(refuted))
    is_known = all(facts.typings.declared.static_dims(v) for v in _asked(site, facts))
    return FormChoice(
        guarded,
        few,
        few_of=_few_of(guarded, few, site, facts, as_loop),
        most_bytes=None if is_known else MOST_BYTES,
        rest=least.forms.get(None),
        relied=behind.relied,
    )


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
    # Equal lengths are asked once for all samples: that costs less than comparing those of each.
    needed = plain.walk.fused if plain.walk.meets else plain.walk.fused + 1
    gains = {c: body for c, body in found.items() if body.walk.fused >= needed}
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
    """Return the size of an element; dimensions that are not declared count as 1."""
    dims, dtype = facts.typings.declared.dims(inner), facts.typings.declared.dtype(inner)
    if not is_number(dtype):
        return 0
    known = math.prod(d for d in dims or () if isinstance(d, int))
    return math.ceil(known * dtype.itemsize)


def _first_is_number(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the declared elements of all sequences have a number for their first dimension."""
    dims = [facts.typings.declared.dims(inner) for inner, _ in site.sequences]
    return all(d and isinstance(d[0], int) for d in dims)
