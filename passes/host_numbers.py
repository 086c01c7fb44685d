"""Numbers that loops compute for the host are computed there, whatever the device could do.

onnxruntime leaves arithmetic on shapes on the host, in each graph by itself. A position that the
body of a Loop computes from its iteration number and a number of the graph around it follows from
no shape: the device computes it, and hands it back in every iteration. A shape passes between
graphs without a copy, so such a number is handed to the body as the dimension of a tensor without
elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import all_nodes, constant_value, is_default_domain, subgraphs
from passes.names import make_names_unique
from passes.typing import Typing, type_values

__all__ = ["HostNumbersPass", "ReadsOnHost"]

ReadsOnHost = Callable[[ir.Node, int], bool]
"""Whether a node, wherever it runs, reads the input at a position in the memory of the host."""

_SIZES = frozenset({"SequenceLength", "Shape", "Size"})
_ARITHMETIC = frozenset(
    {"Add", "Cast", "Concat", "Div", "Equal", "Gather", "Greater", "Less", "Max", "Min", "Mod"}
    | {"Mul", "Squeeze", "Sub", "Unsqueeze", "Where"}
)
_INTEGERS = {ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL}
# Of counts these are counts again: never negative.
_OF_COUNTS = frozenset({"Add", "Div", "Identity", "Min", "Mul", "Squeeze", "Unsqueeze"})


class HostNumbersPass(ir.passes.InPlacePass):
    """Hand loops the numbers around them as shapes, where they compute for the host with them.

    Taken are integers that a body computes by elementary operators from its iteration number,
    from sizes, and from captured counts, and that only the host reads.
    """

    def __init__(self, reads_on_host: ReadsOnHost) -> None:
        """Set up the pass.

        Args:
            reads_on_host: Tells what the host reads.
        """
        super().__init__()
        self._reads_on_host = reads_on_host

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the graphs inside of the loops of the main graph, inner ones first."""
        inside = list(_in_loops(model.graph))
        typing = type_values(model) if inside else None
        self._iterations = _iteration_numbers(model)
        handed: dict[ir.Value, ir.Value] = {}
        for graph in reversed(inside):
            assert typing is not None
            for value in self._wanted(graph, typing):
                if value not in handed:
                    handed[value] = _as_dimension(value)
                _read_dimension(graph, value, handed[value], self._kept(graph, typing))
        if handed:
            make_names_unique(model)
        return ir.passes.PassResult(model, bool(handed))

    def _wanted(self, graph: ir.Graph, typing: Typing) -> list[ir.Value]:
        """Return the counts of graphs around that a graph computes with for the host."""
        found = dict.fromkeys(
            value
            for node in self._kept(graph, typing)
            for value in node.inputs
            if value is not None and _graph_of(value) is not graph and not _is_constant(value)
        )
        return list(found)

    def _kept(self, graph: ir.Graph, typing: Typing) -> list[ir.Node]:
        """Return the nodes that can be computed on the host and are read there alone."""
        kept = [node for node in graph if _computes_integers(node, typing)]
        while True:
            among = set(kept)
            rest = [
                node
                for node in kept
                if all(self._is_given(value, graph, among, typing) for value in node.inputs)
                and self._is_read_on_host(node, graph, among)
            ]
            if len(rest) == len(kept):
                return kept
            kept = rest

    def _is_read_on_host(self, node: ir.Node, graph: ir.Graph, kept: set[ir.Node]) -> bool:
        (output,) = node.outputs
        if output.is_graph_output():
            return False
        return all(
            use.node.graph is graph
            and (use.node in kept or self._reads_on_host(use.node, use.idx))
            for use in output.uses()
        )

    def _is_given(
        self, value: ir.Value | None, graph: ir.Graph, kept: set[ir.Node], typing: Typing
    ) -> bool:
        """Return whether the host has a value, or may be handed it."""
        if value is None or _is_constant(value):
            return True
        node = value.producer()
        if _graph_of(value) is not graph:
            is_number = _is_scalar(value, typing) and _dtype(value, typing) == ir.DataType.INT64
            return is_number and self._is_count(value)
        if node is None:
            return _is_scalar(value, typing) and _dtype(value, typing) in _INTEGERS
        return node in kept or (is_default_domain(node) and node.op_type in _SIZES)

    def _is_count(self, value: ir.Value | None, depth: int = 0) -> bool:
        """Return whether an integer is proven never to be negative."""
        if value is None or depth > _DEEPEST:
            return False
        constant = constant_value(value)
        if constant is not None:
            return bool((constant >= 0).all())
        node = value.producer()
        if node is None or not is_default_domain(node):
            return value in self._iterations
        if node.op_type in _SIZES:
            return True
        counts = (self._is_count(one, depth + 1) for one in node.inputs)
        if node.op_type == "Max":
            return any(counts)
        if node.op_type == "Gather":
            return next(counts)
        return node.op_type in _OF_COUNTS and all(counts)


def _in_loops(graph: ir.Graph, *, is_inside: bool = False) -> Iterator[ir.Graph]:
    """Yield every graph inside of a Loop or Scan, outer ones first."""
    for node in graph:
        is_loop = is_default_domain(node) and node.op_type in ("Loop", "Scan")
        for _, inner in subgraphs(node):
            if is_inside or is_loop:
                yield inner
            yield from _in_loops(inner, is_inside=is_inside or is_loop)


def _computes_integers(node: ir.Node, typing: Typing) -> bool:
    return (
        is_default_domain(node)
        and node.op_type in _ARITHMETIC
        and len(node.outputs) == 1
        and _dtype(node.outputs[0], typing) in _INTEGERS
    )


def _is_constant(value: ir.Value) -> bool:
    return constant_value(value) is not None


def _is_scalar(value: ir.Value, typing: Typing) -> bool:
    return typing.rank(value) == 0


def _dtype(value: ir.Value, typing: Typing) -> ir.DataType | None:
    return typing.dtype(value) or value.dtype


def _graph_of(value: ir.Value) -> ir.Graph | None:
    node = value.producer()
    found = value.graph if node is None else node.graph
    return found if isinstance(found, ir.Graph) else None


_DEEPEST = 12


def _iteration_numbers(model: ir.Model) -> set[ir.Value]:
    loops = (node for node in all_nodes(model) if is_default_domain(node))
    return {
        graph.inputs[0] for node in loops if node.op_type == "Loop" for _, graph in subgraphs(node)
    }


def _as_dimension(number: ir.Value) -> ir.Value:
    """Return a tensor of shape ``[0, number]``, made behind the number."""
    builder = Builder("host numbers")
    vector = builder.op("Unsqueeze", [number, builder.ints(0)])
    shape = builder.op("Concat", [builder.ints(0), vector], {"axis": 0})
    for made in (vector, shape):
        made.type = ir.TensorType(ir.DataType.INT64)
    empty = builder.op("ConstantOfShape", [shape])
    node = number.producer()
    if node is not None:
        assert node.graph is not None
        node.graph.insert_after(node, builder.nodes)
    else:
        graph = _graph_of(number)
        assert graph is not None
        _put_first(graph, builder.nodes)
    return empty


def _read_dimension(
    graph: ir.Graph, number: ir.Value, tensor: ir.Value, readers: list[ir.Node]
) -> None:
    """Let the nodes of a graph read a number from the shape of a tensor."""
    builder = Builder("host numbers")
    shape = builder.op("Shape", [tensor])
    copy = builder.op("Gather", [shape, builder.scalar(1)], {"axis": 0})
    copy.type, copy.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
    _put_first(graph, builder.nodes)
    for node in readers:
        for position, value in enumerate(node.inputs):
            if value is number:
                node.replace_input_with(position, copy)


def _put_first(graph: ir.Graph, nodes: list[ir.Node]) -> None:
    graph.insert_before(graph[0], nodes)
