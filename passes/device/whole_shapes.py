"""Shapes that are put together on the host, in forms that read the shape of one value.

onnxruntime computes a Concat of dimensions on the host. Of ids ``[5]`` and rows ``[7, 3]``, zeros
of the shape ``[5, 3]`` are those of ``[3]``, expanded to the shape ``[5, 1]`` of the ids with an
axis more: no node is left between Shape and what reads it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.device_forms import HasKernel
from passes.device.shape_vectors import ShapeVector, vector_of
from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, constant_value, default_opset, is_operator
from passes.graph.made import operand
from passes.graph.names import make_names_unique
from passes.graph.splice import splice_form
from passes.runtimes.reshapes import comes_from_a_shape
from passes.typing import Typing, type_values

__all__ = ["WholeShapesPass"]

_MOST_NUMBERS = 2**16
"""The largest constant that is expanded."""
_SINCE = 15
"""The first opset in which Shape yields a part."""


class WholeShapesPass(ir.passes.InPlacePass):
    """Write what reads a shape made of several parts so that it reads a whole one.

    1. The number of elements of a vector is its Size.
    2. A constant of such a shape is one of a part, expanded.
    3. Expand takes 1 for a dimension that its operand has already.
    4. Reshape infers the one dimension that is not constant.
    """

    def __init__(self, has_kernel: HasKernel) -> None:
        """Set up the pass.

        Args:
            has_kernel: Tells what the device computes.
        """
        super().__init__()
        self._has_kernel = has_kernel

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph and subgraphs."""
        opset = default_opset(model)
        found = [node for graph in all_graphs(model) for node in graph if _may_have_form(node)]
        if opset < _SINCE or not found:
            return ir.passes.PassResult(model, False)
        typing = type_values(model, proven=True)
        modified = False
        for node in found:
            modified |= splice_form(node, functools.partial(self._form, node, typing, opset))
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _form(
        self, node: ir.Node, typing: Typing, opset: int, builder: Builder
    ) -> list[ir.Value] | None:
        ops = Operators(builder, opset)
        if node.op_type in _COUNTS:
            counted = _counted(node, typing)
            takes = counted is not None and self._takes(("Size",), counted, typing)
            return [ops.op("Size", [counted])] if takes else None
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
        dtype = typing.dtype(value)
        nodes = (ir.Node("", op, []) for op in operators)
        return dtype is not None and all(self._has_kernel(node, dtype) for node in nodes)


_COUNTS = frozenset({"Gather", "Squeeze"})
_VIEWS = ("Unsqueeze", "Expand")


def _may_have_form(node: ir.Node) -> bool:
    if is_operator(node, _COUNTS):
        return is_operator(operand(node, 0).producer(), "Shape")
    if not is_operator(node, _FORMS):
        return False
    return is_operator(operand(node, _FORMS[node.op_type][0]).producer(), "Concat")


def _counted(node: ir.Node, typing: Typing) -> ir.Value | None:
    """Return the vector whose number of elements a node picks as a scalar, None for no such."""
    vector = vector_of(node.inputs[0], typing)
    if node.op_type == "Gather":
        index = constant_value(node.inputs[1])
        is_one = index is not None and index.ndim == 0 and int(index) in (0, -1)
    else:
        is_one = True  # a vector of one element has one axis
    if not is_one or vector is None or comes_from_a_shape(vector):
        return None  # onnxruntime infers a wrong Size of numbers that it knows
    return vector


def _filled(node: ir.Node, shape: ShapeVector, _: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return a constant of a shape: that of a part, with axes of size 1, expanded."""
    opened, numbers = shape.open(), shape.numbers()
    ids = next((part for part in opened if part.vector is not None), None)
    rest = [part for part in opened if part is not ids]
    if len(rest) > 1:
        return None
    if ids is not None and not rest and set(numbers) <= {1}:
        rest.append(ids)
        ids = None
    if not rest:
        if ids is None or math.prod(numbers) > _MOST_NUMBERS:
            return None
        numbers.insert(ids.axes[0], 1)
        filled = ops.op("ConstantOfShape", [ops.ints(*numbers)], node.attributes)
        return [ops.op("Expand", [filled, shape.viewed(ids, ops)])]
    if any(number != 1 for number in numbers):
        return None
    filled = ops.op("ConstantOfShape", [rest[0].value], node.attributes)
    filled = ops.unsqueeze(filled, shape.others(rest[0]))
    return [filled if ids is None else ops.op("Expand", [filled, shape.viewed(ids, ops)])]


def _expanded(
    node: ir.Node, shape: ShapeVector, typing: Typing, ops: Operators
) -> list[ir.Value] | None:
    """Return an operand expanded to the one dimension that it does not have."""
    opened, given = shape.open(), node.inputs[0]
    dims = None if given is None else typing.dims(given)
    if given is None or dims is None or len(opened) != 1 or opened[0].vector is None:
        return None
    own = [1] * (shape.rank - len(dims)) + list(dims)
    if len(own) != shape.rank:
        return None
    known = dict(zip(shape.others(opened[0]), shape.numbers(), strict=True))
    if any(number not in (1, own[axis]) for axis, number in known.items()):
        return None
    return [ops.op("Expand", [given, shape.viewed(opened[0], ops)])]


def _reshaped(
    node: ir.Node, shape: ShapeVector, _: Typing, ops: Operators
) -> list[ir.Value] | None:
    """Return an operand in a shape whose one open dimension follows from the others."""
    opened = shape.open()
    if len(opened) != 1 or len(opened[0].axes) != 1 or any(n < 1 for n in shape.numbers()):
        return None
    if not _follows(opened[0].value, node.inputs[0]):
        return None  # a dimension that does not fit has to stay an error
    numbers = shape.numbers()
    numbers.insert(opened[0].axes[0], -1)
    return [ops.op("Reshape", [node.inputs[0], ops.ints(*numbers)], node.attributes)]


_ARITHMETIC = frozenset({"Concat", "Gather", "Mul", "Slice", "Squeeze", "Unsqueeze"})


def _follows(value: ir.Value | None, whole: ir.Value | None) -> bool:
    """Whether numbers are computed from the shape of one tensor alone."""
    if value is None or constant_value(value) is not None:
        return True
    node = value.producer()
    if is_operator(node, "Shape"):
        return node.inputs[0] is whole
    return is_operator(node, _ARITHMETIC) and all(_follows(one, whole) for one in node.inputs)


_Write = Callable[[ir.Node, ShapeVector, Typing, Operators], list[ir.Value] | None]
_FORMS: dict[str, tuple[int, _Write]] = {
    "ConstantOfShape": (0, _filled),
    "Expand": (1, _expanded),
    "Reshape": (1, _reshaped),
}
"""For each operator the input that is a shape, and the function that writes its form."""
