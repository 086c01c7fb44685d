"""A model repository of Triton: the model between the tensors that Triton batches, and its config.

Triton joins the requests of a batch. A ragged input comes as one vector of all elements, and the
shape of each request's part beside it; what is stacked comes along the first axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.builder import Builder, tensor_value
from passes.graph.names import make_names_unique
from passes.tensors.io import PassedSequence, TensorIo
from rewriter.model_files import files, on_disk, protos
from rewriter.model_files.models import share
from rewriter.serving.apart import HeldSamples, SampleKind, held_outputs
from rewriter.serving.config import RAGGED, input_lines, quoted, rest_of, tensor_fields
from rewriter.serving.source_lengths import BRIDGE, source_of

__all__ = ["BATCH", "for_triton", "write_repository"]

BATCH = 256
"""The most requests of one batch, `max_batch_size` of the config."""
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
    on_disk.save(copy, version / "model.onnx")
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
    lines = [f"name: {quoted(name)}", 'backend: "onnxruntime"', f"max_batch_size: {BATCH}"]
    values = {value.name: value for value in copy.graph.inputs}
    for one, sequence in passed.inputs.items():
        lines += input_lines(one, values[one], sequence)
        if sequence.form in RAGGED:
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
            if one.form == "padded":
                raise RewriteError(
                    f"{side} {name!r} is padded, and Triton pads nothing: leave out --padded"
                )
            is_open = one.dims is None or any(not isinstance(dim, int) for dim in rest_of(one))
            if one.form == "packed" and is_open:
                raise RewriteError(
                    f"{side} {name!r} may differ along other axes than the first, whose number is "
                    "not known: promise its shape with --input-shape"
                )


def _bridge(
    builder: Builder,
    graph: ir.Graph,
    elements: ir.Value,
    lengths: ir.Value,
    sequence: PassedSequence,
) -> None:
    """Take all elements as one vector, and shapes ``[B, rank]`` in the place of lengths."""
    rest = [dim for dim in rest_of(sequence) if isinstance(dim, int)]
    first, behind = sequence.span
    assert elements.dtype is not None
    vector = tensor_value(str(elements.name), elements.dtype, [None])
    shapes = tensor_value(str(lengths.name), ir.DataType.INT32, [None, behind + len(rest)])
    rows = builder.op("Reshape", [vector, builder.constant(np.array([-1, *rest], np.int64))])
    is_packed = sequence.form == "packed"
    axes = builder.scalar(0) if is_packed else builder.ints(*range(first, behind))
    column = builder.op("Gather", [shapes, axes], {"axis": 1})
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
    yield f"output {{ {tensor_fields(name, value, sequence)} }}"
    if sequence.form in RAGGED:
        if value.dtype == ir.DataType.STRING:
            raise RewriteError(
                f"output {name!r} holds strings whose shape differs from sample to sample, and "
                "Triton scatters numbers only: yield numbers, or strings of one shape"
            )
        (lengths,) = (one for one in model.graph.outputs if one.name == sequence.lengths)
        source = source_of(lengths, passed)
        if source is None or passed.inputs[source].span != sequence.span:
            raise RewriteError(
                f"output {name!r} has other lengths or sizes than an input, which Triton cannot "
                "pass on, or is not proven to have the same: give the samples of this output one "
                "shape, or batch on the client's side"
            )
        yield (
            "batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE "
            f"target_name: {quoted(name)} source_input: {quoted(source)} }}"
        )
