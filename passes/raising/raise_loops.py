"""Raises the Loops and Scans that are maps to Map nodes."""

from __future__ import annotations

import onnx_ir as ir

from passes.builder import ORIGIN_KEY, Builder
from passes.decisions import Code, Decision, Reason, Verdict
from passes.errors import RewriteError
from passes.graphs import (
    copy_value,
    default_opset,
    node_paths,
    subgraphs,
    walk_nodes,
    with_subgraphs,
)
from passes.maps.operator import DOMAIN, VERSION, register_schema
from passes.maps.sites import write_map
from passes.names import keep_names, name_apart
from passes.promises import Promises
from passes.raising.originals import replace_by_map
from passes.reading.facts import NotAMapError
from passes.reading.iterations import is_iteration
from passes.reading.read_loops import discard_body, read_loop
from passes.site import IndexSource, MapSite
from passes.typing import Typings, type_both_ways

__all__ = ["RaiseLoopsPass"]


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
            promises: Shapes of inputs that the caller vouches for.
        """
        super().__init__()
        self._promises = promises
        self.raised: dict[str, str] = {}
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Raise the Loops of the main graph and of all graphs in it, outer ones first."""
        self.raised, self.decisions = {}, []
        if not any(map(_is_given, walk_nodes(model.graph))):
            return ir.passes.PassResult(model, False)
        register_schema()
        with keep_names(model):
            typings = type_both_ways(model, self._promises)
            raiser = _Raiser(model, typings, self.raised, self.decisions)
            raiser.raise_loops(model.graph, "")
        name_apart(model, raiser.written)
        if self.raised:
            model.opset_imports[DOMAIN] = VERSION
        return ir.passes.PassResult(model, bool(self.raised))


def _is_given(node: ir.Node) -> bool:
    """Whether a node is a Loop or Scan of the model's own."""
    return is_iteration(node) and ORIGIN_KEY not in node.metadata_props


class _Raiser:
    """Raises the Loops of one model."""

    def __init__(
        self,
        model: ir.Model,
        typings: Typings,
        raised: dict[str, str],
        decisions: list[Decision],
    ) -> None:
        self.written: list[ir.Node] = []
        self._model = model
        self._typings = typings
        self._raised = raised
        self._decisions = decisions
        self._opset = default_opset(model)
        self._paths = node_paths(model)

    def raise_loops(self, graph: ir.Graph, prefix: str) -> None:
        """Raise the Loops of a graph, then those inside of its nodes."""
        for index, node in enumerate(list(graph)):
            name = node.name or f"{node.op_type}_{index}"
            path = self._paths.get(node, f"{prefix}{name}")
            site = self._read(node, graph, path) if _is_given(node) else None
            if site is not None:
                self._raise(site)
                self.raise_loops(site.body, f"{path}/body/")
                continue
            for attribute, inner in subgraphs(node):
                self.raise_loops(inner, f"{path}/{attribute}/")

    def _read(self, node: ir.Node, graph: ir.Graph, path: str) -> MapSite | None:
        try:
            site = read_loop(node, graph, path, self._typings, self._model, self._opset)
        except NotAMapError as error:
            self._keep(node, path, error.reason(self._paths))
            return None
        except RewriteError as error:
            self._keep(node, path, Reason(Code.NOT_A_MAP, detail=str(error)))
            return None
        if not site.results:
            discard_body(site)
            return None
        return site

    def _keep(self, node: ir.Node, path: str, reason: Reason) -> None:
        decision = Decision(path, node.op_type, Verdict.KEPT, "as it is", [reason])
        self._decisions.append(decision)

    def _raise(self, site: MapSite) -> None:
        builder = Builder(site.path)
        _read_what_is_whole(site)
        _own_initializers(site.body, site.node.attributes["body"].as_graph())
        made = write_map(builder, site)
        pairs = [(r.value, v) for r, v in zip(site.results, made.outputs, strict=True)]
        pairs += [(old, write(builder)) for old, write in site.finals.items()]
        pairs = [(old, _computed(builder, new)) for old, new in pairs]
        behind = [r.value.producer() for r in site.results]
        replace_by_map(
            site.node,
            dict.fromkeys(n for n in behind if n is not None and n is not site.node),
            builder.nodes,
            pairs,
        )
        self._typings.copy(dict(pairs))
        self.written += [*builder.nodes, *site.body]
        self._raised[site.path] = site.dialect


def _computed(builder: Builder, value: ir.Value) -> ir.Value:
    """Return a value that a builder computes itself."""
    own = any(value is out for node in builder.nodes for out in node.outputs)
    return value if own else builder.op("Identity", [value])


def _read_what_is_whole(site: MapSite) -> None:
    """Let the body read the source that tells the number of samples, if it does not yet."""
    first = site.elements[0][1]
    like = first.like if isinstance(first, IndexSource) else None
    if like is None or any(source == like for _, source in site.elements):
        return
    inner = ir.Value(name=f"{site.path}/sized")
    site.elements.append((inner, like))
    site.body.inputs.append(inner)


def _own_initializers(body: ir.Graph, original: ir.Graph) -> None:
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
