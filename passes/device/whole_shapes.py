"""Shapes that are put together on the host, in forms that read the shape of one value.

onnxruntime computes a Concat of dimensions on the host. Of ids ``[5]`` and rows ``[7, 3]``, zeros
of the shape ``[5, 3]`` are those of ``[3]``, expanded to the shape ``[5, 1]`` of the ids with an
axis more: no node is left between Shape and what reads it. A dimension that no vector has is that
of a vector which is made for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping

import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.counts import PICKED, counted, left_over, ranged
from passes.device.forms_pass import FormsPass
from passes.device.merged_axes import merged_axes
from passes.device.natural_numbers import is_natural
from passes.device.shape_parts import before_transpose, joined_parts
from passes.device.shape_vectors import ShapePart, ShapeVector
from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, constant_value, default_opset, is_operator
from passes.graph.made import operand
from passes.typing import Typing

__all__ = ["WholeShapesPass"]

_MOST_NUMBERS = 2**16
"""The largest constant that is expanded."""
_MOST_PARTS = 2
"""The most open parts that a value is expanded along, one after the other."""
_SINCE = 15
"""The first opset in which Shape yields a part."""


class WholeShapesPass(FormsPass):
    """Write what reads a shape made of several parts so that it reads a whole one.

    1. The number of elements of a vector is its Size; so is what a Range counts to.
    2. A constant of such a shape is one of a part, expanded.
    3. Parts of one shape, one after another, are one part.
    4. Expand takes 1 for a dimension that its operand has already.
    5. What is expanded along parts of two tensors is expanded along one after the other.
    6. Reshape takes 0 for a dimension that its operand has at this axis.
    7. Reshape infers the one dimension that is not constant.
    8. Reshape that only asks for the size of one axis is a Split into one part of that size.
    9. Reshape that only merges axes, or moves ones, is told no size (``merged_axes``).
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph and subgraphs."""
        opset = default_opset(model)
        found = [node for graph in all_graphs(model) for node in graph if _may_have_form(node)]
        form = functools.partial(self._form, opset)
        modified = opset >= _SINCE and self._write_forms(model, found, form)
        return ir.passes.PassResult(model, modified)

    def _form(
        self, opset: int, node: ir.Node, typing: Typing, builder: Builder
    ) -> list[ir.Value] | None:
        ops = Operators(builder, opset)
        if node.op_type in _JOINED:
            return _JOINED[node.op_type](node, typing, ops)
        if node.op_type in PICKED:
            vector = counted(node, typing, ops)
            takes = vector is not None and self._takes(("Size",), vector, typing)
            return [ops.op("Size", [vector])] if takes else None
        if node.op_type == "Reshape" and self._takes(_MERGED, operand(node, 0), typing):
            merged = merged_axes(node, typing, ops)
            if merged is not None:
                return merged
        if is_operator(operand(node, _FORMS[node.op_type][0]).producer(), "Mul"):
            return _as_one_axis(node, typing, ops) if node.op_type == "Reshape" else None
        position, write = _FORMS[node.op_type]
        shape = ShapeVector.read(node.inputs[position], typing)
        if shape is None:
            return None
        written = [part.vector for part in shape.parts if part.vector is not None]
        if not all(self._takes(_VIEWS, one, typing) for one in [*written, node.outputs[0]]):
            return None
        return write(node, shape, typing, ops)

    def _takes(self, operators: Iterable[str], value: ir.Value, typing: Typing) -> bool:
        """Whether the device has the operators for the type of a value."""
        dtype = typing.dtype(value) or value.dtype
        nodes = (ir.Node("", op, []) for op in operators)
        return dtype is not None and all(self._has_kernel(node, dtype) for node in nodes)


_MERGED = ("Flatten", "Squeeze", "Unsqueeze")
_VIEWS = ("Unsqueeze", "Expand")


def _may_have_form(node: ir.Node) -> bool:
    if is_operator(node, PICKED):
        return is_operator(operand(node, 0).producer(), ("Max", "Shape"))  # a Max becomes one
    if is_operator(node, _JOINED):
        return True
    if not is_operator(node, _FORMS):
        return False
    shape = operand(node, _FORMS[node.op_type][0]).producer()
    return is_operator(shape, "Concat") or (
        node.op_type == "Reshape" and is_operator(shape, ("Mul", "ReduceProd"))
    )


def _filled(node: ir.Node, shape: ShapeVector, _: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return a constant of a shape: that of a part, with axes of size 1, expanded."""
    opened, numbers = shape.open(), shape.numbers()
    if not opened:
        return [ops.op("ConstantOfShape", [ops.ints(*numbers)], node.attributes)]
    ids = next((part for part in opened if part.vector is not None), None)
    rest = [part for part in opened if part is not ids]
    if len(rest) > 1 or (rest and any(number != 1 for number in numbers)):
        return _filled_in_turn(node, shape, ops)
    if ids is not None and not rest and set(numbers) <= {1}:
        rest.append(ids)
        ids = None
    if not rest:
        if ids is None or math.prod(numbers) > _MOST_NUMBERS:
            return _filled_in_turn(node, shape, ops)
        numbers.insert(ids.axes[0], 1)
        filled = ops.op("ConstantOfShape", [ops.ints(*numbers)], node.attributes)
        return [ops.op("Expand", [filled, shape.viewed(ids, ops)])]
    filled = ops.op("ConstantOfShape", [rest[0].value], node.attributes)
    filled = ops.unsqueeze(filled, shape.others(rest[0]))
    return [filled if ids is None else ops.op("Expand", [filled, shape.viewed(ids, ops)])]


def _filled_in_turn(node: ir.Node, shape: ShapeVector, ops: Operators) -> list[ir.Value] | None:
    """Return a constant of one open part, expanded along the numbers and the other part."""
    first, *rest = shape.open()
    if len(rest) >= _MOST_PARTS or not shape.is_read():
        return None
    filled = ops.op("ConstantOfShape", [first.value], node.attributes)
    filled = ops.unsqueeze(filled, shape.others(first))
    return [_along(filled, shape, shape.known(), rest, ops)]


def _along(
    value: ir.Value,
    shape: ShapeVector,
    known: Mapping[int, int],
    parts: Iterable[ShapePart],
    ops: Operators,
) -> ir.Value:
    """Return a value expanded along axes of known numbers, then along parts of the shape."""
    numbers = shape.fixed(known)
    if any(number != 1 for number in numbers):
        value = ops.op("Expand", [value, ops.ints(*numbers)])
    for part in parts:
        value = ops.op("Expand", [value, shape.viewed(part, ops)])
    return value


def _expanded(
    node: ir.Node, shape: ShapeVector, typing: Typing, ops: Operators
) -> list[ir.Value] | None:
    """Return an operand expanded along the dimensions that it does not have, part by part."""
    opened, given = shape.open(), operand(node, 0)
    if not opened:
        return [ops.op("Expand", [given, ops.ints(*shape.numbers())])]
    is_view = len(opened) == 1 and opened[0].vector is not None
    if not is_view and (len(opened) > _MOST_PARTS or not shape.is_read()):
        return None
    own = dict(enumerate(reversed(typing.dims(given) or ()), start=1))
    numbers = shape.known().items()
    known = {axis: number for axis, number in numbers if own.get(shape.rank - axis) != number}
    return [_along(given, shape, known, opened, ops)]


def _reshaped(
    node: ir.Node, shape: ShapeVector, typing: Typing, ops: Operators
) -> list[ir.Value] | None:
    """Return an operand in a shape whose open dimensions are its own, or whose one follows."""
    own = shape.by_own_sizes(node, typing)
    if own is not None:
        return [ops.op("Reshape", [node.inputs[0], ops.ints(*own)])]
    opened, numbers = shape.open(), shape.numbers()
    if any(n < 1 for n in numbers) or len(opened) != 1 or len(opened[0].axes) != 1:
        return None
    if not _follows(opened[0].value, node.inputs[0]):
        return _asked(node, shape, opened[0], typing, ops)
    numbers.insert(opened[0].axes[0], -1)
    return [ops.op("Reshape", [node.inputs[0], ops.ints(*numbers)], node.attributes)]


def _asked(
    node: ir.Node, shape: ShapeVector, part: ShapePart, typing: Typing, ops: Operators
) -> list[ir.Value] | None:
    """Return an operand whose size along one axis has to be that of a part, or it is an error.

    Axes of size 1 may be added to it.
    """
    given, (axis,), known = operand(node, 0), part.axes, shape.known()
    dims = typing.dims(given) or ()
    added = [at for at, size in known.items() if size == 1] if len(dims) < shape.rank else []
    kept = [at for at in range(shape.rank) if at not in added]
    others = {at: dim for at, dim in zip(kept, dims, strict=False) if at != axis}
    is_known = others == {at: size for at, size in known.items() if at in kept}
    if len(kept) != len(dims) or not is_known or not is_natural(part.value):
        return None
    if not node.attributes.get_int("allowzero", 0):
        return None  # no size at all stands for the own one
    same = ops.op("Split", [given, part.value], {"axis": kept.index(axis)})
    return [ops.unsqueeze(same, added) if added else same]


def _as_one_axis(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return all elements of an operand in one axis, where that is what their product says."""
    given, size = node.inputs
    if typing.static_dims(operand(node, 1)) != (1,) or not _follows(size, given):
        return None
    return [ops.op("Reshape", [given, ops.ints(-1)], node.attributes)]


_ARITHMETIC = frozenset({"Concat", "Gather", "Mul", "Slice", "Squeeze", "Unsqueeze"})


def _follows(value: ir.Value | None, whole: ir.Value | None) -> bool:
    """Whether numbers are computed from the shape of one tensor alone."""
    if value is None or constant_value(value) is not None:
        return True
    node = value.producer()
    if is_operator(node, "Shape"):
        return node.inputs[0] is whole
    return is_operator(node, _ARITHMETIC) and all(_follows(one, whole) for one in node.inputs)


_JOINED: dict[str, Callable[[ir.Node, Typing, Operators], list[ir.Value] | None]] = {
    "Concat": joined_parts,
    "Max": left_over,
    "Range": ranged,
    "Shape": before_transpose,
}
"""The forms of what makes a shape, or counts to a number of one."""
_Write = Callable[[ir.Node, ShapeVector, Typing, Operators], list[ir.Value] | None]
_FORMS: dict[str, tuple[int, _Write]] = {
    "ConstantOfShape": (0, _filled),
    "Expand": (1, _expanded),
    "Reshape": (1, _reshaped),
}
"""For each operator the input that is a shape, and the function that writes its form."""
