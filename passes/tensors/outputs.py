"""Makes tensors of sequence outputs."""

from __future__ import annotations

import onnx_ir as ir

from passes.flat_views import read_view
from passes.graph.builder import Builder
from passes.graph.graphs import default_opset, is_operator, name_of
from passes.graph.made import before_identities, operands
from passes.graph.names import make_names_unique
from passes.graph.opsets import to_opset_form
from passes.graph.splice import remove_dead
from passes.loops.forms import SPLITTABLE
from passes.maps.sequence_source import cut_tensor
from passes.maps.tensor_source import TensorSource
from passes.promises import Promises
from passes.tensors.cut_sequences import cut_of, take_cut
from passes.tensors.inputs import fresh_name
from passes.tensors.io import PassedSequence, Refusal, TensorIo
from passes.tensors.lengths import lengths_of
from passes.typing import Typing, Typings, type_both_ways
from passes.typing.value_types import common_dims

__all__ = ["TensorOutputsPass"]

Dims = tuple[int | str | None, ...]
_INT64 = ir.DataType.INT64
_GIVE_RANK = "give the rank of the inputs with --input-shape NAME=?,? (one ? for each dimension)"
_REMEDY = (
    "promise equal shapes of the inputs with --uniform or --input-shape, or concatenate the "
    "elements in the model"
)


class TensorOutputsPass(ir.passes.InPlacePass):
    """Give every sequence output as a tensor.

    1. Elements proven to have one shape: one tensor ``[B, *s]`` in the place of the sequence.
    2. Elements proven to differ along their first axis only: one tensor ``[sum(len_i), *rest]``
       in the place of the sequence, and a further output ``NAME.lengths``, int64 ``[B]``, at the
       end.
    3. Elements that were written as rows and sizes: these in the place of the sequence, and the
       sizes in a further output ``NAME.sizes``, int64 ``[B, k]``.
    4. Others stay sequences.

    A sequence that SplitToSequence cuts off a tensor in that form is that tensor. Any other is
    concatenated; where the passes that follow leave the ConcatFromSequence, `FinishTensorIoPass`
    gives it a branch for no elements, where it would be an error.

    Maps show more of their results once they are fused: the pass runs before that for what is
    proven from the start, so that maps yield tensors at once, and after it for the others.

    Attributes:
        io: What was done, and what the model's metadata said before.
        refused: What stays a sequence, and why.
    """

    def __init__(
        self,
        promises: Promises | None = None,
        *,
        is_first: bool = False,
        first: TensorOutputsPass | None = None,
    ) -> None:
        """Set up the pass.

        Args:
            promises: What the caller promises.
            is_first: The pass runs again when the maps are rewritten: refuse nothing, and pack
                only what would have to be inserted into a sequence element by element.
            first: The pass that ran first; what it knew of the outputs still holds.
        """
        super().__init__()
        self._promises = promises or Promises()
        self._is_first = is_first
        self._known: dict[str, Dims | None] = {} if first is None else first._known
        self.io = TensorIo()
        self.refused: list[Refusal] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the outputs of the main graph."""
        self.io, self.refused = TensorIo.read(model), []
        outputs = [
            (position, value)
            for position, value in enumerate(model.graph.outputs)
            if isinstance(value.type, ir.SequenceType) and not value.is_graph_input()
        ]
        if not outputs:
            return ir.passes.PassResult(model, False)
        typings = type_both_ways(model, self._promises)
        writer = _TensorWriter(model, typings)
        for position, value in outputs:
            name = name_of(value)
            dims = _better(_equal_dims(value, typings), self._known.get(name))
            self._known[name] = dims
            passed = self._cut_off(value, dims, typings) or self._decide(name, dims)
            if self._is_first and passed is not None and passed.form == "packed":
                passed = None if value.dtype in SPLITTABLE else passed
            if passed is not None:
                self.io.outputs[name] = writer.write(position, value, passed)
        if not writer.wrote:
            return ir.passes.PassResult(model, False)
        make_names_unique(model)
        self.io.write(model)
        return ir.passes.PassResult(model, True)

    def _cut_off(
        self, value: ir.Value, dims: Dims | None, typings: Typings
    ) -> PassedSequence | None:
        cut = cut_of(value, typings)
        if cut is None or cut == "empty":
            return None
        view = read_view(before_identities(value))
        return PassedSequence(cut, _numbers(dims) if view is None else view.dims)

    def _decide(self, name: str, dims: Dims | None) -> PassedSequence | None:
        if dims is None:
            self._refuse(name, "has elements of unknown rank", _GIVE_RANK)
            return None
        ragged = [str(axis) for axis, dim in enumerate(dims) if dim is None]
        if ragged in ([], ["0"]):
            return PassedSequence("packed" if ragged else "stacked", _numbers(dims))
        axes = f"axes {' and '.join(ragged)}" if ragged[1:] else f"axis {ragged[0]}"
        self._refuse(name, f"has elements that may differ along {axes}")
        return None

    def _refuse(self, name: str, reason: str, remedy: str = _REMEDY) -> None:
        if not self._is_first:
            self.refused.append(Refusal("output", name, reason, remedy))


def _equal_dims(sequence: ir.Value, typings: Typings) -> Dims | None:
    """Return the dimensions of the elements, None for each that may differ among them.

    None as a whole where the rank is unknown.
    """
    proven = typings.proven
    source = cut_tensor(sequence, proven)
    if source is not None:
        dims = _one_number_each(proven, proven.dims(source.tensor))
        return None if dims is None else _of_slices(source, list(dims), typings)
    sequence = before_identities(sequence)
    node = sequence.producer()
    if is_operator(node, "SequenceMap"):
        position = node.outputs.index(sequence)
        return typings.equal_dims(node.attributes["body"].as_graph().outputs[position])
    if is_operator(node, "SequenceConstruct"):
        return common_dims([_one_number_each(proven, proven.dims(v)) for v in operands(node)])
    return _one_number_each(proven, proven.dims(sequence))


def _better(one: Dims | None, other: Dims | None) -> Dims | None:
    """Return the dimensions that are known better."""
    if one is None or other is None:
        return other if one is None else one
    return other if other.count(None) < one.count(None) else one


def _numbers(dims: Dims | None) -> Dims | None:
    """Return the dimensions without symbols: they mean nothing to the user."""
    return None if dims is None else tuple(d if isinstance(d, int) else None for d in dims)


def _one_number_each(typing: Typing, dims: Dims | None) -> Dims | None:
    return None if dims is None else tuple(d if typing.is_one_number(d) else None for d in dims)


def _of_slices(source: TensorSource, dims: list[int | str | None], typings: Typings) -> Dims:
    """Return the dimensions of slices of a tensor with these dimensions."""
    axis = source.axis % len(dims)
    if source.split is None:
        dims[axis : axis + 1] = [1] if source.keepdims else []
    elif source.has_one_shape(typings.proven):
        dims[axis] = "size"
    else:
        dims[axis] = None
    return tuple(dims)


class _TensorWriter:
    """Records tensors of sequences at the end of the main graph."""

    def __init__(self, model: ir.Model, typings: Typings) -> None:
        self._model = model
        self._typings = typings
        self.wrote = False

    def write(self, position: int, sequence: ir.Value, passed: PassedSequence) -> PassedSequence:
        """Put the tensor in the place of an output, and its lengths after all outputs."""
        graph = self._model.graph
        builder = Builder("tensor_io")
        name = name_of(sequence)
        _, behind = passed.span
        tensor, *beside = self._tensors(builder, sequence, passed)
        tensor.type = ir.TensorType(sequence.dtype or ir.DataType.UNDEFINED)
        if passed.dims is not None:
            kept = 0 if passed.form == "padded" else behind
            tensor.shape = ir.Shape([None, *passed.dims[kept:]])
        tensor.doc_string = sequence.doc_string
        for value in beside:
            first, is_packed = passed.span[0], passed.form == "packed"
            shape = [None] if is_packed else [None, behind - first]
            value.type, value.shape = ir.TensorType(_INT64), ir.Shape(shape)
            kind = "lengths" if is_packed else "sizes"
            value.name = fresh_name(self._model, f"{name}.{kind}")
            graph.outputs.append(value)
            passed = PassedSequence(passed.form, passed.dims, value.name)
        graph.outputs[position] = tensor
        to_opset_form(builder.nodes, default_opset(self._model))
        graph.extend(builder.nodes)
        if tensor is not sequence:
            sequence.name = fresh_name(self._model, f"{name}_elements")
            sequence.shape = None
            tensor.name = name
            remove_dead([node for node in [sequence.producer()] if node is not None])
        self.wrote = True
        return passed

    def _tensors(
        self, builder: Builder, sequence: ir.Value, passed: PassedSequence
    ) -> list[ir.Value]:
        """Return the tensor and, for a packed one, the lengths."""
        cut = cut_of(sequence, self._typings)
        if cut == passed.form:
            return take_cut(builder, sequence, cut, passed.dims, self._typings)
        if passed.form == "stacked":
            attributes = {"axis": 0, "new_axis": 1}
            return [builder.op("ConcatFromSequence", [sequence], attributes)]
        return [
            builder.op("ConcatFromSequence", [sequence], {"axis": 0}),
            lengths_of(builder, sequence, self._typings),
        ]
