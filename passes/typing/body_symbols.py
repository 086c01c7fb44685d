"""Symbols of bodies that stand for one number of the model around them."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graphs import subgraphs, walk_nodes
from passes.typing.value_types import Typing

__all__ = ["join_symbols"]


def join_symbols(typing: Typing, graph: ir.Graph) -> None:
    """Let the inputs of maps' bodies have the symbols of the values that they stand for.

    A body has symbols of its own for the dimensions of its inputs. Where all elements of the
    sequence outside, or the shared tensor, have one number there, the body's symbol is that
    number too, in every type that it stands in.

    Args:
        typing: The types of the graph and of the bodies in it.
        graph: The main graph of a model.
    """
    joined: dict[str, str] = {}
    for node in walk_nodes(graph):
        if node.op_type != "SequenceMap":
            continue
        for _, body in subgraphs(node):
            for inner, outer in zip(body.inputs, node.inputs, strict=False):
                if outer is not None:
                    _join(typing, inner, outer, joined)
    if not joined:
        return
    for value, known in list(typing.items()):
        if known.dims is not None and not joined.keys().isdisjoint(known.dims):
            dims = tuple(joined.get(d, d) if isinstance(d, str) else d for d in known.dims)
            typing.set(value, dataclasses.replace(known, dims=dims))


def _join(typing: Typing, inner: ir.Value, outer: ir.Value, joined: dict[str, str]) -> None:
    own, around = typing.dims(inner), typing.dims(outer)
    if own is None or around is None or len(own) != len(around):
        return
    for dim, given in zip(own, around, strict=True):
        if not isinstance(dim, str) or not isinstance(given, str):
            continue
        number = joined.get(given, given)
        if typing.is_one_number(number) and not typing.is_one_number(dim):
            joined[dim] = number
