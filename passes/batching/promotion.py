"""Values that loops collect, so that nodes outside of them read them batched."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import onnx_ir as ir

from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.graph.builder import Builder
from passes.graph.drafts import Memo
from passes.typing import Typings

__all__ = ["Promotions"]


class Promotions:
    """Per-sample values that are read as stacked or packed.

    A value is stacked where it has one shape for all samples, and packed where one dimension
    alone differs. The lengths by which it is packed are those of a source that this dimension
    is proven to be, or its loop collects them with it.

    Attributes:
        values: Each of them, and what a loop collects of it: a placeholder until that loop is
            written.
    """

    def __init__(
        self,
        typings: Typings,
        named: Mapping[str, Lengths],
        ambiguous: Collection[str] | None,
        origin: str,
    ) -> None:
        """Start with none.

        Args:
            typings: Both typings of the model.
            named: The lengths that a symbol stands for, as the first dimension of a value.
            ambiguous: Symbols that may not be one dimension of a sample in the whole body;
                None if no loop may collect lengths.
            origin: What new nodes are for.
        """
        self.values: dict[ir.Value, ir.Value] = Memo()
        self._typings = typings
        self._named = named
        self._ambiguous = ambiguous
        self._origin = origin
        self._sources: set[ir.Value] = set()
        self._collected: dict[tuple[int, ir.Value | str], Lengths] = Memo()
        self._lengths: dict[ir.Value, Lengths] = Memo()
        self._behind: dict[Lengths, tuple[int, Builder]] = Memo()
        self._settled: dict[ir.Value, ir.Value] = Memo()

    def add_source(self, value: ir.Value) -> None:
        """Enter a value that every loop reads and none computes."""
        self._sources.add(value)

    def is_at_hand(self, x: Batched, loop: int) -> bool:
        """Whether a loop reads a per-sample value as it is: a source, or its own."""
        return x.stage >= loop or x.value in self._sources

    def named(self, dim: int | str | None) -> Lengths | None:
        """Return the lengths of a source that a dimension stands for, None if for none."""
        return self._named.get(dim) if isinstance(dim, str) else None

    def is_stackable(self, value: ir.Value) -> bool:
        """Whether a value has one shape for all samples, so that a loop can stack it.

        A number that is only declared counts beside a dimension that is proven: a type that is
        declared throughout may as well be the first example of an exporter.
        """
        dims = self._typings.equal_dims(value)
        if dims is None or None in dims or not self._is_collected_tensor(value):
            return False
        proven = self._typings.proven
        return not dims or any(proven.is_one_number(d) for d in proven.dims(value) or ())

    def is_packable(self, value: ir.Value) -> bool:
        """Whether a value differs along one axis alone, by lengths that are there or collected."""
        return self._axis_apart(value) is not None

    def axis(self, value: ir.Value) -> int:
        """Return the axis along which a value that is packable differs, 0 for any other."""
        return self._axis_apart(value) or 0

    def _axis_apart(self, value: ir.Value) -> int | None:
        typing = self._typings.proven
        dims = typing.dims(value)
        if not dims or not self._is_collected_tensor(value) or self.is_stackable(value):
            return None
        differs = [i for i, d in enumerate(dims) if not typing.is_one_number(d)]
        if len(differs) != 1:
            return None
        (axis,) = differs
        return axis if self._ambiguous is not None or self.named(dims[axis]) else None

    def is_possible(self, value: ir.Value) -> bool:
        """Whether a loop can collect a value in one tensor."""
        return self.is_stackable(value) or self.is_packable(value)

    def _is_collected_tensor(self, value: ir.Value) -> bool:
        known = self._typings.declared[value].type
        return isinstance(known, ir.TensorType) and value not in self._sources

    def lengths(self, value: ir.Value) -> Lengths | None:
        """Return the lengths by which a value is packed, None if it is not."""
        if value in self._lengths:
            return self._lengths[value]
        axis, dims = self._axis_apart(value), self._typings.proven.dims(value)
        return None if axis is None or dims is None else self.named(dims[axis])

    def promote(self, x: Batched) -> Batched:
        """Return a value as shared, stacked or packed; a per-sample one must be possible."""
        if x.layout is not Layout.PER_SAMPLE:
            return x
        inner = x.value
        if inner not in self.values:
            type_ = None if x.dtype is None else ir.TensorType(x.dtype)
            self.values[inner] = ir.Value(name=inner.name, type=type_)
        if not self.is_packable(inner):
            made, lengths = Layout.STACKED, None
        else:
            made, lengths = Layout.PACKED, self.lengths(inner) or self._collect(inner, x.stage)
        return dataclasses.replace(
            x,
            layout=made,
            value=self.values[inner],
            stage=x.stage + 1,
            lengths=lengths,
            axis=self.axis(inner),
        )

    def _collect(self, value: ir.Value, loop: int) -> Lengths:
        """Return lengths that a loop collects; values of one dimension share them."""
        dims = self._typings.proven.dims(value)
        assert dims and self._ambiguous is not None
        dim = dims[self.axis(value)]
        key = loop, dim if isinstance(dim, str) and dim not in self._ambiguous else value
        if key not in self._collected:
            builder = Builder(self._origin)
            placeholder = ir.Value(name="lengths", type=ir.TensorType(ir.DataType.INT64))
            self._collected[key] = Lengths(builder, placeholder)
            self._behind[self._collected[key]] = loop, builder
        self._lengths[value] = self._collected[key]
        return self._lengths[value]

    def settle(self, value: ir.Value, collected: Batched) -> dict[ir.Value, ir.Value]:
        """Put what a loop has collected into the place of what stood for it.

        Args:
            value: The per-sample value.
            collected: The samples, stacked or packed.

        Returns:
            What stood for the tensor, and for its lengths, and what stands there now.
        """
        settled = {self.values[value]: collected.value}
        self.values[value] = collected.value
        known, made = self._lengths.get(value), collected.lengths
        if known is not None and made is not None and known.value.producer() is None:
            settled[known.value] = made.value
            known.value = made.value
        for placeholder, found in settled.items():
            self._settled[placeholder] = found
        self.settle_readers()
        return settled

    def settle_readers(self) -> None:
        """Let what reads a placeholder, or reads it by now, read what stands in its place."""
        for placeholder, found in self._settled.items():
            placeholder.replace_all_uses_with(found)

    def behind(self, loop: int) -> list[ir.Node]:
        """Return the nodes that follow from the lengths that a loop collects."""
        return [n for one, builder in self._behind.values() if one == loop for n in builder.nodes]
