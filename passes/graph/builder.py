"""Records new nodes with their types, before they are put into a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir import AttributeType

from passes.graph.drafts import Memo, drop_uses, note
from passes.graph.graphs import COPIED_KEY, node_paths, reads_of, recorded_path

__all__ = [
    "BATCHED_KEY",
    "END",
    "ORIGIN_KEY",
    "STEPS_KEY",
    "Builder",
    "given_path",
    "given_paths",
    "needed_nodes",
    "tensor_value",
    "unnamed",
]

ORIGIN_KEY = "seqmap.origin"
"""Metadata of a new node: path of the node that it stands for."""

BATCHED_KEY = "seqmap.batched"
"""Metadata of a Loop or Scan that stood in a body and now runs for all samples at once."""

STEPS_KEY = "seqmap.steps"
"""Metadata of a Scan that takes at least so many steps, whatever the model is fed."""

END = int(np.iinfo(np.int64).max)
"""Where a Slice ends that takes all that is left."""

_PARTS_OF_SHAPES = 15
"""The opset from which on a Shape may yield some of the dimensions alone."""


def given_paths(model: ir.Model) -> dict[ir.Node, str]:
    """Name every node by a path that a reader finds in the model as given."""
    return {node: given_path(node, path) for node, path in node_paths(model).items()}


def given_path(node: ir.Node, path: str) -> str:
    """Return a path that a reader finds in the model as given: of what a new node stands for."""
    return recorded_path(node) or node.metadata_props.get(ORIGIN_KEY) or path


def tensor_value(
    name: str, dtype: ir.DataType | None, dims: Sequence[int | str | None] | None = None
) -> ir.Value:
    """Make a tensor value that no node computes: an input of a body."""
    return ir.Value(
        name=name,
        type=None if dtype is None else ir.TensorType(dtype),
        shape=None if dims is None else ir.Shape(list(dims)),
    )


def _tensor(array: np.ndarray) -> ir.TensorProtocol:
    if array.dtype != object:
        return ir.Tensor(array)
    strings = [s.encode() if isinstance(s, str) else s for s in array.ravel().tolist()]
    return ir.StringTensor(strings, shape=ir.Shape(array.shape))


def unnamed(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return a tensor without its name, which ONNX's text form cannot hold in an attribute."""
    if not tensor.name:
        return tensor
    if tensor.dtype == ir.DataType.STRING:
        return _tensor(tensor.numpy())
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype)


def _attribute(name: str, value: Any) -> ir.Attr:
    # The common kinds are told apart here: `convert_attribute` takes much longer for a tensor or
    # a list, for which it asks whether the value follows a protocol.
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, list | tuple) and all(isinstance(one, int) for one in value):
        return ir.Attr(name, AttributeType.INTS, value)
    if isinstance(value, ir.Tensor | ir.StringTensor):
        return ir.Attr(name, AttributeType.TENSOR, value)
    return ir.convenience.convert_attribute(name, value)


def needed_nodes(nodes: Iterable[ir.Node], outputs: Iterable[ir.Value]) -> set[ir.Node]:
    """Return the nodes that some values depend on."""
    among, needed, pending = set(nodes), set[ir.Node](), list(outputs)
    while pending:
        node = pending.pop().producer()
        if node is None or node in needed or node not in among:
            continue
        needed.add(node)
        pending += reads_of(node)
    return needed


class Builder:
    """Records nodes in order; one builder writes one graph.

    Attributes:
        nodes: What was recorded.
        origin: Path of the node that the new nodes stand for, kept in their metadata.
        opset: Version of ONNX's operators, None if nothing that is recorded depends on it.
    """

    def __init__(self, origin: str, opset: int | None = None) -> None:
        self.nodes: list[ir.Node] = []
        self.origin = origin
        self.opset = opset
        self._constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = Memo()

    @classmethod
    def at(cls, node: ir.Node) -> Builder:
        """Return a builder of what takes the place of a node, or stands beside it."""
        copied = node.meta.get(COPIED_KEY)
        return cls(copied or given_path(node, node.name or node.op_type))

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
        domain: str = "",
    ) -> ir.Node:
        """Record a node; attributes that are None are left out.

        Args:
            op_type: The operator.
            inputs: Its inputs, None for an omitted one.
            attributes: Plain Python values, graphs, tensors or `onnx_ir.Attr`.
            outputs: How many outputs it has.
            domain: The domain of the operator.
        """
        given = {k: v for k, v in (attributes or {}).items() if v is not None}
        made = [_attribute(name, value) for name, value in given.items()]
        base = self.origin.rsplit("/", 1)[-1]
        node = ir.Node(
            domain,
            op_type,
            inputs,
            made,
            num_outputs=outputs,
            name=f"{base}/{op_type}",
            metadata_props={ORIGIN_KEY: self.origin},
        )
        for output in node.outputs:
            output.name = f"{base}/{op_type}_out"
        self.nodes.append(node)
        note(node, self.nodes)
        return node

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> ir.Value:
        """Record a node with one output and return that output."""
        return self.node(op_type, inputs, attributes).outputs[0]

    def constant(self, array: np.ndarray) -> ir.Value:
        """Return a Constant node's output; equal constants are recorded once."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if array.dtype == object:
            key = ("object", array.shape, repr(array.tolist()).encode())
        if key not in self._constants:
            tensor = _tensor(array)
            value = self.op("Constant", [], {"value": tensor})
            value.type = ir.TensorType(tensor.dtype)
            value.shape = ir.Shape(array.shape)
            self._constants[key] = value
        return self._constants[key]

    def ints(self, *numbers: int) -> ir.Value:
        """Return a constant int64 vector."""
        return self.constant(np.array(numbers, np.int64))

    def scalar(self, number: int) -> ir.Value:
        """Return a constant int64 scalar."""
        return self.constant(np.array(number, np.int64))

    def flag(self, value: bool) -> ir.Value:
        """Return a constant boolean scalar."""
        return self.constant(np.array(value, np.bool_))

    def arange(self, count: ir.Value) -> ir.Value:
        """Record the numbers from 0 to ``count - 1``; ``count`` is an int64 scalar."""
        return self.op("Range", [self.scalar(0), count, self.scalar(1)])

    def shape(self, value: ir.Value, start: int, end: int = END) -> ir.Value:
        """Record dimensions of a tensor as an int64 vector.

        Of a tensor ``[2, 3, 4]`` these are ``[3, 4]`` from 1 on, and ``[2]`` from 0 to 1.
        """
        if self._takes_parts:
            return self.op("Shape", [value], {"start": start, "end": None if end == END else end})
        whole = self.op("Shape", [value])
        return self.op("Slice", [whole, self.ints(start), self.ints(end)])

    def dimension(self, value: ir.Value, axis: int) -> ir.Value:
        """Record one dimension of a tensor as an int64 vector ``[1]``; the tensor has the axis."""
        if self._takes_parts:
            return self.shape(value, axis, END if axis == -1 else axis + 1)
        return self.op("Gather", [self.op("Shape", [value]), self.ints(axis)], {"axis": 0})

    @property
    def _takes_parts(self) -> bool:
        return self.opset is not None and self.opset >= _PARTS_OF_SHAPES

    def weighted_sum(self, terms: Iterable[tuple[ir.Value, int]], constant: int) -> ir.Value:
        """Record a sum of int64 vectors, each times a number, and of a number.

        ``[(a, 2), (b, 1)]`` and 3 become ``Add(Add(Mul(a, [2]), b), [3])``.
        """
        total: ir.Value | None = None
        for value, factor in terms:
            term = value if factor == 1 else self.op("Mul", [value, self.ints(factor)])
            total = term if total is None else self.op("Add", [total, term])
        if total is None:
            return self.ints(constant)
        return self.op("Add", [total, self.ints(constant)]) if constant else total

    def prune(self, outputs: Collection[ir.Value]) -> None:
        """Forget the nodes that none of ``outputs`` depends on."""
        needed = needed_nodes(self.nodes, outputs)
        drop_uses(node for node in self.nodes if node not in needed)
        self.nodes[:] = [node for node in self.nodes if node in needed]

    def document(self, start: int, node: ir.Node) -> None:
        """Give what was recorded the documentation of the node that it stands for.

        Metadata goes to every new node, the doc string to those of the node's own operator.

        Args:
            start: How many nodes were recorded before.
            node: The node that the others stand for.
        """
        for new in self.nodes[start:]:
            new.metadata_props.update(node.metadata_props)
            if new.op_identifier() == node.op_identifier():
                new.doc_string = new.doc_string or node.doc_string

    def subgraph(
        self,
        name: str,
        inputs: Sequence[ir.Value],
        write: Callable[[Builder], Sequence[ir.Value]],
    ) -> ir.Graph:
        """Write a graph for a control-flow node.

        Args:
            name: Name of the graph.
            inputs: Its inputs.
            write: Records the nodes and returns the outputs. An output that the graph does not
                compute itself, or that stands twice, goes through Identity.
        """
        inner = Builder(self.origin, self.opset)
        return inner.close(name, inputs, write(inner))

    def close(
        self,
        name: str,
        inputs: Sequence[ir.Value],
        outputs: Sequence[ir.Value],
        *,
        is_typed: bool = True,
    ) -> ir.Graph:
        """Make a graph of what was recorded and is needed; see `subgraph`.

        Args:
            name: Name of the graph.
            inputs: Its inputs.
            outputs: Its outputs.
            is_typed: Whether a copy of an output takes over its type.
        """
        own = {out for node in self.nodes for out in node.outputs}
        made: dict[ir.Value, None] = {}
        for value in outputs:
            new = value
            if value not in own or value in made:
                new = self.op("Identity", [value])
                if is_typed:
                    new.type, new.shape = value.type, value.shape
            made[new] = None
        self.prune(made)
        return ir.Graph(inputs, list(made), nodes=self.nodes, name=name)
