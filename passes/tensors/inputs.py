"""Makes tensors of sequence inputs."""

from __future__ import annotations

import collections
import re
from collections.abc import Collection

import onnx_ir as ir

from passes.flat_views import LEAST_OPSET, FlatView, write_view
from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, default_opset, is_default_domain
from passes.graph.names import make_names_unique
from passes.graph.opsets import CARRIES_SEQUENCES, to_opset_form
from passes.graph.splice import splice_form
from passes.loops.escape import SPLITTABLE
from passes.maps.sequence_map import is_sequence_map
from passes.padded_views import write_padded
from passes.promises import Promises
from passes.tensors.io import PassedSequence, Refusal, TensorIo

__all__ = ["TensorInputsPass", "fresh_name"]

Dims = tuple[int | str | None, ...]
_INT64 = ir.DataType.INT64
_COUNTED = {"packed": "rows", "flat": "rows"}
"""What the first axis of a tensor counts where it is not the elements."""
_OPTIONAL = "make it a plain sequence or a tensor in the model"
_OLD_OPSET = f"convert the model to opset {CARRIES_SEQUENCES}"
_UNKNOWN_RANK = "promise equal shapes with --uniform, or shapes with --input-shape NAME=?,3"


class TensorInputsPass(ir.passes.InPlacePass):
    """Take every sequence input as a tensor, which a SplitToSequence cuts again.

    1. Elements of one shape, by a promise or because their declared type is all numbers: one
       tensor ``[B, *s]`` in the place of the sequence. Where the sequence declares no rank, it
       is that of the bodies that read it.
    2. Elements that may differ along their first axis only: one tensor ``[sum(len_i), *rest]`` in
       the place of the sequence, and a further input ``NAME.lengths``, int64 ``[B]``, at the end.
    3. Elements that may differ along other axes: one tensor ``[P, *rest]`` in the place of the
       sequence, the elements row-major one behind the other, and a further input ``NAME.sizes``,
       int64 ``[B, k]``, at the end.
    4. Where the caller asks for it: one tensor ``[B, *s]``, each element padded to the size of
       the largest, and `NAME.sizes` likewise.
    5. What has an unknown rank, or differs along other axes before opset 14, stays a sequence.

    A declared number that is not promised is relied on: a list that breaks it cannot be given to
    the new model at all.

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
        self._opset = 0

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the inputs of the main graph."""
        self.io, self.refused = TensorIo.read(model), []
        self._opset = default_opset(model)
        graph = model.graph
        builder = Builder("tensor_io", self._opset)
        self._used = _symbols(graph)
        for position, value in enumerate(list(graph.inputs)):
            passed = self._decide(value)
            if passed is not None:
                self._replace(model, builder, position, passed)
        if not builder.nodes:
            return ir.passes.PassResult(model, False)
        to_opset_form(builder.nodes, self._opset)
        if len(graph):
            graph.insert_before(graph[0], builder.nodes)
        else:
            graph.extend(builder.nodes)
        make_names_unique(model)
        self.io.write(model)
        return ir.passes.PassResult(model, True)

    def _decide(self, value: ir.Value) -> PassedSequence | None:
        name = value.name or ""
        if isinstance(value.type, ir.OptionalType):
            if isinstance(value.type.elem_type, ir.SequenceType):
                self.refused.append(Refusal("input", name, "may be absent", _OPTIONAL))
            return None
        if not isinstance(value.type, ir.SequenceType):
            return None
        if self._opset < CARRIES_SEQUENCES and value.dtype not in SPLITTABLE:
            reason = f"has elements of {value.dtype}, which no Loop of opset {self._opset} inserts"
            self.refused.append(Refusal("input", name, reason, _OLD_OPSET))
            return None
        dims = self._dims(value)
        if name in self._promises.uniform:
            return PassedSequence("stacked", self._dims_in_bodies(value) if dims is None else dims)
        if dims is None:
            reason = "has elements of unknown rank"
            self.refused.append(Refusal("input", name, reason, _UNKNOWN_RANK))
            return None
        ragged = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
        if ragged and name in self._padded:
            self._note(value, dims)
            return PassedSequence("padded", dims)
        if ragged not in ([], [0]) and self._opset >= LEAST_OPSET:
            self._note(value, dims)
            return PassedSequence("flat", dims)
        if ragged not in ([], [0]):
            axes = " and ".join(map(str, ragged))
            reason = f"has elements that may differ along axes {axes}"
            if len(ragged) == 1:
                reason = f"has elements that may differ along axis {axes}, which is not the first"
            known = ",".join(str(d) if isinstance(d, int) else "?" for d in (None, *dims[1:]))
            remedy = (
                f"promise equal shapes with --uniform {name}, or numbers for all dimensions but "
                f"the first with --input-shape {name}={known}"
            )
            remedy += f"; or convert the model to opset {LEAST_OPSET}"
            self.refused.append(Refusal("input", name, reason, remedy))
            return None
        self._note(value, dims)
        return PassedSequence("packed" if ragged else "stacked", dims)

    def _dims(self, value: ir.Value) -> Dims | None:
        """Return the promised dimensions, and the declared ones where no promise is made.

        A dimension that is promised to be unknown is so, whatever number is declared.
        """
        declared = None if value.shape is None else tuple(_plain(d) for d in value.shape)
        promised = self._promises.input_shapes.get(value.name or "")
        if promised is None:
            return declared
        if declared is None or len(declared) != len(promised):
            return tuple(promised)
        trusted = self._promises.trust_types
        return tuple(
            (None if isinstance(d, int) and not trusted else d) if p is None else p
            for p, d in zip(promised, declared, strict=True)
        )

    def _dims_in_bodies(self, value: ir.Value) -> Dims | None:
        """Return as many unknown dimensions as the bodies that read an element declare."""
        bodies = [
            (node.attributes["body"].as_graph(), position)
            for node, position in value.uses()
            if is_sequence_map(node)
        ]
        ranks = {
            None if (shape := body.inputs[position].shape) is None else len(shape)
            for body, position in bodies
        }
        rank = ranks.pop() if len(ranks) == 1 else None
        if rank is None:
            return None
        self.io.assumptions.append(
            f"every element of input '{value.name}' has rank {rank}, as the map that reads it "
            "declares: no other can be passed to the new model"
        )
        return (None,) * rank

    def _note(self, value: ir.Value, dims: Dims) -> None:
        promised = self._promises.input_shapes.get(value.name or "", ())
        all_promised = self._promises.trust_types or all(
            not isinstance(dim, int) or (axis < len(promised) and promised[axis] == dim)
            for axis, dim in enumerate(dims)
        )
        if not all_promised:
            shown = ",".join(str(d) if isinstance(d, int) else "?" for d in dims)
            self.io.assumptions.append(
                f"every element of input '{value.name}' has the declared shape [{shown}]: no "
                "other can be passed to the new model"
            )

    def _replace(
        self, model: ir.Model, builder: Builder, position: int, passed: PassedSequence
    ) -> None:
        graph = model.graph
        old = graph.inputs[position]
        name = old.name or ""
        dtype = old.dtype or ir.DataType.UNDEFINED
        is_stacked = passed.form == "stacked"
        first, behind = passed.span
        size = _fresh_symbol(graph, f"{name}_{_COUNTED.get(passed.form, 'length')}")
        dims = None if passed.dims is None else self._own_symbols(passed.dims)
        if dims is not None:
            dims = (size, *dims[0 if passed.form == "padded" else behind :])
        old.name = None
        tensor = ir.Value(
            name=name,
            type=ir.TensorType(dtype),
            shape=None if dims is None else ir.Shape(list(dims)),
            doc_string=old.doc_string,
        )
        tensor.metadata_props.update(old.metadata_props)
        graph.inputs[position] = tensor
        if not is_stacked:
            symbol = size if passed.form == "padded" else _fresh_symbol(graph, f"{name}_length")
            is_table = passed.form != "packed"
            beside = ir.Value(
                name=fresh_name(model, f"{name}.{'sizes' if is_table else 'lengths'}"),
                type=ir.TensorType(_INT64),
                shape=ir.Shape([symbol, behind - first] if is_table else [symbol]),
            )
            graph.inputs.append(beside)
            passed = PassedSequence(passed.form, passed.dims, beside.name or "")
            if is_table:
                _count_by_sizes(builder, old, beside)
        if passed.form == "flat":
            numbers = [d if isinstance(d, int) else 0 for d in passed.dims or ()]
            lead, rest = tuple(numbers[:first]), tuple(numbers[behind:])
            view = FlatView(tensor, beside, lead, rest, behind - first)
            sequence = write_view(builder, view, dtype)
        elif passed.form == "padded":
            sequence = write_padded(builder, tensor, beside, range(first, behind))
        elif passed.form == "packed":
            sequence = builder.op("SplitToSequence", [tensor, beside], {"axis": 0})
        else:
            sequence = builder.op("SplitToSequence", [tensor], {"axis": 0, "keepdims": 0})
        sequence.type = ir.SequenceType(ir.TensorType(dtype))
        sequence.name = fresh_name(model, f"{name}_elements")
        for place, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[place] = tensor
                self.io.outputs[name] = passed
                if not is_stacked and beside not in graph.outputs:
                    graph.outputs.append(beside)
        old.replace_all_uses_with(sequence)
        self.io.inputs[name] = passed

    def _own_symbols(self, dims: Dims) -> Dims:
        """Return the dimensions without the symbols that something else has too.

        A symbol of a sequence type says nothing; a symbol of a tensor type would.
        """
        return tuple(None if isinstance(d, str) and self._used[d] > 1 else d for d in dims)


def _count_by_sizes(builder: Builder, sequence: ir.Value, sizes: ir.Value) -> None:
    """Read the length of a sequence off the sizes of its elements."""
    lengths = [
        n for n, _ in sequence.uses() if n.op_type == "SequenceLength" and is_default_domain(n)
    ]
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


def _plain(dim: int | ir.SymbolicDim) -> int | str | None:
    return dim if isinstance(dim, int) else dim.value


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
