"""The map site: what is known of one map, whatever operator it was written with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal

import onnx_ir as ir

from passes.builder import Builder
from passes.reading.even import Even

__all__ = [
    "ElementSource",
    "IndexSource",
    "MapSite",
    "Result",
    "SequenceSource",
    "TensorSource",
]


@dataclasses.dataclass(frozen=True)
class SequenceSource:
    """Sample ``k`` reads element ``k`` of a sequence.

    Attributes:
        sequence: The sequence value.
    """

    sequence: ir.Value


@dataclasses.dataclass(frozen=True)
class TensorSource:
    """Sample ``k`` reads a slice of a tensor along an axis, as SplitToSequence cuts it.

    Attributes:
        tensor: The tensor that is cut.
        axis: Where it is cut; negative counts from the back.
        keepdims: Without ``split``: whether the axis stays, with size 1.
        split: None for slices of size 1; a scalar for the size of each slice (the last may be
            smaller); a 1-D value for the sizes one by one.
        split_is_scalar: Which of the two ``split`` is.
        is_reversed: Without ``split``: whether sample 0 reads the last slice.
        is_whole: With ``split``: whether the sizes are made to add up to the axis.
    """

    tensor: ir.Value
    axis: int
    keepdims: bool
    split: ir.Value | None = None
    split_is_scalar: bool = False
    is_reversed: bool = False
    is_whole: bool = False

    @classmethod
    def of_stacked(cls, tensor: ir.Value) -> TensorSource:
        """Return the rows of a stacked tensor."""
        return cls(tensor, 0, keepdims=False)


@dataclasses.dataclass(frozen=True)
class IndexSource:
    """Sample ``k`` reads its own number ``k``.

    Attributes:
        write_count: Records the number of samples, int64 ``[1]``.
        number: The same, if it is a constant.
        like: A source that has as many elements by proof, if there is one.
    """

    write_count: Callable[[Builder], ir.Value]
    number: int | None = None
    like: SequenceSource | TensorSource | None = None


ElementSource = SequenceSource | TensorSource | IndexSource


@dataclasses.dataclass(frozen=True)
class Result:
    """One way in which an output of the body leaves the map.

    Attributes:
        output: Position among the outputs of the body.
        kind: ``sequence``; ``stacked`` along a new axis; ``concatenated`` along an axis.
        value: The value of the enclosing graph that holds it.
        axis: The axis, as ConcatFromSequence has it (unused for a sequence).
        is_reversed: Of a stacked result: whether the first sample comes last.
    """

    output: int
    kind: Literal["sequence", "stacked", "concatenated"]
    value: ir.Value
    axis: int = 0
    is_reversed: bool = False


@dataclasses.dataclass
class MapSite:
    """A map: the body is applied once to each sample.

    Attributes:
        node: The node that is the map, in ``graph``.
        graph: The graph that the node stands in.
        path: The node's path through subgraphs, for messages.
        elements: Each input of the body that differs per sample, and its source. The first
            source gives the number of samples.
        shared: Each input of the body that is one value for all samples, and that value.
        body: The graph that is applied; it may capture values.
        results: What is made of its outputs. An output without a result is unused.
        finals: Of a Loop or Scan: each value that it yields beside the results, and what records
            that value outside of it.
        dialect: Of a Loop or Scan: how it spells a map.
        loop: Of a Loop or Scan: the node itself, which may stand in no graph.
        given: Of a Loop or Scan: for each result the value that the node's graph had for it.
        assumptions: Of a Loop or Scan: what reading it relied on without proof.
        as_long: Of a Loop or Scan: pairs of tensors that must have equally many rows, without
            proof.
        even: Of a Loop or Scan whose body relies on slices of one length: what tells whether
            they have it.
    """

    node: ir.Node
    graph: ir.Graph
    path: str
    elements: list[tuple[ir.Value, ElementSource]]
    shared: list[tuple[ir.Value, ir.Value]]
    body: ir.Graph
    results: list[Result]
    finals: Mapping[ir.Value, Callable[[Builder], ir.Value]] = dataclasses.field(
        default_factory=dict
    )
    dialect: str = ""
    loop: ir.Node | None = None
    given: Mapping[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)
    assumptions: list[str] = dataclasses.field(default_factory=list)
    as_long: list[tuple[ir.Value, ir.Value]] = dataclasses.field(default_factory=list)
    even: Even | None = None

    @property
    def was_loop(self) -> bool:
        """Whether the map was read from a Loop or Scan; its body then stands in no model."""
        return bool(self.dialect)

    def used_outputs(self) -> list[int]:
        """Return the positions of the body outputs that have a result, ascending."""
        return sorted({result.output for result in self.results})
