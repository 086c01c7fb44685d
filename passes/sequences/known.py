"""Facts about the sequences of a model, by how each is made."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_default_domain, is_operator
from passes.maps.sequence_source import PASSED_ON, cut_tensor
from passes.maps.tensor_source import TensorSource
from passes.numbers.folding import Folder
from passes.sequences.parts import Parts, Sliced
from passes.typing.value_types import Typing

__all__ = ["KnownSequences"]


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
        source = cut_tensor(node.outputs[0], self._typing)
        if source is None:
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
    if not is_operator(node, PASSED_ON) or not node.inputs:
        return None
    return node.inputs[0]
