"""Walking, naming and reading graphs of onnx_ir."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

__all__ = [
    "COPIED_KEY",
    "PATH_KEY",
    "all_graphs",
    "all_nodes",
    "captured_values",
    "constant_value",
    "default_opset",
    "forget_paths",
    "graphs_in_loops",
    "graphs_inside",
    "graphs_with_nodes",
    "is_default_domain",
    "is_operator",
    "is_used",
    "local_name",
    "makers",
    "name_of",
    "node_paths",
    "paths_below",
    "reads_of",
    "record_paths",
    "recorded_path",
    "subgraphs",
    "walk_nodes",
    "with_subgraphs",
]

PATH_KEY = "seqmap.path"
"""Note on a node, which no file holds: its path in the model as given."""
COPIED_KEY = "seqmap.copied"
"""Note on a copy whose path is told apart, which no file holds: the path of the first one."""

_LARGEST_CONSTANT = 4096
_GRAPH_TYPES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def is_default_domain(node: ir.Node) -> bool:
    """Whether the node belongs to ONNX's own operators."""
    return node.domain in ("", "ai.onnx")


def is_operator(node: ir.Node | None, op_types: str | Collection[str]) -> TypeGuard[ir.Node]:
    """Whether a node is one of some operators of ONNX's own; no node is none.

    Args:
        node: The node.
        op_types: The name of the operator, or those of several.
    """
    if node is None:
        return False
    found = node.op_type == op_types if isinstance(op_types, str) else node.op_type in op_types
    return found and is_default_domain(node)


def subgraphs(node: ir.Node) -> list[tuple[str, ir.Graph]]:
    """Return the graphs that a node owns, each with the name of its attribute."""
    found: list[tuple[str, ir.Graph]] = []
    # The dictionary itself: every pass asks every node.
    for name, attribute in node.attributes.data.items():
        if attribute.type not in _GRAPH_TYPES or attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            found.append((name, attribute.as_graph()))
        else:
            found.extend((f"{name}[{i}]", g) for i, g in enumerate(attribute.as_graphs()))
    return found


def walk_nodes(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield each node and, after it, all nodes of the graphs that it owns, at any depth."""
    for node in nodes:
        yield node
        if node.attributes.data:
            for _, graph in subgraphs(node):
                yield from walk_nodes(graph)


def graphs_inside(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield every graph inside of a node, at any depth."""
    for _, graph in subgraphs(node):
        yield from with_subgraphs(graph)


def graphs_in_loops(graph: ir.Graph, *, is_inside: bool = False) -> Iterator[ir.Graph]:
    """Yield every graph that runs once or more in each iteration of a Loop or Scan, outer first.

    Args:
        graph: The graph that holds the loops.
        is_inside: Whether it is inside of a loop itself.
    """
    for node in graph:
        is_loop = is_operator(node, ("Loop", "Scan"))
        for _, inner in subgraphs(node):
            if is_inside or is_loop:
                yield inner
            yield from graphs_in_loops(inner, is_inside=is_inside or is_loop)


def with_subgraphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph and every graph inside of it, at any depth."""
    for one, _ in _with_nodes(graph):
        yield one


def _with_nodes(graph: ir.Graph) -> Iterator[tuple[ir.Graph, list[ir.Node]]]:
    """Yield a graph and every graph inside of it, each with its nodes, by one walk."""
    nodes = list(graph)
    yield graph, nodes
    for node in nodes:
        if node.attributes.data:
            for _, inner in subgraphs(node):
                yield from _with_nodes(inner)


def graphs_with_nodes(model: ir.Model) -> Iterator[tuple[ir.Graph, list[ir.Node]]]:
    """Yield each graph of a model with its nodes, in the order of `all_graphs`."""
    yield from _with_nodes(model.graph)
    for function in model.functions.values():
        yield from _with_nodes(function.graph)


def all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """Yield the main graph, the graphs of functions, and every graph inside them."""
    for graph, _ in graphs_with_nodes(model):
        yield graph


def all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes of all graphs of a model."""
    for _, nodes in graphs_with_nodes(model):
        yield from nodes


def node_paths(model: ir.Model) -> dict[ir.Node, str]:
    """Name every node by its path, e.g. ``If_3/then_branch/map``.

    A node without a name is called by its operator and its position in its graph. A node whose
    path was recorded keeps it, wherever it or its copy stands now.
    """
    paths = paths_below(model.graph, "")
    for (domain, name, _), function in model.functions.items():
        paths |= paths_below(function, f"{domain}.{name}/" if domain else f"{name}/")
    return paths


def paths_below(nodes: Iterable[ir.Node], prefix: str) -> dict[ir.Node, str]:
    """Name the nodes of a graph, and those of the graphs that they own; see `node_paths`."""
    paths: dict[ir.Node, str] = {}
    for index, node in enumerate(nodes):
        paths[node] = path = recorded_path(node) or prefix + local_name(node, index)
        for name, inner in subgraphs(node):
            paths |= paths_below(inner, f"{path}/{name}/")
    return paths


def local_name(node: ir.Node, index: int) -> str:
    """Name a node within its graph, by its position there if it has no name."""
    return node.name or f"{node.op_type}_{index}"


def is_used(value: ir.Value) -> bool:
    """Whether anything reads a value, or it leaves its graph."""
    return bool(value.uses()) or value.is_graph_output()


def name_of(value: ir.Value) -> str:
    """Return the name of a value, empty where it has none."""
    return value.name or ""


def recorded_path(node: ir.Node) -> str | None:
    """Return the path of a node in the model as given, None for a node that was written."""
    return node.meta.data.get(PATH_KEY)


def record_paths(paths: Mapping[ir.Node, str]) -> None:
    """Record the paths of nodes; they and their copies keep them."""
    for node, path in paths.items():
        node.meta[PATH_KEY] = path


def forget_paths(nodes: Iterable[ir.Node]) -> None:
    """Forget the recorded paths of nodes."""
    for node in nodes:
        node.meta.data.pop(PATH_KEY, None)
        node.meta.data.pop(COPIED_KEY, None)


def default_opset(model: ir.Model) -> int:
    """Return the version of ONNX's own operators that the model imports (1 if none)."""
    imports = model.opset_imports
    return imports.get("", imports.get("ai.onnx", 1))


def constant_value(value: ir.Value | None, largest: int = _LARGEST_CONSTANT) -> np.ndarray | None:
    """Return the small constant that a value stands for, or None.

    Reads initializers that are no graph inputs and Constant nodes, through Identity. External
    data is never read.

    Args:
        value: The value.
        largest: The most numbers that a small constant has.
    """
    while value is not None:
        if value.is_initializer():
            return None if value.is_graph_input() else _small_array(value.const_value, largest)
        node = value.producer()
        if node is None or not is_default_domain(node):
            return None
        if node.op_type == "Constant":
            return _constant_node(node, largest)
        if node.op_type != "Identity":
            return None
        value = node.inputs[0]
    return None


def _small_array(tensor: ir.TensorProtocol | None, largest: int) -> np.ndarray | None:
    if tensor is None or isinstance(tensor, ir.ExternalTensor) or tensor.size > largest:
        return None
    array = tensor.numpy()
    # Without elements it would be an array of floats.
    return array.astype(object) if tensor.dtype == ir.DataType.STRING else array


def _constant_node(node: ir.Node, largest: int) -> np.ndarray | None:
    for name, attribute in node.attributes.data.items():
        if attribute.is_ref():
            return None
        match name:
            case "value":
                return _small_array(attribute.value, largest)
            case "value_int" | "value_ints":
                return np.array(attribute.value, np.int64)
            case "value_float" | "value_floats":
                return np.array(attribute.value, np.float32)
            case "value_string" | "value_strings":
                return np.array(attribute.value, object)
    return None


def captured_values(graph: ir.Graph) -> list[ir.Value]:
    """Return the values that a graph reads from enclosing graphs, in order of first use."""
    defined: set[ir.Value] = set()
    captured: dict[ir.Value, None] = {}

    def visit(inner: ir.Graph) -> None:
        defined.update(inner.inputs)
        defined.update(inner.initializers.values())
        for node in inner:
            for value in node.inputs:
                if value is not None and value not in defined:
                    captured[value] = None
            for _, sub in subgraphs(node):
                visit(sub)
            defined.update(node.outputs)
        for value in inner.outputs:
            if value not in defined:
                captured[value] = None

    visit(graph)
    return list(captured)


def makers(value: ir.Value, through: Collection[str] | None = None) -> Iterator[ir.Node]:
    """Yield the nodes that a value comes from, the nearest first.

    Args:
        value: A value.
        through: The default-domain operators whose inputs are followed; None for all.
    """
    pending: list[ir.Value | None] = [value]
    seen: set[ir.Node] = set()
    for one in pending:
        maker = None if one is None else one.producer()
        if maker is None or maker in seen:
            continue
        seen.add(maker)
        yield maker
        if through is None or is_operator(maker, through):
            pending.extend(maker.inputs)


def reads_of(node: ir.Node) -> list[ir.Value]:
    """Return what a node reads, by its graphs too."""
    captured = (v for _, graph in subgraphs(node) for v in captured_values(graph))
    return [v for v in (*node.inputs, *captured) if v is not None]
