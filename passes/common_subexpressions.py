"""Computes once what a rewrite computed twice: the elimination of common subexpressions.

What is batched asks for the lengths and places of samples wherever it reads them: two nodes
``Shape (x)`` of one `x` become one, and so do two spellings of one dimension. What reads a copy
reads what was copied.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Hashable, MutableMapping, Sequence, Set

import onnx_ir as ir

from passes.graph.graphs import (
    constant_value,
    is_default_domain,
    is_operator,
    reads_of,
    subgraphs,
)
from passes.graph.made import axes_of, operand, skip_identities, takes_whole_shape
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead
from passes.runtimes.sidestep import Authored, OthersPass, outermost_graphs

__all__ = ["EliminateCommonSubexpressionsPass"]

_Known = MutableMapping[Hashable, ir.Node]
_DRAW = frozenset(
    {
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    }
)
"""Operators that give other numbers each time, or may."""

_COPIES = frozenset({"Cast", "CastLike", "Identity", "Transpose"})
"""Operators that yield what they read, or may."""

_DIMENSION = frozenset({"Gather", "Shape", "Squeeze", "Unsqueeze"})
"""Operators that yield a dimension of a tensor alone, each in its own way."""

_EITHER_WAY = frozenset({"Add", "And", "Equal", "Mul", "Or"})
"""Operators that yield the same if their operands change places."""

_MOST_BYTES = 256
"""Constants of up to so many bytes are compared."""


class EliminateCommonSubexpressionsPass(OthersPass):
    """Read an equal node in front of a node that was written or moved, in place of that node.

    The nodes that the model's author wrote stay where they stood; others may read them. What was
    moved or copied of them is merged like the rest, for exporters write a node once for each
    reader. A body of a Loop or Scan reads nothing that stands around it in this way: where values
    lie may differ from where it runs.
    """

    def __init__(self, authored: Authored | None = None, *, for_device: bool = False) -> None:
        """Set up the pass.

        Args:
            authored: The model as its author wrote it; None for none of its nodes.
            for_device: Whether a device beside the host runs the model. No branch of an If reads
                what stands in front of the If there, which may take a copy, and a constant stays
                with its readers: onnxruntime does not copy one that the host and, inside of an
                If, WebGPU read.
        """
        super().__init__(authored)
        self._for_device = for_device

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the main graph, subgraphs and functions."""
        nodes = self._others(model)
        written = set(nodes)
        if not written:
            return ir.passes.PassResult(model, False)
        modified, read = make_names_unique(model), list[ir.Node]()
        for node in nodes:
            if not self._for_device and _copies(node, written):
                read += _replace(node, [operand(node, 0)])
                modified = True
        kinds = {node.op_type for node in written}
        if not kinds.isdisjoint(_DIMENSION):
            kinds |= _DIMENSION
        for graph in outermost_graphs(model):
            modified |= self._merge(graph, written, kinds, {}, read)
        remove_dead(node for node in read if node in written)
        return ir.passes.PassResult(model, modified)

    def _merge(
        self,
        graph: ir.Graph,
        written: Collection[ir.Node],
        kinds: Set[str],
        known: _Known,
        read: list[ir.Node],
    ) -> bool:
        """Merge the nodes of a graph, and of the graphs inside of it.

        Args:
            graph: The graph.
            written: The nodes that may go.
            kinds: The operators that compute what one of them does.
            known: The nodes in front of it, by what they compute; those of the graph join them.
            read: Gains the nodes that a merged one read.
        """
        modified = False
        for node in graph:
            for _, inner in subgraphs(node):
                reads = is_operator(node, "If") and not self._for_device
                before: _Known = ChainMap({}, known) if reads else {}
                modified |= self._merge(inner, written, kinds, before, read)
            key = _computes(node) if node.op_type in kinds else None
            if key is None or (self._for_device and is_operator(node, "Constant")):
                continue
            same = known.setdefault(key, node)
            is_result = any(value.is_graph_output() for value in node.outputs)
            if same is not node and node in written and not is_result:
                read += _replace(node, same.outputs)
                modified = True
        return modified


def _copies(node: ir.Node, written: Collection[ir.Node]) -> bool:
    """Whether a node yields what it reads, for nodes that were written alone.

    A node of the author's behind it stays: where a runtime gets that one wrong together with the
    node in front, it is the copy between them that tells.
    """
    if not is_operator(node, _COPIES) or node.outputs[0].is_graph_output():
        return False
    (copy,) = node.outputs
    return skip_identities(copy) is not copy and all(use.node in written for use in copy.uses())


def _replace(node: ir.Node, values: Sequence[ir.Value]) -> list[ir.Node]:
    """Let other values take the place of a node; return the nodes that it read."""
    read = [p for value in reads_of(node) if (p := value.producer()) is not None]
    ir.convenience.replace_all_uses_with(node.outputs, values)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    return read


def _computes(node: ir.Node) -> Hashable | None:
    """Return what a node computes: equal for equal nodes, None where nothing may be merged."""
    if not is_default_domain(node) or is_operator(node, _DRAW):
        return None
    if next(iter(subgraphs(node)), None):
        return None
    dimension = _dimension(node)
    if dimension is not None:
        return dimension
    attributes = []
    for name, attribute in sorted(node.attributes.items()):
        value = _value(attribute)
        if value is None:
            return None
        attributes.append((name, attribute.type, value))
    left_out = tuple(value.name == "" for value in node.outputs)
    inputs = tuple(node.inputs)
    if is_operator(node, _EITHER_WAY):
        inputs = tuple(sorted(inputs, key=id))
    return (node.op_type, node.overload, inputs, left_out, tuple(attributes))


def _dimension(node: ir.Node | None) -> tuple[Hashable, ...] | None:
    """Return which dimension of a tensor a node yields alone, and its rank, however written."""
    if is_operator(node, "Shape"):
        start, end = (node.attributes.get_int(name, -1) for name in ("start", "end"))
        return ("dimension", node.inputs[0], start, 1) if 0 <= start == end - 1 else None
    if not is_operator(node, ("Gather", "Squeeze", "Unsqueeze")):
        return None
    source = operand(node, 0).producer()
    if node.op_type != "Gather":
        found = _dimension(source)
        is_first = axes_of(node) == [0] or _squeezes_all(node)
        rank = int(node.op_type == "Squeeze")
        return (*found[:3], 1 - rank) if is_first and found and found[3] == rank else None
    places = constant_value(node.inputs[1])
    if not is_operator(source, "Shape") or not takes_whole_shape(source) or places is None:
        return None
    if places.shape not in ((), (1,)) or places.item() < 0:
        return None
    return ("dimension", source.inputs[0], places.item(), places.ndim)


def _squeezes_all(node: ir.Node) -> bool:
    return node.op_type == "Squeeze" and len(node.inputs) == 1 and "axes" not in node.attributes


def _value(attribute: ir.Attr) -> Hashable | None:
    """Return the value of an attribute, None for one that is too large or refers to another."""
    if attribute.is_ref():
        return None
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.value  # `as_tensor` asks a protocol, which is slow
        if tensor.nbytes > _MOST_BYTES or tensor.dtype == ir.DataType.STRING:
            return None
        return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())
    return repr(attribute.value)
