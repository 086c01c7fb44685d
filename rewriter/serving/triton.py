"""A model repository of Triton: the model between the tensors that Triton batches, and its config.

Triton joins the requests of a batch. A ragged input comes as one vector of all elements, and the
shape of each request's part beside it; what is stacked comes along the first axis.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.builder import Builder, tensor_value
from passes.graph.names import make_names_unique
from passes.tensors.io import PassedSequence, TensorIo
from rewriter.model_files import files, models, protos
from rewriter.model_files.model_copies import share
from rewriter.serving.apart import HeldSamples, SampleKind, held_outputs
from rewriter.serving.source_lengths import BRIDGE, source_of

__all__ = ["BATCH", "for_triton", "write_repository"]

BATCH = 256
"""The most requests of one batch, `max_batch_size` of the config."""
_TYPES = {
    ir.DataType.BOOL: "TYPE_BOOL",
    ir.DataType.UINT8: "TYPE_UINT8",
    ir.DataType.UINT16: "TYPE_UINT16",
    ir.DataType.UINT32: "TYPE_UINT32",
    ir.DataType.UINT64: "TYPE_UINT64",
    ir.DataType.INT8: "TYPE_INT8",
    ir.DataType.INT16: "TYPE_INT16",
    ir.DataType.INT32: "TYPE_INT32",
    ir.DataType.INT64: "TYPE_INT64",
    ir.DataType.FLOAT16: "TYPE_FP16",
    ir.DataType.FLOAT: "TYPE_FP32",
    ir.DataType.DOUBLE: "TYPE_FP64",
    ir.DataType.STRING: "TYPE_STRING",
}
"""What Triton calls the types that its backend for onnxruntime passes on."""
_MEND = {
    "input": "make it part of the samples, or a constant, where the model is made",
    "output": "yield a sequence with an element for each sample where the model is made",
}


def write_repository(model: ir.Model, folder: Path, given: ir.Model) -> None:
    """Write ``config.pbtxt`` and ``1/model.onnx`` for a model that passes sequences as tensors.

    Args:
        model: A model that was rewritten with ``tensor_io``; it is not changed.
        folder: The folder of the model in the repository; its name is the model's.
        given: The model that was rewritten; it is not changed.

    Raises:
        RewriteError: Triton cannot batch the model; the message says which input or output.
    """
    copy, config = for_triton(model, folder.name, given)
    version = folder / "1"
    version.mkdir(parents=True, exist_ok=True)
    models.save(copy, version / "model.onnx")
    files.write(config.encode(), folder / "config.pbtxt")


def for_triton(model: ir.Model, name: str, given: ir.Model) -> tuple[ir.Model, str]:
    """Return a model that takes what Triton feeds, and the text of its config.

    Args:
        model: See `write_repository`.
        name: The name of the model.
        given: See `write_repository`.

    Raises:
        RewriteError: Triton cannot batch it, or it may mix the samples of a batch.
    """
    copy = protos.from_proto(protos.to_proto(share(model)))
    passed = _with_rows(copy, TensorIo.read(model), given)
    _refuse(copy, passed)
    builder = Builder(BRIDGE)
    lines = [f"name: {_quoted(name)}", 'backend: "onnxruntime"', f"max_batch_size: {BATCH}"]
    values = {value.name: value for value in copy.graph.inputs}
    for one, sequence in passed.inputs.items():
        lines += _input(one, values[one], sequence)
        if sequence.form == "packed":
            _bridge(builder, copy.graph, values[one], values[sequence.lengths], sequence)
    for one, sequence in passed.outputs.items():
        lines += list(_output(copy, one, sequence, passed))
    lines.append("dynamic_batching { }")
    copy.graph.insert_before(copy.graph[0], builder.nodes) if len(copy.graph) else None
    dropped = {sequence.lengths for sequence in passed.outputs.values()} - {""}
    for value in [value for value in copy.graph.outputs if value.name in dropped]:
        copy.graph.outputs.remove(value)
    copy.metadata_props.clear()
    make_names_unique(copy)
    return copy, "\n".join(lines) + "\n"


def _with_rows(model: ir.Model, passed: TensorIo, given: ir.Model) -> TensorIo:
    """Return what is passed, with the outputs that have a row for each sample.

    What the model takes packed as it comes is the word of its author.

    Raises:
        RewriteError: An output may mix the samples of a batch.
    """
    if not any(isinstance(value.type, ir.SequenceType) for value in given.graph.inputs):
        return passed
    outputs = dict(passed.outputs)
    shapes = {str(value.name): value.shape for value in model.graph.outputs}
    for name, held in held_outputs(given).items():
        _require_apart(name, held)
        shape = shapes[name]
        if name not in outputs and shape is not None:
            dims = tuple(dim if isinstance(dim, int) else None for dim in shape.dims[1:])
            outputs[name] = PassedSequence("stacked", dims)
    return dataclasses.replace(passed, outputs=outputs)


def _require_apart(name: str, held: HeldSamples) -> None:
    """Refuse an output that is not proven to hold for each sample what follows from it alone."""
    if held.kind in (SampleKind.ELEMENTS, SampleKind.ROWS):
        return
    why = held.reason or "it may be one for all samples"
    raise RewriteError(
        f"output {name!r} is not proven to keep samples apart, and Triton batches the requests "
        f"of several clients: {why}; {_MEND['output']}"
    )


def _refuse(model: ir.Model, passed: TensorIo) -> None:
    """Refuse inputs and outputs that have no samples, and those that Triton has no word for."""
    if not passed.inputs:
        raise RewriteError(
            "the model takes no sequence as a tensor, so there is nothing to batch for Triton: "
            "--tensor-io triton is for models with sequence inputs; where an input is packed as "
            "the model comes, name it and its lengths, --packed INPUT=LENGTHS"
        )
    for side, values, sequences in (
        ("input", model.graph.inputs, passed.inputs),
        ("output", model.graph.outputs, passed.outputs),
    ):
        lengths = {one.lengths for one in sequences.values()}
        for value in values:
            if value.name not in sequences and value.name not in lengths:
                raise RewriteError(
                    f"{side} {value.name!r} may be one for all samples, and Triton batches every "
                    f"{side}: {_MEND[side]}"
                )
        for name, one in sequences.items():
            is_open = one.dims is None or any(not isinstance(dim, int) for dim in _rest(one))
            if one.form in ("flat", "padded") or (one.form == "packed" and is_open):
                raise RewriteError(
                    f"{side} {name!r} may differ along other axes than the first, which Triton "
                    "cannot tell the model: promise its shape with --input-shape"
                )


def _rest(sequence: PassedSequence) -> tuple[int | str | None, ...]:
    """Return the dimensions of an element that all samples have in common."""
    dims = (None,) if sequence.dims is None else sequence.dims
    return dims[1:] if sequence.form == "packed" else dims


def _input(name: str, value: ir.Value, sequence: PassedSequence) -> list[str]:
    is_packed = sequence.form == "packed"
    ragged = " allow_ragged_batch: true" if is_packed else ""
    lines = [f"input {{ {_tensor(name, value, sequence)}{ragged} }}"]
    if is_packed:
        lines.append(
            "batch_input { kind: BATCH_ITEM_SHAPE "
            f"target_name: {_quoted(sequence.lengths)} data_type: TYPE_INT32 "
            f"source_input: {_quoted(name)} }}"
        )
    return lines


def _tensor(name: str, value: ir.Value, sequence: PassedSequence) -> str:
    first = [-1] if sequence.form == "packed" else []
    rest = [dim if isinstance(dim, int) else -1 for dim in _rest(sequence)]
    dims = [*first, *rest]
    # Triton asks for a dimension, so that a scalar travels as a vector of one.
    scalar = "" if dims else " reshape: { shape: [ ] }"
    listed = ", ".join(map(str, dims or [1]))
    kind = None if value.dtype is None else _TYPES.get(value.dtype)
    if kind is None:
        raise RewriteError(
            f"{name!r} is of type {value.dtype}, which Triton does not pass to onnxruntime: add a "
            "Cast where the model is made"
        )
    return f"name: {_quoted(name)} data_type: {kind} dims: [ {listed} ]{scalar}"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _bridge(
    builder: Builder,
    graph: ir.Graph,
    elements: ir.Value,
    lengths: ir.Value,
    sequence: PassedSequence,
) -> None:
    """Take all elements as one vector, and shapes ``[B, rank]`` in the place of lengths."""
    rest = [dim for dim in _rest(sequence) if isinstance(dim, int)]
    assert elements.dtype is not None
    vector = tensor_value(str(elements.name), elements.dtype, [None])
    shapes = tensor_value(str(lengths.name), ir.DataType.INT32, [None, len(rest) + 1])
    rows = builder.op("Reshape", [vector, builder.constant(np.array([-1, *rest], np.int64))])
    column = builder.op("Gather", [shapes, builder.scalar(0)], {"axis": 1})
    counts = builder.op("Cast", [column], {"to": ir.DataType.INT64.value})
    for old, given, new in ((elements, vector, rows), (lengths, shapes, counts)):
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        new.type, new.shape = old.type, old.shape
        graph.inputs[graph.inputs.index(old)] = given
        old.name = None


def _output(
    model: ir.Model, name: str, sequence: PassedSequence, passed: TensorIo
) -> Iterator[str]:
    (value,) = (one for one in model.graph.outputs if one.name == name)
    yield f"output {{ {_tensor(name, value, sequence)} }}"
    if sequence.form == "packed":
        if value.dtype == ir.DataType.STRING:
            raise RewriteError(
                f"output {name!r} holds strings whose shape differs from sample to sample, and "
                "Triton scatters numbers only: yield numbers, or strings of one shape"
            )
        (lengths,) = (one for one in model.graph.outputs if one.name == sequence.lengths)
        source = source_of(lengths, passed)
        if source is None:
            raise RewriteError(
                f"output {name!r} has other lengths than an input, which Triton cannot pass on, "
                "or is not proven to have the same: give the samples of this output one shape, or "
                "batch on the client's side"
            )
        yield (
            "batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE "
            f"target_name: {_quoted(name)} source_input: {_quoted(source)} }}"
        )
