"""Dimensions that follow from those of other values, though nothing tells which number they are.

What ``a [B] + b [C]`` has for a dimension is not known before the model runs, but where B and C
are each one number in the whole model, so is the result. ONNX's inference gives it a name that
proves nothing.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator, subgraphs
from passes.typing.value_types import Typing

__all__ = ["BY_SHAPES", "name_determined"]

BY_SHAPES = frozenset(
    [
        "Add",
        "And",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Concat",
        "Div",
        "Equal",
        "Flatten",
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
        "Pow",
        "Reshape",
        "Sub",
        "Sum",
        "Where",
        "Xor",
    ]
)
"""Operators whose result has a shape that follows from the shapes of their operands.

That of a Reshape follows if its target is a constant.
"""


def name_determined(typing: Typing, graph: ir.Graph) -> None:
    """Let dimensions that follow from numbers of the whole model stand for one number each.

    Args:
        typing: The proven types of the graph and of all graphs in it.
        graph: A graph.
    """
    _name(typing, graph, {})


def _name(typing: Typing, graph: ir.Graph, named: dict[str, str]) -> None:
    for node in graph:
        for _, inner in subgraphs(node):
            _name(typing, inner, dict(named))
        for value in node.outputs if named else ():
            _rename(typing, value, named)
        if _is_open(node, typing) and _is_determined(node, typing):
            _give_names(typing, node.outputs[0], named)


def _is_open(node: ir.Node, typing: Typing) -> bool:
    """Whether an operator goes by shapes, and a dimension of its result has no name."""
    if not is_operator(node, BY_SHAPES):
        return False
    dims = typing.dims(node.outputs[0])
    return dims is not None and not all(map(typing.is_one_number, dims))


def _is_determined(node: ir.Node, typing: Typing) -> bool:
    """Whether the shape of a result follows from numbers that are one in the whole model."""
    given = list(node.inputs)
    if node.op_type == "Reshape":
        given = given[:1] if constant_value(node.inputs[1]) is not None else [None]
    return all(v is not None and _is_settled(typing, v) for v in given)


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
    known = typing[value]
    dims: list[int | str | None] = []
    for axis, dim in enumerate(known.dims or ()):
        if not typing.is_one_number(dim):
            name = _new_name(typing, f"{value.name}.{axis}")
            typing.name_dimension(name)
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
