"""Records the lengths of the elements of a sequence along their first axis."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder, tensor_value
from passes.graph.graphs import is_operator
from passes.graph.made import operands
from passes.loops.forms import Form, LoopBody, OutputPlan
from passes.loops.loop import write_loop
from passes.maps.element_source import ElementSource
from passes.maps.sequence_source import cut_tensor, sequence_source
from passes.typing import Typings

__all__ = ["lengths_of"]

_INT64 = ir.DataType.INT64


def lengths_of(builder: Builder, sequence: ir.Value, typings: Typings) -> ir.Value:
    """Return the lengths, int64 ``[B]``.

    A map that yields the sequence yields them, too.

    Args:
        builder: Writes the graph of the sequence.
        sequence: A sequence whose elements have a rank of at least 1.
        typings: Both typings of the model.
    """
    source = sequence_source(sequence, typings.proven)
    cut, made = cut_tensor(sequence, typings.proven), source.sequence
    if cut is not None and cut.split is not None:
        if cut.axis == 0:
            return cut.sizes(builder, typings.proven)
    elif made is not None:
        node = made.producer()
        if is_operator(node, "SequenceConstruct"):
            sizes = [_first_dim(builder, v) for v in operands(node)]
            rows = [builder.op("Unsqueeze", [s, builder.ints(0)]) for s in sizes]
            return builder.op("Concat", rows, {"axis": 0})
        if is_operator(node, "SequenceMap"):
            return _of_map(builder, node, made)
    return _by_loop(builder, source, typings)


def _of_map(builder: Builder, node: ir.Node, sequence: ir.Value) -> ir.Value:
    body = node.attributes["body"].as_graph()
    element = body.outputs[node.outputs.index(sequence)]
    inner = Builder("tensor_io")
    size = _first_dim(inner, element)
    size.type, size.shape = ir.TensorType(_INT64), ir.Shape([])
    body.extend(inner.nodes)
    body.outputs.append(size)
    node.resize_outputs(len(node.outputs) + 1)
    sizes = node.outputs[-1]
    sizes.type = ir.SequenceType(ir.TensorType(_INT64))
    sizes.name = f"{sequence.name}_lengths"
    return builder.op("ConcatFromSequence", [sizes], {"axis": 0, "new_axis": 1})


def _by_loop(builder: Builder, source: ElementSource, typings: Typings) -> ir.Value:
    element = tensor_value("element", None)
    inner = Builder("tensor_io")
    size = _first_dim(inner, element)
    body = LoopBody(inner.nodes, [size], [(element, source)], {})
    plans = {0: OutputPlan(Form.SCAN_OUTPUT, _INT64, ())}
    held = write_loop(builder, body, typings, plans)[0]
    return held.value


def _first_dim(builder: Builder, value: ir.Value) -> ir.Value:
    shape = builder.op("Shape", [value])
    return builder.op("Gather", [shape, builder.scalar(0)], {"axis": 0})
