"""Replaces the Loops and Scans that are maps by operators with a batch axis."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from passes.batching.reshaping import padded
from passes.builder import ORIGIN_KEY, Builder, drop_uses
from passes.decisions import Code, Decision, Reason, Verdict
from passes.errors import RewriteError
from passes.fuse import record_fusion
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import (
    FusionPlan,
    add_even,
    plan_as_long,
    plan_whole,
    reduces_rows,
)
from passes.fusing.guards import Guards
from passes.fusing.stack import reversed_along
from passes.graphs import captured_values, subgraphs, walk_nodes, with_subgraphs
from passes.names import make_names_unique
from passes.opset_check import find_misfit
from passes.opset_forms import to_opset_form
from passes.prepare import move_initializers, read_moved
from passes.promises import Promises
from passes.reading.facts import NotAMapError
from passes.reading.functions import inline_loops
from passes.reading.iterations import is_iteration
from passes.reading.read_loops import discard_body, read_loop
from passes.site import MapSite
from passes.splice import splice

__all__ = ["ReadLoopsPass"]


class ReadLoopsPass(ir.passes.InPlacePass):
    """Fuse the Loops and Scans that are maps over independent samples, and only as a whole.

    One of which something would have to stay in a loop is left exactly as it is. So are the
    loops that a rewrite wrote itself. A model-local function is inlined where one of its Loops
    is fused there.

    Attributes:
        decisions: What was done with each Loop and Scan of the model.
        kept: The decisions of those that stand in no function and are left.
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
        self.kept: dict[ir.Node, Decision] = {}

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
        self.decisions, self.kept = [], {}
        loops = [
            (graph, node)
            for graph, node in find_loops(model)
            if not self._again or reads_new_nodes(node)
        ]
        if not loops:
            return False
        facts: FusionFacts | None = None
        kept: dict[ir.Node, Decision] = {}
        modified = make_names_unique(model)
        for graph, node in loops:
            if _is_gone(node, model):
                continue  # only a Loop that is fused now needed its results
            if facts is None or reads_new_nodes(node):
                facts = FusionFacts(
                    model,
                    self._promises,
                    exact=self._exact,
                    auto=self._auto,
                    lacks=self._lacks,
                )
            decision = fuse_loop(node, graph, facts)
            if decision.verdict is Verdict.KEPT:
                kept[node] = decision
                continue
            self.decisions.append(decision)
            modified = True
        make_names_unique(model)
        left = set(walk_nodes(model.graph))
        self.kept = {node: decision for node, decision in kept.items() if node in left}
        self.decisions += self.kept.values()
        return modified


def _is_gone(node: ir.Node, model: ir.Model) -> bool:
    """Whether a node was removed, or stands in a body that was."""
    if node.graph is None:
        return True
    return not any(node.inputs) and node not in set(walk_nodes(model.graph))


def find_loops(model: ir.Model) -> list[tuple[ir.Graph, ir.Node]]:
    """Return the main graph's own Loops and Scans; one inside the body of another comes first."""
    return [
        (graph, node)
        for graph in reversed(list(with_subgraphs(model.graph)))
        for node in graph
        if is_iteration(node) and ORIGIN_KEY not in node.metadata_props
    ]


def reads_new_nodes(node: ir.Node) -> bool:
    """Whether a Loop holds or reads what a rewrite wrote: its types are not known yet."""
    bodies = [graph for _, graph in subgraphs(node)]
    values = {v for v in node.inputs if v is not None}
    values.update(v for graph in bodies for v in captured_values(graph))
    producers = [p for v in values if (p := v.producer()) is not None]
    inside = [inner for graph in bodies for inner in walk_nodes(graph)]
    return any(ORIGIN_KEY in n.metadata_props for n in (*producers, *inside))


def bodies_of(node: ir.Node) -> list[ir.Node]:
    """Return the nodes of the body of a Loop or Scan."""
    return [inner for _, graph in subgraphs(node) for inner in graph]


def fuse_loop(node: ir.Node, graph: ir.Graph, facts: FusionFacts) -> Decision:
    """Fuse a Loop or Scan if it is a map and nothing of it has to stay in a loop."""
    imports = dict(facts.model.opset_imports)
    decision = _fuse(node, graph, facts)
    if decision.verdict is Verdict.KEPT and imports != facts.model.opset_imports:
        facts.model.opset_imports.clear()
        facts.model.opset_imports.update(imports)
    return decision


def _fuse(node: ir.Node, graph: ir.Graph, facts: FusionFacts) -> Decision:
    path = facts.paths[node]
    try:
        site = read_loop(node, graph, path, facts.typings, facts.model, facts.opset)
    except NotAMapError as error:
        reason = error.reason(facts.paths)
        return Decision(path, node.op_type, Verdict.KEPT, "as it is", [reason])
    except RewriteError as error:
        reason = Reason(Code.NOT_A_MAP, detail=str(error))
        return Decision(path, node.op_type, Verdict.KEPT, "as it is", [reason])
    names = {inner.name: facts.paths[inner] for inner in walk_nodes(bodies_of(node))}
    copies = {n: names[n.name] for n in walk_nodes(site.body) if n.name in names}
    facts.paths = {**facts.paths, **copies}
    plan = plan_whole(site, facts)
    if isinstance(plan, FusionPlan):
        if "If" not in facts.lacks and None in plan.fused and reduces_rows(plan):
            _plan_even(plan, facts)
        return _apply(plan, facts)
    is_ragged = any(reason.code is Code.RAGGED for reason in plan.reasons)
    guarded = _plan_as_long(site, facts) if is_ragged else None
    if guarded is not None:
        return _apply(guarded, facts)
    discard_body(site)
    plan.notes.append(f"read as a map: {site.dialect}")
    return plan


def _plan_as_long(site: MapSite, facts: FusionFacts) -> FusionPlan | None:
    """Plan a map behind the question whether tensors that it cuts alike are equally long."""
    model, opset = facts.model, facts.opset
    other = read_loop(site.node, site.graph, site.path, facts.typings, model, opset, as_long=True)
    plan = plan_as_long(site, other, facts) if other.as_long else None
    if plan is None:
        discard_body(other)
    return plan


def _plan_even(plan: FusionPlan, facts: FusionFacts) -> None:
    """Add what is faster for slices of one length, if the slices can be read so."""
    site = plan.site
    try:
        even = read_loop(
            site.node,
            site.graph,
            site.path,
            facts.typings,
            facts.model,
            facts.opset,
            is_even=True,
        )
    except NotAMapError:
        return
    if not add_even(plan, even, facts):
        discard_body(even)


def _apply(plan: FusionPlan, facts: FusionFacts) -> Decision:
    """Put a planned map into the place of its Loop, if its nodes fit the model's opset."""
    site = plan.site
    body = site.node.attributes["body"].as_graph()
    builder, pairs = record_fusion(plan, facts, Guards())
    pairs = [(old, _turned(builder, site, old, new)) for old, new in pairs]
    pairs += [(old, write(builder)) for old, write in site.finals.items()]
    builder.prune([new for _, new in pairs])
    to_opset_form(walk_nodes(builder.nodes), facts.opset)
    misfit = find_misfit(builder.nodes, facts.opset) or _unpadded(site, builder, facts)
    bodies = [*plan.fused.values(), *([] if plan.even is None else [plan.even])]
    for one in (site, *(fused.site for fused in bodies)):
        drop_uses(list(one.body))
    if misfit is not None:
        drop_uses(builder.nodes)
        reason = Reason(Code.OPSET, detail=misfit)
        return Decision(site.path, site.node.op_type, Verdict.KEPT, "as it is", [reason])
    move_initializers(body, facts.model.graph)
    read_moved(builder.nodes, facts.model.graph)
    splice(builder, site.node, pairs)
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
