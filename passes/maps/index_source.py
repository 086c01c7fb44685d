"""A source that gives sample ``k`` the number ``k``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.made import made_by, only_number
from passes.maps.element_source import ElementSource, Read, typed
from passes.typing import Typing, ValueType

__all__ = ["IndexSource", "counts_up"]

_FEW = 1024
"""Up to how many numbers are written as a constant."""


@dataclasses.dataclass(frozen=True)
class IndexSource(ElementSource):
    """Sample ``k`` reads its own number ``k``.

    Attributes:
        write_count: Records the number of samples, int64 ``[1]``.
        known: The same, if it is a constant.
        like: A source that has as many elements by proof, if there is one.
    """

    kind: ClassVar[str] = "index"
    sequence = None

    write_count: Callable[[Builder], ir.Value]
    known: int | None = None
    like: ElementSource | None = None

    @property
    def counted(self) -> ElementSource | None:
        """See `ElementSource.counted`."""
        return self.like

    @property
    def values(self) -> tuple[ir.Value, ...]:
        """See `ElementSource.values`; the number of samples is no value of the record."""
        return ()

    def moved(self, now: Mapping[ir.Value, ir.Value]) -> IndexSource:
        """See `ElementSource.moved`."""
        return self if self.like is None else dataclasses.replace(self, like=self.like.moved(now))

    def as_rows(self, typing: Typing) -> IndexSource:
        """See `ElementSource.as_rows`."""
        return (
            self
            if self.like is None
            else dataclasses.replace(self, like=self.like.as_rows(typing))
        )

    def count(self, builder: Builder, typing: Typing | None) -> ir.Value:
        """See `ElementSource.count`."""
        return self.write_count(builder)

    def scalar_count(self, builder: Builder, typing: Typing) -> ir.Value:
        """See `ElementSource.scalar_count`."""
        if self.like is not None:
            return self.like.scalar_count(builder, typing)
        return super().scalar_count(builder, typing)

    @property
    def given_count(self) -> ir.Value | None:
        """See `ElementSource.given_count`."""
        scratch = Builder("")
        count = self.write_count(scratch)
        return None if scratch.nodes else count

    def number(self, typing: Typing) -> int | None:
        """See `ElementSource.number`."""
        return self.known

    def dimension(self, typing: Typing) -> int | str | None:
        """See `ElementSource.dimension`."""
        if self.known is not None:
            return self.known
        return None if self.like is None else self.like.dimension(typing)

    def length_key(self, typing: Typing) -> object:
        """See `ElementSource.length_key`."""
        if self.like is not None:
            return self.like.length_key(typing)
        return self if self.known is None else self.known

    def element_type(self, typing: Typing) -> ValueType:
        """See `ElementSource.element_type`."""
        return ValueType(ir.TensorType(ir.DataType.INT64), ())

    def has_one_shape(self, typing: Typing) -> bool:
        """See `ElementSource.has_one_shape`."""
        return True

    def prepare(self, builder: Builder, dtype: ir.DataType | None) -> Read:
        """See `ElementSource.prepare`."""
        return typed(lambda inner, index: inner.op("Identity", [index]), dtype)

    def stack(self, builder: Builder, rank: int | None, typing: Typing) -> ir.Value:
        """See `ElementSource.stack`."""
        if self.known is not None and self.known <= _FEW:
            return builder.constant(np.arange(max(self.known, 0), dtype=np.int64))
        # onnxruntime makes a Slice of a Gather by a Range, and a Slice has no row out of range.
        one = builder.scalar(1)
        end = builder.op("Add", [self.scalar_count(builder, typing), one])
        return builder.op("Sub", [builder.op("Range", [one, end, one]), one])


def counts_up(value: ir.Value) -> bool:
    """Whether a tensor holds 0, 1, 2, ... by the way `IndexSource.stack` makes it."""
    cast = made_by(value, "Cast")
    less = made_by(value if cast is None else cast.inputs[0], "Sub")
    numbers = None if less is None else made_by(less.inputs[0], "Range")
    if less is None or numbers is None:
        return False
    return all(only_number(n) == 1 for n in (less.inputs[1], *numbers.inputs[::2]))
