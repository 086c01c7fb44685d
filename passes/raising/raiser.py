"""Puts Map nodes into the place of the Loops and Scans of one model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict
from passes.errors import RewriteError
from passes.graph.builder import Builder
from passes.graph.drafts import Draft, drafting
from passes.graph.graphs import PATH_KEY, default_opset, record_paths, subgraphs, walk_nodes
from passes.graph.opsets import find_misfit, to_opset_form
from passes.graph.splice import splice
from passes.maps.operator import VERSION, register_schema
from passes.maps.sequence_map import find_sequence_maps
from passes.promises import FuseOptions, ceiling_of
from passes.raising.behind import describe_patterns, write_behind
from passes.raising.flattening import flattened
from passes.raising.originals import replace_by_maps
from passes.raising.readings import Reading, other_readings
from passes.raising.sequence_maps import raise_sequence_map
from passes.raising.split import LoopSplit, ways_to_split, write_parts
from passes.raising.written import Written
from passes.reading.iterations import is_given
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.reading.read_loops import read_loop
from passes.sequence_operators import DOMAIN, is_map
from passes.site import GuardCheck, Original, Rest
from passes.typing import Typings

__all__ = ["Raiser"]


class Raiser:
    """Raises the Loops of one model.

    Attributes:
        raised: The Map nodes, in the order in which they stand, outer ones first, and what each
            was.
        kept: Why each of the other Loops is no map.
        finals: What was done with Loops that yield nothing but carried values.
        written: All new nodes.
        typings: Both typings; they gain what was written.
        paths: Names the nodes; it gains those of the bodies.
        waits: Whether a Loop that is no map holds one that was raised: it is read again then.
    """

    def __init__(
        self,
        model: ir.Model,
        typings: Typings,
        paths: dict[ir.Node, str],
        is_wanted: Callable[[ir.Node], bool],
        options: FuseOptions,
        *,
        takes_finals: bool = False,
        splits: bool = False,
    ) -> None:
        """Set up the work.

        Args:
            model: The model.
            typings: Both typings of it.
            paths: Names its nodes.
            is_wanted: Which Loops and Scans are raised, if they can be; in the body of a raised
                one all that are given are.
            options: What the caller asks for.
            takes_finals: Replace Loops that yield nothing but carried values; they do not come
                back.
            splits: Take Loops that hold a recurrence apart where that pays.
        """
        register_schema()
        self.raised: dict[ir.Node, Original] = {}
        self.kept: dict[ir.Node, Decision] = {}
        self.finals: list[Decision] = []
        self.written: list[ir.Node] = []
        self.typings = typings
        self.paths = paths
        self.waits = False
        self._model = model
        self._is_wanted = is_wanted
        self._takes_finals = takes_finals
        self._options = options
        self._splits = splits
        self._opset = default_opset(model)

    def raise_loops(self) -> None:
        """Raise the Loops of the main graph, then those inside of its nodes."""
        self._raise_all(self._model.graph, self._is_wanted, splits=self._splits)
        if self.raised:
            self._model.opset_imports[DOMAIN] = VERSION

    def raise_neighbours(self) -> None:
        """Raise the SequenceMaps that read what a Map yields, or yield what one reads.

        One that was written beside a Map is a view of what it yields, and stays.
        """
        maps = find_sequence_maps(self._model) if self.raised else []
        found = [node for _, node in maps if node in self.paths]
        while beside := [node for node in found if self._is_beside(node)]:
            for node in beside:
                found.remove(node)
                raised = raise_sequence_map(node, self.paths, self.typings)
                if raised is not None:
                    self.raised |= {one: raised for one in raised.written if is_map(one)}
                    self.written += raised.written

    def _is_beside(self, node: ir.Node) -> bool:
        makers = (value.producer() for value in node.inputs if value is not None)
        readers = (use.node for value in node.outputs for use in value.uses())
        return any(one in self.raised for one in (*makers, *readers))

    def _raise_all(
        self, graph: ir.Graph, is_wanted: Callable[[ir.Node], bool], *, splits: bool = False
    ) -> None:
        """Raise the Loops of a graph; one in the body of a map is not split, which is batched."""
        for node in list(graph):
            reads = self._raise_one(node, graph) if is_wanted(node) else []
            for read in reads:
                self._raise_all(read.site.body, is_given)
            if reads or node.graph is None:
                continue
            before = len(self.raised) + len(self.finals)
            for _, inner in subgraphs(node):
                inside = splits and node.op_type != "SequenceMap"
                self._raise_all(inner, is_wanted, splits=inside)
            if len(self.raised) + len(self.finals) > before:
                self._wait(node)
            elif splits:
                for read in self._split_recurrence(node):
                    self._raise_all(read.site.body, is_given)

    def _wait(self, node: ir.Node) -> None:
        """Let a Loop be read again when those in its body have become what they become."""
        if self.kept.pop(node, None) is not None:
            self.waits = True

    def _raise_one(self, node: ir.Node, graph: ir.Graph) -> list[LoopReading]:
        """Raise a Loop, or the one that two are; return the maps."""
        reads = self._raise_as_it_is(node, graph)
        reason = self.kept[node].reasons[0].code if node in self.kept else None
        return self._raise_as_one(node, graph) if reason in _OF_TWO else reads

    def _raise_as_one(self, node: ir.Node, graph: ir.Graph) -> list[LoopReading]:
        """Raise the one Loop that two are, if they are; return the maps."""
        with drafting() as draft:
            one = flattened(node, self.typings, self.paths)
            if one is None:
                return []
            one.put()
            reads = self._raise_as_it_is(one.loop, graph)
            is_left = one.loop.graph is not None
            self.kept.pop(one.loop if is_left else node, None)
            if is_left:
                one.put_back()
            else:
                draft.keep_all()
            if not is_left and not reads:
                one.remove(graph)
        return reads

    def _raise_as_it_is(self, node: ir.Node, graph: ir.Graph) -> list[LoopReading]:
        """Raise a Loop; return the maps."""
        with drafting() as draft:
            read = self._read(node, graph, draft)
            reads = [] if read is None else read.maps
            return reads if reads and self._raise(reads, draft) else []

    def _split_recurrence(self, node: ir.Node) -> list[LoopReading]:
        """Put Maps before and behind what is left of a Loop with a recurrence; return them."""
        reason = self.kept[node].reasons[0] if node in self.kept else None
        if reason is None or reason.code not in _OF_RECURRENCES:
            return []
        for split in ways_to_split(node, self.paths[node], self.typings, self._opset):
            with drafting() as draft, contextlib.suppress(NotAMapError):
                return self._raise_parts(split, reason, draft)
        return []

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

    def _raise(self, reads: Sequence[LoopReading], draft: Draft) -> bool:
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
        self._replace(reads, written, readings)
        return True

    def _written(self, path: str, loop: ir.Node) -> Written:
        is_inside = loop.graph is not self._model.graph
        return Written(
            Builder(path, self._opset), self.typings, self._opset, self._options, is_inside
        )

    def _replace(
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

    def _raise_parts(self, split: LoopSplit, reason: Reason, draft: Draft) -> list[LoopReading]:
        """Put Maps before and behind what is left of a Loop, and return them.

        Raises:
            NotAMapError: One of them is no map, or the model's opset lacks what it needs.
        """
        node = split.facts.iteration.node
        path = self.paths[node]
        written = self._written(path, split.facts.iteration.node)
        maps, rest = write_parts(split, path, self._model, reason, written)
        draft.keep(written.builder.nodes)
        self._replace(maps, written, (), rest)
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


_OF_TWO = (Code.RECURRENCE, Code.RAGGED)
"""Said of a Loop that stays, although it and the one inside of it may be one map."""
_OF_RECURRENCES = frozenset(
    {Code.RECURRENCE, Code.CARRIED_OFFSET, Code.CONDITIONAL_APPEND, Code.EXACT}
    | {Code.READS_EARLIER}
)
"""Said of a Loop that stays because of a recurrence, or of what would round otherwise."""
