"""Replaces the Loops and Scans that are maps by operators with a batch axis."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from passes.batching.reshaping import padded
from passes.builder import ORIGIN_KEY, Builder, drop_uses
from passes.decisions import Code, Decision, Reason, Verdict
from passes.fuse import record_fusion
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import (
    FusionPlan,
    add_even,
    plan_as_long,
    plan_whole,
    reduces_rows,
)
from passes.fusing.stack import reversed_along
from passes.graphs import (
    all_graphs,
    captured_values,
    graphs_inside,
    subgraphs,
    walk_nodes,
    with_subgraphs,
)
from passes.maps.operator import DOMAIN
from passes.maps.sites import read_map
from passes.names import make_names_unique
from passes.opset_check import find_misfit
from passes.opset_forms import to_opset_form
from passes.prepare import move_initializers, read_moved
from passes.promises import Promises
from passes.raising.merging import find_reader, merge_sites
from passes.raising.originals import Original, forget, give_back, original_of
from passes.raising.raise_loops import Raiser, is_given
from passes.raising.results import type_rows
from passes.reading.functions import inline_loops
from passes.reading.read_loops import discard_body
from passes.reading.types import element_type, type_body
from passes.sequence_map import rows_of
from passes.site import IndexSource, MapSite, TensorSource
from passes.splice import splice
from passes.typing import ValueType

__all__ = ["ReadLoopsPass"]


class ReadLoopsPass(ir.passes.InPlacePass):
    """Fuse the Loops and Scans that are maps over independent samples, and only as a whole.

    All of them are raised to Maps. A Loop that could be fused only in part is given back exactly
    as it was. The loops that a rewrite wrote itself stay. A model-local function is
    inlined where one of its Loops is fused there.

    Attributes:
        decisions: What was done with each Loop and Scan of the model.
    """

    def __init__(
        self,
        promises: Promises | None = None,
        *,
        exact: bool = False,
        auto: bool = False,
        again: bool = False,
        lacks: Collection[str] = (),
    ) -> None:
        """Set up the pass.

        Args:
            promises: What the caller vouches for.
            exact: Keep per-sample what batching could change by rounding before a discrete
                operator.
            auto: Leave a map alone that only a guard of its elements could fuse.
            again: Look only at Loops that hold or read what a rewrite wrote.
            lacks: Operators that the target does not have.
        """
        super().__init__()
        self._promises = promises or Promises()
        self._exact = exact
        self._auto = auto
        self._again = again
        self._lacks = lacks
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fuse the Loops of a model, those inside of others first."""
        if self._again:
            return ir.passes.PassResult(model, self._fuse(model))
        inlined, left = inline_loops(model, self._fuse)
        in_functions = [decision for decision in self.decisions if decision.path in left]
        fused = self._fuse(model)
        self.decisions += in_functions
        return ir.passes.PassResult(model, fused or inlined)

    def _fuse(self, model: ir.Model) -> bool:
        """Fuse the Loops that stand in no function; return whether any was."""
        self.decisions = []
        kept: dict[ir.Node, Decision] = {}
        fused: list[Decision] = []
        modified, progress, retry = False, True, False
        functions, imports = dict(model.functions), dict(model.opset_imports)
        if not self._wanted(model, kept, retry):
            return False
        while progress and (wanted := self._wanted(model, kept, retry)):
            modified |= make_names_unique(model)
            turn = _Turn(model, self._facts(model), wanted)
            turn.run()
            kept |= turn.kept
            fused += turn.fused
            retry, progress = bool(turn.fused), bool(turn.fused) or turn.came_back
        _restore(model, functions, imports)
        make_names_unique(model)
        left = set(walk_nodes(model.graph))
        self.decisions = [*fused, *(kept[node] for node in kept if node in left)]
        return modified or bool(fused)

    def _wanted(self, model: ir.Model, kept: Collection[ir.Node], retry: bool) -> set[ir.Node]:
        """Return the Loops that were not looked at; with ``retry`` those that read what is new."""
        return {
            node
            for node in walk_nodes(model.graph)
            if is_given(node)
            and (node not in kept or (retry and reads_new_nodes(node)))
            and (not self._again or reads_new_nodes(node))
        }

    def _facts(self, model: ir.Model) -> FusionFacts:
        return FusionFacts(
            model, self._promises, exact=self._exact, auto=self._auto, lacks=self._lacks
        )


def reads_new_nodes(node: ir.Node) -> bool:
    """Whether a Loop holds or reads what a rewrite wrote: its types are not known yet."""
    bodies = [graph for _, graph in subgraphs(node)]
    values = {v for v in node.inputs if v is not None}
    values.update(v for graph in bodies for v in captured_values(graph))
    producers = [p for v in values if (p := v.producer()) is not None]
    inside = [inner for graph in bodies for inner in walk_nodes(graph)]
    return any(ORIGIN_KEY in n.metadata_props for n in (*producers, *inside))


class _Turn:
    """Raises Loops, fuses what can be fused of them, and gives the others back.

    Attributes:
        fused: What was done with those that are gone.
        kept: Why the others stay.
        came_back: Whether Loops came back that hold Loops.
    """

    def __init__(self, model: ir.Model, facts: FusionFacts, wanted: Collection[ir.Node]) -> None:
        self.fused: list[Decision] = []
        self.kept: dict[ir.Node, Decision] = {}
        self.came_back = False
        self._model = model
        self._facts = facts
        self._wanted = wanted
        self._changed: set[ir.Graph] = set()

    def run(self) -> None:
        """Do the turn."""
        raiser = Raiser(
            self._model,
            self._facts.typings,
            self._facts.paths,
            self._wanted.__contains__,
            takes_finals=True,
        )
        raiser.raise_loops()
        self.kept |= raiser.kept
        self.fused += raiser.finals
        for node in _inner_first(self._model.graph, raiser.raised):
            if node.graph is None:  # only a map that is gone has read it
                forget(_original(node))
            elif not self._fuse_chain(node):
                self._fuse_alone(node)
        self._model.opset_imports.pop(DOMAIN, None)

    def _fuse_alone(self, node: ir.Node) -> None:
        original = _original(node)
        decision = self._fuse(node, original)
        decision = dataclasses.replace(decision, op_type=original.node.op_type)
        if decision.verdict is Verdict.KEPT:
            self._give_back(node, decision)
        else:
            self.fused.append(decision)

    def _fuse_chain(self, node: ir.Node) -> bool:
        """Fuse a Map together with those that read what it appends, if that is possible."""
        site, members, plan = self._read(node), [node], None
        while (reader := find_reader(site, members)) is not None:
            originals = [_original(member) for member in (*members, reader)]
            gone = set(walk_nodes(node for one in originals for node, _ in one.nodes))
            merged = merge_sites(site, self._read(reader), gone)
            if merged is None:
                break
            self._type(merged)
            longer = plan_whole(merged, self._facts)
            if not isinstance(longer, FusionPlan):
                discard_body(merged)
                break
            if plan is not None:
                plan.discard()
                discard_body(site)
            site, plan = merged, longer
            members.append(reader)
        if plan is None:
            return False
        originals = [_original(member) for member in members]
        bodies = [member.attributes["body"].as_graph() for member in members]
        decision = self._apply(plan, originals, bodies)
        if decision.verdict is Verdict.KEPT:
            return False
        plan.site.graph.sort()
        for original in originals[:-1]:
            path, kind = original.site.path, original.node.op_type
            self.fused.append(Decision(path, kind, Verdict.FUSED, f"part of {decision.path}"))
        self.fused.append(dataclasses.replace(decision, op_type=originals[-1].node.op_type))
        return True

    def _type(self, site: MapSite) -> None:
        """Enter the types of a body that was put together."""
        typings = self._facts.typings
        for inner, source in site.elements:
            if isinstance(source, IndexSource):
                typings.set(inner, lambda _: ValueType(ir.TensorType(ir.DataType.INT64), ()))
            else:
                typings.set(inner, functools.partial(element_type, source))
        typings.copy({outer: inner for inner, outer in site.shared})
        type_body(site.body, typings, self._model)

    def _fuse(self, node: ir.Node, original: Original) -> Decision:
        facts, site = self._facts, self._read(node)
        plan = plan_whole(site, facts)
        if isinstance(plan, FusionPlan):
            if "If" not in facts.lacks and None in plan.fused and reduces_rows(plan):
                _plan_even(plan, original, facts)
            return self._apply(plan, [original])
        is_ragged = any(r.code is Code.RAGGED or r.dependents for r in plan.reasons)
        if is_ragged and original.as_long is not None:
            guarded = plan_as_long(site, original.as_long.site(site), facts)
            if guarded is not None:
                return self._apply(guarded, [original])
        plan.notes.append(f"read as a map: {site.dialect}")
        return plan

    def _read(self, node: ir.Node) -> MapSite:
        """Read a Map as it is now: a sequence that it reads may be rows of a tensor by now."""
        typings, graph, original = self._facts.typings, node.graph, _original(node)
        assert graph is not None
        site = dataclasses.replace(
            read_map(node, graph, original.site.path),
            dialect=original.site.dialect,
            assumptions=original.site.assumptions,
            loop=original.node,
            given={new: old for old, new in original.values},
        )
        is_new = not self._changed.isdisjoint(graphs_inside(node))
        elements = [(inner, rows_of(source, typings.declared)) for inner, source in site.elements]
        for (inner, source), (_, before) in zip(elements, site.elements, strict=True):
            if isinstance(source, TensorSource) and source != before:
                typings.set(inner, functools.partial(element_type, source))
                is_new = True
        if is_new:
            type_body(site.body, typings, self._model)
        return dataclasses.replace(site, elements=elements)

    def _apply(
        self, plan: FusionPlan, originals: Sequence[Original], bodies: Sequence[ir.Graph] = ()
    ) -> Decision:
        decision = _apply(plan, self._facts, bodies)
        if decision.verdict is not Verdict.KEPT:
            for original in originals:
                forget(original)
            self._changed.add(plan.site.graph)
        return decision

    def _give_back(self, node: ir.Node, decision: Decision) -> None:
        """Give back a Loop; what was done inside of it is undone."""
        loop = give_back(node)
        self.kept[loop] = decision
        inside = f"{decision.path}/"
        self.fused = [d for d in self.fused if not d.path.startswith(inside)]
        self.came_back |= any(is_given(n) and n not in self.kept for n in walk_nodes([loop]))


def _original(node: ir.Node) -> Original:
    found = original_of(node)
    assert found is not None
    return found


def _inner_first(graph: ir.Graph, nodes: Collection[ir.Node]) -> list[ir.Node]:
    """Return nodes in the order of their graphs, those of inner graphs first."""
    graphs = reversed(list(with_subgraphs(graph)))
    return [node for one in graphs for node in one if node in nodes]


def _plan_even(plan: FusionPlan, original: Original, facts: FusionFacts) -> None:
    """Add what is faster for slices of one length, if the slices can be read so."""
    if original.even is not None:
        add_even(plan, original.even.site(plan.site), facts)


def _apply(plan: FusionPlan, facts: FusionFacts, bodies: Sequence[ir.Graph]) -> Decision:
    """Put a planned map into the place of its node, if its nodes fit the model's opset.

    Args:
        plan: What the map becomes.
        facts: What holds for all maps.
        bodies: Further graphs; it may read their initializers.
    """
    site = plan.site
    builder, pairs = record_fusion(plan, facts)
    pairs = [(old, _turned(builder, site, old, new)) for old, new in pairs]
    builder.prune([new for _, new in pairs])
    to_opset_form(walk_nodes(builder.nodes), facts.opset)
    misfit = find_misfit(builder.nodes, facts.opset) or _unpadded(site, builder, facts)
    drop_uses(list(site.body))
    if misfit is not None:
        drop_uses(builder.nodes)
        reason = Reason(Code.OPSET, detail=misfit)
        return Decision(site.path, site.node.op_type, Verdict.KEPT, "as it is", [reason])
    for body in (site.body, *bodies):
        move_initializers(body, facts.model.graph)
    read_moved(builder.nodes, facts.model.graph)
    written = splice(builder, site.node, pairs)
    facts.typings.copy(written)
    type_rows(site, written, facts.typings)
    return plan.decision


def _unpadded(site: MapSite, builder: Builder, facts: FusionFacts) -> str | None:
    """Return what cannot be reshaped where a dimension may be 0, None if all can.

    Before opset 14 zeros are appended there, and few element types can be padded.
    """
    if facts.opset >= 14 or all(node.op_type != "Pad" for node in walk_nodes(builder.nodes)):
        return None
    values = (out for node in walk_nodes(site.body) for out in node.outputs)
    dtypes = {facts.typings.declared.dtype(v) for v in values} - {None}
    others = sorted(str(dtype) for dtype in dtypes - padded(facts.opset))
    return f"a Reshape of {others[0]} needs opset 14" if others else None


def _turned(builder: Builder, site: MapSite, old: ir.Value, new: ir.Value) -> ir.Value:
    result = next(r for r in site.results if r.value is old)
    return reversed_along(builder, new, result.axis) if result.is_reversed else new


def _restore(
    model: ir.Model,
    functions: Mapping[ir.OperatorIdentifier, ir.Function],
    imports: Mapping[str, int],
) -> None:
    """Give a model the functions that are called, and the imports that are needed, no others."""
    called = {node.op_identifier() for graph in all_graphs(model) for node in graph}
    needed = called & functions.keys()
    while (
        found := {inner.op_identifier() for one in needed for inner in walk_nodes(functions[one])}
        & functions.keys() - needed
    ):
        needed |= found
    if not needed <= model.functions.keys():
        kept = {i: f for i, f in functions.items() if i in needed or i in model.functions}
        model.functions.clear()
        model.functions.update(kept)
    called.update(n.op_identifier() for one in needed for n in walk_nodes(functions[one]))
    domains = {identifier[0] for identifier in called}
    for domain in model.opset_imports.keys() - imports.keys() - domains:
        del model.opset_imports[domain]
