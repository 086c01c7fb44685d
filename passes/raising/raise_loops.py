"""Raises the Loops and Scans that are maps to Map nodes."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from passes.builder import ORIGIN_KEY, Builder, drop_uses
from passes.ceilings import ceiling_of
from passes.decisions import Code, Decision, Reason, Verdict
from passes.errors import RewriteError
from passes.graphs import (
    PATH_KEY,
    copy_value,
    default_opset,
    node_paths,
    record_paths,
    subgraphs,
    walk_nodes,
    with_subgraphs,
)
from passes.maps.operator import DOMAIN, VERSION, register_schema
from passes.maps.sites import write_map
from passes.names import keep_names, name_apart
from passes.opset_check import find_misfit
from passes.opset_forms import to_opset_form
from passes.promises import Promises
from passes.raising.originals import IMPORTS_KEY, replace_by_map
from passes.raising.readings import Reading
from passes.raising.results import type_results
from passes.reading.facts import NotAMapError
from passes.reading.iterations import is_iteration
from passes.reading.read_loops import discard_body, read_loop
from passes.site import MapSite
from passes.splice import splice
from passes.typing import Typings, type_both_ways

__all__ = ["RaiseLoopsPass", "Raiser", "is_given"]


class RaiseLoopsPass(ir.passes.InPlacePass):
    """Write each Loop and Scan that is a map as a Map node.

    1. The ConcatFromSequences that read what a Loop appends become results of the Map.
    2. A carried value that a Loop yields, and that is no result, is computed by nodes beside it.
    3. A Loop inside of the body of a raised one is raised there.
    4. What was raised comes back by `GiveBackPass`.
    5. Loops that a rewrite wrote, Loops that yield nothing but carried values, and those of
       model-local functions stay.

    Attributes:
        raised: For each Loop and Scan that was raised, its path and how it spells a map.
        decisions: Why each of the others stays.
    """

    def __init__(self, promises: Promises | None = None) -> None:
        """Set up the pass.

        Args:
            promises: Shapes of inputs that the caller promises.
        """
        super().__init__()
        self._promises = promises
        self.raised: dict[str, str] = {}
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Raise the Loops of the main graph and of all graphs in it, outer ones first."""
        self.raised, self.decisions = {}, []
        if not any(map(is_given, walk_nodes(model.graph))):
            return ir.passes.PassResult(model, False)
        imports = set(model.opset_imports)
        with keep_names(model):
            typings = type_both_ways(model, self._promises)
            raiser = Raiser(model, typings, node_paths(model), is_given)
            raiser.raise_loops()
        name_apart(model, raiser.written)
        if raiser.raised:
            model.meta[IMPORTS_KEY] = imports
        self.raised = {site.path: site.dialect for site in raiser.raised.values()}
        self.decisions = list(raiser.kept.values())
        return ir.passes.PassResult(model, bool(self.raised))


def is_given(node: ir.Node) -> bool:
    """Whether a node is a Loop or Scan of the model's own."""
    return is_iteration(node) and ORIGIN_KEY not in node.metadata_props


class Raiser:
    """Raises the Loops of one model.

    Attributes:
        raised: The Map nodes, in the order in which they stand, outer ones first.
        kept: Why each of the other Loops is no map.
        finals: What was done with Loops that yield nothing but carried values.
        written: All new nodes.
        typings: Both typings; they gain what was written.
        paths: Names the nodes; it gains those of the bodies.
    """

    def __init__(
        self,
        model: ir.Model,
        typings: Typings,
        paths: dict[ir.Node, str],
        is_wanted: Callable[[ir.Node], bool],
        *,
        takes_finals: bool = False,
    ) -> None:
        """Set up the work.

        Args:
            model: The model.
            typings: Both typings of it.
            paths: Names its nodes.
            is_wanted: Which Loops and Scans are raised, if they can be; in the body of a raised
                one all that are given are.
            takes_finals: Replace Loops that yield nothing but carried values; they do not come
                back.
        """
        register_schema()
        self.raised: dict[ir.Node, MapSite] = {}
        self.kept: dict[ir.Node, Decision] = {}
        self.finals: list[Decision] = []
        self.written: list[ir.Node] = []
        self.typings = typings
        self.paths = paths
        self._model = model
        self._is_wanted = is_wanted
        self._takes_finals = takes_finals
        self._opset = default_opset(model)

    def raise_loops(self) -> None:
        """Raise the Loops of the main graph, then those inside of its nodes."""
        self._raise_all(self._model.graph, self._is_wanted)
        if self.raised:
            self._model.opset_imports[DOMAIN] = VERSION

    def _raise_all(self, graph: ir.Graph, is_wanted: Callable[[ir.Node], bool]) -> None:
        for node in list(graph):
            site = self._read(node, graph) if is_wanted(node) else None
            if site is not None and self._raise(site):
                self._raise_all(site.body, is_given)
                continue
            for _, inner in subgraphs(node):
                self._raise_all(inner, is_wanted)

    def _read(self, node: ir.Node, graph: ir.Graph) -> MapSite | None:
        if ceiling_of(node):
            self._keep(node, Reason(Code.REPAIRED))
            return None
        inside = walk_nodes(n for _, body in subgraphs(node) for n in body)
        record_paths({inner: self.paths[inner] for inner in inside})
        try:
            site = self._read_as(node, graph)
        except NotAMapError as error:
            self._keep(node, error.reason(self.paths))
            return None
        except RewriteError as error:
            self._keep(node, Reason(Code.NOT_A_MAP, detail=str(error)))
            return None
        if site.results:
            return site
        discard_body(site)
        if self._takes_finals:
            self._replace_by_finals(site)
        return None

    def _read_as(self, node: ir.Node, graph: ir.Graph, **ways: bool) -> MapSite:
        path = self.paths[node]
        return read_loop(node, graph, path, self.typings, self._model, self._opset, **ways)

    def _keep(self, node: ir.Node, reason: Reason) -> None:
        path = self.paths[node]
        self.kept[node] = Decision(path, node.op_type, Verdict.KEPT, "as it is", [reason])

    def _raise(self, site: MapSite) -> bool:
        """Put a Map into the place of a Loop, unless the model's opset lacks what it needs."""
        original = site.node.attributes["body"].as_graph()
        as_long, even = self._other_readings(site, original)
        builder = Builder(site.path)
        finals = [(old, write(builder)) for old, write in site.finals.items()]
        self.typings.copy(_own_initializers(site.body, original))
        made = write_map(builder, site)
        beside = [node for node in builder.nodes if node is not made]
        to_opset_form(walk_nodes(beside), self._opset)
        misfit = find_misfit(beside, self._opset)
        if misfit is not None:
            drop_uses(builder.nodes)
            for reading in filter(None, (as_long, even)):
                discard_body(reading)
            self._keep(site.node, Reason(Code.OPSET, detail=misfit))
            return False
        copies = (node for node in walk_nodes(site.body) if PATH_KEY in node.meta)
        self.paths |= {node: node.meta[PATH_KEY] for node in copies}
        pairs = [(r.value, v) for r, v in zip(site.results, made.outputs, strict=True)]
        pairs += [(old, _computed(builder, new)) for old, new in finals]
        type_results(site, dict(pairs), self.typings)
        readings = (None if one is None else Reading(one, dict(pairs)) for one in (as_long, even))
        replace_by_map(site, builder.nodes, pairs, *readings)
        self.written += [*builder.nodes]
        self.raised[made] = site
        return True

    def _replace_by_finals(self, site: MapSite) -> None:
        """Put plain nodes into the place of a Loop that yields nothing but carried values."""
        builder = Builder(site.path)
        pairs = [(old, write(builder)) for old, write in site.finals.items()]
        to_opset_form(walk_nodes(builder.nodes), self._opset)
        misfit = find_misfit(builder.nodes, self._opset)
        if misfit is not None:
            drop_uses(builder.nodes)
            self._keep(site.node, Reason(Code.OPSET, detail=misfit))
            return
        notes = [f"read as a map: {site.dialect}"]
        kind = site.node.op_type
        self.finals.append(
            Decision(site.path, kind, Verdict.FUSED, "", [], list(site.assumptions), notes)
        )
        self.typings.copy(splice(builder, site.node, pairs))

    def _other_readings(
        self, site: MapSite, original: ir.Graph
    ) -> tuple[MapSite | None, MapSite | None]:
        """Read a Loop that cuts tensors as if they were equally long, or the slices were."""
        if all(node.op_type != "Slice" for node in walk_nodes(original)):
            return None, None
        as_long = self._read_as(site.node, site.graph, as_long=True)
        if not as_long.as_long:
            discard_body(as_long)
        try:
            even = self._read_as(site.node, site.graph, is_even=True)
        except NotAMapError:
            even = None
        return as_long if as_long.as_long else None, even


def _computed(builder: Builder, value: ir.Value) -> ir.Value:
    """Return a value that a builder computes itself."""
    own = any(value is out for node in builder.nodes for out in node.outputs)
    return value if own else builder.op("Identity", [value])


def _own_initializers(body: ir.Graph, original: ir.Graph) -> dict[ir.Value, ir.Value]:
    """Give a body copies of the initializers of the Loop's body that it was copied from."""
    foreign = {v for graph in with_subgraphs(original) for v in graph.initializers.values()}
    copies: dict[ir.Value, ir.Value] = {}
    for node in walk_nodes(body):
        for position, value in enumerate(node.inputs):
            if value is None or value not in foreign:
                continue
            if value not in copies:
                copies[value] = copy_value(value)
                body.register_initializer(copies[value])
            node.replace_input_with(position, copies[value])
    return copies
