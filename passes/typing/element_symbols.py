"""Symbols of the elements of sequences, which stand for another number in each element."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import onnx
import onnx_ir as ir

from passes.graph.graphs import subgraphs
from passes.typing.protos import is_written
from passes.typing.value_types import Typing

__all__ = ["forget_element_symbols", "name_elements"]

_INFERENCE_PREFIX = "unk__"


def name_elements(proto: onnx.GraphProto, inferred: onnx.GraphProto) -> bool:
    """Give the elements that maps read symbols of their own where their bodies declare no shape.

    Args:
        proto: A graph before inference; inputs of bodies gain shapes.
        inferred: The same after inference.

    Returns:
        Whether there was such an element, so that inference has to be done again.
    """
    found = False
    for node, typed in zip(proto.node, inferred.node, strict=True):
        for attribute, typed_attribute in zip(node.attribute, typed.attribute, strict=True):
            if not attribute.HasField("g"):
                continue
            found |= name_elements(attribute.g, typed_attribute.g)
            if is_written(node, {"SequenceMap"}):
                inputs = zip(attribute.g.input, typed_attribute.g.input, strict=True)
                for value, known in inputs:
                    found |= _name(value, known.type)
    return found


def _name(value: onnx.ValueInfoProto, known: onnx.TypeProto) -> bool:
    """Give a value the shape that is known of it, if it has none and symbols are in that."""
    dims = known.tensor_type.shape.dim
    symbols = [dim.dim_param for dim in dims if not dim.HasField("dim_value")]
    if value.type.tensor_type.HasField("shape") or not symbols:
        return False
    value.type.CopyFrom(known)
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") and not _is_named(dim.dim_param):
            dim.dim_param = f"{_INFERENCE_PREFIX}{value.name}.{axis}"
    return True


def _is_named(symbol: str) -> bool:
    """Whether a symbol stands for a dimension of an input of the model."""
    return bool(symbol) and not symbol.startswith(_INFERENCE_PREFIX)


def forget_element_symbols(
    typing: Typing, graph: ir.Graph, lost: Iterable[str | None] = ()
) -> None:
    """Take symbols that came from the type of a sequence out of all types.

    ONNX's inference gives every element the symbols of its sequence, so that two elements of
    different shape seem to have one. A symbol that a tensor had before stands for one number.

    Args:
        typing: The types of the graph and of all graphs in it.
        graph: A graph.
        lost: Symbols of the elements of sequences that it captures.
    """
    _forget(typing, graph, set(), {symbol for symbol in lost if symbol})


def _forget(typing: Typing, graph: ir.Graph, known: set[str], lost: set[str]) -> None:
    """Forget symbols in a graph.

    Args:
        typing: The types.
        graph: The graph.
        known: Symbols that stand for one number there; gains those of its nodes.
        lost: Symbols of elements; a graph inside hands them on to what it yields.
    """
    for value in graph.inputs:
        _enter(typing, value, known, lost)
    for node in graph:
        for _, inner in subgraphs(node):
            _forget(typing, inner, set(known), lost)
        for value in node.outputs:
            _enter(typing, value, known, lost)


def _enter(typing: Typing, value: ir.Value, known: set[str], lost: set[str]) -> None:
    entry = typing[value]
    if entry.dims is None:
        return
    symbols = {d for d in entry.dims if isinstance(d, str) and not typing.is_one_number(d)}
    if isinstance(entry.type, ir.TensorType):
        known |= symbols - lost
    else:
        lost |= symbols - known
    if not lost.isdisjoint(symbols):
        dims = tuple(None if d in lost else d for d in entry.dims)
        typing.set(value, dataclasses.replace(entry, dims=dims))
