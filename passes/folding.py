"""Values of a body that depend on rank or proven shape only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import made_by, operand, operands, shaped

if TYPE_CHECKING:
    from passes.typing.value_types import Typing

__all__ = ["Folder"]

Array = np.ndarray
_LARGEST = 64

_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_UNARY: Mapping[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Identity": np.asarray,
    "Neg": np.negative,
    "Not": np.logical_not,
}


class Folder:
    """Computes values from constants, ranks and shapes, on demand.

    Only integers and booleans are computed: nothing is rounded.
    """

    def __init__(self, typing: Typing) -> None:
        """Set up the folder.

        Args:
            typing: Where ranks and dimensions come from; all of them must hold for every sample.
        """
        self._typing = typing
        self._known: dict[ir.Value, Array | None] = {}

    def value(self, value: ir.Value | None) -> Array | None:
        """Return what a value is for every sample, or None where that is not known."""
        if value is None:
            return None
        if value not in self._known:
            for node in self._unknown_producers(value):
                self._compute(node)
            if value not in self._known:
                self._known[value] = constant_value(value)
        return self._known[value]

    def _unknown_producers(self, value: ir.Value) -> list[ir.Node]:
        """Return the nodes to compute for a value, in order; long chains must not recurse."""
        order: list[ir.Node] = []
        seen: set[ir.Node] = set()
        stack: list[tuple[ir.Node, bool]] = []
        producer = value.producer()
        if producer is not None:
            stack.append((producer, False))
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
                continue
            if node in seen:
                continue
            seen.add(node)
            stack.append((node, True))
            if not _is_foldable(node):
                continue
            for read in operands(node):
                if read in self._known:
                    continue
                before = read.producer()
                if before is not None:
                    stack.append((before, False))
        return order

    def _compute(self, node: ir.Node) -> None:
        result = self._evaluate(node)
        if result is not None and (result.size > _LARGEST or result.dtype.kind not in "iub"):
            result = None
        for output in node.outputs:
            self._known[output] = result if output is node.outputs[0] else None

    def _operand(self, node: ir.Node, index: int) -> Array | None:
        if index >= len(node.inputs):
            return None
        value = node.inputs[index]
        if value is None:
            return None
        if value in self._known:
            return self._known[value]
        return constant_value(value)

    def _evaluate(self, node: ir.Node) -> Array | None:
        if not _is_foldable(node):
            return constant_value(node.outputs[0])
        match node.op_type:
            case "Shape":
                return self._shape(node)
            case "Size":
                return self._size(node)
        operands = [self._operand(node, i) for i in range(len(node.inputs))]
        first = operands[0] if operands else None
        if first is None:
            return self._picked_dims(node, operands) if node.op_type == "Gather" else None
        if node.op_type in _UNARY:
            return np.asarray(_UNARY[node.op_type](first))
        if node.op_type in ("Cast", "CastLike"):
            return self._cast(node, first)
        if any(x is None for x in operands):
            return None
        known = [x for x in operands if x is not None]
        if node.op_type in ("Div", "Mod"):
            return self._divided(node, *known)
        if node.op_type == "Slice":
            return _cut(*known)
        if node.op_type in _BINARY and len(known) == 2:
            return np.asarray(_BINARY[node.op_type](known[0], known[1]))
        axis = node.attributes.get_int("axis", 0)
        if node.op_type == "Gather" and len(known) == 2 and first.ndim:
            size = first.shape[axis]
            if (known[1] < -size).any() or (known[1] >= size).any():
                return None
            return np.take(first, known[1], axis=axis)
        if node.op_type == "Concat":
            return np.concatenate(known, axis=axis)
        if node.op_type in ("Squeeze", "Unsqueeze") and len(known) == 2:
            return self._with_axes(node, first, known[1])
        return None

    def _divided(self, node: ir.Node, number: Array, divisor: Array) -> Array | None:
        """Divide natural numbers, for which all ways to round a quotient agree."""
        if number.dtype.kind not in "iu" or (number < 0).any() or (divisor <= 0).any():
            return None
        return np.asarray(number // divisor if node.op_type == "Div" else number % divisor)

    def _picked_dims(self, node: ir.Node, operands: Sequence[Array | None]) -> Array | None:
        """Pick known dimensions from a shape that has unknown ones too."""
        shape, places = made_by(node.inputs[0], "Shape"), operands[1]
        if shape is None or places is None:
            return None
        dims = self._typing.dims(operand(shape, 0))
        if dims is None:
            return None
        dims = dims[
            shape.attributes.get_int("start", 0) : shape.attributes.get_int("end", len(dims))
        ]
        if (places < -len(dims)).any() or (places >= len(dims)).any():
            return None
        picked = [dims[place] for place in places.reshape(-1)]
        numbers = [d for d in picked if isinstance(d, int)]
        if len(numbers) < len(picked):
            return None
        return np.array(numbers, np.int64).reshape(places.shape)

    def _shape(self, node: ir.Node) -> Array | None:
        dims = None if node.inputs[0] is None else self._typing.static_dims(node.inputs[0])
        if dims is None:
            return None
        start = node.attributes.get_int("start", 0)
        return np.array(dims[start : node.attributes.get_int("end", len(dims))], np.int64)

    def _size(self, node: ir.Node) -> Array | None:
        """``Size(Shape(x))`` is the rank, known even where the dimensions are not."""
        value = node.inputs[0]
        if value is None:
            return None
        whole = shaped(value)
        if whole is not None:
            rank = self._typing.rank(whole)
            return None if rank is None else np.array(rank, np.int64)
        dims = self._typing.static_dims(value)
        return None if dims is None else np.array(int(np.prod(dims)), np.int64)

    def _cast(self, node: ir.Node, first: Array) -> Array | None:
        if node.op_type == "Cast":
            to = node.attributes.get_int("to", 0)
            dtype = None if not to else ir.DataType(to)
        else:
            like = node.inputs[1]
            dtype = None if like is None else self._typing.dtype(like)
        if dtype not in (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL):
            return None
        return first.astype(dtype.numpy())

    def _with_axes(self, node: ir.Node, first: Array, axes: Array) -> Array | None:
        places = tuple(int(a) for a in axes.ravel())
        if node.op_type == "Unsqueeze":
            return np.expand_dims(first, places)
        if any(first.shape[a] != 1 for a in places):
            return None
        return np.squeeze(first, places)


def _cut(
    first: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array | None:
    """Return part of a vector; the axis can only be its first."""
    steps = np.ones(1, np.int64) if steps is None else steps
    if first.ndim != 1 or any(x.size != 1 for x in (starts, ends, steps)) or not steps.all():
        return None
    return first[int(starts.item()) : int(ends.item()) : int(steps.item())]


_FOLDABLE = frozenset(
    {
        *_BINARY,
        *_UNARY,
        "Cast",
        "CastLike",
        "Concat",
        "Div",
        "Gather",
        "Mod",
        "Shape",
        "Size",
        "Slice",
        "Squeeze",
        "Unsqueeze",
    }
)


def _is_foldable(node: ir.Node) -> bool:
    return is_operator(node, _FOLDABLE)
