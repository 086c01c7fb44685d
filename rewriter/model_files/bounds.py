"""Is a model small enough to be worked on? What its calls and its nesting amount to, counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from passes.graph.limits import DEEPEST_NESTING, MOST_FUNCTIONS, MOST_NODES
from rewriter.errors import ModelError

__all__ = ["check_bounds"]

_Key = tuple[str, str, str]
_Functions = Mapping[_Key, onnx.FunctionProto]


def check_bounds(proto: onnx.ModelProto, name: str) -> None:
    """Refuse a model that few bytes make larger than anything that can be worked on.

    Args:
        proto: The message.
        name: What to call the model in an error.

    Raises:
        ModelError: Graphs stand too deep inside of each other, there are too many functions,
            they call themselves, or their calls amount to too many nodes.
    """
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    if len(functions) > MOST_FUNCTIONS:
        raise ModelError(
            f"{name} has {len(functions)} functions, and at most {MOST_FUNCTIONS} are worked on: "
            "inline them where the model is made"
        )
    sizes: dict[_Key, int] = {}
    for key in _callees_first(functions, name):
        sizes[key] = _size(functions[key].node, sizes, name)
    _size(proto.graph.node, sizes, name)


def _size(nodes: Iterable[onnx.NodeProto], sizes: Mapping[_Key, int], name: str) -> int:
    """Count nodes, those of bodies and of called functions included.

    Raises:
        ModelError: There are too many, or they stand too deep.
    """
    total = 0
    stack = [(node, 0) for node in nodes]
    while stack:
        node, depth = stack.pop()
        total += 1 + sizes.get(_key(node), 0)
        if total > MOST_NODES:
            raise ModelError(
                f"{name} has more than {MOST_NODES} nodes once its functions are inlined, and so "
                "many are not worked on: split the model"
            )
        _check_parts(node, name)
        for graph in _graphs(node):
            if depth == DEEPEST_NESTING:
                raise ModelError(
                    f"{name} has graphs more than {DEEPEST_NESTING} deep inside of each other, "
                    "and so many are not worked on: write it with fewer"
                )
            stack += [(inner, depth + 1) for inner in graph.node]
    return total


def _check_parts(node: onnx.NodeProto, name: str) -> None:
    """Refuse a Split into more parts than it has outputs: inference makes a type for each.

    Raises:
        ModelError: It is one.
    """
    asked = next((a.i for a in node.attribute if a.name == "num_outputs"), 0)
    if node.op_type == "Split" and asked > len(node.output):
        raise ModelError(
            f"{name} has the Split {node.name!r} into {asked} parts, which has "
            f"{len(node.output)} outputs: make them as many where the model is made"
        )


def _callees_first(functions: _Functions, name: str) -> list[_Key]:
    """Return functions behind those that they call.

    Raises:
        ModelError: One calls itself, by way of others or not.
    """
    order: list[_Key] = []
    state: dict[_Key, bool] = {}  # False while the callees of a function are being listed
    for root in functions:
        stack = [root]
        while stack:
            key = stack[-1]
            if state.get(key):
                stack.pop()
                continue
            callees = _callees(functions[key], functions)
            if key in state:
                state[key] = True
                order.append(stack.pop())
                continue
            state[key] = False
            waiting = [callee for callee in callees if not state.get(callee)]
            if any(callee in state for callee in waiting):
                shown = f"{key[0]}.{key[1]}".removeprefix(".")
                raise ModelError(
                    f"{name} has the function {shown!r}, which calls itself in a circle: break it "
                    "where the model is made"
                )
            stack += waiting
    return order


def _callees(function: onnx.FunctionProto, functions: _Functions) -> list[_Key]:
    found: dict[_Key, None] = {}
    stack = list(function.node)
    while stack:
        node = stack.pop()
        if _key(node) in functions:
            found[_key(node)] = None
        stack += [inner for graph in _graphs(node) for inner in graph.node]
    return list(found)


def _key(node: onnx.NodeProto) -> _Key:
    return (node.domain, node.op_type, node.overload)


def _graphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
