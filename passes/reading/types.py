"""Types the body of a map anew, apart from the model around it."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import onnx
import onnx_ir as ir

from passes.graph.graphs import captured_values, walk_nodes
from passes.numbers.folding import Folder
from passes.numbers.integers import Linear
from passes.reading.body_models import Erase, body_as_model
from passes.site import MapSite
from passes.typing.computed_numbers import COMPUTED, show_computed
from passes.typing.declared_types import erase_body, forget_element_symbols
from passes.typing.determined_dims import DETERMINED, name_determined
from passes.typing.inference import infer, operators_in, read_graph
from passes.typing.value_types import Typing, Typings, ValueType

__all__ = ["checked_types", "is_possible", "type_apart", "type_body"]


def type_body(
    body: ir.Graph,
    typings: Typings,
    model: ir.Model,
    last: Linear | None = None,
    *,
    is_declared: bool = False,
) -> None:
    """Infer the types of a body anew, from those of its inputs and of what it captures.

    What a Loop carries has no shape for ONNX's inference, and it has one once it is known to be
    the same in every iteration.

    Args:
        body: The body.
        typings: Both typings; they know the inputs, and gain the other values.
        model: Tells the versions.
        last: The number of the last sample, if the first input is the number of the sample.
        is_declared: Whether the declared typing believes what the values of the body declare;
            the body of a Loop declares nothing.
    """
    _type_body(body, typings.declared, model, _nothing if is_declared else _erase_all, last)
    if typings.proven is not typings.declared:
        _type_body(body, typings.proven, model, erase_body if is_declared else _erase_all, last)
    # Inference stops where declared shapes contradict each other, which may be false.
    for value in (out for node in walk_nodes(body) for out in node.outputs):
        if typings.declared[value].type is None:
            typings.declared.set(value, typings.proven[value])
            if typings.proven[value].type is not None:
                typings.contradicted.add(body)


def type_apart(body: ir.Graph, typing: Typing, model: ir.Model, *, ranks: bool) -> None:
    """Infer the proven types of a graph that stands in no model; see `type_body`.

    Args:
        body: The graph.
        typing: The typing; it knows what is read, and gains the other values.
        model: Tells the versions.
        ranks: Keep the ranks that the graph declares.
    """
    _type_body(body, typing, model, functools.partial(erase_body, ranks=ranks))


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
        site: A map.
        typings: Both typings of the model.
        model: The model.
        relied: What is supposed of the elements of a sequence, whatever is declared.
        rows: Whether the guard has checked all dimensions but the first, not that one too.
    """
    table = _checked_inputs(site, typings, relied, rows=rows)
    _type_body(site.body, table, model, _erasing(site))
    return Typings(table, table)


def is_possible(
    site: MapSite,
    typings: Typings,
    model: ir.Model,
    relied: Mapping[ir.Value, tuple[int | str | None, ...]],
) -> bool:
    """Whether a body takes elements of the shapes that a guard supposes.

    It does unless inference, which takes the body otherwise, finds an error in it then: a matrix
    has no place where three scales are given to Resize. See `checked_types` for the arguments.
    """
    table = _checked_inputs(site, typings, relied, rows=False)
    if _is_consistent(site.body, table, model, _erasing(site)):
        return True
    return not _is_consistent(site.body, typings.proven, model, _erasing(site))


def _checked_inputs(
    site: MapSite,
    typings: Typings,
    relied: Mapping[ir.Value, tuple[int | str | None, ...]],
    *,
    rows: bool,
) -> Typing:
    """Return a table of what a body reads, behind a guard; see `checked_types`."""
    table = typings.proven.derived()
    for value in captured_values(site.body):
        table.set(value, typings.proven[value])
    for inner, source in site.elements:
        known = typings.proven[inner]
        sequence = source.sequence
        if sequence is not None:
            declared = typings.declared[inner]
            dims = relied.get(sequence, declared.dims)
            known = _checked(inner, ValueType(declared.type, dims), rows)
        table.set(inner, known)
    for inner, outer in site.shared:
        table.set(inner, typings.proven[outer])
    return table


def _erasing(site: MapSite) -> Erase:
    return _erase_all if site.originals else erase_body


def _checked(inner: ir.Value, declared: ValueType, rows: bool) -> ValueType:
    """Return the type of an element; what was not checked has a symbol of its own."""
    if declared.dims is None:
        return declared
    dims = [d if isinstance(d, int) else f"{inner.name}.{i}" for i, d in enumerate(declared.dims)]
    if rows and dims:
        dims[0] = f"{inner.name}.0"
    return ValueType(declared.type, tuple(dims))


def _nothing(_: onnx.GraphProto) -> None:
    """Erase nothing."""


def _erase_all(body: onnx.GraphProto) -> None:
    """Erase what a body declares of the values of its nodes."""
    del body.value_info[:]


def _type_body(
    body: ir.Graph,
    typing: Typing,
    model: ir.Model,
    erase: Erase,
    last: Linear | None = None,
) -> None:
    """Enter the types of a body from those of its inputs and captured values.

    Args:
        body: The body.
        typing: The table.
        model: Tells the versions.
        erase: What becomes of the types that the body declares.
        last: See `type_body`.
    """
    index = None if last is None else body.inputs[0]
    whole = body_as_model(body, typing, model, erase)
    _read(typing, body, infer(whole).graph)
    computes = not operators_in(body).isdisjoint(COMPUTED)
    while computes and show_computed(body, whole.graph, Folder(typing, index, last)):
        _read(typing, body, infer(whole).graph)


def _is_consistent(body: ir.Graph, typing: Typing, model: ir.Model, erase: Erase) -> bool:
    """Whether inference finds no error in a body."""
    try:
        whole = body_as_model(body, typing, model, erase)
        onnx.shape_inference.infer_shapes(whole, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


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
    if typing.names_axes and not operators_in(body).isdisjoint(DETERMINED):
        name_determined(typing, body)
