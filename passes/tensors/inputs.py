"""Makes tensors of sequence inputs."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Collection

import onnx_ir as ir

from passes.flat_views import FlatView, write_view
from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, default_opset, is_operator, name_of
from passes.graph.names import make_names_unique
from passes.graph.opsets import to_opset_form
from passes.graph.passed_lengths import mark_as_lengths
from passes.graph.splice import splice_form
from passes.padded_views import write_padded
from passes.promises import Promises
from passes.tensors.input_forms import InputForms
from passes.tensors.io import PassedSequence, Refusal, TensorIo

__all__ = ["TensorInputsPass", "fresh_name"]

Dims = tuple[int | str | None, ...]
_INT64 = ir.DataType.INT64
_COUNTED = {"packed": "rows", "flat": "rows"}
"""The name of the first axis of a tensor where it does not count elements."""


class TensorInputsPass(ir.passes.InPlacePass):
    """Take every sequence input as a tensor, which a SplitToSequence cuts again.

    The tensor stands in the place of the sequence; lengths, ``NAME.lengths``, or sizes,
    ``NAME.sizes``, are a further input at the end. Which form it has `InputForms` chooses.

    Attributes:
        io: What was done, outputs that are inputs included.
        refused: What stays a sequence, and why.
    """

    def __init__(
        self, promises: Promises | None = None, padded: Collection[str] = frozenset()
    ) -> None:
        """Set up the pass.

        Args:
            promises: What the caller promises.
            padded: Names of inputs whose elements are padded to the largest, where they differ.
        """
        super().__init__()
        self._padded = padded
        self._promises = promises or Promises()
        self.io = TensorIo()
        self.refused: list[Refusal] = []
        self._used: collections.Counter[str] = collections.Counter()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the inputs of the main graph."""
        self.io, self.refused = TensorIo.read(model), []
        opset = default_opset(model)
        graph = model.graph
        builder = Builder("tensor_io", opset)
        forms = InputForms(self._promises, self._padded, opset)
        self._used = _symbols(graph)
        for position, value in enumerate(list(graph.inputs)):
            chosen = forms.choose(value)
            if isinstance(chosen, Refusal):
                self.refused.append(chosen)
            elif chosen is not None:
                self._replace(model, builder, position, chosen)
        self.io.assumptions += forms.assumptions
        if not builder.nodes:
            return ir.passes.PassResult(model, False)
        to_opset_form(builder.nodes, opset)
        if len(graph):
            graph.insert_before(graph[0], builder.nodes)
        else:
            graph.extend(builder.nodes)
        make_names_unique(model)
        self.io.write(model)
        return ir.passes.PassResult(model, True)

    def _replace(
        self, model: ir.Model, builder: Builder, position: int, passed: PassedSequence
    ) -> None:
        """Put one tensor, and what it needs beside it, in the place of a sequence."""
        old = model.graph.inputs[position]
        name = name_of(old)
        passed, tensor, beside = self._take(model, position, passed)
        if beside is not None and passed.form != "packed":
            _count_by_sizes(builder, old, beside)
        sequence = _cut(builder, passed, tensor, beside)
        sequence.type = ir.SequenceType(ir.TensorType(tensor.dtype or ir.DataType.UNDEFINED))
        sequence.name = fresh_name(model, f"{name}_elements")
        self._give_back(model.graph, old, passed, tensor, beside)
        old.replace_all_uses_with(sequence)
        self.io.inputs[name] = passed

    def _take(
        self, model: ir.Model, position: int, passed: PassedSequence
    ) -> tuple[PassedSequence, ir.Value, ir.Value | None]:
        """Enter the inputs that a sequence becomes: the tensor, and the lengths or sizes."""
        graph = model.graph
        old = graph.inputs[position]
        name = name_of(old)
        size = _fresh_symbol(graph, f"{name}_{_COUNTED.get(passed.form, 'length')}")
        first, behind = passed.span
        dims = None if passed.dims is None else self._own_symbols(passed.dims)
        if dims is not None:
            dims = (size, *dims[0 if passed.form == "padded" else behind :])
        old.name = None
        tensor = ir.Value(
            name=name,
            type=ir.TensorType(old.dtype or ir.DataType.UNDEFINED),
            shape=None if dims is None else ir.Shape(list(dims)),
            doc_string=old.doc_string,
        )
        tensor.metadata_props.update(old.metadata_props)
        graph.inputs[position] = tensor
        if passed.form == "stacked":
            return passed, tensor, None
        symbol = size if passed.form == "padded" else _fresh_symbol(graph, f"{name}_length")
        is_table = passed.form != "packed"
        beside = ir.Value(
            name=fresh_name(model, f"{name}.{'sizes' if is_table else 'lengths'}"),
            type=ir.TensorType(_INT64),
            shape=ir.Shape([symbol, behind - first] if is_table else [symbol]),
        )
        graph.inputs.append(beside)
        if not is_table:
            mark_as_lengths(beside, tensor)
        return dataclasses.replace(passed, lengths=name_of(beside)), tensor, beside

    def _give_back(
        self,
        graph: ir.Graph,
        old: ir.Value,
        passed: PassedSequence,
        tensor: ir.Value,
        beside: ir.Value | None,
    ) -> None:
        """Give the tensors where the sequence is an output of the model, too."""
        for place, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[place] = tensor
                self.io.outputs[name_of(tensor)] = passed
                if beside is not None and beside not in graph.outputs:
                    graph.outputs.append(beside)

    def _own_symbols(self, dims: Dims) -> Dims:
        """Return the dimensions without the symbols that something else has too.

        A symbol of a sequence type says nothing; a symbol of a tensor type would.
        """
        return tuple(None if isinstance(d, str) and self._used[d] > 1 else d for d in dims)


def _cut(
    builder: Builder, passed: PassedSequence, tensor: ir.Value, beside: ir.Value | None
) -> ir.Value:
    """Record the sequence that a tensor, and the lengths or sizes beside it, are cut into."""
    if beside is None:
        return builder.op("SplitToSequence", [tensor], {"axis": 0, "keepdims": 0})
    first, behind = passed.span
    if passed.form == "packed":
        return builder.op("SplitToSequence", [tensor, beside], {"axis": 0})
    if passed.form == "padded":
        return write_padded(builder, tensor, beside, range(first, behind))
    numbers = [d if isinstance(d, int) else 0 for d in passed.dims or ()]
    lead, rest = tuple(numbers[:first]), tuple(numbers[behind:])
    view = FlatView(tensor, beside, lead, rest, behind - first)
    return write_view(builder, view, tensor.dtype or ir.DataType.UNDEFINED)


def _count_by_sizes(builder: Builder, sequence: ir.Value, sizes: ir.Value) -> None:
    """Read the length of a sequence off the sizes of its elements."""
    lengths = [n for n, _ in sequence.uses() if is_operator(n, "SequenceLength")]
    if not lengths:
        return
    shape = builder.op("Shape", [sizes])
    count = builder.op("Gather", [shape, builder.scalar(0)], {"axis": 0})
    for node in lengths:
        splice_form(node, lambda _: [count])


def fresh_name(model: ir.Model, name: str) -> str:
    """Return a name that no value of the model bears: this one, or this one with a number."""
    taken = {
        value.name
        for graph in all_graphs(model)
        for values in (
            graph.inputs,
            graph.outputs,
            graph.initializers.values(),
            *(node.outputs for node in graph),
        )
        for value in values
    }
    found, count = name, 1
    while found in taken:
        found, count = f"{name}_{count}", count + 1
    return found


def _symbols(graph: ir.Graph) -> collections.Counter[str]:
    return collections.Counter(
        dim.value
        for value in (*graph.inputs, *graph.outputs)
        for dim in value.shape or ()
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None
    )


def _fresh_symbol(graph: ir.Graph, name: str) -> str:
    """Return a symbol that no input or output has."""
    base = re.sub(r"\W", "_", name)
    found, count = base, 1
    while found in _symbols(graph):
        found, count = f"{base}_{count}", count + 1
    return found
