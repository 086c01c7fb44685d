"""Goes through maps, inner ones first: reads each, plans it, and fuses it or leaves it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

import onnx_ir as ir

from passes.decisions import PART_OF, Decision, Verdict
from passes.errors import RewriteError
from passes.flat_views import ENDS, read_view
from passes.fusing.apply import apply_fusion
from passes.fusing.chains import Chains, is_in_parts, maps_of
from passes.fusing.few_iterations import few_iterations
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.known_count import kept_for_copies, mark_few
from passes.fusing.loop_beside import FewIterations
from passes.fusing.plan_decision import joined_decision
from passes.fusing.planning import plan_fusion, plan_guarded
from passes.graph.drafts import Draft, drafting
from passes.graph.graphs import graphs_inside, is_operator, subgraphs, walk_nodes, with_subgraphs
from passes.maps.sequence_map import read_sequence_map
from passes.maps.sites import read_map
from passes.promises import Ceiling, FuseOptions, ceiling_of
from passes.raising.dependence import STUCK_KEY
from passes.raising.originals import forget, give_back, original_of
from passes.raising.raiser import Raiser
from passes.reading.iterations import is_given
from passes.reading.types import type_body
from passes.sequence_operators import DOMAIN
from passes.site import MapSite, Original, Rest

__all__ = ["Turn"]


class Turn:
    """Fuses what can be fused of some maps; a Map that cannot be is given back.

    Attributes:
        fused: What was done with those that are gone.
        kept: Why the others stay.
        came_back: Whether Loops came back that hold Loops, or hold what became something else.
    """

    def __init__(self, model: ir.Model, options: FuseOptions) -> None:
        """Set up the turn.

        Args:
            model: The model.
            options: What the caller asks for.
        """
        self.fused: list[Decision] = []
        self.kept: dict[ir.Node, Decision] = {}
        self.came_back = False
        self._model = model
        self._facts = FusionFacts(model, options)
        self._changed: set[ir.Graph] = set()
        self._sorted: set[ir.Graph] = set()
        self._chains = Chains(model, self._facts, self._read)

    def raise_loops(
        self, wanted: Collection[ir.Node], *, with_neighbours: bool = False
    ) -> list[ir.Node]:
        """Raise Loops and Scans, with those inside of them; return the Maps, inner ones first.

        Args:
            wanted: The Loops and Scans.
            with_neighbours: Raise the SequenceMaps beside them, too.
        """
        raiser = Raiser(
            self._model,
            self._facts.typings,
            self._facts.paths,
            wanted.__contains__,
            self._facts.options,
            takes_finals=True,
            splits="Loop" not in self._facts.options.lacks,
        )
        raiser.raise_loops()
        if with_neighbours:
            raiser.raise_neighbours()
        self.kept |= raiser.kept
        self.came_back |= raiser.waits
        self.fused += raiser.finals
        graphs = reversed(list(with_subgraphs(self._model.graph)))
        return [node for graph in graphs for node in graph if node in raiser.raised]

    def fuse(self, maps: Iterable[ir.Node]) -> None:
        """Fuse maps, those inside of others first."""
        for node in maps:
            original = _original(node)
            if original is None and _is_view(node):
                continue  # it says how the elements lie, and goes with the last map that reads it
            if _is_gone(node):
                if original is not None:
                    forget(original)
            elif original is not None and is_in_parts(original):
                several = [one for one in maps_of(original) if not _is_gone(one)]
                if node is several[-1]:
                    self._fuse_parts(several, original)
            elif original is not None and self._fuse_chain(node):
                continue
            elif original is not None and original.is_sequence_map:
                self._put_back(node)
            else:
                kept = self._fuse_alone(node)
                if kept is not None and original is not None:
                    self._give_back(node, kept)
                elif kept is not None:
                    self.kept[node] = kept
        self._model.opset_imports.pop(DOMAIN, None)

    def _fuse_parts(self, maps: Sequence[ir.Node], original: Original) -> None:
        """Fuse the Maps that one Loop became, all of them or none."""
        plans: list[FusionPlan] = []
        facts = self._facts if original.rest is None else self._facts.regardless_of_cost()
        with drafting() as draft:
            kept: Decision | None = None
            for node in maps:
                found = plan_fusion(self._read(node), facts)
                if isinstance(found, Decision) or not found.is_without_loop:
                    kept = found if isinstance(found, Decision) else found.loop.decision
                    break
                plans.append(found)
            if kept is None:
                kept = kept_for_copies(plans, facts)
            given = self._given(plans) if kept is None else None
            before = set(node.graph or ())
            for plan in plans[::-1] if kept is None else ():
                if _is_gone(plan.site.node):
                    continue
                made = plan if given is None else given.without_few(plan)
                decision = apply_fusion(made, self._facts, Draft())
                if decision is not plan.decision and plan is plans[-1]:
                    kept = decision
                    break
                if decision is not plan.decision:
                    raise RewriteError(f"{plan.site.path}: {decision.reasons[0].detail}")
                self._changed.add(plan.site.graph)
            else:
                if given is not None:
                    given.write(plans[-1], before, self._facts.typings)
                draft.keep_placed()
        if kept is not None:
            self._give_back_parts(maps[-1], kept, original.rest)
            return
        self.fused.append(joined_decision([plan.decision for plan in plans], original.rest))

    def _fuse_alone(self, node: ir.Node) -> Decision | None:
        """Fuse a map; return why it stays, if that is to be said."""
        ceiling = ceiling_of(node)
        if ceiling in (Ceiling.EXPANDED, Ceiling.AS_GIVEN):
            return None
        site = self._read(node)
        if not site.results:
            return None
        plan = plan_guarded if ceiling is Ceiling.GUARDED else plan_fusion
        with drafting() as draft:
            found = plan(site, self._facts)
            if isinstance(found, Decision):
                mark_few(site, self._facts)
                return found
            copied = kept_for_copies([found], self._facts) if site.originals else None
            return self._apply(found, draft) if copied is None else copied

    def _fuse_chain(self, node: ir.Node) -> bool:
        """Fuse a Map together with those that read what it appends, if that is possible."""
        with drafting() as draft:
            plan = self._chains.longest(node)
            if plan is None or self._apply(plan, draft) is not None:
                return False
        site = plan.site
        site.graph.sort()
        self._sorted.add(site.graph)
        last = self.fused.pop()
        for original in site.originals[:-1]:
            kind, form = original.node.op_type, f"{PART_OF}{last.path}"
            self.fused.append(Decision(original.path, kind, Verdict.FUSED, form))
        self.fused.append(last)
        return True

    def _read(self, node: ir.Node) -> MapSite:
        """Read a map as it is now: a sequence that it reads may be rows of a tensor by now."""
        graph, original, typings = node.graph, _original(node), self._facts.typings
        assert graph is not None
        is_new = not self._changed.isdisjoint(graphs_inside(node))
        if original is None:
            path = self._facts.paths[node]
            site = read_sequence_map(node, graph, path, typings.declared)
            if is_new:
                self._facts.name_nodes(site)
                type_body(site.body, typings, self._model, is_declared=True)
            return site
        site = read_map(node, graph, original.path)
        elements = [(inner, source.as_rows(typings.declared)) for inner, source in site.elements]
        for (inner, source), (_, before) in zip(elements, site.elements, strict=True):
            if source.sequence is None and before.sequence is not None:
                typings.set(inner, source.element_type)
                is_new = True
        if is_new:
            type_body(site.body, typings, self._model)
        return dataclasses.replace(site, elements=elements, originals=[original])

    def _apply(self, plan: FusionPlan, draft: Draft) -> Decision | None:
        """Fuse a map; return why it stays, if it does."""
        given, before = self._given([plan]), set(plan.site.graph)
        beside = [] if given is None else given.nodes
        made = plan if given is None else given.without_few(plan)
        decision = apply_fusion(made, self._facts, draft, beside)
        if decision is not plan.decision:
            return decision
        if given is not None:
            given.write(plan, before, self._facts.typings)
        self._changed.add(plan.site.graph)
        self.fused.append(decision)
        return None

    def _given(self, plans: Sequence[FusionPlan]) -> FewIterations | None:
        """Return how few iterations are run, of a Loop that carries more than maps."""
        originals = [one for plan in plans for one in plan.site.originals]
        carries = any(one.patterns or one.rest for one in originals)
        return few_iterations(plans, self._facts) if carries else None

    def _give_back_parts(self, node: ir.Node, decision: Decision, rest: Rest | None) -> None:
        """Give back a Loop; one that was split is tried again without what was in the way."""
        if rest is None:
            self._give_back(node, decision)
            return
        loop = self._give_back(
            node, dataclasses.replace(decision, reasons=[rest.reason, *decision.reasons])
        )
        tried = loop.meta.setdefault(STUCK_KEY, set[str]())
        found = {reason.node for reason in decision.reasons if reason.node} - tried
        tried |= found
        if found and len(tried) <= _MOST_TRIED:
            del self.kept[loop]
            self.came_back = True

    def _put_back(self, node: ir.Node) -> ir.Node:
        """Put what a Map was raised from into its place; nodes that it reads may have moved."""
        graph, given = node.graph, give_back(node)
        if graph in self._sorted:
            graph.sort()
        return given

    def _give_back(self, node: ir.Node, decision: Decision) -> ir.Node:
        """Give back a Loop and return it; what was done inside of it is undone."""
        loop = self._put_back(node)
        self.kept[loop] = decision
        inside = f"{decision.path}/"
        self.fused = [d for d in self.fused if not d.path.startswith(inside)]
        self.came_back |= any(is_given(n) and n not in self.kept for n in walk_nodes([loop]))
        return loop


_MOST_TRIED = 8
"""So many nodes of a body are found one by one to stay in its Loop."""


def _original(node: ir.Node) -> Original | None:
    """Return what a Map was raised from; a SequenceMap was raised from nothing."""
    return original_of(node) if node.domain == DOMAIN else None


def _is_view(node: ir.Node) -> bool:
    """Whether a SequenceMap only says how the elements of a sequence lie in a tensor.

    One that is joined is a map like any other: no other map reads it.
    """
    readers = [user for user, _ in node.outputs[0].uses()]
    if readers and all(is_operator(user, "ConcatFromSequence") for user in readers):
        return False
    ends = (v.producer() for _, body in subgraphs(node) for v in body.outputs)
    is_possible = any(is_operator(end, ENDS) for end in ends)
    return is_possible and read_view(node.outputs[0]) is not None


def _is_gone(node: ir.Node) -> bool:
    """Whether only a map that is gone has read a map, or it stood in the body of one."""
    return node.graph is None or None in node.inputs
