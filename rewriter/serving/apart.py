"""Which values of a model keep samples apart: what belongs to one sample follows from it alone.

Where a server joins the requests of several clients, an output that mixes samples would answer
one client with the numbers of another.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from passes.graph.graphs import (
    captured_values,
    default_opset,
    graphs_inside,
    is_operator,
    is_used,
    node_paths,
)
from passes.graph.made import operands
from passes.inline import InlineMapFunctionsPass
from passes.maps.index_source import IndexSource
from passes.maps.sequence_map import is_sequence_map, read_sequence_map
from passes.maps.sequence_source import SequenceSource
from passes.maps.sites import read_map
from passes.maps.tensor_source import TensorSource
from passes.promises import Promises
from passes.raising import RaiseLoopsPass
from passes.sequence_operators import is_map
from passes.site import MapResult, MapSite
from passes.typing import Typing, type_values
from rewriter.model_files import protos
from rewriter.model_files.models import share
from rewriter.serving.rows import keeps_rows

__all__ = ["HeldSamples", "SampleKind", "held_outputs"]


class SampleKind(enum.Enum):
    """How a value holds samples."""

    SHARED = "one for all samples"
    ELEMENTS = "a sequence with an element for each sample"
    ROWS = "a tensor with a row for each sample"
    MIXED = "nothing tells that samples stay apart"


@dataclasses.dataclass(frozen=True)
class HeldSamples:
    """How a value holds samples.

    Attributes:
        kind: The way; but for ``MIXED``, what belongs to a sample follows from it alone.
        reason: Of what is mixed: why, naming the node.
    """

    kind: SampleKind
    reason: str = ""


_SHARED = HeldSamples(SampleKind.SHARED)


def held_outputs(model: ir.Model) -> dict[str, HeldSamples]:
    """Return how each output of a model with sequence inputs holds samples.

    Args:
        model: The model as given; it is not changed.
    """
    copy = protos.from_proto(protos.to_proto(share(model)))
    InlineMapFunctionsPass()(copy)
    RaiseLoopsPass(Promises())(copy)
    reader = _Reader(copy)
    reader.read()
    return {str(value.name): reader.held(value) for value in copy.graph.outputs}


class _Reader:
    """Goes through the nodes of the main graph in their order."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._typing: Typing = type_values(model, proven=True)
        self._paths: Mapping[ir.Node, str] = node_paths(model)
        self._held: dict[ir.Value, HeldSamples] = {
            value: HeldSamples(SampleKind.ELEMENTS)
            for value in model.graph.inputs
            if isinstance(value.type, ir.SequenceType)
        }

    def held(self, value: ir.Value | None) -> HeldSamples:
        """Return how a value holds samples; what follows from constants is shared."""
        return _SHARED if value is None else self._held.get(value, _SHARED)

    def read(self) -> None:
        """Find how all values hold samples."""
        for node in self._model.graph:
            if is_map(node) or is_sequence_map(node):
                self._read_map(self._site(node))
            else:
                found = self._of(node)
                self._held |= dict.fromkeys(node.outputs, found)

    def _site(self, node: ir.Node) -> MapSite:
        graph, path = self._model.graph, self._paths[node]
        if is_map(node):
            return read_map(node, graph, path)
        return read_sequence_map(node, graph, path, self._typing, with_boundaries=False)

    def _of(self, node: ir.Node) -> HeldSamples:
        """Return how the results of a node that is no map hold samples."""
        read = [*operands(node), *self._captured(graphs_inside(node))]
        found = {value: self.held(value) for value in read}
        mixed = [one for one in found.values() if one.kind is SampleKind.MIXED]
        if mixed:
            return mixed[0]
        if all(one.kind is SampleKind.SHARED for one in found.values()):
            return _SHARED
        lists = [value for value, one in found.items() if one.kind is SampleKind.ELEMENTS]
        if lists:
            return self._of_list(node, lists[0])
        rows = [value for value, one in found.items() if one.kind is SampleKind.ROWS]
        if is_operator(node, "SplitToSequence") and rows == [node.inputs[0]]:
            one_each = len(operands(node)) == 1 and not node.attributes.get_int("axis", 0)
            return HeldSamples(SampleKind.ELEMENTS) if one_each else self._mixing(node)
        if keeps_rows(node, rows, self._typing, default_opset(self._model)):
            return HeldSamples(SampleKind.ROWS)
        return self._mixing(node)

    def _of_list(self, node: ir.Node, elements: ir.Value) -> HeldSamples:
        """Return how the results of a node that reads a sequence hold samples."""
        if is_operator(node, "Identity"):
            return HeldSamples(SampleKind.ELEMENTS)
        if is_operator(node, "ConcatFromSequence") and not node.attributes.get_int("axis", 0):
            dims = self._typing.dims(elements)
            if node.attributes.get_int("new_axis", 0) or (dims and dims[0] == 1):
                return HeldSamples(SampleKind.ROWS)
        return self._mixing(node)

    def _captured(self, graphs: Iterable[ir.Graph]) -> list[ir.Value]:
        return [value for graph in graphs for value in captured_values(graph)]

    def _mixing(self, node: ir.Node) -> HeldSamples:
        return HeldSamples(
            SampleKind.MIXED, f"'{self._paths[node]}' ({node.op_type}) may mix samples"
        )

    def _read_map(self, site: MapSite) -> None:
        """Read a map: each sample reads its own elements, and what all share."""
        reason = self._hindrance(site)
        name = f"'{site.path}' ({site.node.op_type})"
        for result in site.results:
            kind = SampleKind.MIXED if reason else self._kind(site, result)
            why = reason or f"{name} joins what it yields in another way than sample by sample"
            self._held[result.value] = HeldSamples(kind, why if kind is SampleKind.MIXED else "")

    def _hindrance(self, site: MapSite) -> str:
        """Return why samples of a map may read one another; empty where they do not."""
        name = f"'{site.path}' ({site.node.op_type})"
        captured = self._captured([site.body])
        for value in [*(outer for _, outer in site.shared), *captured]:
            held = self.held(value)
            if held.kind is not SampleKind.SHARED:
                return (
                    held.reason or f"{name} reads '{value.name}', which holds all samples, whole"
                )
        for inner, source in site.elements:
            if isinstance(source, IndexSource):
                if is_used(inner):
                    return f"{name} reads the number of a sample"
            elif not self._is_own(source):
                return f"{name} reads elements that are not proven to belong to its samples"
        return ""

    def _is_own(self, source: object) -> bool:
        """Whether sample ``k`` reads what belongs to sample ``k``."""
        if isinstance(source, SequenceSource):
            return self.held(source.sequence).kind is SampleKind.ELEMENTS
        if not isinstance(source, TensorSource) or source.split or source.is_reversed:
            return False
        return source.axis == 0 and self.held(source.tensor).kind is SampleKind.ROWS

    def _kind(self, site: MapSite, result: MapResult) -> SampleKind:
        """Return how a result of a map holds samples that stay apart."""
        if result.kind == "sequence":
            return SampleKind.ELEMENTS
        if result.axis or result.is_reversed:
            return SampleKind.MIXED
        if result.kind == "stacked":
            return SampleKind.ROWS
        dims = self._typing.dims(site.body.outputs[result.output])
        return SampleKind.ROWS if dims and dims[0] == 1 else SampleKind.MIXED
