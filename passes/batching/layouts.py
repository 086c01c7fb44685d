"""The record of all samples of one value: of a source, in a walk over a body, of a result."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from passes.batching.flat.samples import FlatSamples
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline
from passes.typing import ValueType
from passes.typing.value_types import UNKNOWN

__all__ = ["Batched", "Layout", "flats_of", "lengths_in", "present", "with_flat"]


class Layout(enum.Enum):
    """How the samples of one value of a body are held."""

    SHARED = "shared"
    STACKED = "stacked"
    PACKED = "packed"
    FLAT = "flat"
    SEQUENCE = "sequence"
    PER_SAMPLE = "per-sample"


@dataclasses.dataclass(frozen=True)
class Batched:
    """All samples of one value.

    Attributes:
        layout: How it is held.
        value: Shared: the one value ``[*s]``. Stacked: ``[B, *s]``. Packed: the samples
            ``[n, *rest]`` one behind the other, ``[T, *rest]``, or ``[*before, n, *rest]``
            likewise. Flat: the places of all samples one behind the other, ``[P, *rest]``, of
            which packed is the case of one axis. Sequence: the samples are its elements; only a
            loop that inserts them one by one yields that. Per-sample: the value of the body
            itself, which no graph outside has.
        type: Element type and dimensions of one sample.
        stage: How many loops must have run before the value is there. For a per-sample value:
            in which loop it is computed.
        rounding: Whether batching may have changed it by rounding.
        lengths: Packed: the lengths of the samples.
        axis: Packed: the axis along which they differ and lie one behind the other.
        beside: Packed: the lengths along the last axis where samples differ along that, too. All
            rows are then as long as the longest, and what is behind these lengths means nothing.
        flat: Flat: how the samples are read off the rows.
        is_exact: As the output of a rule: whether it has the bits of the operator alone, though
            others of the rule may not.
    """

    layout: Layout
    value: ir.Value
    type: ValueType = UNKNOWN
    stage: int = 0
    rounding: bool = False
    lengths: Lengths | None = None
    axis: int = 0
    beside: Lengths | None = None
    flat: FlatSamples | None = None
    is_exact: bool = False

    def with_type(self, type_: ValueType) -> Batched:
        """Return the same with a type, and with the dimensions that are better known here."""
        known = self.flat.known_dims if self.type.dims is None and self.flat else self.type.dims
        if known is None:
            return dataclasses.replace(self, type=type_)
        given = type_.dims or (None,) * len(known)
        pairs = zip(known, given, strict=True)
        dims = tuple(g if d is None else d for d, g in pairs)
        return dataclasses.replace(self, type=dataclasses.replace(type_, dims=dims))

    @property
    def is_shared(self) -> bool:
        """Whether all samples have this one value."""
        return self.layout is Layout.SHARED

    @property
    def is_stacked(self) -> bool:
        """Whether the samples are rows of one tensor."""
        return self.layout is Layout.STACKED

    @property
    def is_packed(self) -> bool:
        """Whether the samples differ in length and lie one behind the other in one tensor."""
        return self.layout is Layout.PACKED

    @property
    def is_flat(self) -> bool:
        """Whether the samples may differ along several axes and lie one behind the other."""
        return self.layout is Layout.FLAT

    @property
    def has_an_axis(self) -> bool:
        """Whether all samples are one value, or rows of one tensor: they have one shape."""
        return self.layout in (Layout.SHARED, Layout.STACKED)

    @property
    def differs(self) -> bool:
        """Whether the samples are flat and may differ in shape."""
        return self.flat is not None and not self.flat.has_one_shape

    @property
    def dtype(self) -> ir.DataType | None:
        """The element type, if known."""
        return None if self.type.type is None else self.type.type.dtype

    @property
    def element_type(self) -> ir.DataType:
        """The element type.

        Raises:
            Decline: It is unknown.
        """
        if self.dtype is None:
            raise Decline(Code.NO_RULE, f"nothing tells the element type of '{self.value.name}'")
        return self.dtype

    @property
    def own_lengths(self) -> Lengths:
        """The lengths of packed samples."""
        assert self.lengths is not None
        return self.lengths

    @property
    def own_flat(self) -> FlatSamples:
        """How flat samples are read off the rows."""
        assert self.flat is not None
        return self.flat

    @property
    def dims(self) -> tuple[int | str | None, ...]:
        """The dimensions of one sample.

        Raises:
            Decline: The rank is unknown.
        """
        if self.type.dims is not None:
            return self.type.dims
        if self.flat is not None:
            return (None,) * len(self.flat.order)
        raise Decline(Code.UNKNOWN_RANK, f"nothing tells the rank of '{self.value.name}'")

    @property
    def rank(self) -> int:
        """The rank of one sample.

        Raises:
            Decline: It is unknown.
        """
        return len(self.dims)

    def permuted(self, perm: Sequence[int]) -> Batched:
        """Return the same samples with their axes in another order, as a Transpose has them.

        Flat samples lie in memory as before; of others the value is that of before, too.
        """
        type_ = dataclasses.replace(self.type, dims=tuple(self.dims[axis] for axis in perm))
        if self.flat is None:
            return dataclasses.replace(self, type=type_)
        order = tuple(self.flat.order[axis] for axis in perm)
        flat = dataclasses.replace(self.flat, order=order)
        return dataclasses.replace(self, type=type_, flat=flat)


def present(operands: Iterable[Batched | None]) -> list[Batched]:
    """Return operands in order, less those that a node leaves out."""
    return [x for x in operands if x is not None]


def flats_of(operands: Iterable[Batched | None]) -> list[FlatSamples]:
    """Return how the samples of the flat operands are read, in order."""
    return [x.flat for x in present(operands) if x.flat is not None]


def lengths_in(operands: Iterable[Batched | None]) -> list[Lengths]:
    """Return the lengths of the packed operands, in order."""
    return [x.lengths for x in present(operands) if x.lengths is not None]


def with_flat(
    operands: Iterable[Batched | None], change: Callable[[Batched], Batched]
) -> list[Batched | None]:
    """Return operands, each flat one changed."""
    return [change(x) if x is not None and x.is_flat else x for x in operands]
