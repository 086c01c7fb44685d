"""Values from outside of a loop, as the samples of one step have them.

Where only samples 0 and 2 of three have a further step, a captured ``[3, *s]`` is its rows 0 and
2 there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.control.rosters import ActiveBatch
from passes.batching.packed.spread_rows import spread
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.graph.graphs import captured_values, walk_nodes
from passes.graph.made import only_number, optional_operand

__all__ = ["Apart", "LiveIns"]


class LiveIns:
    """What a body captures, as the samples of one step have it.

    Rows that a step reads by their positions stay where they are. All other packed values are
    gathered anew for every step, which costs no more than the body itself did.
    """

    def __init__(
        self,
        ctx: Context,
        local: Context,
        team: ActiveBatch,
        graph: ir.Graph,
        carried: Collection[Lengths],
    ) -> None:
        """Describe a step.

        Args:
            ctx: The context around the loop.
            local: The context of the step.
            team: Its samples.
            graph: The body.
            carried: Lengths of packed states.
        """
        self._local, self._team = local, team
        self._captured = {v: ctx.read(v) for v in captured_values(graph)}
        for x in self._captured.values():
            if not x.is_shared and not isinstance(x.type.type, ir.TensorType):
                raise Decline(Code.SEQUENCE_IN_BODY, "it reads a sequence of each sample")
        together = {
            x.lengths
            for v, x in self._captured.items()
            if x.is_packed and (x.axis or not _by_position(graph, v, x.rank))
        }
        self._together = {*together, *carried}
        self._lengths: dict[Lengths, Lengths] = {}
        self._rows: dict[Lengths, ir.Value] = {}

    def captured(self) -> dict[ir.Value, Batched]:
        """Return what the body captures."""
        return {value: self._of(x) for value, x in self._captured.items()}

    def lengths(self, outside: Lengths) -> Lengths:
        """Return the lengths of the step's samples."""
        if outside not in self._lengths:
            builder, sizes = self._local.builder, self._team.take(outside.value)
            if outside in self._together:
                self._lengths[outside] = Lengths(builder, sizes)
            else:
                starts = self._team.take(outside.starts)
                self._lengths[outside] = Apart(builder, sizes, starts, outside.total)
        return self._lengths[outside]

    def _of(self, x: Batched) -> Batched:
        if x.is_shared:
            return x
        if x.lengths is None:
            return dataclasses.replace(x, value=self._team.take(x.value))
        lengths = self.lengths(x.lengths)
        if x.lengths not in self._together:
            return dataclasses.replace(x, lengths=lengths)
        if x.lengths not in self._rows:
            first = spread(self._local, self._team.take(x.lengths.starts), lengths)
            self._rows[x.lengths] = self._local.op("Add", [first, lengths.positions])
        value = self._local.op("Gather", [x.value, self._rows[x.lengths]], {"axis": x.axis})
        return dataclasses.replace(x, value=value, lengths=lengths)


def _by_position(graph: ir.Graph, value: ir.Value, rank: int) -> bool:
    """Whether a graph reads nothing of a value but rows by their positions, and its shape."""
    for node in walk_nodes(graph):
        where = [i for i, v in enumerate(node.inputs) if v is value]
        if where and (where != [0] or not _reads_rows(node, rank)):
            return False
    return True


def _reads_rows(node: ir.Node, rank: int) -> bool:
    if node.op_type == "Gather":
        return node.attributes.get_int("axis", 0) % rank == 0
    if node.op_type == "Slice":
        return only_number(optional_operand(node, 3)) in (0, -rank)
    return node.op_type in ("Shape", "Size")


class Apart(Lengths):
    """Lengths of samples whose rows lie in a larger tensor, with rows of others between them."""

    def __init__(
        self, builder: Builder, value: ir.Value, starts: ir.Value, total: ir.Value
    ) -> None:
        super().__init__(builder, value)
        self.starts, self.total = starts, total

    @property
    def samples(self) -> ir.Value:
        raise Decline(Code.RAGGED, "its samples lie apart from each other")

    @property
    def positions(self) -> ir.Value:
        raise Decline(Code.RAGGED, "its samples lie apart from each other")
