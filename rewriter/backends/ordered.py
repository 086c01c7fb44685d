"""Sessions for runtimes that make a function of a model: arrays in, arrays out, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from passes.sequence_operators import SEQUENCE_OPERATORS
from rewriter.backends.fixed_shapes import with_fixed_shapes
from rewriter.backends.messages import refuse_ignored, refuse_sequences, with_weights
from rewriter.backends.session import BackendError, as_arrays, one_line

__all__ = ["Function", "OrderedSession", "open_ordered"]

Function = Callable[[list[Any]], Iterable[Any]]


def open_ordered(
    model: onnx.ModelProto,
    folder: Path | None,
    target: str,
    runtime: str,
    make: Callable[[onnx.ModelProto], Function],
    needs: Literal["ranks", "shapes"] = "ranks",
    never: frozenset[str] = SEQUENCE_OPERATORS,
) -> OrderedSession:
    """Make a model ready to run, with its weights.

    Args:
        model: The model.
        folder: Where its external weights lie.
        target: The name of the runtime in the table of targets.
        runtime: The name of the runtime, for messages.
        make: Makes a function from the inputs that are no initializers to the outputs.
        needs: What the runtime has to know of every input.
        never: Operators for which the runtime may give wrong results.

    Raises:
        BackendError: An input or output is no tensor, the runtime takes no notice of an
            attribute, or it refuses the model.
    """
    refuse_sequences(model, runtime)
    refuse_ignored(model, target)
    return OrderedSession(with_weights(model, folder), runtime, make, needs, never)


class OrderedSession:
    """Session for runtimes that compile a model to a positional function, once per input shape.

    A model is taken at once where it says enough itself, otherwise when inputs tell the rest.
    What the runtime refuses as it is, or fails on, is made anew for the shapes of the inputs.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        runtime: str,
        make: Callable[[onnx.ModelProto], Function],
        needs: Literal["ranks", "shapes"] = "ranks",
        never: frozenset[str] = SEQUENCE_OPERATORS,
    ) -> None:
        """Make the function, if that can be done yet.

        Args:
            model: The model with its weights.
            runtime: The name of the runtime, for messages.
            make: Makes a function from the inputs that are no initializers to the outputs.
            needs: What the runtime has to know of every input.
            never: Operators for which the runtime may give wrong results.

        Raises:
            BackendError: The runtime refuses the model, whatever the shapes of its inputs.
        """
        defaults = {tensor.name for tensor in model.graph.initializer}
        self._places = [i for i, v in enumerate(model.graph.input) if v.name not in defaults]
        self._model = model
        self._runtime = runtime
        self._make = make
        self._needs = needs
        self._never = never
        self._made: dict[Any, Function | BackendError] = {}
        inputs = [model.graph.input[i] for i in self._places]
        self._is_open = any(_lacks(value, needs) for value in inputs)
        if any(_lacks(value, "shapes") for value in inputs):
            if not self._is_open:
                self._as_it_is([])
            return
        shapes = [tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in inputs]
        if isinstance(self._as_it_is([]), BackendError):
            made = self._for_shapes(shapes)
            if isinstance(made, BackendError):
                raise made

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        arrays = self._arrays(feeds)
        try:
            results = self._results(self._as_it_is(arrays), arrays)
        except BackendError as first:
            try:
                results = self._results(self._for_shapes([a.shape for a in arrays]), arrays)
            except BackendError as error:
                raise (first if error.is_limit and not first.is_limit else error) from None
        return self._named(results)

    def run_as_given(self, feeds: Mapping[str, Any], *, with_shapes: bool) -> dict[str, Any]:
        """Run the model as the runtime takes it; see :func:`rewriter.backends.run_as_given`."""
        arrays = self._arrays(feeds)
        if with_shapes:
            function = self._attempt(self._told(arrays, "shapes"))
        else:
            function = self._as_it_is(arrays)
        return self._named(self._results(function, arrays))

    def _arrays(self, feeds: Mapping[str, Any]) -> list[Any]:
        given = as_arrays(feeds)
        names = [self._model.graph.input[i].name for i in self._places]
        return [np.asarray(given[name], order="C") for name in names]

    def _named(self, results: list[Any]) -> dict[str, Any]:
        names = (value.name for value in self._model.graph.output)
        return dict(zip(names, results, strict=True))

    def _results(self, function: Function | BackendError, arrays: list[Any]) -> list[Any]:
        if isinstance(function, BackendError):
            raise function
        try:
            return list(function(arrays))
        except Exception as error:
            if isinstance(error, NotImplementedError):
                raise self._refusal(error) from error
            raise BackendError(f"{self._runtime} fails: {one_line(error)}") from error

    def _as_it_is(self, arrays: list[Any]) -> Function | BackendError:
        told = arrays if self._is_open else []
        key = ("open", *(a.ndim if self._needs == "ranks" else a.shape for a in told))
        if key not in self._made:
            self._made[key] = self._attempt(self._told(told, self._needs) if told else self._model)
        return self._made[key]

    def _for_shapes(self, shapes: Sequence[tuple[int, ...]]) -> Function | BackendError:
        key = ("fixed", *shapes)
        if key not in self._made:
            names = [self._model.graph.input[i].name for i in self._places]
            try:
                fixed = with_fixed_shapes(self._model, dict(zip(names, shapes, strict=True)))
            except Exception as error:
                self._made[key] = self._refusal(error)
            else:
                self._made[key] = self._attempt(fixed)
        return self._made[key]

    def _attempt(self, model: onnx.ModelProto) -> Function | BackendError:
        """Make the function, or the reason why there is none."""
        graphs = [model.graph.node, *(function.node for function in model.functions)]
        for op_type in sorted(_operators(graphs) & self._never):
            return BackendError(f"{self._runtime} is not asked to run {op_type}", is_limit=True)
        try:
            return self._make(model)
        except Exception as error:
            return self._refusal(error)

    def _refusal(self, error: Exception) -> BackendError:
        message = f"{self._runtime} refuses the model: {one_line(error)}"
        return BackendError(message, is_limit=True)

    def _told(self, arrays: list[Any], needs: str) -> onnx.ModelProto:
        """Return the model with what the inputs tell of their types."""
        told = onnx.ModelProto()
        told.CopyFrom(self._model)
        for place, array in zip(self._places, arrays, strict=True):
            value = told.graph.input[place]
            if _lacks(value, needs):
                names = [f"{value.name}_{axis}" for axis in range(array.ndim)]
                dims = array.shape if needs == "shapes" else names
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
