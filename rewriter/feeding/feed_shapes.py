"""The shapes of the tensors and elements of one feed."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from rewriter.feeding.feed_values import Style
from rewriter.feeding.input_specs import Dim, InputSpec

__all__ = ["FeedKind", "FeedSizes", "Recipe", "Spread"]

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


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How open dimensions and numbers are chosen; models differ in what they accept.

    ``is_long`` is for models of sound: the last axis is long, the open ones before it have size 1.
    """

    sizes: Literal["apart", "by symbol", "one size"] = "by symbol"
    ragged: Literal["all", "first", "last", "own symbols"] = "all"
    style: Style = "small"
    scale: int = 1
    is_long: bool = False
    binds_length: bool = False
    index_limit: int = 2


class FeedSizes:
    """The sizes of the open dimensions of one feed, drawn when first asked for."""

    def __init__(
        self, rng: np.random.Generator, recipe: Recipe, kind: FeedKind, shared: set[str]
    ) -> None:
        self._rng = rng
        self._recipe = recipe
        self._kind = kind
        self._shared = shared
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
        if self._recipe.is_long and axis < len(dims) - 1:
            return 1
        if self._is_ragged(spec, dims, axis):
            return self._ragged_sizes(key)[number % 6]
        if not spec.is_sequence and axis == 0 and self._leads():
            return self._equal.setdefault(key, self._kind.length)
        return self._equal.setdefault(key, int(self._rng.integers(2, 6)) * self._recipe.scale)

    def _leads(self) -> bool:
        """Whether the first axis of a tensor counts what the kind counts."""
        return self._recipe.binds_length or self._kind.description.startswith("size")

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
            own = [i for i in open_axes if dims[i] not in self._shared]
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
