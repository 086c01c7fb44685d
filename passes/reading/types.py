"""Types the body of a map that was read from a Loop or Scan."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from passes.graphs import (
    captured_values,
    constant_value,
    is_default_domain,
    subgraphs,
    walk_nodes,
)
from passes.site import MapSite, SequenceSource, TensorSource
from passes.typing.element_symbols import forget_element_symbols
from passes.typing.inference import infer, read_graph, show_constants, stand_in
from passes.typing.value_types import Typing, Typings, ValueType

__all__ = ["checked_types", "element_type", "type_body"]


def type_body(body: ir.Graph, typings: Typings, model: ir.Model) -> None:
    """Infer the types of a body anew, from those of its inputs and of what it captures.

    What a Loop carries has no shape for ONNX's inference, and it has one once it is known to be
    the same in every iteration.

    Args:
        body: A body that stands in no model; its values declare no types.
        typings: Both typings; they know the inputs, and gain the other values.
        model: Tells the versions.
    """
    for typing in {id(t): t for t in (typings.declared, typings.proven)}.values():
        _type_body(body, typing, model)
    # Inference stops where declared shapes contradict each other, which may be false.
    for value in (out for node in walk_nodes(body) for out in node.outputs):
        if typings.declared[value].type is None:
            typings.declared.set(value, typings.proven[value])


def checked_types(
    site: MapSite,
    typings: Typings,
    model: ir.Model,
    relied: Mapping[ir.Value, tuple[int | str | None, ...]],
    *,
    rows: bool,
) -> Typings:
    """Return what is proven of a body behind a guard of the sequences that it reads.

    Args:
        site: A map that was a Loop or Scan.
        typings: Both typings of the model.
        model: The model.
        relied: What is supposed of the elements of a sequence, whatever is declared.
        rows: Whether the guard has checked all dimensions but the first, not that one too.
    """
    table = typings.proven.derived()
    for value in captured_values(site.body):
        table.set(value, typings.proven[value])
    for inner, source in site.elements:
        known = typings.proven[inner]
        if isinstance(source, SequenceSource):
            declared = typings.declared[inner]
            dims = relied.get(source.sequence, declared.dims)
            known = _checked(inner, ValueType(declared.type, dims), rows)
        table.set(inner, known)
    _type_body(site.body, table, model)
    return Typings(table, table)


def _checked(inner: ir.Value, declared: ValueType, rows: bool) -> ValueType:
    """Return the type of an element; what was not checked has a symbol of its own."""
    if declared.dims is None:
        return declared
    dims = [d if isinstance(d, int) else f"{inner.name}.{i}" for i, d in enumerate(declared.dims)]
    if rows and dims:
        dims[0] = f"{inner.name}.0"
    return ValueType(declared.type, tuple(dims))


def _type_body(body: ir.Graph, typing: Typing, model: ir.Model) -> None:
    proto = ir.serde.serialize_graph(body)
    captured = captured_values(body)
    inputs = [_info(v, typing[v]) for v in (*body.inputs, *captured)]
    del proto.input[:], proto.value_info[:]
    proto.input.extend(inputs)
    constants = {
        v.name or "": onnx.numpy_helper.from_array(array, v.name)
        for v in captured
        if (array := constant_value(v)) is not None and array.dtype.kind in "iub"
    }
    stand_in(proto.node)
    _stand_in_slices(body, proto)
    show_constants(body, proto, constants)
    whole = onnx.ModelProto(ir_version=model.ir_version, graph=proto)
    for domain, version in model.opset_imports.items():
        whole.opset_import.add(domain=domain, version=version)
    _read(typing, body, infer(whole).graph)


def _stand_in_slices(graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Make Compress, for inference only, of each Slice along one axis by bounds of any value.

    ONNX's inference forgets all dimensions of such a Slice, and those of a Compress but one.
    """
    for node, node_proto in zip(graph, proto.node, strict=True):
        attributes = {a.name: a for a in node_proto.attribute}
        for name, inner in subgraphs(node):
            if "[" not in name:
                _stand_in_slices(inner, attributes[name].g)
        if node.op_type != "Slice" or not is_default_domain(node) or len(node.inputs) < 4:
            continue
        axes = constant_value(node.inputs[3])
        if axes is not None and axes.size == 1 and constant_value(node.inputs[1]) is None:
            node_proto.op_type = "Compress"
            del node_proto.input[2:]
            node_proto.attribute.add(
                name="axis", type=onnx.AttributeProto.INT, i=int(axes.reshape(()).item())
            )


def _info(value: ir.Value, known: ValueType) -> onnx.ValueInfoProto:
    shape = None if known.dims is None else ir.Shape([d or None for d in known.dims])
    typed = ir.Value(name=value.name, type=known.type, shape=shape)
    return ir.serde.serialize_value(typed)


def _read(typing: Typing, body: ir.Graph, proto: onnx.GraphProto) -> None:
    """Enter the types of a body; its inputs keep what they have."""
    before = {v: typing[v] for v in body.inputs}
    read_graph(typing, body, proto)
    if typing.names_axes:
        sequences = (v.type for v in proto.input if v.type.HasField("sequence_type"))
        elements = (type_.sequence_type.elem_type.tensor_type for type_ in sequences)
        forget_element_symbols(typing, body, [d.dim_param for e in elements for d in e.shape.dim])
    for value, known in before.items():
        typing.set(value, known)


def element_type(source: SequenceSource | TensorSource, typing: Typing) -> ValueType:
    """Return the type of the elements of a source."""
    if isinstance(source, SequenceSource):
        known = typing[source.sequence]
        dtype = typing.dtype(source.sequence)
        return ValueType(None if dtype is None else ir.TensorType(dtype), known.dims)
    known = typing[source.tensor]
    if known.dims is None:
        return known
    dims = list(known.dims)
    axis = source.axis % len(dims)
    if source.split is not None:
        size = constant_value(source.split) if source.split_is_scalar else None
        whole = dims[axis]
        is_even = size is not None and isinstance(whole, int) and whole % int(size) == 0
        dims[axis] = int(size) if is_even and size is not None else None
    elif source.keepdims:
        dims[axis] = 1
    else:
        del dims[axis]
    return ValueType(known.type, tuple(dims))
