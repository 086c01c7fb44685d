"""Replaces maps, or parts of their bodies, by operators with a batch axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.builder import Builder
from passes.ceilings import Ceiling, ceiling_of
from passes.decisions import Decision
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan, plan_fusion
from passes.fusing.guarded_plan import plan_guarded
from passes.fusing.questions import Questions
from passes.fusing.stack import scalar_count
from passes.graphs import graphs_inside
from passes.hidden import hide_type
from passes.loops.branches import Branch, no_samples, write_if
from passes.loops.copied_loop import copied_loop
from passes.loops.few_samples import FewSamples, write_by_count
from passes.loops.forms import Form
from passes.names import make_names_unique
from passes.prepare import prepare
from passes.promises import Promises
from passes.sequence_map import find_sequence_maps, read_sequence_map
from passes.site import ElementSource, MapSite, SequenceSource
from passes.splice import splice
from passes.typing import Typings

__all__ = ["FuseSequenceMapPass"]


def apply_fusion(plan: FusionPlan, facts: FusionFacts) -> None:
    """Put a planned map into the place of its node."""
    builder, pairs = record_fusion(plan, facts)
    # A later map may read the types of the new values.
    facts.typings.copy(splice(builder, plan.site.node, pairs))


def record_fusion(
    plan: FusionPlan, facts: FusionFacts
) -> tuple[Builder, list[tuple[ir.Value, ir.Value]]]:
    """Record a planned map; return the nodes, and the pairs of an old value and a new one."""
    site, typings = plan.site, facts.typings
    builder = Builder(site.path)
    if plan.even is not None and not plan.few:
        even = plan.even
        values = _if_even(builder, even, typings, lambda one: _write_plan(one, plan, typings))
    else:
        values = _write_plan(builder, plan, typings)
    return builder, [(r.value, v) for r, v in zip(site.results, values, strict=True)]


def _write_plan(builder: Builder, plan: FusionPlan, typings: Typings) -> Sequence[ir.Value]:
    if plan.needs_samples or plan.few:
        return _if_enough(builder, plan, typings)
    return plan.fused[None].write(builder, typings)


def _if_even(
    builder: Builder, even: FusedBody, typings: Typings, write_else: Branch
) -> Sequence[ir.Value]:
    """Run the body for slices of one length if they have it, else the one for any."""
    asked = even.site.even
    assert asked is not None
    builder.nodes.extend(asked.builder.nodes)
    return write_if(builder, even.site, typings, asked.holds, _writes(even, typings), write_else)


def _if_enough(builder: Builder, plan: FusionPlan, typings: Typings) -> Sequence[ir.Value]:
    """Run the fused body if there are enough samples, and under its guard if it has one."""
    site = plan.site
    count = _trip_count(plan, typings) or scalar_count(builder, site.elements[0][1], typings)
    enough = builder.op("Greater", [count, builder.scalar(plan.few)])

    def write_asked(inner: Builder) -> Sequence[ir.Value]:
        return _write_asked(inner, plan, typings, count)

    def write(inner: Builder) -> Sequence[ir.Value]:
        if plan.even is None or not plan.few:
            return write_asked(inner)
        return _if_even(inner, plan.even, typings, write_asked)

    def write_few(inner: Builder) -> Sequence[ir.Value]:
        if plan.few:
            return _write_few(inner, plan, typings, count)
        return no_samples(inner, site, typings)

    return write_if(builder, site, typings, enough, write, write_few)


def _trip_count(plan: FusionPlan, typings: Typings) -> ir.Value | None:
    """Return how many iterations a Loop has at most, where no exact number is needed."""
    node = plan.site.loop
    if plan.needs_samples or node is None or node.op_type != "Loop":
        return None
    value = node.inputs[0]
    return value if value is not None and typings.proven.rank(value) == 0 else None


def _write_few(
    builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value
) -> Sequence[ir.Value]:
    """Write the loop for few samples, which reads the sequences themselves where it may.

    A shape that is declared of their elements may be false: it must not come to be that of a
    tensor, and what an exporter declares may not even load.
    """
    site = plan.site
    copied = copied_loop(site)
    if copied is not None:
        return copied.write(builder)
    is_stacked = any(one.form is Form.SCAN_OUTPUT for one in plan.loop.outputs.values())
    if is_stacked or site.was_loop:
        site = dataclasses.replace(
            site,
            elements=[
                (inner, _through_hidden(builder, inner, source, typings))
                for inner, source in site.elements
            ],
        )
    return FewSamples(site, plan.loop, typings, splits=True).write(builder, count)


def _through_hidden(
    builder: Builder, inner: ir.Value, source: ElementSource, typings: Typings
) -> ElementSource:
    """Return a sequence through its hidden type where numbers are declared of its elements."""
    dims = typings.declared.dims(inner)
    if not isinstance(source, SequenceSource) or not any(isinstance(d, int) for d in dims or ()):
        return source
    return SequenceSource(
        hide_type(builder, source.sequence, typings.declared.dtype(source.sequence))
    )


def _write_asked(
    builder: Builder, plan: FusionPlan, typings: Typings, count: ir.Value
) -> Sequence[ir.Value]:
    """Ask what the fused bodies rely on, and write them and the branch behind them."""
    questions = Questions(builder, plan, typings, count)
    write: Branch
    if None in plan.fused:
        write = _writes(plan.fused[None], typings)
    else:
        write = _writes_last(plan, typings, questions, count)
        for check, fused in reversed(plan.fused.items()):
            assert check is not None
            holds = questions.holds(check)
            write = _writes_choice(plan.site, typings, holds, _writes(fused, typings), write)
    for body in plan.fused.values():
        _hide_unchecked(body, plan, typings, questions)
    bodies = [body for body in (*plan.fused.values(), plan.rest) if body is not None]
    lengths = {s: questions.lengths(s) for body in bodies for s in body.asked}
    values = write(builder)
    for body in bodies:
        for sequence, placeholder in body.asked.items():
            placeholder.replace_all_uses_with(lengths[sequence])
    return values


def _hide_unchecked(
    body: FusedBody, plan: FusionPlan, typings: Typings, questions: Questions
) -> None:
    """Let a body read sequences through their hidden type where no guard checks their numbers."""
    for inner, source in plan.site.elements:
        if not isinstance(source, SequenceSource) or source.sequence not in plan.guarded:
            continue
        declared, checked = typings.declared.dims(inner), plan.relied.get(source.sequence)
        if not any(isinstance(d, int) for d in declared or ()) or declared == checked:
            continue
        for node in body.prelude.nodes:
            for index, value in enumerate(node.inputs):
                if value is source.sequence:
                    node.replace_input_with(index, questions.hidden(value))


def _writes(fused: FusedBody, typings: Typings) -> Branch:
    return lambda inner: fused.write(inner, typings)


def _writes_choice(
    site: MapSite, typings: Typings, condition: ir.Value, write_then: Branch, write_else: Branch
) -> Branch:
    return lambda inner: write_if(inner, site, typings, condition, write_then, write_else)


def _writes_last(
    plan: FusionPlan, typings: Typings, questions: Questions, count: ir.Value
) -> Branch:
    """Return what writes the branch of no guard: a loop, or what is batched without one.

    It reads a sequence through its hidden type where numbers are declared of the elements, which
    may be false there. Elsewhere onnxruntime gains from the declared type: values of one shape
    share their memory.
    """

    def read_from(inner: ir.Value, source: ElementSource) -> ElementSource:
        if not isinstance(source, SequenceSource) or source.sequence not in plan.guarded:
            return source
        dims = typings.declared.dims(inner)
        if dims is not None and not any(isinstance(d, int) for d in dims):
            return source
        return SequenceSource(questions.hidden(source.sequence))

    if plan.rest is not None:
        sources = {inner: read_from(inner, s) for inner, s in plan.rest.sources.items()}
        return _writes(dataclasses.replace(plan.rest, sources=sources), typings)
    elements = [(inner, read_from(inner, source)) for inner, source in plan.site.elements]
    other = dataclasses.replace(plan.site, elements=elements)
    return lambda inner: write_by_count(inner, other, typings, plan.loop, count)


class FuseSequenceMapPass(ir.passes.InPlacePass):
    """Fuse what can be fused of every SequenceMap; the others stay as they are.

    Attributes:
        decisions: What was done with each map that was fused, in the order of the work.
        declined: Why each of the others was not.
    """

    def __init__(
        self,
        promises: Promises | None = None,
        *,
        exact: bool = False,
        auto: bool = False,
        lacks: Collection[str] = (),
    ) -> None:
        """Set up the pass.

        Args:
            promises: What the caller vouches for.
            exact: Keep per-sample what batching could change by rounding before a discrete
                operator.
            auto: Leave a map alone where fusing it gains nothing.
            lacks: Operators that the target does not have.
        """
        super().__init__()
        self._promises = promises or Promises()
        self._exact = exact
        self._auto = auto
        self._lacks = lacks
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
        changed: set[ir.Graph] = set()
        for graph, node in maps:
            if node.graph is None:  # only a map that is gone has read it
                continue
            if changed & set(graphs_inside(node)):
                facts, changed = self._facts(model), set()
            site = read_sequence_map(node, graph, facts.paths[node], facts.typings.declared)
            if not site.results:
                continue
            ceiling = ceiling_of(node)
            if ceiling in (Ceiling.EXPANDED, Ceiling.AS_GIVEN):
                continue
            plan = plan_fusion(site, facts) if ceiling is None else plan_guarded(site, facts)
            if isinstance(plan, Decision):
                self.declined[site.path] = plan
                continue
            apply_fusion(plan, facts)
            self.decisions.append(plan.decision)
            changed.add(graph)
            modified = True
        make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _facts(self, model: ir.Model) -> FusionFacts:
        return FusionFacts(
            model, self._promises, exact=self._exact, auto=self._auto, lacks=self._lacks
        )
