"""Symbols of the elements of sequences, which stand for another number in each element."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graphs import subgraphs
from passes.typing.value_types import Typing

__all__ = ["forget_element_symbols"]


def forget_element_symbols(typing: Typing, graph: ir.Graph) -> None:
    """Take symbols that came from the type of a sequence out of all types.

    ONNX's inference gives every element the symbols of its sequence, so that two elements of
    different shape seem to have one. A symbol that a tensor had before stands for one number.

    Args:
        typing: The types of the graph and of all graphs in it.
        graph: A graph.
    """
    _forget(typing, graph, set(), set())


def _forget(typing: Typing, graph: ir.Graph, known: set[str], lost: set[str]) -> None:
    """Forget symbols in a graph; what it learns of symbols is added for its own nodes.

    Args:
        typing: The types.
        graph: The graph.
        known: Symbols that stand for one number there.
        lost: Symbols of elements.
    """
    for value in graph.inputs:
        _enter(typing, value, known, lost)
    for node in graph:
        for _, inner in subgraphs(node):
            _forget(typing, inner, set(known), set(lost))
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
