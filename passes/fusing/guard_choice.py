"""Chooses the form of a map: a loop, batched in part, or batched behind a guard."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

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
from passes.fusing.stack import is_promised, is_proven_equal, static_count
from passes.fusing.walk_site import walk_site
from passes.loops.plan import LoopPlan
from passes.site import MapSite, SequenceSource

__all__ = [
    "Behind",
    "Choice",
    "Forms",
    "choose_by_cost",
    "choose_guards",
    "declared_elements",
    "few_without_guard",
    "for_count",
    "unproven_sequences",
    "walk_behind_guards",
]

Dims = tuple[int | str | None, ...]
"""A shape; None for each dimension that is not known."""

Forms = dict[Check | None, FusedBody]
"""The fused bodies of a map by the guard that each needs; none where it stays a loop."""

_RANKS = (2, 1, 3)
"""Ranks that elements of unknown rank may be supposed to have, the most likely first."""

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


def unproven_sequences(site: MapSite, facts: FusionFacts) -> list[ir.Value]:
    """Return the sequences whose elements may differ in shape."""
    found = {
        source.sequence: None
        for _, source in site.elements
        if isinstance(source, SequenceSource)
        and not is_proven_equal(source, facts.typings)
        and not is_promised(source.sequence, facts.promises, facts.typings)
    }
    return list(found)


@dataclasses.dataclass(frozen=True)
class Behind:
    """A body as it is batched behind each guard that could help.

    Attributes:
        found: The fused bodies.
        relied: What their guards check of the elements of sequences.
    """

    found: Mapping[Check, FusedBody] = dataclasses.field(default_factory=dict)
    relied: Relied = dataclasses.field(default_factory=dict)

    @property
    def fused(self) -> int:
        """How many nodes are batched where all shapes are equal."""
        return self.found[Check.SHAPES].walk.fused


def walk_behind_guards(site: MapSite, facts: FusionFacts) -> Behind:
    """Walk over a body behind every guard that could help.

    All of them ask for equal lengths, which sources of two known lengths never have. A rank that
    is not declared is supposed, where that fuses more; and what a Loop declares of elements is
    the first example of an exporter, so that its numbers count only where they fuse more.
    """
    if len({static_count(source, facts.typings) for _, source in site.elements} - {None}) > 1:
        return Behind()
    best: Behind | None = None
    for relied in _suppositions(site, facts):
        one = Behind(_walk_behind(site, facts, relied), relied)
        is_better = best is None or one.fused > best.fused
        for body in (best or Behind()).found.values() if is_better else one.found.values():
            body.discard()
        best = one if is_better else best
        assert best is not None
        if not any(best.found[Check.SHAPES].walk.loops):
            break
    return best or Behind()


def declared_elements(site: MapSite, facts: FusionFacts) -> dict[ir.Value, Dims | None]:
    """Return what is declared of the elements of each sequence.

    Several inputs of the body may read one sequence, and declare different parts of its type.
    """
    found: dict[ir.Value, list[Dims]] = {}
    for inner, source in site.elements:
        if isinstance(source, SequenceSource):
            dims = facts.typings.declared.dims(inner)
            found.setdefault(source.sequence, []).extend([] if dims is None else [dims])
    return {sequence: _joined(declared) for sequence, declared in found.items()}


def _joined(declared: Sequence[Dims]) -> Dims | None:
    """Return what declarations of one shape say together."""
    ranked = [dims for dims in declared if len(dims) == len(declared[0])]
    return tuple(map(_both, *ranked)) if ranked else None


def _both(*dims: int | str | None) -> int | str | None:
    """Return what declarations of one dimension say; where they differ -1, which none has."""
    numbers = {d for d in dims if isinstance(d, int)}
    if numbers:
        return numbers.pop() if len(numbers) == 1 else -1
    return dims[0]


def _suppositions(site: MapSite, facts: FusionFacts) -> Iterator[Relied]:
    """Yield what a guard could check of the elements of the sequences, the least first."""
    declared = declared_elements(site, facts)
    known = {s: dims for s, dims in declared.items() if dims is not None}
    if site.was_loop and any(isinstance(d, int) for dims in known.values() for d in dims):
        yield {s: (None,) * len(dims) for s, dims in known.items()}
    yield known
    if len(known) < len(declared):
        for rank in _RANKS:
            yield {s: dims or (None,) * rank for s, dims in declared.items()}


def _walk_behind(site: MapSite, facts: FusionFacts, relied: Relied) -> dict[Check, FusedBody]:
    checks = [Check.SHAPES, Check.ROWS]
    if len({s.sequence for _, s in site.elements if isinstance(s, SequenceSource)}) > 1:
        checks.append(Check.LENGTHS)
    known = {s: dims for s, dims in declared_elements(site, facts).items() if dims is not None}
    other = None if relied == known else relied
    return {check: walk_site(site, facts, check, relied=other) for check in checks}


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
