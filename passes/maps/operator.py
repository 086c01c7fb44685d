"""``seqmap::Map``: the schema of the operator, and how ONNX types it.

A Map applies a body to each of ``n`` samples. It stands in a model only while passes work on it.

Attributes (one entry for each input of the body, unless it says otherwise; one entry more stands
for a source that no sample reads, and that only has one element for each):
    body: The graph that is applied; it may capture values.
    kinds: ``index``, the number of the sample, an int64 scalar; ``element`` of a sequence;
        ``slice`` of a tensor; or ``shared``, one value for all samples.
    sources: Position of the input of the node that is read; -1 for ``index``.
    axes: Of a slice: the axis along which the tensor is cut.
    keepdims: Of a slice without sizes: whether the axis stays, with size 1.
    reverses: Of a slice without sizes: whether sample 0 reads the last slice.
    splits: Of a slice: position of the input that holds its sizes as SplitToSequence has them,
        or -1.
    scalar_splits: Of a slice: whether the sizes are one scalar for all slices.
    count: Position of the input that holds ``n``, int64 ``[1]``; -1 where the first source that
        is no ``index`` gives the number of samples.
    like: Which entry has ``n`` elements by proof; -1 if none is known to.
    results: One entry an output of the node: ``sequence``, ``stacked`` along a new axis, or
        ``concatenated`` along an axis.
    result_outputs: One entry an output of the node: the output of the body that it is made of.
    result_axes: The axis, as ConcatFromSequence has it.
    result_reverses: Of a stacked result: whether the first sample comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from passes.sequence_operators import DOMAIN, OP_TYPE
from passes.typing.own_operators import register_operator

__all__ = ["VERSION", "register_schema"]

VERSION = 1

_LISTS = (
    "sources",
    "axes",
    "keepdims",
    "reverses",
    "splits",
    "scalar_splits",
    "result_outputs",
    "result_axes",
    "result_reverses",
)


def register_schema() -> None:
    """Tell ONNX the schema of the operator and how to infer its types; once is enough."""
    register_operator(
        OP_TYPE, DOMAIN, VERSION, _attributes, _infer, takes=("Identity", "Optional")
    )


def _attributes(schema: Any) -> list[Any]:
    kind, attribute = schema.AttrType, schema.Attribute
    return [
        attribute("body", kind.GRAPH),
        *(attribute(name, kind.STRINGS) for name in ("kinds", "results")),
        *(attribute(name, kind.INTS) for name in _LISTS),
        *(attribute(name, kind.INT) for name in ("count", "like")),
    ]


class _Node:
    """The attributes and inputs of a Map, as its inference function sees them."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.kinds = self._strings("kinds")
        self.results = self._strings("results")
        self.lists: Mapping[str, Sequence[int]] = {
            name: list(context.get_attribute(name).ints) for name in _LISTS
        }
        self.count = context.get_attribute("count").i
        self.like = context.get_attribute("like").i

    def _strings(self, name: str) -> list[str]:
        return [text.decode() for text in self.context.get_attribute(name).strings]

    def type_of(self, position: int) -> onnx.TypeProto:
        """Return the type of an input; an empty one where it is unknown."""
        known = self.context.get_input_type(position)
        return onnx.TypeProto() if known is None else known

    def numbers(self, position: int) -> list[int] | None:
        """Return the integers that an input holds, None if they are unknown."""
        data = None if position < 0 else self.context.get_input_data(position)
        return None if data is None else onnx.numpy_helper.to_array(data).reshape(-1).tolist()

    def sample_type(self, at: int) -> onnx.TypeProto:
        """Return the type of an input of the body."""
        source = self.lists["sources"][at]
        match self.kinds[at]:
            case "index":
                return onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, ())
            case "element":
                return _element(self.type_of(source))
            case "slice":
                return self._slice(at, self.type_of(source))
        return self.type_of(source)

    def _slice(self, at: int, tensor: onnx.TypeProto) -> onnx.TypeProto:
        dims = _dims(tensor)
        if dims is None:
            return _tensor(tensor.tensor_type.elem_type, None)
        axis = self.lists["axes"][at] % len(dims)
        if self.lists["splits"][at] >= 0:
            dims[axis] = self._size(at, dims[axis])
        elif self.lists["keepdims"][at]:
            dims[axis] = _dim(1)
        else:
            del dims[axis]
        return _tensor(tensor.tensor_type.elem_type, dims)

    def _size(self, at: int, whole: Any) -> Any:
        """Return the size of all slices, if it is one number that divides the whole."""
        if not self.lists["scalar_splits"][at]:
            return _dim()
        size = self.numbers(self.lists["splits"][at])
        if not size or size[0] <= 0 or not whole.HasField("dim_value"):
            return _dim()
        return _dim() if whole.dim_value % size[0] else _dim(size[0])

    def number_of_samples(self) -> Any:
        """Return the number of samples as a dimension."""
        count = self.numbers(self.count)
        if count:
            return _dim(count[0])
        at = self.like if self.like >= 0 else 0
        if self.kinds[at] != "slice" or self.lists["splits"][at] >= 0:
            return _dim()
        dims = _dims(self.type_of(self.lists["sources"][at]))
        return _dim() if dims is None else dims[self.lists["axes"][at] % len(dims)]

    def result_type(self, at: int, sample: onnx.TypeProto) -> onnx.TypeProto:
        """Return the type of an output, from that of the output of the body."""
        kind, axis = self.results[at], self.lists["result_axes"][at]
        if kind == "sequence":
            return onnx.helper.make_sequence_type_proto(sample)
        dims = _dims(sample)
        if dims is not None and kind == "stacked":
            dims.insert(axis % (len(dims) + 1), self.number_of_samples())
        elif dims:
            dims[axis % len(dims)] = _dim()
        return _tensor(sample.tensor_type.elem_type, dims)


def _infer(context: Any) -> None:
    """Type the body by ONNX's own rules, then the outputs."""
    node = _Node(context)
    count = len(context.get_attribute("body").g.input)
    samples = [node.sample_type(at) for at in range(count)]
    data = [
        context.get_input_data(node.lists["sources"][at]) if node.kinds[at] == "shared" else None
        for at in range(count)
    ]
    body = context.get_graph_attribute_inferencer("body")
    found = body.do_inferencing(samples, data)
    for at, output in enumerate(node.lists["result_outputs"]):
        if found[output].WhichOneof("value") == "tensor_type":
            context.set_output_type(at, node.result_type(at, found[output]))


def _element(sequence: onnx.TypeProto) -> onnx.TypeProto:
    made = onnx.TypeProto()
    if sequence.HasField("sequence_type"):
        made.CopyFrom(sequence.sequence_type.elem_type)
    return made


def _dims(type_: onnx.TypeProto) -> list[Any] | None:
    """Return the dimensions of a tensor, None if its rank is unknown."""
    tensor = type_.tensor_type
    return list(tensor.shape.dim) if tensor.HasField("shape") else None


def _dim(number: int | None = None) -> Any:
    dim = onnx.TensorShapeProto.Dimension()
    if number is not None:
        dim.dim_value = number
    return dim


def _tensor(dtype: int, dims: Sequence[Any] | None) -> onnx.TypeProto:
    made = onnx.TypeProto()
    made.tensor_type.elem_type = dtype
    if dims is not None:
        made.tensor_type.shape.SetInParent()
        made.tensor_type.shape.dim.extend(dims)
    return made
