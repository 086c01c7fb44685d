"""What is known of a sequence: its elements one by one, slices of tensors, or both in a row."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.folding import Folder
from passes.graphs import is_default_domain
from passes.sequence_map import sequence_source
from passes.site import TensorSource
from passes.typing import Typing

__all__ = ["MOST_PIECES", "Element", "KnownSequences", "Part", "Parts", "Piece", "Sliced"]

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


class KnownSequences:
    """Tells what is known of the sequences of a model; the model must not change meanwhile."""

    def __init__(self, typing: Typing, folder: Folder | None = None) -> None:
        """Set up the table.

        Args:
            typing: A proven typing.
            folder: Computes positions and sizes from constants and shapes.
        """
        self._typing = typing
        self._folder = folder or Folder(typing)
        self._known: dict[ir.Value, Parts | None] = {}

    def __getitem__(self, sequence: ir.Value) -> Parts | None:
        """Return what is known of a sequence, None if nothing is."""
        chain: list[tuple[ir.Value, ir.Node, ir.Value]] = []
        while sequence not in self._known:
            node = sequence.producer()
            before = None if node is None else _changed_sequence(node)
            if node is None or before is None:
                self._known[sequence] = None if node is None else self._made(node)
                break
            chain.append((sequence, node, before))
            sequence = before
        known = self._known[sequence]
        for value, node, _ in reversed(chain):
            known = None if known is None else self._changed(node, known)
            self._known[value] = known
        return known

    def position(self, value: ir.Value | None) -> int | None:
        """Return the number that a position is, if it is known."""
        number = self._folder.value(value)
        return int(number.item()) if number is not None and number.size == 1 else None

    def _made(self, node: ir.Node) -> Parts | None:
        if not is_default_domain(node):
            return None
        match node.op_type:
            case "SequenceEmpty":
                return Parts()
            case "SequenceConstruct":
                given = [v for v in node.inputs if v is not None]
                return Parts(tuple(given)) if len(given) == len(node.inputs) else None
            case "SplitToSequence":
                return self._sliced(node)
        return None

    def _changed(self, node: ir.Node, known: Parts) -> Parts | None:
        """Return what a node makes of a sequence that is known."""
        if node.op_type == "Identity":
            return known
        inserts = node.op_type == "SequenceInsert"
        at = 2 if inserts else 1
        given = node.inputs[at] if len(node.inputs) > at else None
        position = self.position(given)
        if given is not None and position is None:
            return None
        if not inserts:
            return known.erase(position)
        element = node.inputs[1]
        return None if element is None else known.insert(element, position)

    def _sliced(self, node: ir.Node) -> Parts | None:
        source = sequence_source(node.outputs[0], self._typing)
        if not isinstance(source, TensorSource):
            return None
        dims = self._typing.dims(source.tensor)
        dim: int | str | None = None
        if dims is not None:
            if not -len(dims) <= source.axis < len(dims):
                return None
            dim = dims[source.axis]
        length = dim if isinstance(dim, int) else None
        if source.split is None:
            return Parts((Sliced(source, node, length, None),))
        split = self._folder.value(source.split)
        if split is None:
            return Parts((Sliced(source, node, self._number_of_sizes(source)),))
        if source.split_is_scalar:
            size = int(split)
            if size <= 0:
                return None
            if length is None:
                return Parts((Sliced(source, node),))
            sizes = tuple(min(size, length - start) for start in range(0, length, size))
        else:
            sizes = tuple(int(n) for n in split.ravel())
            if min(sizes, default=0) < 0 or (length is not None and sum(sizes) != length):
                return None
        return Parts((Sliced(source, node, len(sizes), sizes),))

    def _number_of_sizes(self, source: TensorSource) -> int | None:
        assert source.split is not None
        dims = self._typing.static_dims(source.split)
        return dims[0] if dims is not None and len(dims) == 1 else None


def _changed_sequence(node: ir.Node) -> ir.Value | None:
    """Return the sequence that a node passes on, with an element more or less."""
    changes = ("Identity", "SequenceInsert", "SequenceErase")
    if node.op_type not in changes or not is_default_domain(node) or not node.inputs:
        return None
    return node.inputs[0]
