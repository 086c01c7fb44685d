"""The elements of a sequence: single ones and slices of tensors, one behind the other."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.maps.tensor_source import TensorSource

__all__ = ["MOST_PIECES", "Element", "Part", "Parts", "Piece", "Sliced"]

MOST_PIECES = 64
"""A tensor is not cut into more pieces than this one by one."""


@dataclasses.dataclass(frozen=True)
class Sliced:
    """All slices of a tensor, in order.

    Attributes:
        source: The tensor and how it is cut.
        node: The SplitToSequence that cuts it.
        count: How many slices there are, if known.
        sizes: The size of each slice along the axis, if all are known.
    """

    source: TensorSource
    node: ir.Node
    count: int | None = None
    sizes: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Piece:
    """One slice of a tensor that is cut into a known number of slices."""

    sliced: Sliced
    index: int


Element = ir.Value | Piece
Part = Element | Sliced


@dataclasses.dataclass(frozen=True)
class Parts:
    """A sequence: single elements and slices of whole tensors, one behind the other."""

    parts: tuple[Part, ...] = ()

    @property
    def count(self) -> int | None:
        """The number of elements, if it is known."""
        counts = [_count(part) for part in self.parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def elements(self) -> tuple[Element, ...] | None:
        """Return the elements one by one; None if they are not known or too many."""
        listed: list[Element] = []
        for part in self.parts:
            if not isinstance(part, Sliced):
                listed.append(part)
            elif part.count is None or part.count > MOST_PIECES:
                return None
            else:
                listed.extend(Piece(part, i) for i in range(part.count))
        return tuple(listed)

    def at(self, position: int) -> Element | None:
        """Return the element at a position; None if it is not known or out of range."""
        cut = self._cut_out(position)
        return None if cut is None else cut[1]

    def insert(self, element: Element, position: int | None) -> Parts | None:
        """Return the sequence with an element more, as SequenceInsert has it."""
        cut = (self.parts, ()) if position is None else self._cut(position)
        return None if cut is None else Parts((*cut[0], element, *cut[1]))

    def erase(self, position: int | None) -> Parts | None:
        """Return the sequence with an element less, as SequenceErase has it."""
        cut = self._cut_out(-1 if position is None else position)
        return None if cut is None else Parts((*cut[0], *cut[2]))

    def _cut(self, position: int) -> tuple[tuple[Part, ...], tuple[Part, ...]] | None:
        """Cut in front of the element at a position, counted from the end that it names."""
        if position >= 0:
            return _cut_front(self.parts, position)
        turned = _cut_front(self.parts[::-1], -position, from_back=True)
        return None if turned is None else (turned[1][::-1], turned[0][::-1])

    def _cut_out(self, position: int) -> tuple[tuple[Part, ...], Element, tuple[Part, ...]] | None:
        """Return what stands before an element, the element, and what stands behind it."""
        cut = self._cut(position)
        if cut is None or not cut[1]:
            return None
        behind = _cut_front(cut[1], 1)
        if behind is None:
            return None
        element = behind[0][-1]
        if isinstance(element, Sliced):
            element = Piece(element, 0)
        return cut[0], element, behind[1]


def _count(part: Part) -> int | None:
    return part.count if isinstance(part, Sliced) else 1


def _cut_front(
    parts: tuple[Part, ...], number: int, *, from_back: bool = False
) -> tuple[tuple[Part, ...], tuple[Part, ...]] | None:
    """Return the first ``number`` elements and the rest; None if that is not known."""
    taken: list[Part] = []
    for i, part in enumerate(parts):
        if number == 0:
            return tuple(taken), parts[i:]
        count = _count(part)
        if count is None:
            return None
        if count <= number:
            taken.append(part)
            number -= count
            continue
        assert isinstance(part, Sliced)
        if count > MOST_PIECES:
            return None
        pieces = [Piece(part, k) for k in range(count)]
        if from_back:
            pieces.reverse()
        return (*taken, *pieces[:number]), (*pieces[number:], *parts[i + 1 :])
    return (tuple(taken), ()) if number == 0 else None
