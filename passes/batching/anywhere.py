"""Finds the nodes that are safe to run although the model would not run them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.failing import cannot_fail
from passes.batching.known_places import writes_known_places
from passes.graph.graphs import constant_value, is_operator, subgraphs
from passes.graph.made import optional_operand
from passes.graph.passed_lengths import checks_passed_lengths
from passes.numbers.folding import Folder
from passes.typing import Typing
from passes.typing.needed_places import may_lack_place

__all__ = ["runs_anywhere"]

Dims = Sequence[int | str | None]

_ANY_SHAPE = frozenset({"Cast", "CastLike", "ConstantOfShape", "Identity", "Shape", "Size"})
"""Operators that take whatever they are given."""

_ANY_RANK = frozenset(
    [
        "Constant",
        "Flatten",
        "ReduceL1",
        "ReduceL2",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Slice",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Operators that inference checks whole once it knows the rank of the first operand."""

_OF_NUMBERS = frozenset({"Div", "Mod", "Pow", "Range"})
"""Operators beside the families below that yield a result wherever their operands broadcast."""

_COMPUTED = frozenset(
    {"Add", "CumSum", "Equal", "Gather", "Mul", "Range", "ScatterElements", "Sub", "Where"}
)
"""Operators of integers that are followed only where their operands fit each other."""

_FAMILIES = frozenset({"elementwise", "broadcasting"})


def runs_anywhere(node: ir.Node, typing: Typing, opset: int) -> bool:
    """Whether a node yields a result wherever it runs, whatever the dimensions turn out to be.

    Args:
        node: A node; of those with graphs, only an If ever does.
        typing: The proven typing.
        opset: Version of ONNX's operators.
    """
    if checks_passed_lengths(node):
        return True
    if may_lack_place(node, typing):
        return False
    if _is_computed(node, typing):
        return True
    if is_operator(node, _CHECKED):
        return _CHECKED[node.op_type](node, typing) or cannot_fail(node, typing)
    if not cannot_fail(node, typing):
        return False
    if node.op_type == "If":
        branches = [graph for _, graph in subgraphs(node)]
        return all(runs_anywhere(inner, typing, opset) for graph in branches for inner in graph)
    if node.op_type in _ANY_SHAPE or not any(node.inputs):
        return True
    values = [v for v in (*node.inputs, *node.outputs) if v is not None and v.name != ""]
    if all(typing.static_dims(value) is not None for value in values):
        return True  # inference has checked it
    row = table.find(node, opset)
    family = row.family if isinstance(row, table.Row) else ""
    operands = [v for v in node.inputs if v is not None]
    if family in _FAMILIES and len(operands) == 1:
        return True
    if any(typing.dims(value) is None for value in values):
        return False
    known = [typing.dims(v) or () for v in operands]
    if node.op_type == "Concat":
        return _line_up(node, known, typing)
    if node.op_type == "MatMul":
        return _multiply(known[0], known[1], typing)
    if node.op_type in _ANY_RANK:
        return True
    if family in _FAMILIES or node.op_type in _OF_NUMBERS:
        return all(_broadcast(*pair, typing) for pair in itertools.combinations(known, 2))
    return False


def _is_computed(node: ir.Node, typing: Typing) -> bool:
    """Whether a node makes integers of constants alone, which are known before the model runs."""
    if not is_operator(node, _COMPUTED):
        return False
    folder = Folder(typing)
    return all(folder.value(value) is not None for value in (*node.inputs, *node.outputs))


def _dims(node: ir.Node, position: int, typing: Typing) -> Dims | None:
    value = node.inputs[position] if position < len(node.inputs) else None
    return None if value is None else typing.dims(value)


def _finds(node: ir.Node, typing: Typing) -> bool:
    """Whether a NonZero has an axis to find places along."""
    return bool(_dims(node, 0, typing))


def _picks_rows(node: ir.Node, typing: Typing) -> bool:
    """Whether a Compress has a flag for each row of the axis that it picks from."""
    dims, flags = _dims(node, 0, typing), _dims(node, 1, typing)
    axis = node.attributes.get_int("axis", None)
    if not dims or flags is None or len(flags) != 1 or axis is None:
        return False
    is_axis = -len(dims) <= axis < len(dims)
    return is_axis and dims[axis] == flags[0] and typing.names_dimension(flags[0])


def _suppresses(node: ir.Node, typing: Typing) -> bool:
    """Whether a NonMaxSuppression has a score for each box and constants that it accepts."""
    boxes, scores = (_dims(node, at, typing) for at in (0, 1))
    if boxes is None or scores is None or len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4:
        return False
    pairs = ((boxes[0], scores[0]), (boxes[1], scores[2]))
    if not all(a == b and typing.names_dimension(a) for a, b in pairs):
        return False
    if len(node.inputs) != 4:
        return False
    most, overlap = (constant_value(v) for v in node.inputs[2:])
    is_valid = overlap is not None and overlap.size == 1 and 0 <= float(overlap.item()) <= 1
    return most is not None and most.size == 1 and is_valid


def _reads_constant_place(node: ir.Node, typing: Typing) -> bool:
    """Whether a Gather reads constant positions of an axis whose size is a number."""
    dims, positions = _dims(node, 0, typing), constant_value(node.inputs[1])
    axis = node.attributes.get_int("axis", 0)
    if dims is None or positions is None or not -len(dims) <= axis < len(dims):
        return False
    size = dims[axis]
    return isinstance(size, int) and bool(((positions >= -size) & (positions < size)).all())


def _squeezes_ones(node: ir.Node, typing: Typing) -> bool:
    """Whether a Squeeze removes constant axes that have size 1."""
    dims = _dims(node, 0, typing)
    axes = node.attributes.get_ints("axes")
    if axes is None:
        given = constant_value(optional_operand(node, 1))
        axes = None if given is None else given.reshape(-1).tolist()
    if dims is None or axes is None:
        return False
    return all(-len(dims) <= a < len(dims) and dims[a] == 1 for a in axes)


def _flattens(node: ir.Node, typing: Typing) -> bool:
    """Whether a Reshape gives all numbers one axis, and others of size 1, or those in front.

    It may keep each of its axes, too, and add some of size 1.
    """
    shape = constant_value(optional_operand(node, 1))
    if shape is None or not shape.size:
        return False
    given = _dims(node, 0, typing)
    if given is not None and not node.attributes.get_int("allowzero", 0):
        kept = [0] * len(given)
        if shape.tolist() == [*kept, *[1] * (shape.size - len(kept))]:
            return True
    if sorted(shape.tolist()) == [-1, *[1] * (shape.size - 1)]:
        return True
    first, *last = shape.tolist()
    is_same = given is not None and len(given) > len(last) and list(given[-len(last) :]) == last
    return first == -1 and is_same and min(last) > 0


_CHECKED = {
    "Compress": _picks_rows,
    "Expand": cannot_fail,
    "Gather": _reads_constant_place,
    "NonMaxSuppression": _suppresses,
    "NonZero": _finds,
    "Reshape": _flattens,
    "ReverseSequence": cannot_fail,
    "ScatterND": writes_known_places,
    "Squeeze": _squeezes_ones,
}
"""Operators that cannot fail for the dimensions and constants that they are given here."""


def _multiply(one: Dims, other: Dims, typing: Typing) -> bool:
    """Whether two shapes have a matrix product, by proof."""
    if not one or not other:
        return False
    rows = other[-2] if len(other) > 1 else other[-1]
    is_equal = one[-1] == rows and typing.names_dimension(rows)
    return is_equal and _broadcast(one[:-2], other[:-2], typing)


def _line_up(node: ir.Node, dims: Sequence[Dims], typing: Typing) -> bool:
    """Whether operands of Concat have the same dimensions beside its axis."""
    axis, rank = node.attributes.get_int("axis", 0), len(dims[0])
    rest = [tuple(d for i, d in enumerate(one) if i != axis % max(rank, 1)) for one in dims]
    return all(one == rest[0] and all(map(typing.names_dimension, one)) for one in rest)


def _broadcast(one: Dims, other: Dims, typing: Typing) -> bool:
    """Whether two shapes broadcast, by proof."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(1 in (a, b) or (a == b and typing.names_dimension(a)) for a, b in pairs)
