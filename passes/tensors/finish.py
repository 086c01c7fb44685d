"""Mends what is left of the boundaries between sequences and tensors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder, tensor_value
from passes.graph.graphs import is_operator
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead, splice
from passes.loops.forms import SPLITTABLE, Form, LoopBody, OutputPlan
from passes.loops.loop import write_loop
from passes.maps.tensor_source import TensorSource
from passes.tensors.io import PassedSequence, TensorIo
from passes.typing import Typing, Typings

__all__ = ["FinishTensorIoPass"]


class FinishTensorIoPass(ir.passes.InPlacePass):
    """Mend what is left of the boundaries after all other passes.

    1. An output that is a ConcatFromSequence gets a branch for no elements.
    2. A SplitToSequence of an input whose element type onnxruntime cannot split becomes a Loop
       that inserts slice by slice.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Mend the main graph of a model that `TensorIo` says something of."""
        io = TensorIo.read(model)
        modified = False
        for name, passed in io.outputs.items():
            modified |= _guard_nothing(model.graph, name, passed)
        modified |= _split_by_insertion(model, io)
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)


def _guard_nothing(graph: ir.Graph, name: str, passed: PassedSequence) -> bool:
    found = False
    for wanted in (name, passed.lengths):
        value = next((v for v in graph.outputs if v.name == wanted), None)
        node = None if value is None else value.producer()
        if node is None or node.op_type != "ConcatFromSequence" or node.graph is not graph:
            continue
        _write_guard(node, passed, is_lengths=wanted != name)
        found = True
    return found


def _write_guard(node: ir.Node, passed: PassedSequence, *, is_lengths: bool) -> None:
    output, sequence = node.outputs[0], node.inputs[0]
    assert sequence is not None
    builder = Builder.at(node)
    length = builder.op("SequenceLength", [sequence])
    some = builder.op("Greater", [length, builder.scalar(0)])
    dims = [0] if is_lengths else [d if isinstance(d, int) else 0 for d in passed.dims or ()]
    if not is_lengths:
        dims = [0, *dims[passed.form == "packed" :]]
    dtype = output.dtype or ir.DataType.FLOAT

    def write_some(inner: Builder) -> list[ir.Value]:
        attributes = dict(node.attributes.items())
        return [_typed(inner.op("ConcatFromSequence", [sequence], attributes), output)]

    def write_nothing(inner: Builder) -> list[ir.Value]:
        array = np.empty(dims, object if dtype == ir.DataType.STRING else dtype.numpy())
        return [_typed(inner.op("Identity", [inner.constant(array)]), output)]

    graphs = {
        "then_branch": builder.subgraph("then", [], write_some),
        "else_branch": builder.subgraph("else", [], write_nothing),
    }
    splice(builder, node, [(output, builder.op("If", [some], graphs))])


def _typed(value: ir.Value, like: ir.Value) -> ir.Value:
    value.type = like.type
    return value


def _split_by_insertion(model: ir.Model, io: TensorIo) -> bool:
    found = False
    for value in list(model.graph.inputs):
        if value.name not in io.inputs or value.dtype in SPLITTABLE:
            continue
        for node, position in list(value.uses()):
            if position or not is_operator(node, "SplitToSequence"):
                continue
            _insert_slices(node)
            found = True
    return found


def _insert_slices(node: ir.Node) -> None:
    tensor, *rest = node.inputs
    assert tensor is not None
    source = TensorSource(tensor, 0, split=rest[0]) if rest else TensorSource.of_stacked(tensor)
    builder = Builder.at(node)
    element = tensor_value("element", tensor.dtype)
    typings = Typings(Typing(), Typing())
    body = LoopBody([], [element], [(element, source)], {})
    plans = {0: OutputPlan(Form.INSERTION, tensor.dtype, None)}
    held = write_loop(builder, body, typings, plans)[0]
    splice(builder, node, [(node.outputs[0], held.value)])
    remove_dead([node])
