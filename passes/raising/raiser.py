"""Raises the Loops and Scans of a model to Map nodes: each by itself, two as one, in parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.graph.drafts import drafting
from passes.graph.graphs import subgraphs
from passes.maps.operator import VERSION, register_schema
from passes.maps.sequence_map import find_sequence_maps
from passes.promises import FuseOptions
from passes.raising.flattening import flattened
from passes.raising.loop_replacer import LoopReplacer
from passes.raising.sequence_maps import raise_sequence_map
from passes.raising.split import ways_to_split
from passes.reading.cut_numbers import as_offsets_or_data
from passes.reading.iterations import is_given
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import DoubtfulReadError, NotAMapError
from passes.sequence_operators import DOMAIN, is_map
from passes.typing import Typings

__all__ = ["Raiser"]


class Raiser(LoopReplacer):
    """Raises the Loops of one model.

    Attributes:
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
            takes_finals: See `LoopReplacer`.
            splits: Take Loops that hold a recurrence apart where that pays.
        """
        super().__init__(model, typings, paths, options, takes_finals=takes_finals)
        register_schema()
        self.waits = False
        self._is_wanted = is_wanted
        self._splits = splits

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
        reads = self.replace(node, graph)
        reason = self.kept[node].reasons[0].code if node in self.kept else None
        return self._raise_as_one(node, graph) if reason in _OF_TWO else reads

    def _raise_as_one(self, node: ir.Node, graph: ir.Graph) -> list[LoopReading]:
        """Raise the one Loop that two are, if they are; return the maps."""
        with drafting() as draft:
            one = flattened(node, self.typings, self.paths)
            if one is None:
                return []
            one.put()
            reads = self.replace(one.loop, graph)
            is_left = one.loop.graph is not None
            self.kept.pop(one.loop if is_left else node, None)
            if is_left:
                one.put_back()
            else:
                draft.keep_all()
            if not is_left and not reads:
                one.remove(graph)
        return reads

    def _split_recurrence(self, node: ir.Node) -> list[LoopReading]:
        """Put Maps before and behind what is left of a Loop with a recurrence; return them."""
        reason = self.kept[node].reasons[0] if node in self.kept else None
        if reason is None or reason.code not in _OF_RECURRENCES:
            return []
        with contextlib.suppress(DoubtfulReadError):
            return as_offsets_or_data(lambda: self._split(node, reason))
        return []

    def _split(self, node: ir.Node, reason: Reason) -> list[LoopReading]:
        """Split a Loop in the best of the ways that can be.

        Raises:
            DoubtfulReadError: It cannot be where what one of them reads is followed.
        """
        doubtful = None
        for split in ways_to_split(node, self.paths[node], self.typings, self._opset):
            with drafting() as draft:
                try:
                    return self.replace_by_parts(split, reason, draft)
                except DoubtfulReadError as error:
                    doubtful = error
                except NotAMapError:
                    continue
        if doubtful is not None:
            raise doubtful
        return []


_OF_TWO = (Code.RECURRENCE, Code.RAGGED)
"""Said of a Loop that stays, although it and the one inside of it may be one map."""
_OF_RECURRENCES = frozenset(
    {Code.RECURRENCE, Code.CARRIED_OFFSET, Code.CONDITIONAL_APPEND, Code.EXACT}
    | {Code.READS_EARLIER, Code.COST}
)
"""Said of a Loop that stays because of a recurrence, or of what would round otherwise, or take
longer than a recurrence does."""
