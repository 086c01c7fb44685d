"""Programs as ONNX models, and what they are fed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.property.bodies import Body
from tests.property.pool import IR_VERSION, Array, Value
from tests.property.programs import Feed, Program, Result, Source

__all__ = ["feeds_of", "model_of"]


def model_of(program: Program) -> onnx.ModelProto:
    """Return the model of a program."""
    graph = onnx.GraphProto(name=f"seed_{program.seed}")
    if program.first is not None:
        first = program.first
        sequence = _write_source(graph, program, first.mapped[0])
        _write_map(graph, program, first, {first.mapped[0].name: sequence}, ["y_seq"])
    sequences = {}
    for value in program.body.mapped:
        is_chained = program.sources[value.name].kind == "map"
        sequences[value.name] = "y_seq" if is_chained else _write_source(graph, program, value)
    outputs = [f"{name}_out" for name in program.body.outputs]
    _write_map(graph, program, program.body, sequences, outputs)
    rows = program.body.rows
    values = dict(zip(program.body.outputs, zip(*rows, strict=True), strict=True))
    for i, result in enumerate(program.results):
        _write_result(graph, result, i, Value(result.output, values[result.output]))
    opset = helper.make_opsetid("", program.body.opset)
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[opset])
    return model


def _elem(value: Value) -> int:
    return helper.np_dtype_to_tensor_dtype(value.dtype)


def _dims(value: Value, source: Source) -> list[int | str]:
    """Return declared dimensions of a sample; numbers among them are true."""
    found: list[int | str] = []
    for axis, size in enumerate(value.dims):
        number = source.declared == "numbers" or (source.declared == "some" and axis % 2 == 1)
        # One name for two inputs proves nothing.
        found.append(size if number and size is not None else f"N{axis}")
    return found


def _tensor(name: str, elem: int, dims: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem, dims)


def _write_source(graph: onnx.GraphProto, program: Program, value: Value) -> str:
    """Write what yields the sequence of an element input and return its name."""
    source, name = program.sources[value.name], value.name
    given, cut = f"{name}_in", f"{name}_seq"
    if source.kind == "sequence":
        dims = None if source.declared == "nothing" else _dims(value, source)
        info = helper.make_tensor_sequence_value_info(given, _elem(value), dims)
        graph.input.append(info)
        return given
    dims = [f"{name}_{d}" if isinstance(d, str) else d for d in _dims(value, source)]
    if source.kind == "construct":
        count = len(program.feeds[0].samples)
        names = [f"{given}{i}" for i in range(count)]
        for i, one in enumerate(names):
            # A symbol per sample and axis: they may differ.
            own = [f"{d}_{i}" if isinstance(d, str) else d for d in dims]
            graph.input.append(_tensor(one, _elem(value), own))
        graph.node.append(helper.make_node("SequenceConstruct", names, [cut]))
        return cut
    inputs, options = [given], {"axis": source.axis}
    batch = _row_dim(program, value, source)
    if source.kind == "rows":
        dims.insert(source.axis % (value.rank + 1), batch)
        options["keepdims"] = 0
    else:
        dims[source.axis] = batch
    if source.kind in ("sizes", "chunks"):
        inputs.append(_sizes_name(program, value))
        sizes = _sizes(program, value, program.feeds[0])
        if inputs[-1] in {v.name for v in (*graph.input, *graph.initializer)}:
            pass
        elif source.run_time:
            shape = [f"{name}_B"] if sizes.ndim else []
            graph.input.append(_tensor(inputs[-1], _elem_of(sizes), shape))
        else:
            graph.initializer.append(numpy_helper.from_array(sizes, inputs[-1]))
    graph.input.append(_tensor(given, _elem(value), dims))
    graph.node.append(helper.make_node("SplitToSequence", inputs, [cut], **options))
    return cut


def _sizes_name(program: Program, value: Value) -> str:
    """Return the name of the lengths that a tensor is cut by."""
    other = program.sources[value.name].sizes_of
    is_there = other in program.sources and program.sources[other].kind == "sizes"
    return f"{other if is_there else value.name}_sizes"


def _elem_of(array: Array) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def _row_dim(program: Program, value: Value, source: Source) -> int | str:
    if source.declared != "numbers":
        return f"{value.name}_rows"
    array = _fed(program, value, program.feeds[0])[f"{value.name}_in"]
    return int(array.shape[source.axis])


def _sizes(program: Program, value: Value, feed: Feed) -> Array:
    source = program.sources[value.name]
    dtype = np.int64 if program.seed % 2 else np.int32
    if source.kind == "chunks":
        return np.array(value.samples[0].shape[source.axis], dtype)
    samples = _elements(program, value, feed)
    return np.array([s.shape[source.axis] for s in samples], dtype)


def _write_map(
    graph: onnx.GraphProto,
    program: Program,
    body: Body,
    sequences: dict[str, str],
    outputs: list[str],
) -> None:
    inner = onnx.GraphProto(name="body")
    inputs = []
    order = list(body.mapped)
    # Tensor inputs may stand between sequences.
    order[1:1] = body.shared
    for value in order:
        varies = value.name in sequences
        inputs.append(sequences[value.name] if varies else f"{value.name}_in")
        if not varies:
            graph.input.append(_shared(program, value, inputs[-1]))
        inner.input.append(_declared(program, value))
    for value in body.captured:
        graph.input.append(_shared(program, value, value.name))
    for name, (place, array) in body.constants.items():
        tensor = numpy_helper.from_array(array, name)
        (inner if place == "body" else graph).initializer.append(tensor)
    inner.node.extend(body.nodes)
    inner.output.extend(onnx.ValueInfoProto(name=name) for name in body.outputs)
    graph.node.append(helper.make_node("SequenceMap", inputs, outputs, body=inner))


def _shared(program: Program, value: Value, name: str) -> onnx.ValueInfoProto:
    dims: list[int | str] = list(value.samples[0].shape)
    if program.seed % 3 == 0:
        dims = [f"{name}_{i}" for i in range(len(dims))]
    return _tensor(name, _elem(value), dims)


def _declared(program: Program, value: Value) -> onnx.ValueInfoProto:
    """Return the declaration of an input of the body."""
    if not program.typed:
        return onnx.ValueInfoProto(name=value.name)
    dims = None if value.rank < 0 else [f"{value.name}_{i}" for i in range(value.rank)]
    return _tensor(value.name, _elem(value), dims)


def _write_result(graph: onnx.GraphProto, result: Result, index: int, value: Value) -> None:
    sequence, name = f"{result.output}_out", f"result_{index}"
    elem, rank = _elem(value), value.rank
    if result.kind == "sequence":
        graph.node.append(helper.make_node("Identity", [sequence], [name]))
        graph.output.append(
            helper.make_tensor_sequence_value_info(name, elem, _symbols(name, rank))
        )
        return
    inputs, options = [sequence], {}
    if result.kind in ("stack", "concat"):
        op = "ConcatFromSequence"
        rank += int(result.kind == "stack")
        options = {"axis": result.axis, "new_axis": int(result.kind == "stack")}
    elif result.kind == "length":
        op, elem, rank = "SequenceLength", onnx.TensorProto.INT64, 0
    else:
        op = "SequenceAt"
        inputs.append(f"position_{index}")
        position = numpy_helper.from_array(np.array(result.axis, np.int64), inputs[-1])
        graph.initializer.append(position)
    graph.node.append(helper.make_node(op, inputs, [name], **options))
    graph.output.append(_tensor(name, elem, _symbols(name, rank)))


def _symbols(name: str, rank: int) -> list[str] | None:
    return None if rank < 0 else [f"{name}_{i}" for i in range(rank)]


def feeds_of(program: Program, feed: Feed) -> dict[str, Any]:
    """Return the inputs of the model for the samples of a feed, as copies."""
    found: dict[str, Any] = {}
    bodies = [program.body] + ([program.first] if program.first is not None else [])
    for body in bodies:
        for value in body.mapped:
            if program.sources[value.name].kind != "map":
                found |= _fed(program, value, feed)
        for value in body.shared:
            found[f"{value.name}_in"] = value.samples[0].copy()
        for value in body.captured:
            found[value.name] = value.samples[0].copy()
    return found


def _elements(program: Program, value: Value, feed: Feed) -> list[Array]:
    surplus = program.sources[value.name].surplus
    picks = [*feed.samples, *range(surplus)]
    return [value.samples[i].copy() for i in picks]


def _fed(program: Program, value: Value, feed: Feed) -> dict[str, Any]:
    source, given = program.sources[value.name], f"{value.name}_in"
    elements = _elements(program, value, feed)
    if source.kind == "sequence":
        return {given: elements}
    if source.kind == "construct":
        return {f"{given}{i}": element for i, element in enumerate(elements)}
    like = value.samples[0]
    if source.kind == "rows":
        axis = source.axis % (like.ndim + 1)
        none = np.zeros((*like.shape[:axis], 0, *like.shape[axis:]), like.dtype)
        return {given: np.stack(elements, axis) if elements else none}
    shape = list(like.shape)
    shape[source.axis] = 0
    none = np.zeros(shape, like.dtype)
    found: dict[str, Any] = {given: np.concatenate(elements, source.axis) if elements else none}
    if source.kind in ("sizes", "chunks") and source.run_time:
        found[_sizes_name(program, value)] = _sizes(program, value, feed)
    return found
