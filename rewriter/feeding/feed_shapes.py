"""The shapes of the tensors and elements of one feed."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rewriter.feeding.input_specs import Dim, InputSpec
from rewriter.feeding.recipes import Recipe

__all__ = ["FeedKind", "FeedSizes", "Spread", "Symbols"]

Spread = Literal["equal", "ragged", "ragged with an empty element", "of mixed ranks", "longer"]


@dataclasses.dataclass(frozen=True)
class FeedKind:
    """The aim of a feed: how many elements, and how they differ.

    Attributes:
        description: What the feed is like.
        length: The number of elements of sequences.
        spread: How elements differ.
        number: Which of several feeds this is.
        sized: The name of a dimension that has the size ``length``; empty for none.
    """

    description: str
    length: int
    spread: Spread
    number: int
    sized: str = ""


class Symbols:
    """What the dimensions of the inputs of a model mean, as far as their types tell.

    Attributes:
        named: The names of dimensions.
        shared: Those that several inputs have.
        before_last: Those that stand before the last axis of an input.
    """

    def __init__(self, specs: Sequence[InputSpec]) -> None:
        dims = [spec.dims or () for spec in specs]
        held = [{dim for dim in one if isinstance(dim, str)} for one in dims]
        counts = collections.Counter(symbol for one in held for symbol in one)
        self.named = set(counts)
        self.shared = {symbol for symbol, count in counts.items() if count > 1}
        self.before_last = {dim for one in dims for dim in one[:-1] if isinstance(dim, str)}
        self._by_first = any(
            spec.dims is None or (spec.dims and not isinstance(spec.dims[0], int))
            for spec in specs
            if not spec.is_sequence
        )

    def counting_axis(self, dims: tuple[Dim, ...]) -> int | None:
        """Return the axis of a tensor that counts samples: its first, if any input's is open.

        None where that is a number.
        """
        axes = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
        return next((axis for axis in axes if not axis or not self._by_first), None)


class FeedSizes:
    """The sizes of the open dimensions of one feed, drawn when first asked for."""

    def __init__(
        self, rng: np.random.Generator, recipe: Recipe, kind: FeedKind, symbols: Symbols
    ) -> None:
        self._rng = rng
        self._recipe = recipe
        self._kind = kind
        self._symbols = symbols
        self._equal: dict[object, int] = {}
        self._ragged: dict[object, list[int]] = {}

    def shape(self, spec: InputSpec, rank: int, number: int) -> tuple[int, ...]:
        """Return the shape of the tensor, or of element ``number`` of the sequence.

        Args:
            spec: The input.
            rank: Its rank, where its type does not tell.
            number: Which element; 0 for a tensor.
        """
        dims: tuple[Dim, ...] = (None,) * rank if spec.dims is None else spec.dims
        if spec.dims is None and spec.may_be_ragged and self._kind.spread == "of mixed ranks":
            dims += (None,) * (number % 2)
        return tuple(self._size(spec, dims, axis, number) for axis in range(len(dims)))

    def _size(self, spec: InputSpec, dims: tuple[Dim, ...], axis: int, number: int) -> int:
        dim = dims[axis]
        if isinstance(dim, int):
            return dim
        if dim is not None and dim == self._kind.sized:
            return self._kind.length
        key = self._key(spec, dim, axis)
        if self._recipe.is_long and self._counts_signals(spec, dims, axis):
            return self._kind.length if self._recipe.binds_length else 1
        if self._is_ragged(spec, dims, axis):
            return self._ragged_sizes(key)[number % 6]
        if not spec.is_sequence and self._leads() and axis == self._symbols.counting_axis(dims):
            return self._equal.setdefault(key, self._kind.length)
        return self._equal.setdefault(key, int(self._rng.integers(2, 6)) * self._recipe.scale)

    def _leads(self) -> bool:
        """Whether the axis of a tensor that counts samples counts what the kind counts."""
        is_asked = self._recipe.binds_length or self._kind.description.startswith("size")
        return is_asked and not self._recipe.is_long

    def _counts_signals(self, spec: InputSpec, dims: tuple[Dim, ...], axis: int) -> bool:
        """Whether an axis is none along which a signal is long.

        What holds one integer a sample, such as lengths, has no other axis than that of samples.
        """
        if axis < len(dims) - 1 or dims[axis] in self._symbols.before_last:
            return True
        return len(dims) == 1 and not spec.is_sequence and spec.dtype.is_integer()

    def _key(self, spec: InputSpec, dim: Dim, axis: int) -> object:
        if self._recipe.sizes == "one size":
            return "one size"
        if self._recipe.sizes == "apart" and spec.is_sequence:
            return spec.name, axis
        return dim if isinstance(dim, str) else (spec.name, axis)

    def _is_ragged(self, spec: InputSpec, dims: tuple[Dim, ...], axis: int) -> bool:
        if not spec.may_be_ragged or self._kind.spread in ("equal", "longer"):
            return False
        open_axes = [i for i, dim in enumerate(dims) if not isinstance(dim, int)]
        if self._recipe.ragged == "own symbols":
            own = [i for i in open_axes if dims[i] not in self._symbols.shared]
            return axis in (own or open_axes)
        chosen = {"all": open_axes, "first": open_axes[:1], "last": open_axes[-1:]}
        return axis in chosen[self._recipe.ragged]

    def _ragged_sizes(self, key: object) -> list[int]:
        if key not in self._ragged:
            # A permutation: two elements always differ, and a size of 1, which broadcasts, is
            # among the first two.
            scale = self._recipe.scale
            least = 2 * scale if self._recipe.is_long else 1
            sizes = [least, *(self._rng.permutation([2, 3, 4, 5, 6]) * scale).tolist()]
            if self._kind.spread == "ragged with an empty element":
                sizes[2] = 0
            if self._rng.integers(2):
                sizes[0], sizes[1] = sizes[1], sizes[0]
            self._ragged[key] = sizes
        return self._ragged[key]
