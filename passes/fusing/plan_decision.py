"""Makes the `Decision` of a planned map: its form, the reasons, and what is taken for granted."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import onnx_ir as ir

from passes.batching.walk import BatchInterpreter
from passes.decisions import BoundaryValue, Code, Decision, Reason, Verdict
from passes.fusing.flat_cost import flat_note
from passes.fusing.form_choice import FormChoice
from passes.fusing.fusion_facts import FusionFacts
from passes.site import GuardCheck, MapSite, Rest
from passes.typing import Typing, ValueType

__all__ = ["joined_decision", "plan_decision", "why_unguarded"]


def plan_decision(
    site: MapSite, choice: FormChoice, guarded: Collection[ir.Value], facts: FusionFacts
) -> Decision:
    """Say what a map becomes, and on what that relies.

    Args:
        site: The map.
        choice: Its form, with a fused body at least.
        guarded: The sequences that guards ask.
        facts: What holds for all maps.
    """
    walk = (next(iter(choice.forms.values())) if choice.is_guarded else choice.forms[None]).walk
    reasons = [*walk.reasons]
    if not site.originals and not site.lengths_are_equal(facts.typings.proven):
        reasons.append(Reason(Code.SURPLUS_IGNORED))
    walks = [body.walk for body in choice.bodies]
    return Decision(
        site.path,
        site.op_type,
        _verdict(choice, walk),
        _form(choice, walk),
        [*reasons, *choice.reasons],
        _assumptions(site, choice, guarded, facts),
        _notes(site, choice, walk, facts),
        sum(map(len, walk.loops)),
        _boundary_values(site, walks, facts.typings.declared),
        few=choice.few,
        few_copied=choice.is_copied,
    )


def _verdict(choice: FormChoice, walk: BatchInterpreter) -> Verdict:
    if choice.is_guarded:
        return Verdict.GUARDED
    return Verdict.FISSIONED if any(walk.loops) else Verdict.FUSED


def _form(choice: FormChoice, walk: BatchInterpreter) -> str:
    """Say what a map becomes: behind which guards, and with what in loops."""
    form = "batched if " + ", else if ".join(c.value for c in choice.forms if c)
    form = form if choice.is_guarded else ""
    if GuardCheck.SLICES in choice.forms:
        form = "stacked if all slices are equally long, else packed"
    if any(walk.loops):
        form = f"{form + ', ' if form else ''}{_kept_form(walk)}"
    return form if choice.rest is None else f"{form}, else {_kept_form(choice.rest.walk)}"


def _assumptions(
    site: MapSite, choice: FormChoice, guarded: Collection[ir.Value], facts: FusionFacts
) -> list[str]:
    """Say what is promised or declared, and asked by no guard."""
    promised = [
        f"{site.path}: all elements of '{sequence.name}' have one shape (promised)"
        for sequence in facts.sequences_of_open_shape(site, is_promised=True)
        if sequence not in guarded
    ]
    unguarded = choice.forms.get(None, choice.rest)
    declared = [] if unguarded is None else unguarded.taken_as_declared(facts.typings)
    promised += [
        f"{site.path}: the declared element types hold for '{value.name}'; a sample that "
        "breaks them is an error when the model runs"
        for value in declared
    ]
    return promised + [line for one in site.originals for line in one.assumptions]


def _notes(
    site: MapSite, choice: FormChoice, walk: BatchInterpreter, facts: FusionFacts
) -> list[str]:
    """Say how a Loop was read, what may come out otherwise, and when a loop is faster."""
    notes = [f"read as a map: {one.dialect}" for one in site.originals[-1:] if one.dialect]
    notes += [line for one in site.originals for line in one.patterns]
    notes += _flip_notes(walk, facts)
    if any(batched.is_flat for batched in walk.env.values()):
        note = flat_note(site, walk, site.elements[0][1].number(facts.typings.proven))
        notes += [] if note is None else [note]
    notes += dict.fromkeys([*walk.limits.values(), *walk.padded])
    notes += [choice.few_note] if choice.few else []
    return notes + [
        f"where {check.value}, up to {few} samples run in one loop, which is faster"
        for check, few in choice.few_of.items()
    ]


_MOST_TOLD = 3
"""Nodes that a note names; more are counted."""


def _flip_notes(walk: BatchInterpreter, facts: FusionFacts) -> list[str]:
    """Return the note on discrete operators that rounding may sway: one for all of them."""
    nodes = [f"{facts.paths.get(node, node.op_type)} ({node.op_type})" for node in walk.flips]
    if not nodes:
        return []
    them = "it" if len(nodes) == 1 else "them"
    if len(nodes) > _MOST_TOLD:
        nodes[_MOST_TOLD - 1 :] = [f"and {len(nodes) - _MOST_TOLD + 1} more"]
    return [
        f"{', '.join(nodes)} may flip at a tie: what feeds {them} rounds differently when "
        f"batched; --exact keeps {them} per-sample"
    ]


def _kept_form(walk: BatchInterpreter) -> str:
    """Say what of a body stays in loops."""
    loops = sum(bool(nodes) for nodes in walk.loops)
    count = sum(len(nodes) for nodes in walk.loops)
    return f"{count} node{'s' * (count > 1)} in {loops} loop{'s' * (loops > 1)}"


def joined_decision(decisions: Sequence[Decision], rest: Rest | None) -> Decision:
    """Say of all parts of a Loop together what was done."""

    def all_of(name: str) -> list[Any]:
        return list(dict.fromkeys(line for one in decisions for line in getattr(one, name)))

    joined = dataclasses.replace(
        decisions[-1],
        reasons=all_of("reasons"),
        assumptions=all_of("assumptions"),
        notes=all_of("notes"),
        boundary=all_of("boundary"),
    )
    if rest is None:
        return joined
    body = rest.node.attributes["body"].as_graph()
    left = sum(node.op_type != "Constant" for node in body)
    form = f"{rest.moved} nodes before and behind a {rest.node.op_type} of {left}"
    return dataclasses.replace(
        joined,
        verdict=Verdict.FISSIONED,
        form=form,
        reasons=[rest.reason, *joined.reasons],
        notes=[*joined.notes, *([_ROUNDS] if rest.rounds else [])],
        in_loops=left,
    )


def why_unguarded(site: MapSite) -> Reason | None:
    """Return why a map becomes a loop without a guard, if its body has grown."""
    if not site.has_grown:
        return None
    return Reason(
        Code.COST,
        detail=f"the maps in its body have become {site.behind_guards} nodes behind guards, and "
        "each branch of a guard around them would hold these again",
        advice="promise equal shapes with --uniform, which spares the guards",
    )


_ROUNDS = (
    "what it reads or collects rounds otherwise than in the Loop as given, so that a choice in it "
    "may flip at a tie; --exact keeps the Loop"
)


def _boundary_values(
    site: MapSite, walks: Iterable[BatchInterpreter], declared: Typing
) -> list[BoundaryValue]:
    """Return each input of the body and each result, and its layout in every form.

    Args:
        site: The map.
        walks: Its batched forms, and what a guard takes where none of them fits.
        declared: The types that the model declares, for the shape of one sample.
    """
    inputs = [(inner, inner.name) for inner, _ in [*site.elements, *site.shared]]
    results = [(site.body.outputs[one.output], one.value.name) for one in site.results]
    forms = list(walks)
    return [
        BoundaryValue(name or "", kind, _sample(declared[value]), _layouts(value, forms))
        for kind, values in (("reads", inputs), ("yields", results))
        for value, name in values
    ]


def _layouts(value: ir.Value, forms: list[BatchInterpreter]) -> tuple[str, ...]:
    held = (walk.held(value) for walk in forms)
    return tuple(dict.fromkeys(one.layout.value for one in held if one is not None))


def _sample(known: ValueType) -> str:
    if not isinstance(known.type, ir.TensorType):
        return "?"
    name = known.type.dtype.name.lower()
    if known.dims is None:
        return f"{name}[...]"
    dims = ",".join("?" if dim is None else str(dim) for dim in known.dims)
    return f"{name}[{dims}]" if dims else name
