"""Sessions for runtimes that make a function of a model: arrays in, arrays out, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from passes.sequence_operators import SEQUENCE_OPERATORS
from rewriter.backends.messages import refuse_sequences, with_weights
from rewriter.backends.session import BackendError, as_arrays, one_line

__all__ = ["Function", "OrderedSession", "prepared"]

Function = Callable[[list[Any]], Iterable[Any]]


def prepared(
    model: onnx.ModelProto,
    folder: Path | None,
    runtime: str,
    never: frozenset[str] = SEQUENCE_OPERATORS,
) -> onnx.ModelProto:
    """Return the model with its weights, or refuse it.

    Args:
        model: The model.
        folder: Where its external weights lie.
        runtime: The name of the runtime, for messages.
        never: Operators of which the runtime may give other results than it should.

    Raises:
        BackendError: An input or output is no tensor, or the model holds such an operator.
    """
    refuse_sequences(model, runtime)
    graphs = [model.graph.node, *(function.node for function in model.functions)]
    for op_type in sorted(_operators(graphs) & never):
        raise BackendError(f"{runtime} is not asked to run {op_type}", is_limit=True)
    return with_weights(model, folder)


class OrderedSession:
    """A model of which a runtime makes a function, for what it has to know of the inputs.

    A model is taken at once where it says enough itself, otherwise when inputs tell the rest.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        runtime: str,
        make: Callable[[onnx.ModelProto], Function],
        needs: Literal["ranks", "shapes"] = "ranks",
    ) -> None:
        """Make the function, if that can be done yet.

        Args:
            model: The model.
            runtime: The name of the runtime, for messages.
            make: Makes a function from the inputs that are no initializers to the outputs.
            needs: What the runtime has to know of every input.

        Raises:
            BackendError: The runtime refuses the model.
        """
        defaults = {tensor.name for tensor in model.graph.initializer}
        self._places = [i for i, v in enumerate(model.graph.input) if v.name not in defaults]
        self._model = model
        self._runtime = runtime
        self._make = make
        self._needs = needs
        self._made: dict[Any, Function] = {}
        self._is_open = any(_lacks(model.graph.input[i], needs) for i in self._places)
        if not self._is_open:
            self._function([])

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        graph = self._model.graph
        given = as_arrays(feeds)
        arrays = [np.asarray(given[graph.input[i].name], order="C") for i in self._places]
        function = self._function(arrays)
        try:
            results = list(function(arrays))
        except Exception as error:
            if isinstance(error, NotImplementedError):
                raise self._refusal(error) from error
            raise BackendError(f"{self._runtime} fails: {one_line(error)}") from error
        return dict(zip((value.name for value in graph.output), results, strict=True))

    def _function(self, arrays: list[Any]) -> Function:
        told = arrays if self._is_open else []
        key = tuple(a.ndim if self._needs == "ranks" else a.shape for a in told)
        if key not in self._made:
            model = self._told(told) if told else self._model
            try:
                self._made[key] = self._make(model)
            except Exception as error:
                raise self._refusal(error) from error
        return self._made[key]

    def _refusal(self, error: Exception) -> BackendError:
        message = f"{self._runtime} refuses the model: {one_line(error)}"
        return BackendError(message, is_limit=True)

    def _told(self, arrays: list[Any]) -> onnx.ModelProto:
        """Return the model with what the inputs tell of their types."""
        told = onnx.ModelProto()
        told.CopyFrom(self._model)
        for place, array in zip(self._places, arrays, strict=True):
            value = told.graph.input[place]
            if _lacks(value, self._needs):
                names = [f"{value.name}_{axis}" for axis in range(array.ndim)]
                dims = array.shape if self._needs == "shapes" else names
                element = value.type.tensor_type.elem_type
                value.type.CopyFrom(onnx.helper.make_tensor_type_proto(element, dims))
        return told


def _lacks(value: onnx.ValueInfoProto, needs: str) -> bool:
    type_ = value.type.tensor_type
    if not type_.HasField("shape"):
        return True
    return needs == "shapes" and any(not dim.HasField("dim_value") for dim in type_.shape.dim)


def _operators(graphs: Iterable[Iterable[onnx.NodeProto]]) -> set[str]:
    found = set()
    for nodes in graphs:
        for node in nodes:
            found.add(node.op_type)
            found |= _operators(a.g.node for a in node.attribute if a.HasField("g"))
    return found
