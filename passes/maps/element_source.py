"""The questions that every source of samples answers: number, types, reading, stacking."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, TypeVar

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.typing import Typing, ValueType

__all__ = ["ElementSource", "Read", "Slices", "typed"]

S = TypeVar("S", bound="ElementSource")


Read = Callable[[Builder, ir.Value], ir.Value]
"""Records how a loop reads one sample: ``read(builder, index)`` with an int64 scalar."""


def typed(read: Read, dtype: ir.DataType | None) -> Read:
    """Return the same with an element type for what is read; None leaves it open."""

    def read_typed(inner: Builder, index: ir.Value) -> ir.Value:
        element = read(inner, index)
        if dtype is not None:
            element.type = ir.TensorType(dtype)
        return element

    return read_typed


class Slices(Protocol):
    """The slices of a tensor; see `passes.maps.tensor_source.TensorSource`."""

    @property
    def tensor(self) -> ir.Value:
        """The tensor that is cut."""

    @property
    def axis(self) -> int:
        """Where it is cut."""

    @property
    def keepdims(self) -> bool:
        """Whether the axis stays."""

    @property
    def split(self) -> ir.Value | None:
        """The sizes."""

    @property
    def split_is_scalar(self) -> bool:
        """Whether the sizes are one number."""

    @property
    def is_reversed(self) -> bool:
        """Whether sample 0 reads the last slice."""

    def sizes(self, builder: Builder, typing: Typing | None = None) -> ir.Value:
        """Record the sizes of slices that are cut by sizes."""


class ElementSource(abc.ABC):
    """A source: sample ``k`` reads its element ``k``.

    The first source of a map gives the number of samples. The methods with a builder record nodes
    around the map; the typing that they and others take is the proven one.

    Attributes:
        kind: What a Map node calls it.
        sequence: The sequence that is read; None for a source of another kind.
    """

    kind: ClassVar[str]
    sequence: ir.Value | None

    @property
    def as_slices(self) -> Slices | None:
        """The source itself if it cuts a tensor; None for a source of another kind."""
        return None

    @property
    def read_kind(self) -> str:
        """How a loop reads a sample: ``element``, ``row``, ``slice`` or ``index``."""
        return self.kind

    @property
    def counted(self) -> ElementSource | None:
        """A source with one element for each sample, by proof; None if none is known."""
        return self

    @property
    @abc.abstractmethod
    def values(self) -> tuple[ir.Value, ...]:
        """The values around the map that it names."""

    @abc.abstractmethod
    def moved(self: S, now: Mapping[ir.Value, ir.Value]) -> S:
        """Return the source with other values in the place of some that it names."""

    def through(self, write: Callable[[ir.Value], ir.Value]) -> ElementSource:
        """Return the source with another sequence in the place of its own, if it has one."""
        return self

    def as_rows(self, typing: Typing) -> ElementSource:
        """Return the source as it is now: a sequence that was cut from a tensor as its rows."""
        return self

    # The number of samples, which is asked for nowhere else.

    @abc.abstractmethod
    def count(self, builder: Builder, typing: Typing | None) -> ir.Value:
        """Record the number of samples, int64 ``[1]``; without a typing in its general form."""

    def scalar_count(self, builder: Builder, typing: Typing) -> ir.Value:
        """Record the number of samples, an int64 scalar."""
        return builder.op("Squeeze", [self.count(builder, typing), builder.ints(0)])

    @property
    @abc.abstractmethod
    def given_count(self) -> ir.Value | None:
        """The value around the map that is the number of samples, for a source of numbers."""

    @abc.abstractmethod
    def number(self, typing: Typing) -> int | None:
        """Return the number of samples if it is a constant."""

    def dimension(self, typing: Typing) -> int | str | None:
        """Return the number of samples as a dimension, None if it is none that is known."""
        return None

    @abc.abstractmethod
    def length_key(self, typing: Typing) -> object:
        """Return what only sources with as many elements have: a number, or what stands for it."""

    # The samples.

    @abc.abstractmethod
    def element_type(self, typing: Typing) -> ValueType:
        """Return the type of a sample; the typing may be the declared one."""

    @abc.abstractmethod
    def has_one_shape(self, typing: Typing) -> bool:
        """Whether all samples have one shape, by proof."""

    def differs(self, typing: Typing) -> bool:
        """Whether not all samples have one shape, by proof."""
        return False

    @abc.abstractmethod
    def prepare(self, builder: Builder, dtype: ir.DataType | None) -> Read:
        """Record what a loop needs outside of it to read a sample; return how it reads one.

        Args:
            builder: Writes the graph that holds the loop.
            dtype: The element type of the samples.
        """

    @abc.abstractmethod
    def stack(self, builder: Builder, rank: int | None, typing: Typing) -> ir.Value | None:
        """Record the stacked form of a source whose samples have one shape.

        Args:
            builder: Writes the graph that the map stands in.
            rank: Rank of a sample, if known.
            typing: The proven typing.

        Returns:
            ``[B, *s]``, or None where the rank that it needs is unknown. A sequence must not be
            empty when this runs.
        """
