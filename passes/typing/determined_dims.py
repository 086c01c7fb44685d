"""Dimensions that are one number in the whole model, though nothing tells which number it is.

What ``a [B] + b [C]`` has for a dimension is not known before the model runs, but where B and C
are each one number in the whole model, so is the result. The same holds for whatever the main
graph computes, which runs once, and for a ``Range(0, n, 1)`` of an n that stands there. ONNX's
inference gives such a dimension a name that proves nothing.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator, subgraphs
from passes.typing.value_types import Typing

__all__ = ["DETERMINED", "name_determined"]

_BY_SHAPES = (
    *("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Concat", "Div", "Equal", "Flatten"),
    *(
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Or",
    ),
    *("Pow", "Sub", "Sum", "Where", "Xor"),
)
"""Operators whose result has a shape that follows from the shapes of their operands."""

DETERMINED = dict.fromkeys(_BY_SHAPES, ()) | {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Tile": (1,),
}
"""Operators whose shape follows from their operands; the positions of those that decide it by
what they hold, not by their shape."""


def name_determined(typing: Typing, graph: ir.Graph, *, is_main: bool = False) -> None:
    """Let dimensions that are one number in the whole model stand for one number each.

    Args:
        typing: The proven types of the graph and of all graphs in it.
        graph: A graph.
        is_main: Whether it is the main graph: it runs once, and so does each of its nodes.
    """
    if is_main:
        typing.note_once(v for v in (*graph.inputs, *graph.initializers.values()))
    _name(typing, graph, {}, is_main=is_main)


def _name(typing: Typing, graph: ir.Graph, named: dict[str, str], *, is_main: bool) -> None:
    for node in graph:
        for _, inner in subgraphs(node):
            _name(typing, inner, dict(named), is_main=False)
        for value in node.outputs if named else ():
            _rename(typing, value, named)
        if is_main:
            typing.note_once(node.outputs)
        if is_main or _is_determined(node, typing):
            for value in node.outputs:
                _give_names(typing, value, named)


def _is_determined(node: ir.Node, typing: Typing) -> bool:
    """Whether the shape of a result follows from numbers that are one in the whole model."""
    if not is_operator(node, DETERMINED):
        return False
    decisive = DETERMINED[node.op_type]
    return all(
        _is_settled(typing, value)
        if i not in decisive
        else constant_value(value) is not None or typing.is_once(value)
        for i, value in enumerate(node.inputs)
        if value is not None
    )


def _is_settled(typing: Typing, value: ir.Value) -> bool:
    dims = typing.dims(value)
    return dims is not None and all(map(typing.is_one_number, dims))


def _rename(typing: Typing, value: ir.Value, named: dict[str, str]) -> None:
    """Let what inference gave a name to have ours."""
    known = typing[value]
    if known.dims is not None and any(d in named for d in known.dims):
        dims = tuple(named.get(d, d) if isinstance(d, str) else d for d in known.dims)
        typing.set(value, dataclasses.replace(known, dims=dims))


def _give_names(typing: Typing, value: ir.Value, named: dict[str, str]) -> None:
    """Name the open dimensions of a tensor; elements of a sequence differ in theirs."""
    known = typing[value]
    if not isinstance(known.type, ir.TensorType) or not known.dims:
        return
    if all(map(typing.is_one_number, known.dims)):
        return
    dims: list[int | str | None] = []
    for axis, dim in enumerate(known.dims):
        if not typing.is_one_number(dim):
            name = _new_name(typing, f"{value.name}.{axis}")
            typing.name_dimension(name, is_made=True)
            if isinstance(dim, str):
                named[dim] = name
            dim = name
        dims.append(dim)
    typing.set(value, dataclasses.replace(known, dims=tuple(dims)))


def _new_name(typing: Typing, name: str) -> str:
    """Return a name that no dimension has: values of two graphs may share one."""
    while typing.is_one_number(name):
        name += "'"
    return name
