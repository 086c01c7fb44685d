"""Puts Map nodes into the place of one Loop or Scan, or says why it stays."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict
from passes.errors import RewriteError
from passes.graph.builder import Builder
from passes.graph.drafts import Draft, drafting
from passes.graph.graphs import PATH_KEY, default_opset, record_paths, subgraphs, walk_nodes
from passes.graph.opsets import find_misfit, to_opset_form
from passes.graph.splice import splice
from passes.promises import FuseOptions, ceiling_of
from passes.raising.behind import describe_patterns, write_behind
from passes.raising.originals import replace_by_maps
from passes.raising.readings import Reading, other_readings
from passes.raising.split import LoopSplit, write_parts
from passes.raising.written import Written
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.reading.read_loops import read_loop
from passes.sequence_operators import is_map
from passes.site import GuardCheck, Original, Rest
from passes.typing import Typings

__all__ = ["LoopReplacer"]


class LoopReplacer:
    """Replaces Loops of one model, each by itself.

    Attributes:
        raised: The Map nodes, in the order in which they stand, outer ones first, and what each
            was.
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
        options: FuseOptions,
        *,
        takes_finals: bool = False,
    ) -> None:
        """Begin with nothing replaced.

        Args:
            model: The model.
            typings: Both typings of it.
            paths: Names its nodes.
            options: What the caller asks for.
            takes_finals: Replace Loops that yield nothing but carried values; they do not come
                back.
        """
        self.raised: dict[ir.Node, Original] = {}
        self.kept: dict[ir.Node, Decision] = {}
        self.finals: list[Decision] = []
        self.written: list[ir.Node] = []
        self.typings = typings
        self.paths = paths
        self._model = model
        self._takes_finals = takes_finals
        self._options = options
        self._opset = default_opset(model)

    def replace(self, node: ir.Node, graph: ir.Graph) -> list[LoopReading]:
        """Put Maps into the place of a Loop; return them, none where it stays."""
        with drafting() as draft:
            read = self._read(node, graph, draft)
            reads = [] if read is None else read.maps
            return reads if reads and self._put_maps(reads, draft) else []

    def _read(self, node: ir.Node, graph: ir.Graph, draft: Draft) -> LoopReading | None:
        if ceiling_of(node):
            self._keep(node, Reason(Code.REPAIRED))
            return None
        inside = walk_nodes(n for _, body in subgraphs(node) for n in body)
        record_paths({inner: self.paths[inner] for inner in inside})
        try:
            read = self._read_as(node, graph)
        except NotAMapError as error:
            self._keep(node, error.reason(self.paths))
            return None
        except RewriteError as error:
            self._keep(node, Reason(Code.NOT_A_MAP, detail=str(error)))
            return None
        if read.site.results:
            return read
        if self._takes_finals:
            self._replace_by_finals(read, draft)
        return None

    def _read_as(
        self, node: ir.Node, graph: ir.Graph, check: GuardCheck | None = None
    ) -> LoopReading:
        path = self.paths[node]
        return read_loop(node, graph, path, self.typings, self._model, self._opset, check)

    def _keep(self, node: ir.Node, reason: Reason) -> None:
        path = self.paths[node]
        self.kept[node] = Decision(path, node.op_type, Verdict.KEPT, "as it is", [reason])

    def _put_maps(self, reads: Sequence[LoopReading], draft: Draft) -> bool:
        """Put Maps into the place of a Loop, unless the model's opset lacks what they need."""
        site = reads[-1].site
        original = site.node.attributes["body"].as_graph()
        others = {} if len(reads) > 1 else other_readings(site, original, self._read_as)
        written = self._written(site.path, site.node)
        try:
            written.write_finals(reads[-1])
            for read in reads:
                written.write_map(read, original)
        except NotAMapError as error:
            self._keep(site.node, error.reason(self.paths))
            return False
        written.drop_unread()
        misfit = written.misfit()
        if misfit is not None:
            self._keep(site.node, Reason(Code.OPSET, detail=misfit))
            return False
        readings = [
            Reading(check, one, written.values)
            for check, one in others.items()
            if all(result.value in written.values for result in one.results)
        ]
        draft.keep([*written.builder.nodes, *(n for one in readings for n in one.nodes)])
        self._put_written(reads, written, readings)
        return True

    def _written(self, path: str, loop: ir.Node) -> Written:
        is_inside = loop.graph is not self._model.graph
        return Written(
            Builder(path, self._opset), self.typings, self._opset, self._options, is_inside
        )

    def _put_written(
        self,
        reads: Sequence[LoopReading],
        written: Written,
        readings: Sequence[Reading] = (),
        rest: Rest | None = None,
    ) -> None:
        """Put what was written into the place of a Loop."""
        nodes = written.builder.nodes
        bodies = [one.attributes["body"].as_graph() for one in written.loops]
        copies = (n for body in bodies for n in walk_nodes(body) if PATH_KEY in n.meta)
        self.paths |= {node: node.meta[PATH_KEY] for node in copies}
        pairs = [(old, new) for old, new in written.values.items() if old.producer() is not None]
        raised = replace_by_maps(reads, nodes, pairs, readings, rest)
        self.raised |= {node: raised for node in written.loops if is_map(node)}
        self.written += nodes

    def replace_by_parts(
        self, split: LoopSplit, reason: Reason, draft: Draft
    ) -> list[LoopReading]:
        """Put Maps before and behind what is left of a Loop, and return them.

        Raises:
            NotAMapError: One of them is no map, or the model's opset lacks what it needs.
        """
        node = split.facts.iteration.node
        path = self.paths[node]
        written = self._written(path, split.facts.iteration.node)
        maps, rest = write_parts(split, path, self._model, reason, written)
        draft.keep(written.builder.nodes)
        self._put_written(maps, written, (), rest)
        del self.kept[node]
        return maps

    def _replace_by_finals(self, read: LoopReading, draft: Draft) -> None:
        """Put plain nodes into the place of a Loop that yields nothing but carried values."""
        site = read.site
        builder = Builder(site.path, self._opset)
        pairs = [(old, write(builder)) for old, write in read.finals.items()]
        try:
            pairs += write_behind(builder, read, {}, self.typings, self._opset, self._options, {})
        except NotAMapError as error:
            self._keep(site.node, error.reason(self.paths))
            return
        to_opset_form(builder.nodes, self._opset)
        misfit = find_misfit(builder.nodes, self._opset)
        if misfit is not None:
            self._keep(site.node, Reason(Code.OPSET, detail=misfit))
            return
        notes = [f"read as a map: {read.dialect}", *describe_patterns(read)]
        kind = site.node.op_type
        self.finals.append(
            Decision(site.path, kind, Verdict.FUSED, "", [], list(read.assumptions), notes)
        )
        draft.keep(builder.nodes)
        self.typings.copy(splice(builder, site.node, pairs))
