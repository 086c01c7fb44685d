"""Decides how a map is fused: on what its body relies, and what an If must ask for first."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.failing import cannot_fail
from passes.batching.lengths import Lengths
from passes.batching.walk import WalkOptions
from passes.builder import Builder
from passes.decisions import Code, Decision, Reason, Verdict
from passes.fusing.cost import estimate_guard
from passes.fusing.fused_body import FusedBody, walk_body
from passes.fusing.pack import can_pack, length_symbols, pack, rows_of_elements
from passes.fusing.stack import is_promised, is_proven_equal, sample_count, stack, static_count
from passes.graphs import default_opset, node_paths
from passes.loops.plan import LoopPlan, plan_loop
from passes.promises import Promises
from passes.reading.types import checked_types
from passes.sequence_map import find_sequence_maps
from passes.site import IndexSource, MapSite, SequenceSource, TensorSource
from passes.sources import length_equals, lengths_are_equal
from passes.typing import Typings, type_both_ways, type_values

__all__ = ["Check", "FusionFacts", "FusionPlan", "plan_fusion", "plan_whole"]


class Check(enum.StrEnum):
    """What a guard asks of the elements of sequences before the fused body runs."""

    SHAPES = "equal shapes"
    ROWS = "equal rows"
    LENGTHS = "equal rows and lengths"


class FusionFacts:
    """What holds for all maps of a model.

    Attributes:
        model: The model.
        typings: Both typings.
        opset: Version of ONNX's operators.
        promises: What the caller vouches for.
        exact: Keep per-sample what rounding could change by more than rounding.
        auto: Leave a map alone where fusing it gains nothing.
        paths: Names the nodes for messages.
    """

    def __init__(
        self, model: ir.Model, promises: Promises, *, exact: bool = False, auto: bool = False
    ) -> None:
        self.model = model
        self.typings = type_both_ways(model, promises)
        self.opset = default_opset(model)
        self.promises = promises
        self.exact = exact
        self.auto = auto
        self.paths: Mapping[ir.Node, str] = node_paths(model)
        self._checked: dict[bool, Typings] = {}

    def checked_typings(self, check: Check | None, site: MapSite) -> Typings:
        """Return both typings, or what is proven behind a guard of all maps."""
        if check is None:
            return self.typings
        rows = check is not Check.SHAPES
        if site.was_loop:
            return checked_types(site, self.typings, self.model, rows=rows)
        if rows not in self._checked:
            elements = self.typings.declared
            if rows:
                maps = [node for _, node in find_sequence_maps(self.model)]
                elements = rows_of_elements(maps, elements)
            typing = type_values(self.model, proven=True, elements=elements)
            self._checked[rows] = Typings(typing, typing)
        return self._checked[rows]


@dataclasses.dataclass
class FusionPlan:
    """What a map becomes: recorded, not yet put into its graph.

    Attributes:
        site: The map.
        fused: Its body with a batch axis; one for each guard, in the order of asking.
        guarded: The sequences that the guards ask.
        needs_samples: Whether the fused body must not run without samples.
        loop: The last branch, where there are guards.
        decision: The same for the reader.
    """

    site: MapSite
    fused: dict[Check | None, FusedBody]
    guarded: list[ir.Value]
    needs_samples: bool
    loop: LoopPlan
    decision: Decision


def plan_fusion(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide how a map is fused; a `Decision` alone says why it is not."""
    loop = plan_loop(site, facts.typings)
    unproven = _unproven(site, facts)
    plain = _walk(site, facts, None)
    found = _behind_guards(site, facts, plain) if unproven else {}
    fused, notes = _choose(site, facts, plain, found)
    for body in (plain, *found.values()):
        if body not in fused.values():
            body.discard()
    guarded = unproven if None not in fused else []
    decision = _decision(site, fused, guarded, loop, facts)
    decision.reasons.extend(notes)
    if None in fused and not plain.walk.fused and any(plain.walk.loops):
        plain.discard()
        return decision
    needs_samples = bool(guarded) or _reads_sequence(plain) or _may_fail_empty(plain, facts)
    return FusionPlan(site, fused, guarded, needs_samples, loop, decision)


def plan_whole(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide whether a map that was a Loop or Scan is fused: as a whole, or not at all.

    For ``auto`` there is no guard: the Loop is there already, and lists are short more often
    than not, when a guard costs more than it saves.
    """
    plain = _walk(site, facts, None)
    kept = Decision(site.path, site.node.op_type, Verdict.KEPT, "as it is")
    fused: dict[Check | None, FusedBody] = {None: plain}
    loop, guarded = LoopPlan({}, kept), _unproven(site, facts)
    if plain.needs_loop(facts.typings):
        ragged = Reason(Code.RAGGED, detail="what it yields differs in shape by iteration")
        kept.reasons = plain.walk.reasons or [ragged]
        typed = (site.body.outputs[o] for o in site.used_outputs())
        asks = not facts.auto and all(facts.typings.declared.dtype(v) for v in typed)
        found = _behind_guards(site, facts, plain) if guarded and asks else {}
        fused, notes = _choose(site, facts, plain, found)
        kept.reasons.extend(notes)
        fused = {check: b for check, b in fused.items() if not b.needs_loop(facts.typings)}
        for body in (plain, *found.values()):
            if body not in fused.values():
                body.discard()
        if not fused:
            return kept
        # What an exporter declares of elements is its first example's.
        loop = plan_loop(site, Typings(facts.typings.proven, facts.typings.proven))
    decision = _decision(site, fused, [] if None in fused else guarded, loop, facts)
    decision.assumptions.extend(site.assumptions)
    decision.notes.insert(0, f"read as a map: {site.dialect}")
    if None not in fused:
        return FusionPlan(site, fused, guarded, True, loop, decision)
    needs_samples = _reads_sequence(plain) or _may_fail_empty(plain, facts)
    return FusionPlan(site, fused, [], needs_samples, loop, decision)


def _walk(site: MapSite, facts: FusionFacts, check: Check | None) -> FusedBody:
    """Walk over a body as if a guard had checked the elements of all unproven sequences."""
    typings = facts.typings
    prelude = Builder(site.path)
    first = site.elements[0][1]
    batch = sample_count(prelude, first, typings)
    stacked: dict[ir.Value, ir.Value] = {}
    packed: dict[ir.Value, tuple[ir.Value, Lengths]] = {}
    asked: dict[ir.Value, ir.Value] = {}
    known: dict[ir.Value, Lengths] = {}
    needs_samples = False

    def ask_lengths(sequence: ir.Value) -> ir.Value:
        asked[sequence] = ir.Value(name="lengths", type=ir.TensorType(ir.DataType.INT64))
        return asked[sequence]

    for inner, source in site.elements:
        is_as_long = check is not None or length_equals(first, source, typings.proven)
        is_sequence = isinstance(source, SequenceSource)
        rank = typings.declared.rank(inner)
        vouched = is_proven_equal(source, typings)
        if not vouched and isinstance(source, SequenceSource):
            promised = is_promised(source.sequence, facts.promises, typings)
            vouched = promised or check is Check.SHAPES
        value = stack(prelude, source, rank, typings) if vouched else None
        if value is not None:
            stacked[inner] = value if is_as_long else _cut(prelude, value, batch)
            needs_samples |= is_sequence
            continue
        checked = is_sequence and bool(rank) and check in (Check.ROWS, Check.LENGTHS)
        if checked or can_pack(inner, source, typings):
            if check is Check.LENGTHS and isinstance(source, SequenceSource):
                known |= {source.sequence: next(iter(known.values()))} if known else {}
            packed[inner] = pack(prelude, source, ask_lengths, known)
            if not is_as_long:
                packed[inner] = _cut_packed(prelude, *packed[inner], batch)
            needs_samples |= is_sequence
    view = facts.checked_typings(check, site)
    options = WalkOptions(
        opset=facts.opset,
        batch=batch,
        may_be_empty=not needs_samples,
        exact=facts.exact,
        paths=facts.paths,
        lengths=length_symbols(site, packed, view.proven),
    )
    body = walk_body(site, view, options, prelude, stacked, packed)
    body.asked = asked
    return body


def _cut(builder: Builder, value: ir.Value, batch: ir.Value) -> ir.Value:
    """Cut surplus rows off a second source; fewer rows than samples are an error."""
    rows = builder.op("Slice", [value, builder.ints(0), batch, builder.ints(0)])
    shape = builder.op("Shape", [value])
    rest = builder.op("Slice", [shape, builder.ints(1), builder.ints(np.iinfo(np.int64).max)])
    target = builder.op("Concat", [batch, rest], {"axis": 0})
    return builder.op("Reshape", [rows, target], {"allowzero": 1})


def _cut_packed(
    builder: Builder, value: ir.Value, lengths: Lengths, batch: ir.Value
) -> tuple[ir.Value, Lengths]:
    """Cut surplus samples off a second source; fewer samples are an error."""
    sizes = builder.op("Slice", [lengths.value, builder.ints(0), batch])
    kept = Lengths(builder, builder.op("Reshape", [sizes, batch], {"allowzero": 1}))
    return builder.op("Slice", [value, builder.ints(0), kept.total, builder.ints(0)]), kept


def _unproven(site: MapSite, facts: FusionFacts) -> list[ir.Value]:
    found = {
        source.sequence: None
        for _, source in site.elements
        if isinstance(source, SequenceSource)
        and not is_proven_equal(source, facts.typings)
        and not is_promised(source.sequence, facts.promises, facts.typings)
    }
    return list(found)


def _behind_guards(site: MapSite, facts: FusionFacts, plain: FusedBody) -> dict[Check, FusedBody]:
    """Walk over a body behind every guard that could help.

    All of them ask for equal lengths, which sources of two known lengths never have.
    """
    if len({static_count(source, facts.typings) for _, source in site.elements} - {None}) > 1:
        return {}
    sequences = {s.sequence for _, s in site.elements if isinstance(s, SequenceSource)}
    found = {check: _walk(site, facts, check) for check in (Check.SHAPES, Check.ROWS)}
    if len(sequences) > 1:
        found[Check.LENGTHS] = _walk(site, facts, Check.LENGTHS)
    return found


def _choose(
    site: MapSite, facts: FusionFacts, plain: FusedBody, found: Mapping[Check, FusedBody]
) -> tuple[dict[Check | None, FusedBody], list[Reason]]:
    """Choose among a body without a guard and those behind one.

    A guard must at least double what is fused without one; for ``auto`` it must pay, too. Rows
    are asked for where that fuses as much as equal shapes do, unless a declared number says that
    shapes are equal; and after equal shapes where it fuses less, but more than no guard.
    """
    fused = {check: body.walk.fused for check, body in found.items()}
    gains = [check for check in found if fused[check] > 2 * plain.walk.fused]
    packed = max((c for c in gains if c is not Check.SHAPES), key=lambda c: fused[c], default=None)
    chosen: list[Check] = [Check.SHAPES] if Check.SHAPES in gains else []
    if packed is not None and not _first_is_number(site, facts):
        shapes_fuse_more = chosen and fused[Check.SHAPES] > fused[packed]
        chosen = [*chosen, packed] if shapes_fuse_more else [packed]
    if not chosen:
        return {None: plain}, []
    if facts.auto:
        elements = [i for i, source in site.elements if isinstance(source, SequenceSource)]
        nodes = fused[chosen[0]] - plain.walk.fused
        estimate = estimate_guard(nodes, site.body, elements, facts.typings.declared)
        if not estimate.pays:
            return {None: plain}, [Reason(Code.COST, detail=estimate.explain())]
    return {check: found[check] for check in chosen}, []


def _first_is_number(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the declared elements of all sequences have a number for their first dimension."""
    dims = [
        facts.typings.declared.dims(inner)
        for inner, source in site.elements
        if isinstance(source, SequenceSource)
    ]
    return all(d and isinstance(d[0], int) for d in dims)


def _reads_sequence(fused: FusedBody) -> bool:
    return any(node.op_type == "ConcatFromSequence" for node in fused.prelude.nodes)


def _may_fail_empty(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether a node that could fail now runs even if there are no samples."""
    typing = facts.typings.proven
    is_hoisted_safe = all(cannot_fail(node, typing) for node in fused.walk.hoisted)
    if is_hoisted_safe and not fused.reads_open_results(facts.typings):
        return False
    source = fused.site.elements[0][1]
    if isinstance(source, IndexSource):
        return not source.number
    if isinstance(source, TensorSource) and source.split is None:
        dims = typing.dims(source.tensor)
        size = None if dims is None else dims[source.axis % len(dims)]
        return not (isinstance(size, int) and size > 0)
    return True


def _decision(
    site: MapSite,
    fused: Mapping[Check | None, FusedBody],
    guarded: Sequence[ir.Value],
    loop: LoopPlan,
    facts: FusionFacts,
) -> Decision:
    walk = next(iter(fused.values())).walk
    kept = any(walk.loops)
    if not walk.fused and kept:
        decision = loop.decision
        return dataclasses.replace(decision, reasons=[*walk.reasons, *decision.reasons])
    verdict = Verdict.GUARDED if guarded else Verdict.FISSIONED if kept else Verdict.FUSED
    form = "If on " + ", else on ".join(c.value for c in fused if c) if guarded else ""
    if kept:
        loops = sum(bool(nodes) for nodes in walk.loops)
        count = sum(len(nodes) for nodes in walk.loops)
        form = f"{form + ', ' if form else ''}{count} nodes in {loops} loop(s)"
    notes = [
        f"{facts.paths.get(node, node.op_type)} ({node.op_type}) may flip at a tie: what feeds "
        "it rounds differently when batched; --exact keeps it per-sample"
        for node in walk.flips
    ]
    assumptions = [
        f"{site.path}: all elements of '{source.sequence.name}' have one shape (promised)"
        for _, source in site.elements
        if isinstance(source, SequenceSource)
        and not is_proven_equal(source, facts.typings)
        and source.sequence not in guarded
        and is_promised(source.sequence, facts.promises, facts.typings)
    ]
    if None in fused:
        assumptions += [
            f"{site.path}: the declared element types hold for '{value.name}'; a sample that "
            "breaks them is an error when the model runs"
            for value in fused[None].taken_as_declared(facts.typings)
        ]
    reasons = [*walk.reasons]
    if not site.was_loop and not lengths_are_equal(site, facts.typings.proven):
        reasons.append(Reason(Code.SURPLUS_IGNORED))
    return Decision(site.path, site.node.op_type, verdict, form, reasons, assumptions, notes)
