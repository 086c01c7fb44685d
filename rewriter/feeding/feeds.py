"""Inputs for a model: read from a file, or made from its types and promises."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from passes.errors import RewriteError
from passes.graph.graphs import all_graphs
from passes.promises import Promises
from rewriter.feeding.feed_checks import check_feeds
from rewriter.feeding.feed_files import read_expected, read_feeds, write_feeds
from rewriter.feeding.feed_shapes import FeedKind, FeedSizes, Spread, Symbols
from rewriter.feeding.feed_values import Style, draw
from rewriter.feeding.index_inputs import index_bounds
from rewriter.feeding.input_specs import InputSpec, input_specs
from rewriter.feeding.recipes import RECIPES, Recipe
from rewriter.model_files import models

__all__ = [
    "Feed",
    "FeedKind",
    "FeedMaker",
    "check_feeds",
    "read_expected",
    "read_feeds",
    "write_feeds",
]


@dataclasses.dataclass(frozen=True)
class Feed:
    """One value for every input of a model.

    Attributes:
        description: What it is like, such as ``length 5 ragged``.
        values: Input name to array, list of arrays or None (an absent optional).
    """

    description: str
    values: dict[str, Any]

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """What tells feeds apart: types, shapes, and the first numbers of each array.

        Drawn numbers differ from the first one on; all of them would take longer than a run.
        """
        told = [(name, _glimpse(value)) for name, value in self.values.items()]
        return hashlib.sha256(pickle.dumps(told)).digest()


_GLIMPSE = 64


def _glimpse(value: Any) -> Any:
    if isinstance(value, list):
        return [_glimpse(item) for item in value]
    return value if value is None else (value.shape, value.ravel()[:_GLIMPSE].copy())


_RANKS = (2, 1, 3, 4, 0)
_SPREADS: tuple[Spread, ...] = ("equal", "ragged")
# The evaluator's take empty strings away, where onnxruntime keeps them.
_DROP_EMPTY = {"StringNormalizer"}
# So many kinds of feeds go through every try before it is clear that the model accepts none.
_PATIENCE = 3
_REDRAWS = 10
_LENGTH = 5
_LONGEST = 2**22  # elements of a sequence: half a gigabyte of arrays
"""The length of sequences where it is another dimension that has a size."""


class FeedMaker:
    """Makes feeds for one model, again and again when the model refuses one."""

    def __init__(
        self,
        model: Any,
        seed: int = 0,
        promises: Promises | None = None,
        lengths: Sequence[int] = (),
    ) -> None:
        """Read the inputs of a model.

        Args:
            model: The model (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
            seed: The same seed makes the same feeds.
            promises: The promises to keep; None reads those that the model carries.
            lengths: Further lengths to try.
        """
        if seed < 0:
            raise RewriteError(f"the seed is {seed}; give 0 or a positive number")
        graph = models.take(model).model
        self._seed = seed
        self._lengths = tuple(lengths)
        self._specs = [s for s in input_specs(graph, promises) if s.is_required or s.is_optional]
        self._symbols = Symbols(self._specs)
        self._bounds = index_bounds(graph)
        operators = {node.op_type for inner in all_graphs(graph) for node in inner}
        self._has_empty = not operators & _DROP_EMPTY
        unknown = any(spec.dims is None for spec in self._specs)
        self._ranks: tuple[int, ...] = _RANKS if unknown else (0,)
        as_declared = [dataclasses.replace(spec, dims=spec.declared) for spec in self._specs]
        every = [self._specs] if as_declared == self._specs else [self._specs, as_declared]
        self._tries = [
            (specs, recipe, rank) for specs in every for recipe in RECIPES for rank in self._ranks
        ]

    def kinds(self, cases: int) -> list[FeedKind]:
        """Return what ``cases`` feeds should try: lengths 5, 2, 1, 0, equal and ragged."""
        sequences = [spec for spec in self._specs if spec.is_sequence]
        wanted: list[tuple[int, Spread]]
        if not sequences:
            wanted = [(n, "equal") for n in (5, *self._lengths, 2, 1, 0, 3, 8)]
        else:
            wanted = [(5, "ragged"), (2, "equal")]
            wanted += [(n, spread) for n in self._lengths for spread in _SPREADS]
            wanted += [(1, "equal"), (0, "equal")]
            wanted += [(5, "equal"), (2, "ragged"), (5, "ragged with an empty element")]
            if any(spec.dims is None for spec in sequences):
                wanted.append((3, "of mixed ranks"))
            elif len(sequences) > 1:
                wanted.append((2, "longer"))
            else:
                wanted.append((3, "ragged"))
            if not any(spec.may_be_ragged for spec in sequences):
                wanted = [kind for kind in wanted if kind[1] in ("equal", "longer")]
        return [
            FeedKind(self._describe(*wanted[i % len(wanted)], bool(sequences)), *rest, i)
            for i in range(cases)
            for rest in [wanted[i % len(wanted)]]
        ]

    @property
    def has_sizes(self) -> bool:
        """Whether inputs of several sizes can be drawn."""
        return any(
            spec.is_sequence or self._counting_axis(spec) is not None for spec in self._specs
        )

    def sized(self, size: int, dimension: str = "") -> FeedKind:
        """Return a feed of so many samples.

        Args:
            size: The length of sequences; without them the axis of tensors that counts samples.
            dimension: The name of the dimension that has this size instead.

        Raises:
            RewriteError: No input has a dimension of that name, or a sequence would be longer
                than any that is worth drawing.
        """
        if dimension and dimension not in self._symbols.named:
            known = ", ".join(sorted(self._symbols.named)) or "none"
            raise RewriteError(
                f"no input has a dimension {dimension!r}; those named are: {known}; sizes without "
                "a name are numbers of samples"
            )
        sequences = [spec for spec in self._specs if spec.is_sequence]
        if sequences and not dimension and size > _LONGEST:
            raise RewriteError(
                f"a sequence of {size:,} elements is too long to be drawn: ask for at most "
                f"{_LONGEST:,}, or give inputs with --inputs"
            )
        spread: Spread = "ragged" if any(spec.may_be_ragged for spec in sequences) else "equal"
        if dimension:
            return FeedKind(f"{dimension} = {size}", size, "equal", 0, dimension)
        return FeedKind(self._describe(size, spread, bool(sequences)), size, spread, 0)

    def size_of(self, feed: Feed) -> int:
        """Return how many samples a feed holds, as `sized` counts them; 0 where nothing does."""
        for spec in sorted(self._specs, key=lambda spec: not spec.is_sequence):
            value = feed.values[spec.name]
            if spec.is_sequence and value is not None:
                return len(value)
            axis = self._counting_axis(spec)
            if axis is not None and np.ndim(value) > axis:
                return int(value.shape[axis])
        return 0

    def _counting_axis(self, spec: InputSpec) -> int | None:
        return self._symbols.counting_axis((None,) if spec.dims is None else spec.dims)

    def attempts(self, kind: FeedKind, worked: int | None) -> list[int]:
        """Return the tries worth making for a feed, the most telling first.

        Args:
            kind: What the feed is meant to try.
            worked: The try that the model accepted last, None as long as there is none.
        """
        every = range(len(self._tries))
        if worked is None:
            return list(every) if kind.number < _PATIENCE else list(every[:_REDRAWS])
        width = len(self._ranks)
        rank, other = worked % width, (worked + kind.number) % width
        first = [other, other + width, *(rank + width * i for i in range(4)), worked]
        return list(dict.fromkeys([*first, *every[:_REDRAWS]]))

    def draw(self, kind: FeedKind, attempt: int = 0) -> Feed:
        """Make one feed; another ``attempt`` chooses sizes and numbers in another way."""
        specs, recipe, rank = self._tries[attempt]
        rng = np.random.default_rng([self._seed, kind.number, attempt])
        sizes = FeedSizes(rng, recipe, kind, self._symbols)
        values: dict[str, Any] = {}
        first = True
        for spec in specs:
            if spec.is_optional and (kind.number + attempt) % 3 == 2:
                values[spec.name] = None
                continue
            count = 1
            if spec.is_sequence:
                count = _LENGTH if kind.sized else kind.length
            if spec.is_sequence and kind.spread == "longer" and not first:
                count += 1
            first = first and not spec.is_sequence
            items = [
                draw(
                    rng,
                    spec.dtype,
                    sizes.shape(spec, rank, i),
                    _style(recipe.style, kind),
                    self._indices(spec, recipe, kind),
                    has_empty=self._has_empty,
                )
                for i in range(count)
            ]
            values[spec.name] = items if spec.is_sequence else items[0]
        return Feed(kind.description, values)

    def _describe(self, length: int, spread: Spread, has_sequences: bool) -> str:
        if not has_sequences:
            is_open = any(spec.is_open for spec in self._specs)
            return f"size {length}" if is_open else "fixed shapes"
        if spread == "longer":
            return f"length {length}, further sequences longer"
        return f"length {length} {spread}" if length > 1 else f"length {length}"

    def _indices(self, spec: InputSpec, recipe: Recipe, kind: FeedKind) -> tuple[int, int] | None:
        if spec.name not in self._bounds:
            return None
        bound = self._bounds[spec.name]
        if bound is None or recipe.style in ("one", "zero"):
            # Where the extent is unknown it is most likely the number of elements.
            bound = max(1, min(recipe.index_limit, kind.length))
        return 0, bound - 1


def _style(style: Style, kind: FeedKind) -> Style:
    """Return numbers of one sign in every other feed: a logarithm should see them too."""
    return "positive" if style == "signed" and kind.number % 2 else style
