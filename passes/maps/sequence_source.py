"""A source of elements: a sequence, or the tensor that SplitToSequence cut into one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

import onnx_ir as ir

from passes.flat_views import read_view
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_default_domain, is_operator
from passes.graph.made import before_identities, operand, optional_operand
from passes.maps.element_source import ElementSource, Read, typed
from passes.maps.tensor_source import TensorSource
from passes.typing import Typing, ValueType

__all__ = [
    "CONTRADICTED",
    "DISPUTED",
    "MAKERS",
    "PASSED_ON",
    "SequenceSource",
    "cut_tensor",
    "is_contradicted",
    "is_disputed",
    "maker",
    "sequence_source",
]

MAKERS = frozenset(
    {"SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence"}
)
"""Operators that make a sequence."""

PASSED_ON = ("Identity", "SequenceErase", "SequenceInsert")
"""Operators whose first input is a sequence that they pass on, changed or not."""


@dataclasses.dataclass(frozen=True)
class SequenceSource(ElementSource):
    """Sample ``k`` reads element ``k`` of a sequence.

    Attributes:
        sequence: The sequence value.
    """

    kind: ClassVar[str] = "element"
    given_count = None

    sequence: ir.Value

    @property
    def values(self) -> tuple[ir.Value, ...]:
        """See `ElementSource.values`."""
        return (self.sequence,)

    def moved(self, now: Mapping[ir.Value, ir.Value]) -> SequenceSource:
        """See `ElementSource.moved`."""
        return SequenceSource(now.get(self.sequence, self.sequence))

    def through(self, write: Callable[[ir.Value], ir.Value]) -> SequenceSource:
        """See `ElementSource.through`."""
        return SequenceSource(write(self.sequence))

    def as_rows(self, typing: Typing) -> ElementSource:
        """See `ElementSource.as_rows`."""
        return sequence_source(self.sequence, typing)

    def count(self, builder: Builder, typing: Typing | None) -> ir.Value:
        """See `ElementSource.count`."""
        view = read_view(self.sequence)
        if view is not None:
            shape = builder.op("Shape", [view.sizes])
            return builder.op("Gather", [shape, builder.ints(0)], {"axis": 0})
        length = builder.op("SequenceLength", [self.sequence])
        return builder.op("Unsqueeze", [length, builder.ints(0)])

    def scalar_count(self, builder: Builder, typing: Typing) -> ir.Value:
        """See `ElementSource.scalar_count`."""
        if read_view(self.sequence) is not None:
            return super().scalar_count(builder, typing)
        return builder.op("SequenceLength", [self.sequence])

    def number(self, typing: Typing) -> int | None:
        """See `ElementSource.number`."""
        made = self._constructed()
        return None if made is None else len(made.inputs)

    def length_key(self, typing: Typing) -> object:
        """See `ElementSource.length_key`; a SequenceMap yields as many as its first source."""
        node = self.sequence.producer()
        if node is None or not is_default_domain(node):
            return self.sequence
        if node.op_type == "SequenceConstruct":
            return len(node.inputs)
        mapped = node.inputs[0] if node.op_type == "SequenceMap" else None
        if mapped is None:
            return self.sequence
        return sequence_source(mapped, typing).length_key(typing)

    def element_type(self, typing: Typing) -> ValueType:
        """See `ElementSource.element_type`."""
        dtype = typing.dtype(self.sequence)
        type_ = None if dtype is None else ir.TensorType(dtype)
        return ValueType(type_, typing[self.sequence].dims)

    def has_one_shape(self, typing: Typing) -> bool:
        """See `ElementSource.has_one_shape`: constructed of tensors of one static shape."""
        shapes = self._shapes(typing)
        return len(shapes) == 1 and None not in shapes

    def differs(self, typing: Typing) -> bool:
        """See `ElementSource.differs`."""
        return len(self._shapes(typing) - {None}) > 1

    def prepare(self, builder: Builder, dtype: ir.DataType | None) -> Read:
        """See `ElementSource.prepare`."""
        return typed(lambda inner, index: inner.op("SequenceAt", [self.sequence, index]), dtype)

    def stack(self, builder: Builder, rank: int | None, typing: Typing) -> ir.Value:
        """See `ElementSource.stack`."""
        node = self._constructed()
        if node is not None and self.has_one_shape(typing):
            rows = [builder.op("Unsqueeze", [v, builder.ints(0)]) for v in node.inputs]
            return builder.op("Concat", rows, {"axis": 0})
        attributes = {"axis": 0, "new_axis": 1}
        return builder.op("ConcatFromSequence", [self.sequence], attributes)

    def _constructed(self) -> ir.Node | None:
        node = self.sequence.producer()
        if not is_operator(node, "SequenceConstruct"):
            return None
        return node

    def _shapes(self, typing: Typing) -> set[tuple[int, ...] | None]:
        """Return the shapes of the tensors that the sequence is constructed of."""
        node = self._constructed()
        if node is None:
            return set()
        return {None if v is None else typing.static_dims(v) for v in node.inputs}


def sequence_source(sequence: ir.Value, typing: Typing) -> ElementSource:
    """Return the tensor that SplitToSequence cuts into a sequence, or the sequence itself.

    Identity in between is passed over.
    """
    return cut_tensor(sequence, typing) or SequenceSource(before_identities(sequence))


def cut_tensor(sequence: ir.Value, typing: Typing) -> TensorSource | None:
    """Return the tensor that SplitToSequence cuts into a sequence, None if there is none."""
    sequence = before_identities(sequence)
    node = _split_node(sequence)
    return None if node is None or is_disputed(sequence, typing) else _split_source(node, typing)


DISPUTED = (
    "onnxruntime takes away the axis that is cut where ONNX keeps it, by a SplitToSequence with a "
    "scalar split and keepdims = 0: leave out the split for elements without the axis, or set "
    "keepdims to 1 for elements with it"
)
"""Why the elements of some sequences count as of unknown rank."""


def is_disputed(sequence: ir.Value, typing: Typing) -> bool:
    """Whether ONNX and onnxruntime differ on the rank of the elements of a sequence.

    ONNX ignores ``keepdims`` where sizes are given, and onnxruntime where these are a vector; it
    fails where they are a scalar other than 1.
    """
    node = _split_node(before_identities(sequence))
    given = None if node is None else optional_operand(node, 1)
    if node is None or given is None:
        return False
    is_cut_away = not node.attributes.get_int("keepdims", 1)
    size = constant_value(given)
    may_be_one = size is None or bool((size == 1).all())
    return is_cut_away and may_be_one and typing.rank(given) != 1


CONTRADICTED = "the body declares other dimensions of its elements than their sequence has"


def is_contradicted(element: ir.Value, sequence: ir.Value, typing: Typing) -> bool:
    """Whether a body declares other dimensions of its elements than their sequence has.

    A guard asks for those that the body declares, and onnxruntime folds by those of the sequence.
    """
    own, around = typing.dims(element), typing.dims(sequence)
    if own is None or around is None:
        return False
    pairs = zip(own, around, strict=False)
    differ = (isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
    return len(own) != len(around) or any(differ)


def maker(sequence: ir.Value, through: Collection[str] = PASSED_ON) -> ir.Node | None:
    """Return the node that made a sequence, behind those that pass it on."""
    node = sequence.producer()
    while is_operator(node, through):
        node = operand(node, 0).producer()
    return node


def _split_node(sequence: ir.Value) -> ir.Node | None:
    node = sequence.producer()
    is_split = is_operator(node, "SplitToSequence")
    return node if is_split else None


def _split_source(node: ir.Node, typing: Typing) -> TensorSource | None:
    tensor = node.inputs[0]
    split = optional_operand(node, 1)
    axis = node.attributes.get_int("axis", 0)
    keepdims = node.attributes.get_int("keepdims", 1)
    assert tensor is not None
    if split is None:
        return TensorSource(tensor, axis, bool(keepdims))
    rank = typing.rank(split)
    if rank is None:
        return None
    if rank == 0 and constant_value(split) == 1:
        return TensorSource(tensor, axis)
    return TensorSource(tensor, axis, split=split, split_is_scalar=rank == 0)
