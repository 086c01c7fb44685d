"""The state of a walk over a body: how each value is held so far, and what is known of it."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.form_notes import FormNotes
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.promotion import Promotions
from passes.batching.sizes import LengthKey, SampleNumbers, sole_lengths
from passes.graph.builder import Builder
from passes.graph.drafts import Memo
from passes.numbers.integers import Linear
from passes.promises import FuseOptions
from passes.typing import Typings, ValueType
from passes.typing.value_types import UNKNOWN

__all__ = ["BodyState", "WalkOptions"]


@dataclasses.dataclass(frozen=True)
class WalkOptions:
    """The surroundings of a walk.

    Attributes:
        opset: Version of ONNX's operators in the model.
        batch: Number of samples, int64 ``[1]``.
        may_be_empty: Whether there may be no samples where the new nodes run.
        paths: Names the nodes for messages.
        asked: What the caller asks for.
        lengths: The lengths that a symbol stands for, as the first dimension of a value.
        ambiguous: Symbols that may not be one dimension of a sample in the whole body; None if
            no loop may collect lengths.
        nodes: How many nodes a sample takes in a loop, without constants.
        products: How many of them are products of matrices.
        is_carried: Whether operators behind the map compute what a Loop carried.
    """

    opset: int
    batch: ir.Value
    may_be_empty: bool
    paths: Mapping[ir.Node, str]
    asked: FuseOptions = dataclasses.field(default_factory=FuseOptions)
    lengths: Mapping[str, Lengths] = dataclasses.field(default_factory=dict)
    ambiguous: Collection[str] | None = None
    nodes: int = 0
    products: int = 0
    is_carried: bool = False


_SHARED = frozenset({ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64})
"""Types of constants that all samples share."""


class BodyState(FormNotes, abc.ABC):
    """The values of a body as far as a walk has come; `BatchInterpreter` of `walk` is one.

    What rules note of the form as a whole stands in `FormNotes`.

    Attributes:
        options: The surroundings of the walk.
        env: Every value of the body that was reached.
        promotions: Per-sample values that are read as stacked or packed.
        hoisted: Shared nodes, which now run once even if there are no samples.
    """

    def __init__(self, typings: Typings, options: WalkOptions, origin: str) -> None:
        super().__init__()
        self.env: dict[ir.Value, Batched] = {}
        self.promotions = Promotions(typings, options.lengths, options.ambiguous, origin)
        self.hoisted: list[ir.Node] = []
        self._typings = typings
        self.options = options
        self._origin = origin
        self._differing: set[ir.Value] = set()
        self._lengths_by: dict[tuple[Builder, LengthKey], Lengths] = Memo()
        self._around: BodyState | None = None
        self._own: set[ir.Value] = set()
        self._named: dict[str, int] = {}

    @functools.cached_property
    def numbers(self) -> SampleNumbers:
        """Reads small integer tensors of the body as sums of lengths and dimensions."""
        return SampleNumbers(self._typings.proven, self)

    def type_of(self, value: ir.Value) -> ValueType:
        """Return what is known of a value of the body where the new nodes run."""
        known = self._typings.proven[value]
        if known.type is None:
            return self._typings.declared[value]
        if known.dims is None:
            return known
        numbers = map(self.number_named, known.dims)
        dims = tuple(d if n is None else n for d, n in zip(known.dims, numbers, strict=True))
        return dataclasses.replace(known, dims=dims)

    def number_named(self, dim: int | str | None) -> int | None:
        """Return the number that a rule has proven of a symbol, None if none has."""
        if not isinstance(dim, str):
            return None
        if dim in self._named or self._around is None:
            return self._named.get(dim)
        return self._around.number_named(dim)

    def _name_numbers(self, value: ir.Value, dims: Sequence[int | str | None]) -> None:
        """Let symbols of a value stand for the numbers that its rule has proven.

        ``[1, H * W, 8]`` that becomes ``[1, H, W, -1]`` has 8 channels, and so has every value
        behind it whose dimension has this symbol.
        """
        for name, number in zip(self._typings.proven[value].dims or (), dims, strict=False):
            named = isinstance(name, str) and self._typings.proven.names_dimension(name)
            if named and isinstance(number, int):
                self._named[str(name)] = number

    def declared_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return the dimensions of a value of the body, numbers that are only declared included.

        This is for uses only where a sample that breaks the declaration ends in an error.
        """
        return self._typings.numbered_dims(value)

    def have_one_shape(self, one: ir.Value, other: ir.Value) -> bool:
        """Whether two values of the body have the same dimensions in each sample, by proof."""
        return self._typings.proven.have_one_shape(one, other)

    def bind(self, value: ir.Value, x: Batched) -> None:
        """Enter an input of the body, with the type that the body gives it."""
        self.env[value] = dataclasses.replace(x, type=self.type_of(value))

    def bind_apart(self, value: ir.Value, *, differs: bool) -> None:
        """Enter a per-sample input of the body, which can be read in every loop.

        Args:
            value: The input.
            differs: Whether its samples are known to differ in shape.
        """
        self.promotions.add_source(value)
        self.bind(value, Batched(Layout.PER_SAMPLE, value, UNKNOWN))
        if differs:
            self._differing.add(value)

    def share_constant(self, value: ir.Value, builder: Builder) -> None:
        """Hold a vector of integers or flags as shared where it is a constant for all samples.

        Of rows ``[n, 12]`` the last entry of Shape is 12, however many rows a sample has.
        """
        x = self.env[value]
        dims = x.type.dims
        if not x.is_stacked or x.dtype not in _SHARED or dims is None or len(dims) > 1:
            return
        numbers = self.numbers.of(value) or ()
        known = [n.number for n in numbers if n.number is not None]
        if not known or len(known) < len(numbers):
            return
        array = np.array(known, x.dtype.numpy()).reshape(-1 if dims else ())
        constant = builder.constant(array)
        self.env[value] = Batched(Layout.SHARED, constant, x.type, x.stage)

    def read(self, value: ir.Value) -> Batched:
        """Return a value of the body; one that it does not compute itself is shared."""
        if value not in self.env:
            self.env[value] = Batched(Layout.SHARED, value, self.type_of(value))
        return self.env[value]

    def read_batched(self, value: ir.Value) -> Batched:
        """Return a value of the body as shared or stacked."""
        return self.promotions.promote(self.read(value))

    def held(self, value: ir.Value) -> Batched | None:
        """Return how a value is held; None for a value of the body that was not reached yet.

        A value from outside of the body, which it need not read itself, is shared. What a body
        around this one holds for other samples is not known here.
        """
        if value in self.env:
            return self.env[value]
        if self._around is not None:
            x = self._around.held(value)
            is_of_these = self.options.batch is self._around.options.batch
            return x if x is None or x.is_shared or is_of_these else None
        if value in self._own:
            return None
        return Batched(Layout.SHARED, value, self.type_of(value))

    def settle(self, value: ir.Value, collected: Batched) -> None:
        """Replace what stood for a value by what a loop has collected of it.

        A rule may have passed on what it was given, or its lengths.
        """
        settled = self.promotions.settle(value, collected)
        for old, x in self.env.items():
            if x.value in settled:
                self.env[old] = dataclasses.replace(x, value=settled[x.value])

    def lengths_named(self, dim: int | str | None) -> Lengths | None:
        """Return the lengths that a dimension of a sample stands for, None if for none."""
        return self.promotions.named(dim)

    def lengths_of(self, value: ir.Value) -> tuple[Lengths, int] | None:
        """Return the lengths of a packed value and their axis, None if it is not packed."""
        x = self.held(value)
        if x is None or x.layout is not Layout.PER_SAMPLE:
            return None if x is None or x.lengths is None else (x.lengths, x.axis)
        lengths = self.promotions.lengths(value)
        return None if lengths is None else (lengths, self.promotions.axis(value))

    def lengths_by(self, builder: Builder, key: LengthKey, make: Callable[[], Lengths]) -> Lengths:
        """See `passes.batching.context.Context.lengths_by`."""
        if isinstance(key, Linear):
            whole = sole_lengths(key)
            if whole is not None:
                return whole
        if (builder, key) not in self._lengths_by:
            self._lengths_by[builder, key] = make()
        return self._lengths_by[builder, key]

    def path_of(self, node: ir.Node) -> str:
        """Return what a report calls a node of the body."""
        return self.options.paths.get(node) or node.name or node.op_type

    @abc.abstractmethod
    def nested(
        self,
        graph: ir.Graph,
        bindings: Mapping[ir.Value, Batched],
        builder: Builder,
        batch: ir.Value,
        *,
        may_be_empty: bool,
        keeps_flat: bool,
    ) -> list[Batched]:
        """Batch all nodes of a graph inside a node; see `Context.nested`."""

    @abc.abstractmethod
    def count_failing(self) -> int:
        """Count the nodes so far that could fail and run once, without samples too."""

    @abc.abstractmethod
    def runs_anywhere(self, node: ir.Node) -> bool:
        """Whether a node cannot fail for samples for which the body would not run it."""
