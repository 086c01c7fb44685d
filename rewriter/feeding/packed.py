"""Inputs that are packed as the model comes: samples one behind the other, and their lengths."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.builder import tensor_value
from passes.tensors.io import PassedSequence, TensorIo
from passes.typing.value_types import dim_of

__all__ = ["declare_packed"]


def declare_packed(model: ir.Model, packed: Mapping[str, str]) -> None:
    """Record in a model which inputs and outputs hold all samples one behind the other.

    The model is to be one that treats samples apart, ``start`` growing by a length in each
    iteration of a Loop, say. From then on it takes and gives lists, as a model that was rewritten
    with ``tensor_io`` does: it is validated with lengths that fit, `Predictor` runs samples
    through it, and it can be written for Triton. An output that is not named holds one row for
    each sample. For an output that is named, an output with its lengths is added.

    Args:
        model: The model; its metadata and outputs are changed.
        packed: The name of an input or output, to the input that holds the lengths of its samples
            along the first axis.

    Raises:
        RewriteError: A name is unknown, lengths are no int64 vector, or belong to two inputs.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    outputs = {str(value.name): value for value in model.graph.outputs}
    io = TensorIo.read(model)
    for name, lengths in packed.items():
        if name not in {**inputs, **outputs} or lengths not in inputs:
            unknown = lengths if name in {**inputs, **outputs} else name
            known = ", ".join(map(repr, {**inputs, **outputs}))
            raise RewriteError(f"no input or output is called {unknown!r}; there are {known}")
        _require_lengths(lengths, inputs[lengths])
        value = inputs.get(name, outputs.get(name))
        assert value is not None
        dims = (None, *_rest(name, value))
        if name in inputs:
            if lengths in {one.lengths for one in io.inputs.values()}:
                raise RewriteError(
                    f"{lengths!r} are the lengths of two inputs: give {name!r} lengths of its own"
                )
            io.inputs[name] = PassedSequence("packed", dims, lengths)
        else:
            beside = _lengths_of_output(model, name, inputs[lengths])
            io.outputs[name] = PassedSequence("packed", dims, beside)
    for name, value in outputs.items():
        if name not in io.outputs:
            io.outputs[name] = PassedSequence("stacked", _rest(name, value))
    io.write(model)


def _require_lengths(name: str, value: ir.Value) -> None:
    shape = value.shape
    if value.dtype != ir.DataType.INT64 or (shape is not None and shape.rank() != 1):
        raise RewriteError(
            f"input {name!r} cannot hold lengths: they are one int64 vector, a number for each "
            "sample"
        )


def _rest(name: str, value: ir.Value) -> tuple[int | str | None, ...]:
    """Return the dimensions behind the first.

    Raises:
        RewriteError: It is no tensor of known rank with a first dimension.
    """
    if not isinstance(value.type, ir.TensorType) or value.shape is None or not value.shape.rank():
        raise RewriteError(
            f"{name!r} is no tensor of known rank with an axis of samples: declare its shape"
        )
    return tuple(dim_of(dim) for dim in value.shape[1:])


def _lengths_of_output(model: ir.Model, name: str, lengths: ir.Value) -> str:
    copy = tensor_value(f"{name}.lengths", ir.DataType.INT64, [None])
    model.graph.append(ir.Node("", "Identity", [lengths], outputs=[copy]))
    model.graph.outputs.append(copy)
    return str(copy.name)
