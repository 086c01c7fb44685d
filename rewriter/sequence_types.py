"""Element types of sequences that a model does not tell, as PyTorch's TorchScript exporter writes.

It writes ``sequence_type {}`` for what a Loop carries, and SequenceEmpty without ``dtype``, which
is a sequence of floats whatever is inserted into it. The type follows from what is inserted, or
from what is read: with ``q = SequenceEmpty ()`` and ``SequenceInsert (q, x)`` of an int64 ``x``,
``dtype`` becomes int64.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import onnx
import onnx_ir as ir

from passes.graphs import all_graphs, constant_value, default_opset, is_default_domain, subgraphs
from rewriter.errors import ModelError

__all__ = ["forget_open_sequences", "mend_sequences"]

_STEPS = 1000
_TENSORS = {f"tensor({dtype.name.lower()})": dtype for dtype in ir.DataType}


def forget_open_sequences(infos: Iterable[onnx.ValueInfoProto]) -> set[str]:
    """Take away each type of a sequence that lacks its element type.

    Returns:
        The names of the values.
    """
    found = set()
    for info in infos:
        type_ = info.type
        is_sequence = type_.HasField("sequence_type")
        if is_sequence and type_.sequence_type.elem_type.WhichOneof("value") is None:
            info.ClearField("type")
            found.add(info.name)
    return found


def mend_sequences(model: ir.Model, untyped: Collection[str] = ()) -> None:
    """Give sequences the element type that follows from what is inserted or read.

    Where nothing tells it, or two say different types, nothing is changed.

    Args:
        model: Changed in place.
        untyped: Sequences whose types were taken away, and have to be told anew.

    Raises:
        ModelError: An input or output of the model is one of them, and nothing tells its type.
    """
    nodes = [node for graph in all_graphs(model) for node in graph if is_default_domain(node)]
    empties = [n for n in nodes if n.op_type == "SequenceEmpty" and "dtype" not in n.attributes]
    if not empties and not untyped:
        return
    sequences = _Sequences(default_opset(model))
    for node in nodes:
        sequences.read(node)
    for node in empties:
        dtype = sequences.dtype(node.outputs[0])
        if dtype not in (None, ir.DataType.FLOAT):
            node.attributes["dtype"] = ir.AttrInt64("dtype", int(dtype or 0))
    for graph in all_graphs(model):
        for value in (*graph.inputs, *graph.outputs):
            dtype = sequences.dtype(value) if value.type is None else None
            if dtype is not None:
                value.type = ir.SequenceType(ir.TensorType(dtype))
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.type is None and value.name in untyped:
            raise ModelError(
                f"nothing tells the element type of the sequence {value.name!r}: declare it"
            )


class _Sequences:
    """Which values are one sequence that grows, and what the elements of each are."""

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._same: dict[ir.Value, ir.Value] = {}
        self._elements: list[tuple[ir.Value, ir.Value]] = []
        self._begun: list[ir.Value] = []

    def read(self, node: ir.Node) -> None:
        """Enter what a node says of sequences."""
        inputs, outputs = node.inputs, node.outputs
        match node.op_type:
            case "Identity" | "SequenceErase":
                self._join(inputs[0], outputs[0])
            case "SequenceInsert":
                self._join(inputs[0], outputs[0])
                self._hold(inputs[0], inputs[1])
            case "SequenceConstruct":
                for value in inputs:
                    self._hold(outputs[0], value)
            case "SplitToSequence":
                self._hold(outputs[0], inputs[0])
            case "SequenceAt" | "ConcatFromSequence":
                self._hold(inputs[0], outputs[0])
            case "SequenceEmpty":
                self._begun.append(outputs[0])
            case "If":
                for _, branch in subgraphs(node):
                    for inner, outer in zip(branch.outputs, outputs, strict=False):
                        self._join(inner, outer)
            case "Loop":
                for _, body in subgraphs(node):
                    for i, inner in enumerate(body.inputs[2:]):
                        self._join(inputs[2 + i], inner)
                        self._join(inner, body.outputs[1 + i])
                        self._join(inner, outputs[i])
            case "SequenceMap":
                for _, body in subgraphs(node):
                    for outer, inner in zip(outputs, body.outputs, strict=False):
                        self._hold(outer, inner)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a sequence, None if nothing tells it or it is none."""
        first = self._first(value)
        members = [v for v in self._same if self._first(v) is first]
        held = [v for sequence, v in self._elements if self._first(sequence) is first]
        known = {v.type.dtype for v in members if isinstance(v.type, ir.SequenceType)}
        known |= {dtype for v in held if (dtype := self._of_tensor(v)) is not None}
        begun = any(self._first(v) is first for v in self._begun)
        if not known and begun:
            return ir.DataType.FLOAT
        return known.pop() if len(known) == 1 and (held or begun) else None

    def _join(self, one: ir.Value | None, other: ir.Value | None) -> None:
        if one is not None and other is not None:
            self._same.setdefault(other, other)
            self._same[self._first(one)] = self._first(other)

    def _hold(self, sequence: ir.Value | None, element: ir.Value | None) -> None:
        if sequence is not None and element is not None:
            self._elements.append((sequence, element))

    def _first(self, value: ir.Value) -> ir.Value:
        while (other := self._same.setdefault(value, value)) is not value:
            value = other
        return value

    def _of_tensor(self, value: ir.Value | None) -> ir.DataType | None:
        """Return the element type of a tensor: declared, or what operators make of operands."""
        for _ in range(_STEPS):
            if value is None:
                return None
            if isinstance(value.type, ir.TensorType):
                return value.type.dtype
            if value.const_value is not None:
                return value.const_value.dtype
            node = value.producer()
            if node is None or not is_default_domain(node):
                return None
            dtype = _told_by(node)
            if dtype is not None:
                return dtype
            said = self._type_of_output(node, value.index() or 0)
            if isinstance(said, ir.DataType):
                return said
            value = said
        return None

    def _type_of_output(self, node: ir.Node, position: int) -> ir.DataType | ir.Value | None:
        """Return the element type of an output, or an operand that has the same."""
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opset, "")
        except onnx.defs.SchemaError:
            return None
        formal = schema.outputs[min(position, len(schema.outputs) - 1)].type_str
        for constraint in schema.type_constraints:
            if constraint.type_param_str == formal and len(constraint.allowed_type_strs) == 1:
                formal = constraint.allowed_type_strs[0]
        if formal in _TENSORS:
            return _TENSORS[formal]
        for operand, given in zip(schema.inputs, node.inputs, strict=False):
            if operand.type_str == formal:
                return given
        return None


def _told_by(node: ir.Node) -> ir.DataType | None:
    """Return the element type that an attribute tells."""
    if node.op_type in ("Constant", "ConstantOfShape"):
        array = constant_value(node.outputs[0])
        if array is not None:
            return ir.tensor(array).dtype
        value = node.attributes.get("value")
        if value is None or value.is_ref():
            return ir.DataType.FLOAT if node.op_type == "ConstantOfShape" else None
        return value.as_tensor().dtype
    attribute = node.attributes.get("to" if node.op_type == "Cast" else "dtype")
    return None if attribute is None or attribute.is_ref() else ir.DataType(attribute.as_int())
