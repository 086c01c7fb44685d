"""Can a model be worked on? What its calls and its nesting amount to, counted.

Some attributes keep ONNX's own inference busy for ever; these are refused, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
        _check_attributes(node, name)
        for graph in _graphs(node):
            if depth == DEEPEST_NESTING:
                raise ModelError(
                    f"{name} has graphs more than {DEEPEST_NESTING} deep inside of each other, "
                    "and so many are not worked on: write it with fewer"
                )
            stack += [(inner, depth + 1) for inner in graph.node]
    return total


def _check_attributes(node: onnx.NodeProto, name: str) -> None:
    """Refuse attributes that ONNX's own inference does not come back from.

    Raises:
        ModelError: The node has one.
    """
    find_fault = _FAULTS.get(node.op_type)
    if find_fault is None or node.domain not in ("", "ai.onnx"):
        return
    fault = find_fault(node)
    if fault:
        raise ModelError(
            f"{name} has the {node.op_type} {node.name!r} {fault}, so that its types cannot be "
            "inferred: mend the model where it is made"
        )


def _parts(node: onnx.NodeProto) -> str:
    """Inference makes a type for each part."""
    asked = next((a.i for a in node.attribute if a.name == "num_outputs"), 0)
    has = len(node.output)
    return f"into {asked} parts, which has {has} outputs" if asked > has else ""


def _dots(node: onnx.NodeProto) -> str:
    """Inference looks for the end of dots that are not one ellipsis, and does not stop."""
    equation = next((a.s for a in node.attribute if a.name == "equation"), b"").decode()
    terms = equation.partition("->")[0].split(",")
    has_others = any("." in term.replace("...", "", 1) for term in terms)
    return f"of {equation!r}, where a term has more than one ellipsis" if has_others else ""


def _batch_axes(node: onnx.NodeProto) -> str:
    """Inference reads dimensions in front of the first one."""
    asked = next((a.i for a in node.attribute if a.name == "batch_dims"), 0)
    return f"with batch_dims {asked}" if asked < 0 else ""


_FAULTS: Mapping[str, Callable[[onnx.NodeProto], str]] = {
    "Einsum": _dots,
    "GatherND": _batch_axes,
    "Split": _parts,
}


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
