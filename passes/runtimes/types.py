"""Types of a model's values, inferred when they are first asked for."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import (
    all_graphs,
    all_nodes,
    constant_value,
    default_opset,
    graphs_inside,
    is_operator,
    subgraphs,
)
from passes.graph.made import made_by, operand
from passes.graph.opsets import element_type_by_makers
from passes.numbers.folding import Folder
from passes.reading.kept_typing import KeptTyping
from passes.tensors.io import TensorIo
from passes.typing import Typing

__all__ = ["Types"]

_KEEP_RANK = ("Cast", "CastLike", "Identity", "Transpose")
"""Operators whose result has the rank of their first operand."""


class Types:
    """The types of the values of a model: as it declares them, or else as inference finds them."""

    def __init__(
        self,
        model: ir.Model,
        typing: KeptTyping | None = None,
        rankless: KeptTyping | None = None,
        moved: Collection[ir.Node] = (),
    ) -> None:
        """Describe a model that does not change while it is asked about.

        Args:
            model: The model.
            typing: Its proven typing.
            rankless: The same without the ranks that are only declared.
            moved: The nodes that are known to be written, or moved, by a rewrite.
        """
        self._model = model
        self._moved = moved
        self._kept = typing or KeptTyping()
        self._rankless = rankless or KeptTyping(ranks=False)

    def after(self, made: Collection[ir.Node]) -> Types:
        """Return the same of the model with new nodes; they compute what others did before."""
        for kept in (self._kept, self._rankless):
            kept.enter(made, self._model)
        return Types(self._model, self._kept, self._rankless, {*self._moved, *made})

    def replaced(self, values: Mapping[ir.Value, ir.Value]) -> None:
        """Note that new values take the place of others, whose types hold of them."""
        for kept in (self._kept, self._rankless):
            kept.copy(values)

    def is_moved(self, node: ir.Node) -> bool:
        """Whether a node is known not to be the author's in its place."""
        return node in self._moved

    @property
    def opset(self) -> int:
        """The version of ONNX's operators."""
        return default_opset(self._model)

    @property
    def _typing(self) -> Typing:
        return self._kept.of(self._model)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a tensor: as declared, by what made it, or as inferred."""
        found = element_type_by_makers(value)
        return self._typing.dtype(value) if found is None else found

    def is_tensor(self, value: ir.Value) -> bool:
        """Whether a value is known to be a tensor."""
        if value.type is not None:
            return isinstance(value.type, ir.TensorType)
        return isinstance(self._typing[value].type, ir.TensorType)

    def rank(self, value: ir.Value) -> int | None:
        """Return the rank of a tensor: as declared in front of what keeps it, or as inferred."""
        kept = value
        while kept.shape is None and (node := made_by(kept, *_KEEP_RANK)) is not None:
            kept = operand(node, 0)
        return self._typing.rank(value) if kept.shape is None else len(kept.shape)

    def is_rank_kept(self, value: ir.Value) -> bool:
        """Whether a tensor has its rank in a runtime, too, where a Loop runs no iteration."""
        return value not in self._open_ranks

    @functools.cached_property
    def _open_ranks(self) -> frozenset[ir.Value]:
        return _values_of_open_rank(self._model)

    def dims(self, value: ir.Value) -> Sequence[int | str | None] | None:
        """Return the dimensions of a tensor as far as they are known."""
        return self._typing.dims(value)

    def may_be_empty(self, value: ir.Value, axes: slice = slice(None)) -> bool:
        """Whether nothing proves that a tensor has a positive size along some axes, or all."""
        dims = self._typing.dims(value)
        return dims is None or not all(isinstance(dim, int) and dim > 0 for dim in dims[axes])

    def are_one_size(self, dims: Iterable[int | str | None]) -> bool:
        """Whether some dimensions are one number, by proof."""
        found = set(dims)
        return len(found) == 1 and all(map(self._typing.is_same_number, found))

    def has_static_shape(self, node: ir.Node) -> bool:
        """Whether the numbers that a Shape yields are declared or inferred."""
        value = node.inputs[0]
        if value is None:
            return False
        start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", None)

        def is_static(dims: Sequence[object] | None) -> bool:
            return dims is not None and all(isinstance(dim, int) for dim in dims[start:end])

        declared = None if value.shape is None else value.shape.dims
        if is_static(declared) or value in self._model.graph.inputs:
            return is_static(declared)
        return is_static(self._typing.dims(value)) or self._typing.is_said_empty(value)

    def known(self, value: ir.Value) -> np.ndarray | None:
        """Return the integers or booleans that a value is in every run, None if not known."""
        constant = constant_value(value)
        return self._folder.value(value) if constant is None else constant

    @functools.cached_property
    def _folder(self) -> Folder:
        return Folder(self._rankless.of(self._model))

    def is_given_size(self, value: ir.Value) -> bool:
        """Whether a value is an input that holds the lengths or sizes of another input."""
        return value in self._given_sizes

    @functools.cached_property
    def _given_sizes(self) -> frozenset[ir.Value]:
        names = {passed.lengths for passed in TensorIo.read(self._model).inputs.values()}
        return frozenset(v for v in self._model.graph.inputs if v.name and v.name in names)

    def is_iteration(self, value: ir.Value) -> bool:
        """Whether a value is the number of the iteration in the body of a Loop."""
        return value in self._iterations

    @functools.cached_property
    def _iterations(self) -> frozenset[ir.Value]:
        loops = (
            node
            for graph in all_graphs(self._model)
            for node in graph
            if is_operator(node, "Loop")
        )
        return frozenset(node.attributes["body"].as_graph().inputs[0] for node in loops)

    def is_inside(self, node: ir.Node) -> bool:
        """Whether a node stands in a graph of another one: there, fewer constants are known."""
        return node.graph is not self._model.graph

    def is_in_branch(self, node: ir.Node) -> bool:
        """Whether a node stands in a branch of an If, at any depth."""
        return node.graph in self._in_branches

    @functools.cached_property
    def _in_branches(self) -> frozenset[ir.Graph]:
        nodes = (node for graph in all_graphs(self._model) for node in graph)
        branching = (n for n in nodes if is_operator(n, "If"))
        return frozenset(graph for node in branching for graph in graphs_inside(node))


_TELL_RANK = ("NonZero", "Reshape", "Shape", "Size")
"""Operators whose result has a rank that their first operand does not tell."""


def _values_of_open_rank(model: ir.Model) -> frozenset[ir.Value]:
    """Return what Loops collect of rows without a declared rank, and all that follows from it.

    Where a Loop runs no iteration, onnxruntime yields a scan output of shape (0) then, unless the
    body tells a rank for its rows. Our inference may know the rank all the same.
    """
    nodes = list(all_nodes(model))
    pending = [value for node in nodes if is_operator(node, "Loop") for value in _rows(node)]
    if not pending:
        return frozenset()
    owners = {graph: node for node in nodes for _, graph in subgraphs(node)}
    seen: set[ir.Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses():
            pending += _results(use.node, value)
        if value.graph is not None and value.graph in owners and value.is_graph_output():
            pending += owners[value.graph].outputs
    return frozenset(seen)


def _rows(loop: ir.Node) -> Iterator[ir.Value]:
    """Yield the scan outputs of a Loop whose rows have no declared shape."""
    states = len(loop.inputs) - 2
    parts = loop.attributes["body"].as_graph().outputs[1 + states :]
    for collected, part in zip(loop.outputs[states:], parts, strict=True):
        if part.shape is None:
            yield collected


def _results(node: ir.Node, value: ir.Value) -> Iterator[ir.Value]:
    """Yield what may have its rank of a value that a node reads."""
    if is_operator(node, _TELL_RANK) and operand(node, 0) is value:
        return
    yield from node.outputs
    for _, graph in subgraphs(node):
        yield from graph.inputs
