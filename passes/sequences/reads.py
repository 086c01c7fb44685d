"""Writes what a node reads of a known sequence without the sequence."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.sequences.known import KnownSequences
from passes.sequences.parts import Element, Part, Parts, Piece, Sliced
from passes.sequences.sliced_reads import SlicedReader
from passes.typing.value_types import Typing, is_number

__all__ = ["READERS", "SequenceReader"]

READERS = frozenset({"ConcatFromSequence", "SequenceAt", "SequenceLength"})
"""The operators that make a tensor of a sequence."""


class SequenceReader:
    """Records reads of known sequences.

    Attributes:
        slices: Reads the tensors that are cut.
    """

    def __init__(self, typing: Typing, known: KnownSequences, opset: int) -> None:
        """Set up the reader.

        Args:
            typing: A proven typing.
            known: What is known of sequences.
            opset: Version of ONNX's operators.
        """
        self._typing = typing
        self._known = known
        self.slices = SlicedReader(typing, opset)

    def read(self, builder: Builder, node: ir.Node) -> ir.Value | None:
        """Record what a node of `READERS` yields; None where its sequence is needed."""
        sequence = node.inputs[0] if node.inputs else None
        known = None if sequence is None else self._known[sequence]
        if known is None:
            return None
        match node.op_type:
            case "SequenceLength":
                return self._length(builder, known)
            case "SequenceAt":
                return self._at(builder, known, node.inputs[1])
        axis = node.attributes.get_int("axis")
        new_axis = bool(node.attributes.get_int("new_axis", 0))
        return None if axis is None else self._joined(builder, known, axis, new_axis=new_axis)

    def element(self, builder: Builder, element: Element) -> ir.Value | None:
        """Record one element."""
        return self.slices.piece(builder, element) if isinstance(element, Piece) else element

    def element_dims(self, part: Part) -> list[int | str | None] | None:
        """Return the dimensions of an element, or of each slice; None if the rank is unknown."""
        if isinstance(part, ir.Value):
            dims = self._typing.dims(part)
            return None if dims is None else list(dims)
        sliced = part.sliced if isinstance(part, Piece) else part
        source = sliced.source
        known = self._typing.dims(source.tensor)
        if known is None:
            return None
        cut, at = list(known), source.axis % len(known)
        if source.split is None and not source.keepdims:
            return cut[:at] + cut[at + 1 :]
        cut[at] = 1 if source.split is None else _size(part)
        return cut

    def _length(self, builder: Builder, known: Parts) -> ir.Value:
        cut = [part for part in known.parts if isinstance(part, Sliced) and part.count is None]
        number = sum(_least_count(part) for part in known.parts)
        lengths = [self.slices.length(builder, part) for part in cut]
        if number or not lengths:
            lengths.append(builder.scalar(number))
        total = lengths[0]
        for length in lengths[1:]:
            total = builder.op("Add", [total, length])
        return total

    def _at(self, builder: Builder, known: Parts, index: ir.Value | None) -> ir.Value | None:
        if index is None:
            return None
        position = self._known.position(index)
        if position is not None:
            element = known.at(position)
            if element is not None:
                return self.element(builder, element)
            count = known.count
            if count is not None and not -count <= position < count:
                return None
        if len(known.parts) == 1 and isinstance(known.parts[0], Sliced):
            return self.slices.element(builder, known.parts[0], index)
        return None if position is not None else self._chosen(builder, known, index)

    def _chosen(self, builder: Builder, known: Parts, index: ir.Value) -> ir.Value | None:
        """Record the element at a computed position among elements of one static shape."""
        elements = known.elements()
        if not elements or self._typing.rank(index) != 0:
            return None
        shapes = [self.element_dims(element) for element in elements]
        first = shapes[0]
        if first is None or any(shape != first for shape in shapes):
            return None
        if not all(self._typing.is_one_number(dim) for dim in first):
            return None
        dtype = self._dtype(elements[0])
        if not is_number(dtype):
            return None
        rows = [self._row(builder, element, 0) for element in elements]
        if None in rows:
            return None
        return builder.op("Gather", [builder.op("Concat", rows, {"axis": 0}), index], {"axis": 0})

    def _dtype(self, element: Element) -> ir.DataType | None:
        value = element.sliced.source.tensor if isinstance(element, Piece) else element
        return self._typing.dtype(value)

    def _row(self, builder: Builder, element: Element, axis: int) -> ir.Value | None:
        value = self.element(builder, element)
        return None if value is None else builder.op("Unsqueeze", [value, builder.ints(axis)])

    def _joined(
        self, builder: Builder, known: Parts, axis: int, *, new_axis: bool
    ) -> ir.Value | None:
        parts: list[Part] = []
        values: list[ir.Value | None] = []
        for part in known.parts:
            whole = None
            if isinstance(part, Sliced):
                whole = self.slices.joined(builder, part, axis, new_axis=new_axis)
            if whole is not None:
                parts.append(part)
                values.append(whole)
                continue
            elements = Parts((part,)).elements()
            if elements is None:
                return None
            parts.extend(elements)
            for one in elements:
                write = self._row if new_axis else self._element_at
                values.append(write(builder, one, axis))
        held = [(p, v) for p, v in zip(parts, values, strict=True) if _may_hold(p)]
        if len(parts) > 1 and len(held) < len(parts):
            parts, values = [p for p, _ in held], [v for _, v in held]
        if not parts or None in values or not self._fit(parts, axis, new_axis=new_axis):
            return None
        is_whole = new_axis or isinstance(parts[0], Sliced)
        if len(values) == 1 and (is_whole or self.element_dims(parts[0]) is not None):
            return values[0]
        return builder.op("Concat", values, {"axis": axis})

    def _element_at(self, builder: Builder, element: Element, axis: int) -> ir.Value | None:
        return self.element(builder, element)

    def _fit(self, parts: Sequence[Part], axis: int, *, new_axis: bool) -> bool:
        """Whether nothing is known to be wrong with joining parts.

        What certainly fails when it runs is left to fail then: the new form could be refused
        when the model is loaded. Slices that may be none at all fit anything as a sequence, but
        not as a tensor: there, equal dimensions must be proven.
        """
        shapes = [self.element_dims(part) for part in parts]
        known = [shape for shape in shapes if shape is not None]
        if any(len(shape) != len(known[0]) for shape in known):
            return False
        if known:
            rank = len(known[0])
            places = rank + 1 if new_axis else rank
            if not -places <= axis < places:
                return False
            if not new_axis:
                for shape in known:
                    shape[axis] = 1
            for dims in zip(*known, strict=True):
                if len({dim for dim in dims if isinstance(dim, int)}) > 1:
                    return False
        if len(parts) == 1 or all(_least_count(part) for part in parts):
            return True
        return len(known) == len(parts) and all(
            len(set(dims)) == 1 and self._typing.is_one_number(dims[0])
            for dims in zip(*known, strict=True)
        )


def _size(part: Piece | Sliced) -> int | None:
    """Return the size of a slice along the axis, or of all slices if they have one."""
    if isinstance(part, Piece):
        return None if part.sliced.sizes is None else part.sliced.sizes[part.index]
    sizes = set(part.sizes or ())
    return sizes.pop() if len(sizes) == 1 else None


def _least_count(part: Part) -> int:
    """Return how many elements a part has at least."""
    return (part.count or 0) if isinstance(part, Sliced) else 1


def _may_hold(part: Part) -> bool:
    return not isinstance(part, Sliced) or part.count != 0
