"""Element type, rank and shape of every value, by ONNX's own inference.

Two typings of one model exist. The *declared* typing says what the model's types say. The
*proven* typing is inferred again with the dimensions of all sequence types erased, and with them
every other type that an exporter may have derived from these: types of values inside the graph,
of outputs, and of inputs of bodies. It keeps what onnxruntime enforces, the shapes of tensor
inputs of the main graph, and what follows from the operators.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir

from passes.errors import RewriteError
from passes.graphs import all_graphs, captured_values, constant_value, subgraphs, with_subgraphs
from passes.names import make_names_unique
from passes.promises import Promises

__all__ = ["TypeValuesPass", "Typing", "Typings", "ValueType", "type_both_ways", "type_values"]

logger = logging.getLogger(__name__)

_LARGEST_DATA = 1024
_LARGEST_SHOWN = 64
_INFERENCE_PREFIX = "unk__"


@dataclasses.dataclass(frozen=True)
class ValueType:
    """What is known of one value.

    Attributes:
        type: Tensor, sequence or optional type with its element type; None if unknown.
        dims: Dimensions (of each element, for a sequence): a number, a symbol or None; None as a
            whole if the rank is unknown.
    """

    type: ir.TypeProtocol | None
    dims: tuple[int | str | None, ...] | None


_UNKNOWN = ValueType(None, None)


class Typing:
    """A side table of types; values that the model gained later are entered by `copy`."""

    def __init__(self, symbols: frozenset[str] = frozenset()) -> None:
        """Make an empty table.

        Args:
            symbols: The symbols that stand for one number in the whole model.
        """
        self._types: dict[ir.Value, ValueType] = {}
        self._symbols = symbols

    def __getitem__(self, value: ir.Value) -> ValueType:
        """Return what is known of a value."""
        return self._types.get(value, _UNKNOWN)

    def items(self) -> Iterable[tuple[ir.Value, ValueType]]:
        """Return all values that something is known of."""
        return self._types.items()

    def set(self, value: ir.Value, type_: ValueType) -> None:
        """Enter what is known of a value."""
        self._types[value] = type_

    def copy(self, values: Mapping[ir.Value, ir.Value | None]) -> None:
        """Give each new value the type of the old one, which it computes anew."""
        for old, new in values.items():
            if new is not None and old in self._types:
                self._types[new] = _combined(self[new], self[old])

    def is_sequence(self, value: ir.Value) -> bool | None:
        """Whether the value is a sequence; None if its type is unknown."""
        type_ = self[value].type
        return None if type_ is None else isinstance(type_, ir.SequenceType)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a tensor, or of a sequence's elements."""
        type_ = self[value].type
        return None if type_ is None else type_.dtype

    def dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return the dimensions; None if the rank is unknown."""
        return self[value].dims

    def rank(self, value: ir.Value) -> int | None:
        """Return the rank, if it is known."""
        dims = self[value].dims
        return None if dims is None else len(dims)

    def static_dims(self, value: ir.Value) -> tuple[int, ...] | None:
        """Return the dimensions if all are numbers."""
        dims = self[value].dims
        if dims is None or not all(isinstance(d, int) for d in dims):
            return None
        return tuple(d for d in dims if isinstance(d, int))

    def is_one_number(self, dim: int | str | None) -> bool:
        """Whether a dimension is a number, or a symbol that stands for one in the whole model."""
        return isinstance(dim, int) or (isinstance(dim, str) and dim in self._symbols)


def type_values(
    model: ir.Model,
    *,
    proven: bool = False,
    ranks: bool = True,
    promises: Promises | None = None,
    elements: Typing | None = None,
) -> Typing:
    """Infer the types of all values of a model, bodies and functions included.

    The names of the model's values are made unique first, since inference goes by name.

    Args:
        model: Any model; only names change.
        proven: Erase the dimensions of sequences and of all that was derived from them.
        ranks: Keep their ranks even so; a rank that is only declared may be false too.
        promises: Shapes of inputs that the caller vouches for.
        elements: With ``proven``: take the elements that maps read to have the dimensions that
            they have here, as a guard will have checked.

    Returns:
        The table. A value that inference could not type has what the model declares.
    """
    make_names_unique(model)
    proto = _proto_without_data(model)
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        _stand_in(nodes)
    if proven:
        _erase(proto, ranks)
    if elements is not None:
        _restore_elements(model.graph, proto.graph, elements)
    if promises is not None:
        _enter_promises(proto.graph, promises)
    _show_constants(model.graph, proto.graph, {})
    inferred = _infer(proto)
    symbols = frozenset(
        dim.dim_param
        for value in proto.graph.input
        if value.type.HasField("tensor_type")
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param and not dim.dim_param.startswith(_INFERENCE_PREFIX)
    )
    typing = Typing(symbols)
    _read_graph(typing, model.graph, inferred.graph)
    if model.functions:
        _read_functions(typing, model, proto, inferred)
    return typing


def _infer(proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        message = " ".join(str(error).split())
        raise RewriteError(
            f"The types that the model declares contradict each other: {message}. Correct them "
            "where the model is made."
        ) from error


@dataclasses.dataclass(frozen=True)
class Typings:
    """The declared and the proven typing of one model."""

    declared: Typing
    proven: Typing

    def copy(self, values: Mapping[ir.Value, ir.Value | None]) -> None:
        """Give each new value the types of the old one."""
        self.declared.copy(values)
        self.proven.copy(values)

    def equal_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return the dimensions of a body's value, None for each that may differ by sample.

        A number is taken from the declared typing too. This is for uses only where a sample
        that breaks it ends in an error, such as the scan output of a Loop.
        """
        proven, declared = self.proven[value].dims, self.declared[value].dims
        if declared is None or (proven is not None and len(proven) != len(declared)):
            declared = proven
        if proven is None:
            proven = declared
        if proven is None or declared is None:
            return None
        return tuple(
            p if self.proven.is_one_number(p) else d if isinstance(d, int) else None
            for p, d in zip(proven, declared, strict=True)
        )


def type_both_ways(model: ir.Model, promises: Promises | None = None) -> Typings:
    """Infer the declared and the proven typing of a model.

    Whoever promises that the declared types hold makes them one.
    """
    declared = type_values(model, promises=promises)
    if promises is not None and promises.trust_types:
        return Typings(declared, declared)
    return Typings(declared, type_values(model, proven=True, promises=promises))


def _restore_elements(graph: ir.Graph, proto: onnx.GraphProto, elements: Typing) -> None:
    """Give the elements that maps read the dimensions that a typing has for them."""
    for node, node_proto in zip(graph, proto.node, strict=True):
        attributes = {a.name: a for a in node_proto.attribute}
        for name, inner in subgraphs(node):
            if "[" in name:
                continue
            inner_proto = attributes[name].g
            _restore_elements(inner, inner_proto, elements)
            if node.op_type != "SequenceMap":
                continue
            for value, outer, info in zip(
                inner.inputs, node.inputs, inner_proto.input, strict=False
            ):
                if outer is not None and elements.is_sequence(outer):
                    _set_dims(info.type, elements[value])


def _enter_promises(proto: onnx.GraphProto, promises: Promises) -> None:
    for value in proto.input:
        dims = promises.input_shapes.get(value.name)
        if dims is None:
            continue
        type_ = value.type
        if type_.HasField("sequence_type"):
            type_ = type_.sequence_type.elem_type
        _set_dims(type_, ValueType(None, dims))


def _set_dims(type_: onnx.TypeProto, known: ValueType) -> None:
    """Put the numbers that are known into a tensor type, and its rank."""
    if known.dims is None:
        return
    if known.type is not None:
        type_.tensor_type.elem_type = known.type.dtype
    old = list(type_.tensor_type.shape.dim)
    type_.tensor_type.shape.Clear()
    for axis, known_dim in enumerate(known.dims):
        dim = type_.tensor_type.shape.dim.add()
        if isinstance(known_dim, int):
            dim.dim_value = known_dim
        elif len(old) == len(known.dims):
            dim.CopyFrom(old[axis])


def _proto_without_data(model: ir.Model) -> onnx.ModelProto:
    """Serialize a model with a stub for each large initializer of the main graph."""
    kept: dict[ir.Value, ir.TensorProtocol] = {}
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or isinstance(tensor, ir.ExternalTensor):
            continue
        if tensor.dtype == ir.DataType.STRING or tensor.nbytes > _LARGEST_DATA:
            kept[value] = tensor
            value.const_value = ir.ExternalTensor(
                "absent",
                0,
                0,
                tensor.dtype,
                shape=ir.Shape(tensor.shape.numpy()),
                name=value.name or "",
            )
    try:
        return ir.to_proto(model)
    finally:
        for value, tensor in kept.items():
            value.const_value = tensor


_LIKE_THEIR_INPUT = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators that ONNX's inference does not know; the result has the type of the first input."""


def _stand_in(nodes: Iterable[onnx.NodeProto]) -> None:
    """Make Identity, for inference only, of nodes that it does not know, at any depth."""
    for node in nodes:
        if node.op_type in _LIKE_THEIR_INPUT and node.domain in ("", "ai.onnx"):
            node.op_type = "Identity"
            del node.input[1:]
            del node.attribute[:]
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                _stand_in(graph.node)


def _show_constants(
    graph: ir.Graph, proto: onnx.GraphProto, outer: dict[str, onnx.TensorProto]
) -> None:
    """Repeat small constants that a graph captures as initializers of its own.

    ONNX's inference knows the type of a captured value but not its value, and so loses what a
    constant outside says about shapes inside.
    """
    if outer:
        captured = {v.name for v in captured_values(graph)}
        proto.initializer.extend(t for name, t in outer.items() if name in captured)
    known = dict(outer)
    for value in (*graph.initializers.values(), *(out for node in graph for out in node.outputs)):
        array = constant_value(value)
        if array is not None and array.size <= _LARGEST_SHOWN and array.dtype.kind in "iub":
            known[value.name or ""] = onnx.numpy_helper.from_array(array, value.name)
    for node, node_proto in zip(graph, proto.node, strict=True):
        attributes = {a.name: a for a in node_proto.attribute}
        for name, inner in subgraphs(node):
            if "[" not in name:
                _show_constants(inner, attributes[name].g, known)


def _erase(proto: onnx.ModelProto, ranks: bool) -> None:
    for value in proto.graph.input:
        if value.type.HasField("tensor_type"):
            _name_dims(value)
        else:
            _erase_dims(value.type, ranks)
    for value in (*proto.graph.output, *proto.graph.value_info):
        _erase_dims(value.type, ranks)
    _erase_nodes(proto.graph.node, ranks)
    for function in proto.functions:
        _erase_nodes(function.node, ranks)


def _name_dims(value: onnx.ValueInfoProto) -> None:
    """Give each unknown dimension of a tensor a symbol of its own.

    It is one number for all samples. That two of them are equal, nobody checks.
    """
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value"):
            dim.dim_param = f"{value.name}.{axis}"


def _erase_nodes(nodes: Iterable[onnx.NodeProto], ranks: bool) -> None:
    for node in nodes:
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                for value in (*graph.input, *graph.output, *graph.value_info):
                    _erase_dims(value.type, ranks)
                _erase_nodes(graph.node, ranks)


def _erase_dims(type_: onnx.TypeProto, ranks: bool) -> None:
    """Forget the dimensions of a type, at any depth."""
    match type_.WhichOneof("value"):
        case "tensor_type":
            if not ranks:
                type_.tensor_type.ClearField("shape")
            for dim in type_.tensor_type.shape.dim:
                dim.Clear()
        case "sequence_type":
            _erase_dims(type_.sequence_type.elem_type, ranks)
        case "optional_type":
            _erase_dims(type_.optional_type.elem_type, ranks)


def _value_type(proto: onnx.TypeProto) -> ValueType:
    if proto.HasField("sequence_type") and not proto.sequence_type.elem_type.WhichOneof("value"):
        return _UNKNOWN  # inference failed in the body of the map that yields the sequence
    type_ = ir.serde.deserialize_type_proto_for_type(proto)
    shape = ir.serde.deserialize_type_proto_for_shape(proto)
    if shape is None:
        return ValueType(type_, None)
    return ValueType(type_, tuple(d if isinstance(d, int) else d.value for d in shape))


def _without_zeros(known: ValueType) -> ValueType:
    """Take an inferred dimension of 0 as unknown.

    Inference of Attention gives 0 where it lacks a dimension, and a true 0 is rare.
    """
    if known.dims is None:
        return known
    dims = tuple(None if d == 0 else d for d in known.dims)
    return dataclasses.replace(known, dims=dims)


def _read_graph(typing: Typing, graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Enter the types of a graph; ``proto`` is the same graph after inference."""
    types = {
        value.name: value.type
        for value in (*proto.value_info, *proto.input, *proto.output)
        if value.type.WhichOneof("value")
    }
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor is not None:
            dims = tuple(tensor.shape.numpy())
            typing.set(value, ValueType(ir.TensorType(tensor.dtype), dims))
    for value in graph.inputs:
        if value.name in types:
            typing.set(value, _value_type(types[value.name]))
    for node, node_proto in zip(graph, proto.node, strict=True):
        for value, name in zip(node.outputs, node_proto.output, strict=False):
            if name in types:
                known = _value_type(types[name])
                typing.set(value, known if node.op_type == "Constant" else _without_zeros(known))
        attributes = {a.name: a for a in node_proto.attribute}
        for name, inner in subgraphs(node):
            if "[" not in name:
                _read_graph(typing, inner, attributes[name].g)


def _read_functions(
    typing: Typing, model: ir.Model, proto: onnx.ModelProto, inferred: onnx.ModelProto
) -> None:
    """Type the values inside functions from the types at their calls.

    A function that is called with several types keeps what all calls agree on.
    """
    protos = {_key(f): f for f in proto.functions}
    pending: list[tuple[onnx.GraphProto, dict[str, onnx.TypeProto]]] = [(inferred.graph, {})]
    merged: dict[ir.Value, ValueType] = {}
    while pending:
        graph, outer = pending.pop()
        types = outer | {v.name: v.type for v in (*graph.value_info, *graph.input, *graph.output)}
        for node in graph.node:
            for attribute in node.attribute:
                pending.extend([(attribute.g, types)] if attribute.HasField("g") else [])
            key = (node.domain, node.op_type, node.overload)
            if key not in protos:
                continue
            body = _typed_call(proto, protos[key], node, types)
            table = Typing()
            _read_graph(table, model.functions[key].graph, body)
            for value in _values_of(model.functions[key].graph):
                type_ = table[value]
                merged[value] = _agreed(merged[value], type_) if value in merged else type_
            pending.append((body, {}))
    for value, type_ in merged.items():
        typing.set(value, type_)


def _key(function: onnx.FunctionProto) -> ir.OperatorIdentifier:
    return function.domain, function.name, function.overload


def _values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    for inner in with_subgraphs(graph):
        yield from (*inner.inputs, *(out for node in inner for out in node.outputs))


def _typed_call(
    model: onnx.ModelProto,
    function: onnx.FunctionProto,
    call: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
) -> onnx.GraphProto:
    """Return the body of a function as a graph, inferred from the types at one call."""
    inputs = []
    for i, name in enumerate(function.input):
        actual = call.input[i] if i < len(call.input) else ""
        inputs.append(onnx.ValueInfoProto(name=name, type=types.get(actual)))
    graph = onnx.GraphProto(
        name=function.name,
        node=function.node,
        input=inputs,
        output=[onnx.ValueInfoProto(name=name) for name in function.output],
    )
    given = {a.name: a for a in (*function.attribute_proto, *call.attribute)}
    _bind_attributes(graph.node, given)
    standalone = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=function.opset_import,
        graph=graph,
        functions=[f for f in model.functions if _key(f) != _key(function)],
    )
    return _infer(standalone).graph


def _bind_attributes(
    nodes: Iterable[onnx.NodeProto], given: Mapping[str, onnx.AttributeProto]
) -> None:
    for node in nodes:
        for attribute in list(node.attribute):
            if attribute.HasField("g"):
                _bind_attributes(attribute.g.node, given)
            if not attribute.ref_attr_name:
                continue
            if attribute.ref_attr_name in given:
                name = attribute.name
                attribute.CopyFrom(given[attribute.ref_attr_name])
                attribute.name = name
            else:
                node.attribute.remove(attribute)


def _combined(a: ValueType, b: ValueType) -> ValueType:
    """Return what two inferences know together of one value."""
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return ValueType(a.type or b.type, b.dims if a.dims is None else a.dims)
    dims = (x if isinstance(x, int) else y for x, y in zip(a.dims, b.dims, strict=True))
    return ValueType(a.type or b.type, tuple(dims))


def _agreed(a: ValueType, b: ValueType) -> ValueType:
    if a.type != b.type:
        return _UNKNOWN
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return ValueType(a.type, None)
    dims = tuple(x if x == y else None for x, y in zip(a.dims, b.dims, strict=True))
    return ValueType(a.type, dims)


def _written(dim: int | str | None) -> int | str | None:
    return None if isinstance(dim, str) and dim.startswith(_INFERENCE_PREFIX) else dim


class TypeValuesPass(ir.passes.InPlacePass):
    """Write element type, rank and shape onto every value of a model.

    Inputs and outputs of the main graph, and values that inference cannot type, keep what they
    have. A dimension is written if it is a number or a symbol that the model gave a name.
    """

    def __init__(self, *, proven: bool = False) -> None:
        """Set up the pass.

        Args:
            proven: Erase the dimensions of sequences first.
        """
        super().__init__()
        self._proven = proven

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Type the values of a model."""
        modified = make_names_unique(model)
        typing = type_values(model, proven=self._proven)
        fixed = {*model.graph.inputs, *model.graph.outputs}
        for graph in all_graphs(model):
            for value in (*graph.inputs, *(out for node in graph for out in node.outputs)):
                known = typing[value]
                if value in fixed or known.type is None:
                    continue
                shape = None if known.dims is None else ir.Shape(map(_written, known.dims))
                if value.type != known.type or value.shape != shape:
                    value.type, value.shape = known.type, shape
                    modified = True
        return ir.passes.PassResult(model, modified)
