"""Operators in forms that a device has kernels for."""

from __future__ import annotations

import functools
from collections.abc import Callable

import onnx_ir as ir

from passes.batching.opening import open_functions
from passes.batching.operators import Operators
from passes.device.counted_forms import COUNTED
from passes.device.exact_forms import EXACT, Needs
from passes.device.forms_pass import FormsPass, HasKernel
from passes.device.moved_forms import MOVED, moved_form
from passes.device.optional_forms import OPTIONAL
from passes.device.shape_parts import SHAPE_PARTS, may_be_part, part_of_shape
from passes.device.shapes_on_host import OF_THE_HOST
from passes.device.split_forms import split_to_sequence
from passes.device.tabular_forms import TABULAR, tabular_form
from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, default_opset, graphs_in_loops, is_operator
from passes.graph.made import operands
from passes.graph.names import make_names_unique
from passes.graph.opsets import to_opset_form
from passes.runtimes.plain_forms import FORMS, Form
from passes.typing import Typing

__all__ = ["DeviceFormsPass"]

_T = ir.DataType
# ONNX defines them by operators that devices have; their kernels, where there are any, are not.
_OPENED = frozenset({"CenterCropPad"})


class DeviceFormsPass(FormsPass):
    """Write what a device has no kernel for in an equal form that it has kernels for.

    1. CenterCropPad is opened.
    2. What only moves or compares values computes the same in a wider type, between Casts;
       where the device computes int64 in 32 bits, in int32.
    3. A product of a few sizes is written by Mul, a mean by Add and Div, Compress by NonZero.
    4. An optional value that is known to hold something is that.
    5. Columns of a table are gathered.
    6. A sequence of a known number of parts is made of these.
    7. What no wider type holds is written by other operators (``exact_forms``).
    8. A part of a shape is what Shape itself yields.
    9. A shape of a type without a kernel is that of floats.
    10. Linear models, and what scales their features, are products and sums (``tabular_forms``).
    11. The size of a vector is a part of its shape; places of what is not zero are running sums.
    """

    def __init__(self, has_kernel: HasKernel, *, short_int64: bool = False) -> None:
        """Set up the pass.

        Args:
            has_kernel: Tells what the device computes.
            short_int64: Whether it computes int64 in 32 bits.
        """
        super().__init__(has_kernel)
        self._short_int64 = short_int64
        self._main: ir.Graph | None = None
        self._of_host_loops: set[ir.Graph] = set()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph and subgraphs."""
        self._main = model.graph
        loops_on_host = not self._has_kernel(ir.Node("", "Loop", []), None)
        self._of_host_loops = set(graphs_in_loops(model.graph)) if loops_on_host else set()
        modified = open_functions(model, [model.graph], stays=self._stays)
        # What plain forms are written by may need another form itself.
        modified |= self._write_those(model, _is_plain)
        modified |= self._write_those(model, _is_known)
        # What the other forms recorded has parts of shapes, too, which are moved themselves.
        if self._write_those(model, _picks_of_vector):
            modified = True
            self._write_those(model, _is_known)
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _write_those(self, model: ir.Model, is_asked: Callable[[ir.Node], bool]) -> bool:
        found = [node for graph in all_graphs(model) for node in graph if is_asked(node)]
        form = functools.partial(self._typed_form, default_opset(model))
        return self._write_forms(model, found, form)

    def _stays(self, node: ir.Node) -> bool:
        is_opened = is_operator(node, _OPENED)
        return not is_opened or self._has_kernel(node, None)

    def _typed_form(
        self, opset: int, node: ir.Node, typing: Typing, builder: Builder
    ) -> list[ir.Value] | None:
        """Record the form of a node; other forms read its outputs, and their types."""
        new = self._form(opset, node, typing, builder)
        to_opset_form(builder.nodes, opset)
        typing.copy(dict(zip(node.outputs, new or (), strict=new is not None)))
        for old, value in zip(node.outputs, new or (), strict=new is not None):
            dtype = _dtype(old, typing)
            if value.type is None and dtype is not None:
                value.type = ir.TensorType(dtype)
        return new

    def _form(
        self, opset: int, node: ir.Node, typing: Typing, builder: Builder
    ) -> list[ir.Value] | None:
        if (node.domain, node.op_type) == _COLUMNS:
            dtype = _dtype(node.inputs[0], typing)
            takes = dtype is not None and self._has_all((("Gather", None),), dtype)
            return FORMS[_COLUMNS](node, typing, builder) if takes else None
        if (of_floats := TABULAR.get((node.domain, node.op_type))) is not None:
            takes = opset >= _PARTS_GIVEN and self._has_all(of_floats, _T.FLOAT)
            takes &= not self._has_kernel(node, None)
            return tabular_form(node, typing, builder) if takes else None
        if node.op_type in SHAPE_PARTS:
            part = part_of_shape(node, typing, Operators(builder, opset))
            if part is not None:
                return part
        if node.op_type in OPTIONAL:
            has_kernel = self._has_kernel(node, None)
            return None if has_kernel else OPTIONAL[node.op_type](node, typing, builder)
        values = node.outputs if node.op_type == _FILL else node.inputs
        first = values[_FIRST.get(node.op_type, 0)]
        given = _dtype(first, typing)
        is_tensor = first is not None and isinstance(
            typing[first].type or first.type, ir.TensorType
        )
        if not is_tensor or given is None or self._has_kernel(node, given):
            return None
        if node.op_type in _PLAIN:
            plain, needs = _PLAIN[node.op_type]
            found = plain(node, typing, builder) if self._has_all(needs, given) else None
            if found is not None:
                return found
        if node.op_type == _SPLIT:
            takes = opset >= _PARTS_GIVEN and self._has_all(_SPLIT_NEEDS, given)
            return split_to_sequence(node, typing, builder) if takes else None
        if node.op_type in MOVED:
            moved = moved_form(
                node,
                given,
                self._has_kernel,
                builder,
                is_short=self._short_int64,
                is_there=self._is_made_there(first, typing),
            )
            if moved is not None:
                return moved
        if node.op_type in COUNTED:
            form, needs = COUNTED[node.op_type]
            takes = opset >= _PARTS_GIVEN and self._has_all(needs, given)
            takes &= self._is_there(operands(node)[0])
            return form(node, typing, Operators(builder, opset)) if takes else None
        if node.op_type == _SHAPE:
            stays = given in (_T.STRING, OF_THE_HOST)
            return None if stays else self._shape(node, builder)
        if node.op_type in _DECIDING and not self._is_of_flags(node, typing):
            return None
        if node.op_type in _LIGHT and node.graph in self._of_host_loops:
            return None
        exact = EXACT.get(node.op_type)
        if exact is None or opset < exact.since or not self._has_all(exact.needs, given):
            return None
        return exact.write(node, given, Operators(builder, opset))

    def _shape(self, node: ir.Node, builder: Builder) -> list[ir.Value] | None:
        """Ask floats for their shape; onnxruntime drops a Cast in front of a Shape, no Neg.

        What the host holds it asks itself, without a copy.
        """
        data = operands(node)[0]
        if not self._is_there(data):
            return None
        if not self._has_all((("Cast", None), ("Neg", _T.FLOAT), ("Shape", _T.FLOAT)), _T.FLOAT):
            return None
        floats = builder.op("Cast", [data], {"to": _T.FLOAT.value})
        return [builder.op("Shape", [builder.op("Neg", [floats])], node.attributes)]

    def _is_of_flags(self, node: ir.Node, typing: Typing) -> bool:
        """Whether a node yields several flags of the device; by a single one the host decides."""
        if node.graph is self._main and node.op_type != _COPY:
            return True
        return bool(typing.rank(node.outputs[0])) and all(
            self._is_made_there(value, typing) for value in operands(node)
        )

    def _is_made_there(self, value: ir.Value | None, typing: Typing) -> bool:
        """Whether the device makes a value, by the types of what it makes it of."""
        maker = None if value is None else value.producer()
        return (
            maker is not None
            and bool(maker.inputs)
            and self._has_kernel(maker, _dtype(maker.inputs[0], typing))
        )

    def _is_there(self, data: ir.Value) -> bool:
        """Whether the device makes a value, or may be given it as an input of the model."""
        maker = data.producer()
        on_device = maker is not None and self._has_kernel(maker, None)
        return on_device or (self._main is not None and data in self._main.inputs)

    def _has_all(self, needs: Needs, given: ir.DataType) -> bool:
        """Whether the device has the kernels of a form."""
        return all(self._has_kernel(ir.Node("", op, []), dtype or given) for op, dtype in needs)


def _mean(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The sum of all operands, divided by their number."""
    total, *others = operands(node)
    dtype = typing.dtype(total)
    if dtype is None:
        return None
    for other in others:
        total = builder.op("Add", [total, other])
    return [builder.op("Div", [total, builder.constant(dtype.numpy().type(1 + len(others)))])]


# Forms of plainer operators, and the kernels of these.
_PLAIN: dict[str, tuple[Form, Needs]] = {
    "Compress": (FORMS["", "Compress"], (("NonZero", _T.FLOAT), ("Gather", None))),
    "Mean": (_mean, (("Add", None), ("Div", None))),
    "ReduceProd": (FORMS["", "ReduceProd"], (("Gather", None), ("Mul", None))),
}
_COLUMNS = ("ai.onnx.ml", "ArrayFeatureExtractor")
_FILL = "ConstantOfShape"
_SPLIT = "SplitToSequence"
_SPLIT_NEEDS: Needs = (("Split", None), ("SequenceConstruct", None))
# The first opset in which the sizes of Split, and the axes of Squeeze, are inputs.
_PARTS_GIVEN = 13
_SHAPE = "Shape"
_COPY = "Identity"
# One node of the host in a loop that the host runs is less than many.
_LIGHT = frozenset({"Mod", "Round", "Xor"})
_DECIDING = frozenset({_COPY, "Or", "Xor"})
# The first input that has the type, where that is not the first of all.
_FIRST = {"Where": 1}
_KNOWN = frozenset({*MOVED, *EXACT, *OPTIONAL, _SPLIT, _SHAPE})


def _is_known(node: ir.Node) -> bool:
    is_default = is_operator(node, _KNOWN)
    key = (node.domain, node.op_type)
    return is_default or key == _COLUMNS or key in TABULAR


def _is_plain(node: ir.Node) -> bool:
    return is_operator(node, (*_PLAIN, *COUNTED))


def _picks_of_vector(node: ir.Node) -> bool:
    return is_operator(node, SHAPE_PARTS) and may_be_part(node)


def _dtype(value: ir.Value | None, typing: Typing) -> ir.DataType | None:
    """Return the type of a value, new ones included."""
    return None if value is None else typing.dtype(value) or value.dtype
