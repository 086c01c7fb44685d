"""Replaces maps, or parts of their bodies, by operators with a batch axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.failing import cannot_fail
from passes.batching.walk import WalkOptions
from passes.builder import Builder
from passes.cost import estimate_guard
from passes.decisions import Code, Decision, Reason, Verdict
from passes.expand import LoopPlan, plan_loop, write_results
from passes.fused_body import FusedBody, walk_body
from passes.graphs import default_opset, graphs_inside, node_paths
from passes.guards import Guards
from passes.names import make_names_unique
from passes.prepare import prepare
from passes.promises import Promises
from passes.sequence_map import find_sequence_maps, read_sequence_map
from passes.site import MapSite, Result, SequenceSource, TensorSource
from passes.sources import lengths_are_equal
from passes.splice import splice
from passes.stack import is_promised, is_proven_equal, sample_count, stack
from passes.typing import Typings, type_both_ways, type_values

__all__ = ["FuseSequenceMapPass"]


@dataclasses.dataclass
class _Model:
    """What holds for all maps of a model."""

    model: ir.Model
    typings: Typings
    opset: int
    promises: Promises
    exact: bool
    auto: bool
    paths: Mapping[ir.Node, str]
    _guarded: Typings | None = None

    def guarded_typings(self) -> Typings:
        """Return what is proven where a guard has checked the declared elements of all maps."""
        if self._guarded is None:
            typing = type_values(self.model, proven=True, elements=self.typings.declared)
            self._guarded = Typings(typing, typing)
        return self._guarded


@dataclasses.dataclass
class FusionPlan:
    """What a map becomes: recorded, not yet put into its graph.

    Attributes:
        site: The map.
        fused: Its body with a batch axis.
        guarded: The sequences whose elements must turn out to have one shape.
        needs_samples: Whether the fused body must not run without samples.
        loop: The other branch, where there is one.
        decision: The same for the reader.
    """

    site: MapSite
    fused: FusedBody
    guarded: list[ir.Value]
    needs_samples: bool
    loop: LoopPlan
    decision: Decision


def _walk(site: MapSite, model: _Model, *, guarded: bool) -> FusedBody | None:
    """Walk over a body; ``guarded``: as if all sources were proven to have one shape."""
    typings = model.typings
    prelude = Builder(site.path)
    equal_lengths = lengths_are_equal(site, typings.proven)
    stacked: dict[ir.Value, ir.Value] = {}
    batch = sample_count(prelude, site.elements[0][1], typings)
    needs_samples = False
    for position, (inner, source) in enumerate(site.elements):
        vouched = is_proven_equal(source, typings)
        if not vouched and isinstance(source, SequenceSource):
            vouched = guarded or is_promised(source.sequence, model.promises, typings)
            needs_samples |= vouched
        if not vouched:
            continue
        value = stack(prelude, source, typings.declared.rank(inner), typings)
        if value is None:
            continue
        if position and not equal_lengths:
            value = _cut(prelude, value, batch)
        stacked[inner] = value
    if guarded and len(stacked) < len(site.elements):
        return None
    options = WalkOptions(
        opset=model.opset,
        batch=batch,
        may_be_empty=not needs_samples,
        exact=model.exact,
        paths=model.paths,
    )
    facts = model.guarded_typings() if guarded else typings
    return walk_body(site, facts, options, prelude, stacked)


def _cut(builder: Builder, value: ir.Value, batch: ir.Value) -> ir.Value:
    """Cut surplus rows off a second source; fewer rows than samples are an error."""
    rows = builder.op("Slice", [value, builder.ints(0), batch, builder.ints(0)])
    shape = builder.op("Shape", [value])
    rest = builder.op("Slice", [shape, builder.ints(1), builder.ints(np.iinfo(np.int64).max)])
    target = builder.op("Concat", [batch, rest], {"axis": 0})
    return builder.op("Reshape", [rows, target], {"allowzero": 1})


def plan_fusion(site: MapSite, model: _Model) -> FusionPlan | Decision:
    """Decide how a map is fused; a `Decision` alone says why it is not."""
    loop = plan_loop(site, model.typings)
    unproven = _unproven(site, model)
    fused = _walk(site, model, guarded=False)
    assert fused is not None
    guarded: list[ir.Value] = []
    notes: list[Reason] = []
    other = _walk(site, model, guarded=True) if unproven else None
    if other is not None:
        against = _against_guard(site, fused, other, model)
        if against is None:
            fused.discard()
            fused, guarded = other, unproven
        else:
            other.discard()
            notes = against
    decision = _decision(site, fused, guarded, loop, model)
    decision.reasons.extend(notes)
    if not fused.walk.fused and any(fused.walk.loops):
        fused.discard()
        return decision
    needs_samples = bool(guarded) or _reads_sequence(fused) or _may_fail_empty(fused, model)
    return FusionPlan(site, fused, guarded, needs_samples, loop, decision)


def _unproven(site: MapSite, model: _Model) -> list[ir.Value]:
    found = {
        source.sequence: None
        for _, source in site.elements
        if isinstance(source, SequenceSource)
        and not is_proven_equal(source, model.typings)
        and not is_promised(source.sequence, model.promises, model.typings)
    }
    return list(found)


def _against_guard(
    site: MapSite, fused: FusedBody, guarded: FusedBody, model: _Model
) -> list[Reason] | None:
    """Return why a map is not guarded, None if it is.

    A guard must at least double what is fused without one; for ``auto`` it must pay, too.
    """
    if guarded.walk.fused <= 2 * fused.walk.fused:
        return []
    if not model.auto:
        return None
    elements = [inner for inner, source in site.elements if isinstance(source, SequenceSource)]
    nodes = guarded.walk.fused - fused.walk.fused
    estimate = estimate_guard(nodes, site.body, elements, model.typings.declared)
    return None if estimate.pays else [Reason(Code.COST, detail=estimate.explain())]


def _reads_sequence(fused: FusedBody) -> bool:
    return any(node.op_type == "ConcatFromSequence" for node in fused.prelude.nodes)


def _may_fail_empty(fused: FusedBody, model: _Model) -> bool:
    """Whether a node that could fail now runs even if there are no samples."""
    typing = model.typings.proven
    if all(cannot_fail(node, typing) for node in fused.walk.hoisted):
        return False
    source = fused.site.elements[0][1]
    if isinstance(source, TensorSource) and source.split is None:
        dims = typing.dims(source.tensor)
        size = None if dims is None else dims[source.axis % len(dims)]
        return not (isinstance(size, int) and size > 0)
    return True


def _decision(
    site: MapSite,
    fused: FusedBody,
    guarded: Sequence[ir.Value],
    loop: LoopPlan,
    model: _Model,
) -> Decision:
    walk = fused.walk
    kept = any(walk.loops)
    if not walk.fused and kept:
        decision = loop.decision
        return dataclasses.replace(decision, reasons=[*walk.reasons, *decision.reasons])
    verdict = Verdict.GUARDED if guarded else Verdict.FISSIONED if kept else Verdict.FUSED
    form = "If on equal shapes" if guarded else ""
    if kept:
        loops = sum(bool(nodes) for nodes in walk.loops)
        count = sum(len(nodes) for nodes in walk.loops)
        form = f"{form + ', ' if form else ''}{count} nodes in {loops} loop(s)"
    notes = [
        f"{model.paths.get(node, node.op_type)} ({node.op_type}) may flip at a tie: what feeds "
        "it rounds differently when batched; --exact keeps it per-sample"
        for node in walk.flips
    ]
    assumptions = [
        f"{site.path}: all elements of '{source.sequence.name}' have one shape (promised)"
        for _, source in site.elements
        if isinstance(source, SequenceSource)
        and not is_proven_equal(source, model.typings)
        and source.sequence not in guarded
        and is_promised(source.sequence, model.promises, model.typings)
    ]
    reasons = [*walk.reasons]
    if not lengths_are_equal(site, model.typings.proven):
        reasons.append(Reason(Code.SURPLUS_IGNORED))
    return Decision(site.path, site.node.op_type, verdict, form, reasons, assumptions, notes)


Branch = Callable[[Builder], Sequence[ir.Value]]


def apply_fusion(plan: FusionPlan, model: _Model, guards: Guards) -> None:
    """Put a planned map into the place of its node."""
    site, typings = plan.site, model.typings
    builder = Builder(site.path)

    def write_fused(inner: Builder) -> Sequence[ir.Value]:
        return plan.fused.write(inner, typings)

    if not plan.needs_samples:
        values = write_fused(builder)
    else:
        values = _if_samples(builder, plan, model, guards, write_fused)
    pairs = [(r.value, v) for r, v in zip(site.results, values, strict=True)]
    splice(builder, site.node, pairs)


def _if_samples(
    builder: Builder, plan: FusionPlan, model: _Model, guards: Guards, write_fused: Branch
) -> Sequence[ir.Value]:
    """Run the fused body if there are samples, and under its guard if it has one."""
    site, typings = plan.site, model.typings
    count = sample_count(builder, site.elements[0][1], typings)
    some = builder.op(
        "Squeeze", [builder.op("Greater", [count, builder.scalar(0)]), builder.ints(0)]
    )

    def write_nothing(inner: Builder) -> Sequence[ir.Value]:
        return [_nothing(inner, site, result, typings) for result in site.results]

    if not plan.guarded:
        return _branch(builder, site, typings, some, write_fused, write_nothing)
    hidden = {sequence: guards.hidden(builder, sequence) for sequence in plan.guarded}
    tests = [
        guards.is_uniform(builder, sequence, _relied_on(site, sequence, typings))
        for sequence in plan.guarded
    ]
    tests += _equal_lengths(builder, site, typings)
    uniform = tests[0]
    for test in tests[1:]:
        uniform = builder.op("And", [uniform, test])
    elements = [
        (
            inner,
            SequenceSource(hidden.get(source.sequence, source.sequence))
            if isinstance(source, SequenceSource)
            else source,
        )
        for inner, source in site.elements
    ]
    other = dataclasses.replace(site, elements=elements)

    def write_loop(inner: Builder) -> Sequence[ir.Value]:
        return write_results(inner, other, typings, plan.loop)

    def write_guarded(inner: Builder) -> Sequence[ir.Value]:
        return _branch(inner, site, typings, uniform, write_fused, write_loop)

    return _branch(builder, site, typings, some, write_guarded, write_nothing)


def _relied_on(
    site: MapSite, sequence: ir.Value, typings: Typings
) -> tuple[int | str | None, ...] | None:
    inner = next(
        inner
        for inner, source in site.elements
        if isinstance(source, SequenceSource) and source.sequence is sequence
    )
    return typings.declared.dims(inner)


def _equal_lengths(builder: Builder, site: MapSite, typings: Typings) -> list[ir.Value]:
    if lengths_are_equal(site, typings.proven):
        return []
    counts = [sample_count(builder, source, typings) for _, source in site.elements]
    return [
        builder.op("Squeeze", [builder.op("Equal", [counts[0], count]), builder.ints(0)])
        for count in counts[1:]
    ]


def _branch(
    builder: Builder,
    site: MapSite,
    typings: Typings,
    condition: ir.Value,
    write_then: Branch,
    write_else: Branch,
) -> Sequence[ir.Value]:
    """Record an If that yields the results of a site."""
    graphs = {
        "then_branch": builder.subgraph("then", [], write_then),
        "else_branch": builder.subgraph("else", [], write_else),
    }
    node = builder.node("If", [condition], graphs, outputs=len(site.results))
    for values in (node.outputs, *(graph.outputs for graph in graphs.values())):
        for result, value in zip(site.results, values, strict=True):
            dtype = typings.declared.dtype(site.body.outputs[result.output])
            if dtype is not None:
                tensor = ir.TensorType(dtype)
                value.type = ir.SequenceType(tensor) if result.kind == "sequence" else tensor
    return node.outputs


def _nothing(builder: Builder, site: MapSite, result: Result, typings: Typings) -> ir.Value:
    """Return a result of no samples: an empty sequence, or zero rows of what is known."""
    value = site.body.outputs[result.output]
    dtype = typings.declared.dtype(value) or ir.DataType.FLOAT
    if result.kind == "sequence":
        return builder.op("SequenceEmpty", [], {"dtype": int(dtype)})
    dims = [d if isinstance(d, int) else 0 for d in typings.declared.dims(value) or ()]
    if result.kind == "stacked":
        dims.insert(result.axis % (len(dims) + 1), 0)
    elif dims:
        dims[result.axis % len(dims)] = 0
    else:
        dims = [0]
    array = np.empty(dims, object if dtype == ir.DataType.STRING else dtype.numpy())
    return builder.constant(array)


class FuseSequenceMapPass(ir.passes.InPlacePass):
    """Fuse what can be fused of every SequenceMap; the others stay as they are.

    Attributes:
        decisions: What was done with each map that was fused, in the order of the work.
        declined: Why each of the others was not.
    """

    def __init__(
        self, promises: Promises | None = None, *, exact: bool = False, auto: bool = False
    ) -> None:
        """Set up the pass.

        Args:
            promises: What the caller vouches for.
            exact: Keep per-sample what batching could change by rounding before a discrete
                operator.
            auto: Leave a map alone where fusing it gains nothing.
        """
        super().__init__()
        self._promises = promises or Promises()
        self._exact = exact
        self._auto = auto
        self.decisions: list[Decision] = []
        self.declined: dict[str, Decision] = {}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fuse the maps of a model, those inside of other maps first."""
        self.decisions, self.declined = [], {}
        modified = prepare(model, opens=True)
        maps = find_sequence_maps(model)
        if not maps:
            return ir.passes.PassResult(model, modified)
        facts = self._facts(model)
        guards: dict[ir.Graph, Guards] = {}
        changed: set[ir.Graph] = set()
        for graph, node in maps:
            if changed & set(graphs_inside(node)):
                facts, changed = self._facts(model), set()
            site = read_sequence_map(node, graph, facts.paths[node], facts.typings.declared)
            plan = plan_fusion(site, facts)
            if isinstance(plan, Decision):
                self.declined[site.path] = plan
                continue
            apply_fusion(plan, facts, guards.setdefault(graph, Guards()))
            self.decisions.append(plan.decision)
            changed.add(graph)
            modified = True
        make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _facts(self, model: ir.Model) -> _Model:
        typings = type_both_ways(model, self._promises)
        return _Model(
            model,
            typings,
            default_opset(model),
            self._promises,
            self._exact,
            self._auto,
            node_paths(model),
        )
