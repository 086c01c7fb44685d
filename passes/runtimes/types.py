"""Types of a model's values, inferred when they are first asked for."""

from __future__ import annotations

import functools

import onnx_ir as ir

from passes.graphs import all_graphs, is_default_domain
from passes.typing import Typing, type_values

__all__ = ["Types"]


class Types:
    """What is known of the values of a model: first what stands there, then by inference."""

    def __init__(self, model: ir.Model) -> None:
        """Describe a model that does not change while it is asked about."""
        self._model = model

    @functools.cached_property
    def _typing(self) -> Typing:
        return type_values(self._model, proven=True)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a tensor."""
        return self._typing.dtype(value) if value.type is None else value.type.dtype

    def rank(self, value: ir.Value) -> int | None:
        """Return the rank of a tensor."""
        return self._typing.rank(value) if value.shape is None else len(value.shape)

    def may_be_empty(self, value: ir.Value, axes: slice = slice(None)) -> bool:
        """Whether nothing proves that a tensor has a positive size along some axes, or all."""
        dims = self._typing.dims(value)
        return dims is None or not all(isinstance(dim, int) and dim > 0 for dim in dims[axes])

    def is_iteration(self, value: ir.Value) -> bool:
        """Whether a value is the number of the iteration in the body of a Loop."""
        return value in self._iterations

    @functools.cached_property
    def _iterations(self) -> frozenset[ir.Value]:
        loops = (
            node
            for graph in all_graphs(self._model)
            for node in graph
            if node.op_type == "Loop" and is_default_domain(node)
        )
        return frozenset(node.attributes["body"].as_graph().inputs[0] for node in loops)
