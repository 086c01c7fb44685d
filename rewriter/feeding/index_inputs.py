"""Finds the inputs that hold indices: numbers that have to lie in a range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir

__all__ = ["index_bounds"]

# Operator to the position of its index operand and, where one operand is indexed, its position.
_INDEX_OPERANDS: dict[str, tuple[int, int | None]] = {
    "Gather": (1, 0),
    "GatherElements": (1, 0),
    "GatherND": (1, None),
    "ScatterElements": (1, 0),
    "ScatterND": (1, None),
    "OneHot": (0, None),
    "SequenceAt": (1, None),
    "SequenceInsert": (2, None),
    "SequenceErase": (1, None),
}
_OF_FIRST_INPUT = (
    *("Cast", "CastLike", "Clip", "ConcatFromSequence", "Expand", "Flatten", "Gather", "Identity"),
    *("Optional", "OptionalGetElement", "Reshape", "SequenceAt", "SequenceErase", "Slice"),
    *("Split", "SplitToSequence", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
)
# Operators whose outputs hold the numbers of these inputs and no others; None: of all inputs.
_PASS_ON: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(_OF_FIRST_INPUT, (0,)),
    "SequenceInsert": (0, 1),
    "Where": (1, 2),
    "Concat": None,
    "SequenceConstruct": None,
    "Min": None,
    "Max": None,
}


def index_bounds(model: ir.Model) -> dict[str, int | None]:
    """Return the graph inputs that reach an index operand.

    Args:
        model: The model; shapes of the indexed values are used where they are declared.

    Returns:
        Input name to the smallest number of things that its indices choose among, None where
        that number is not known.
    """
    reader = _IndexReader(model)
    inputs = {id(value): value for value in model.graph.inputs}
    bounds: dict[str, int | None] = {}
    for node in reader.nodes:
        if node.domain != "" or node.op_type not in _INDEX_OPERANDS:
            continue
        operand, indexed = _INDEX_OPERANDS[node.op_type]
        if len(node.inputs) <= operand or node.inputs[operand] is None:
            continue
        bound = _extent(node, indexed)
        for value in reader.origins(node.inputs[operand]):
            if id(value) in inputs and value.name is not None:
                known = bounds.get(value.name)
                candidates = [number for number in (bound, known) if number is not None]
                bounds[value.name] = min(candidates, default=None)
    return bounds


def _extent(node: ir.Node, indexed: int | None) -> int | None:
    if indexed is None:
        return None
    data = node.inputs[indexed]
    if data is None or data.shape is None:
        return None
    axis = node.attributes.get_int("axis", 0)
    if not -len(data.shape) <= axis < len(data.shape):
        return None
    extent = data.shape[axis]
    return extent if isinstance(extent, int) and extent > 0 else None


class _IndexReader:
    """Every node of a model, and where the values of its bodies and functions come from."""

    def __init__(self, model: ir.Model) -> None:
        self.functions = model.functions
        self.nodes: list[ir.Node] = []
        self.sources: dict[int, list[ir.Value]] = {}
        graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
        for graph in graphs:
            self._walk(graph)

    def _walk(self, graph: ir.Graph | ir.Function) -> None:
        stack: list[ir.Graph | ir.Function] = [graph]
        while stack:
            nodes: Iterable[ir.Node] = stack.pop()
            for node in nodes:
                self.nodes.append(node)
                function = self.functions.get(node.op_identifier())
                if function is not None:
                    self._connect(function.inputs, node.inputs)
                for body in _bodies(node):
                    self._connect(body.inputs, _body_arguments(node))
                    stack.append(body)

    def _connect(self, formal: Iterable[ir.Value], actual: Iterable[ir.Value | None]) -> None:
        for inner, outer in zip(formal, actual, strict=False):
            if outer is not None:
                self.sources.setdefault(id(inner), []).append(outer)

    def origins(self, value: ir.Value | None) -> Iterator[ir.Value]:
        """Yield every value that the numbers of ``value`` may have been copied from."""
        seen: set[int] = set()
        stack = [value]
        while stack:
            current = stack.pop()
            if current is None or id(current) in seen:
                continue
            seen.add(id(current))
            yield current
            stack.extend(self.sources.get(id(current), ()))
            node = current.producer()
            if node is None:
                continue
            number = current.index() or 0
            function = self.functions.get(node.op_identifier())
            if function is not None:
                stack.extend(function.outputs[number : number + 1])
            elif node.domain == "" and node.op_type in _PASS_ON:
                positions = _PASS_ON[node.op_type]
                chosen = range(len(node.inputs)) if positions is None else positions
                stack.extend(node.inputs[i] for i in chosen if i < len(node.inputs))
            else:
                for body in _bodies(node):
                    first = 1 if node.op_type == "Loop" else 0
                    stack.extend(body.outputs[number + first : number + first + 1])


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()


def _body_arguments(node: ir.Node) -> list[ir.Value | None]:
    """Return what the body's inputs take their values from, in order."""
    if node.op_type == "Loop":
        return [None, *node.inputs[1:]]
    return list(node.inputs)
