"""Element types of sequences that a model does not tell, as PyTorch's TorchScript exporter writes.

It writes ``sequence_type {}`` for what a Loop carries, and SequenceEmpty without ``dtype``, which
is a sequence of floats whatever is inserted into it. The type follows from what is inserted, or
from what is read: with ``q = SequenceEmpty ()`` and ``SequenceInsert (q, x)`` of an int64 ``x``,
``dtype`` becomes int64. So do the floats that the exporter's own inference took from such a
SequenceEmpty, where no input or output of the model has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import onnx
import onnx_ir as ir

from passes.graph.graphs import (
    all_graphs,
    constant_value,
    default_opset,
    is_default_domain,
    subgraphs,
)
from passes.graph.opsets import schema_of
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
    interface = (*model.graph.inputs, *model.graph.outputs)
    sequences = _Sequences(nodes, default_opset(model), interface)
    for node in empties:
        dtype = sequences.dtype(node.outputs[0])
        if dtype is not None and dtype != ir.DataType.FLOAT:
            node.attributes["dtype"] = ir.AttrInt64("dtype", int(dtype))
            sequences.retype(node.outputs[0], dtype)
    for graph in all_graphs(model):
        for value in (*graph.inputs, *graph.outputs):
            dtype = sequences.dtype(value) if value.type is None else None
            if dtype is not None:
                value.type = ir.SequenceType(ir.TensorType(dtype))
    for value in interface:
        if value.type is None and value.name in untyped:
            raise ModelError(
                f"nothing tells the element type of the sequence {value.name!r}: declare it"
            )


class _SequenceGroup:
    """Values that are one sequence, which grows.

    Attributes:
        members: The sequence, as it is called here and there.
        inserted: What goes into it.
        taken: What comes out of it.
        begins: Whether it begins as a SequenceEmpty that says no type.
    """

    def __init__(self) -> None:
        self.members: list[ir.Value] = []
        self.inserted: list[ir.Value] = []
        self.taken: list[ir.Value] = []
        self.begins = False


class _Sequences:
    """Groups of values that are one growing sequence, and the element type of each."""

    def __init__(
        self, nodes: Iterable[ir.Node], opset: int, interface: Collection[ir.Value]
    ) -> None:
        self._opset = opset
        self._interface = frozenset(interface)
        self._same: dict[ir.Value, ir.Value] = {}
        self._inserted: list[tuple[ir.Value, ir.Value]] = []
        self._taken: list[tuple[ir.Value, ir.Value]] = []
        self._begun: list[ir.Value] = []
        self._asked: set[ir.Value] = set()
        self._known: dict[ir.Value, ir.DataType | None] = {}
        for node in nodes:
            self._read(node)
        self._groups = self._grouped()

    def _read(self, node: ir.Node) -> None:
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
                if inputs[0] is not None:
                    self._taken.append((inputs[0], outputs[0]))
            case "SequenceEmpty":
                if "dtype" not in node.attributes:
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
        if first in self._asked:
            return None
        if first in self._known:
            return self._known[first]
        # Asked from outside, in the order of the model: a chain of Loops is gone through once.
        is_final = not self._asked
        self._asked.add(first)
        try:
            found = self._dtype(first)
        finally:
            self._asked.remove(first)
        if is_final:
            self._known[first] = found
        return found

    def _dtype(self, first: ir.Value) -> ir.DataType | None:
        group = self._groups[first]
        inserted, others = self._told(group.inserted), self._told(group.taken)
        others |= {v.type.dtype for v in group.members if isinstance(v.type, ir.SequenceType)}
        if group.begins and inserted and not self._is_float_outside(group.members):
            others.discard(ir.DataType.FLOAT)
        known = inserted | others
        if not known and group.begins:
            return ir.DataType.FLOAT
        is_sequence = bool(group.begins or group.inserted or group.taken)
        return known.pop() if len(known) == 1 and is_sequence else None

    def retype(self, value: ir.Value, dtype: ir.DataType) -> None:
        """Replace the floats that were declared of a sequence and of what is read from it."""
        group = self._groups[self._first(value)]
        for member in group.members:
            if isinstance(member.type, ir.SequenceType):
                member.type = ir.SequenceType(ir.TensorType(dtype))
        for element in group.taken:
            if element.type is not None:
                element.type = ir.TensorType(dtype)

    def _grouped(self) -> defaultdict[ir.Value, _SequenceGroup]:
        groups = defaultdict[ir.Value, _SequenceGroup](_SequenceGroup)
        for sequence, element in self._inserted:
            groups[self._first(sequence)].inserted.append(element)
        for sequence, element in self._taken:
            groups[self._first(sequence)].taken.append(element)
        for value in self._begun:
            groups[self._first(value)].begins = True
        for value in self._same:
            groups[self._first(value)].members.append(value)
        return groups

    def _told(self, tensors: Iterable[ir.Value]) -> set[ir.DataType]:
        """Return the element types of tensors that are known."""
        return {dtype for v in tensors if (dtype := self._of_tensor(v)) is not None}

    def _is_float_outside(self, members: Iterable[ir.Value]) -> bool:
        """Whether an input or output of the model is declared to be a sequence of floats."""
        types = (v.type for v in members if v in self._interface)
        return any(t is not None and t.dtype == ir.DataType.FLOAT for t in types)

    def _join(self, one: ir.Value | None, other: ir.Value | None) -> None:
        if one is not None and other is not None:
            self._same.setdefault(other, other)
            self._same[self._first(one)] = self._first(other)

    def _hold(self, sequence: ir.Value | None, element: ir.Value | None) -> None:
        if sequence is not None and element is not None:
            self._inserted.append((sequence, element))

    def _first(self, value: ir.Value) -> ir.Value:
        first = value
        while (other := self._same.setdefault(first, first)) is not first:
            first = other
        self._same[value] = first
        return first

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
            index = value.index() or 0
            inner = next((graph for _, graph in subgraphs(node)), None)
            said: ir.DataType | ir.Value | None
            if node.op_type in ("SequenceAt", "ConcatFromSequence"):
                said = None if node.inputs[0] is None else self.dtype(node.inputs[0])
            elif inner is not None:
                yielded = inner.outputs[1:] if node.op_type == "Loop" else inner.outputs
                said = yielded[index] if index < len(yielded) else None
            else:
                said = self._type_of_output(node, index)
            if isinstance(said, ir.DataType):
                return said
            value = said
        return None

    def _type_of_output(self, node: ir.Node, position: int) -> ir.DataType | ir.Value | None:
        """Return the element type of an output, or an operand that has the same."""
        schema = schema_of(node.op_type, self._opset)
        if schema is None:
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
