"""Sizes that only the device computes with are brought there, and computed with there.

onnxruntime leaves arithmetic on shapes on the host, and copies the result to the device that reads
it. A Range from a size writes that size on the device: ``Range(5, 2^62, 2^62)`` is ``[5]``. What
is computed from it is computed on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.counts import PICKED, dimension_of
from passes.device.host_facts import ReadsOnHost
from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, constant_value, default_opset, is_operator, subgraphs
from passes.graph.names import make_names_unique
from passes.graph.splice import splice
from passes.typing import Typing, type_values

__all__ = ["DeviceNumbersPass", "HostNodes"]

HostNodes = Callable[[ir.Model], Mapping[ir.Node, bool]]
"""Lists the nodes of a model that stay on the host, and whether the device has a kernel."""
_SINCE = 15
"""The first opset in which Shape yields a part."""
_FAR = 2**62
_SIZES = frozenset({"Shape", "Size"})
"""What yields a number on the host, wherever that is whose it is."""


class DeviceNumbersPass(ir.passes.InPlacePass):
    """Let the device compute from sizes what it alone reads.

    1. Nodes on the host whose results the device alone reads, one another aside, read no size
       from the host: it is written on the device by a Range.
    2. All that they read is such a size, a constant, an input of the graph or of one another.
    """

    def __init__(self, host_nodes: HostNodes, reads_on_host: ReadsOnHost) -> None:
        """Set up the pass.

        Args:
            host_nodes: Lists the nodes that stay on the host by the runtime's rule.
            reads_on_host: Tells what the host reads.
        """
        super().__init__()
        self._host_nodes = host_nodes
        self._reads_on_host = reads_on_host
        self._on_host: Mapping[ir.Node, bool] = {}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph and subgraphs."""
        opset = default_opset(model)
        kept = self._on_host = self._host_nodes(model) if opset >= _SINCE else {}
        typing = type_values(model, proven=True) if kept else None
        modified = False
        for graph in all_graphs(model):
            nodes = {node: kept[node] for node in graph if node in kept}
            if not any(nodes.values()):
                continue
            assert typing is not None
            sizes = _Sizes(typing, opset)
            for node in self._for_device(nodes, sizes):
                modified |= sizes.bring(node)
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _for_device(self, nodes: Mapping[ir.Node, bool], sizes: _Sizes) -> list[ir.Node]:
        """List the nodes that can be computed on the device and are read there alone, in order."""
        ready = dict[ir.Node, None]()
        for node, has_kernel in nodes.items():
            reads = all(sizes.is_there(value, ready) for value in node.inputs)
            if has_kernel and (reads or sizes.is_picked(node)):
                ready[node] = None
        for node in reversed(list(nodes)):
            if not self._is_read_there(node, ready):
                ready.pop(node, None)
        return list(ready)

    def _is_read_there(self, node: ir.Node, ready: Collection[ir.Node]) -> bool:
        """Whether the device alone reads the results of a node, or what is computed there, too."""
        return all(
            not output.is_graph_output()
            and all(self._reads_there(use.node, use.idx, ready) for use in output.uses())
            for output in node.outputs
        )

    def _reads_there(self, node: ir.Node, position: int, ready: Collection[ir.Node]) -> bool:
        if node in ready or is_operator(node, _SIZES):
            return True
        return not (
            node in self._on_host or subgraphs(node) or self._reads_on_host(node, position)
        )


class _Sizes:
    """Sizes of a model's tensors, brought to the device once each."""

    def __init__(self, typing: Typing, opset: int) -> None:
        self._typing = typing
        self._opset = opset
        self._brought: dict[ir.Value, ir.Value] = {}

    def is_there(self, value: ir.Value | None, ready: Collection[ir.Node]) -> bool:
        """Whether the device has a value, or can have it."""
        if value is None or constant_value(value) is not None:
            return True
        node = value.producer()
        if node is None:
            return not value.is_initializer()
        return node in ready or self._is_one(node)

    def is_picked(self, node: ir.Node) -> bool:
        """Whether a node picks one number of a shape."""
        return is_operator(node, PICKED) and self._is_one(node)

    def _is_one(self, node: ir.Node) -> bool:
        """Whether a node yields one size."""
        if is_operator(node, "Size"):
            return True
        found = dimension_of(node, self._typing)
        return found is not None and found.is_sure()

    def bring(self, node: ir.Node) -> bool:
        """Let the readers of a node that picks a size, or else the node, read it on the device.

        Returns:
            Whether there is such a size.
        """
        if self.is_picked(node):
            builder = Builder.at(node)
            splice(builder, node, [(node.outputs[0], self._record(node, builder))])
            return True
        is_brought = False
        for position, value in enumerate(node.inputs):
            maker = None if value is None else value.producer()
            if value is not None and maker is not None and self._here(value, maker):
                node.replace_input_with(position, self._brought[value])
                is_brought = True
        return is_brought

    def _here(self, value: ir.Value, maker: ir.Node) -> bool:
        """Bring a size that Shape or Size yields; return whether it is one."""
        if value not in self._brought and self._is_one(maker):
            builder = Builder.at(maker)
            self._brought[value] = self._record(maker, builder)
            assert maker.graph is not None
            maker.graph.insert_after(maker, builder.nodes)
        return value in self._brought

    def _record(self, node: ir.Node, builder: Builder) -> ir.Value:
        """Record the size that a node yields, on the device."""
        ops = Operators(builder, self._opset)
        if is_operator(node, "Size"):
            size, is_scalar = node.outputs[0], True
        else:
            found = dimension_of(node, self._typing)
            assert found is not None
            size, is_scalar = ops.op("Size", [found.vector(ops)]), node.op_type != "Shape"
        far = builder.scalar(_FAR)
        number = ops.op("Range", [size, far, far])
        return ops.squeeze(number, [0]) if is_scalar else number
