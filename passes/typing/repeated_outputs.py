"""Graphs inside of a model that yield one value twice, for inference only.

ONNX's inference gives the type of a value that a branch or a body yields in two places to the
last of them alone, and the first is left without a rank. With an Identity for each further place
all have one.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from passes.typing.protos import graphs_of

__all__ = ["join_outputs", "tell_outputs_apart"]

_MARK = "seqmap: a further place of an output"


def tell_outputs_apart(graph: onnx.GraphProto) -> bool:
    """Give each further place of an output a name of its own; return whether there is any."""
    found = False
    for inner in _inner_graphs(graph):
        seen: set[str] = set()
        for at, value in enumerate(inner.output):
            if value.name in seen:
                name = f"{value.name} at {at}"
                inner.node.add(op_type="Identity", name=_MARK, input=[value.name], output=[name])
                value.name = name
                found = True
            seen.add(value.name)
    return found


def join_outputs(graph: onnx.GraphProto) -> None:
    """Undo `tell_outputs_apart`."""
    for inner in _inner_graphs(graph):
        given = {node.output[0]: node.input[0] for node in inner.node if node.name == _MARK}
        while inner.node and inner.node[-1].name == _MARK:
            inner.node.pop()
        for value in inner.output:
            value.name = given.get(value.name, value.name)
        for at in reversed(range(len(inner.value_info))):
            if inner.value_info[at].name in given:
                del inner.value_info[at]


def _inner_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for inner in graphs_of(node):
            yield inner
            yield from _inner_graphs(inner)
