"""The types of the values of a model, as tables beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard

import onnx_ir as ir

__all__ = [
    "UNKNOWN",
    "Typing",
    "Typings",
    "ValueType",
    "are_numbers",
    "common_dims",
    "dim_of",
    "is_number",
]


@dataclasses.dataclass(frozen=True)
class ValueType:
    """The type of one value, as far as it is known.

    Attributes:
        type: Tensor, sequence or optional type with its element type; None if unknown.
        dims: Dimensions (of each element, for a sequence): a number, a symbol or None; None as a
            whole if the rank is unknown.
    """

    type: ir.TypeProtocol | None
    dims: tuple[int | str | None, ...] | None

    def filled_from(self, other: ValueType) -> ValueType:
        """Return the type with its open dimensions taken from one of the same rank.

        ``[2, None]`` filled from ``[None, 3]`` is ``[2, 3]``.
        """
        if self.dims is None or other.dims is None or len(self.dims) != len(other.dims):
            return self
        pairs = zip(self.dims, other.dims, strict=True)
        return ValueType(self.type, tuple(b if a is None else a for a, b in pairs))

    def agreed(self, other: ValueType) -> ValueType:
        """Return what is known of a value that has one of two types."""
        if self.type != other.type:
            return UNKNOWN
        if self.dims is None or other.dims is None or len(self.dims) != len(other.dims):
            return ValueType(self.type, None)
        pairs = zip(self.dims, other.dims, strict=True)
        return ValueType(self.type, tuple(a if a == b else None for a, b in pairs))


UNKNOWN = ValueType(None, None)


def is_number(dtype: ir.DataType | None) -> TypeGuard[ir.DataType]:
    """Whether elements have a known size: they are no texts, and their type is known."""
    return dtype not in (None, ir.DataType.STRING)


def are_numbers(dims: Iterable[int | str | None]) -> bool:
    """Whether all dimensions are known numbers."""
    return all(isinstance(dim, int) for dim in dims)


def common_dims(
    every: Sequence[tuple[int | str | None, ...] | None],
) -> tuple[int | str | None, ...] | None:
    """Return the dimensions that some shapes of one rank have in common, None for each other.

    ``[2, n]`` and ``[2, 3]`` have ``[2, None]``. None as a whole where a rank is not known, or
    two differ, or there is no shape.
    """
    known = [dims for dims in every if dims is not None]
    if len(known) < len(every) or len({len(dims) for dims in known}) != 1:
        return None
    return tuple(dims[0] if len(set(dims)) == 1 else None for dims in zip(*known, strict=True))


def dim_of(dim: int | ir.SymbolicDim) -> int | str | None:
    """Return a dimension of a shape as a typing has it: a number, a symbol or None."""
    return dim if isinstance(dim, int) else dim.value


class Typing:
    """A side table of types; values that the model gained later are entered by `copy`."""

    def __init__(self, symbols: frozenset[str] = frozenset(), *, names_axes: bool = False) -> None:
        """Make an empty table.

        Args:
            symbols: The symbols that stand for one number in the whole model.
            names_axes: Whether each of them names one axis of one input. Otherwise two inputs
                may share one, which proves nothing of their dimensions.
        """
        self._types: dict[ir.Value, ValueType] = {}
        self._empty: set[ir.Value] = set()
        self._once: set[ir.Value] = set()
        self._symbols = symbols
        self._made: frozenset[str] = frozenset()
        self._names_axes = names_axes

    @property
    def names_axes(self) -> bool:
        """Whether each symbol of the model names one axis of one input."""
        return self._names_axes

    def derived(self) -> Typing:
        """Return an empty table in which symbols mean what they mean here."""
        derived = Typing(self._symbols, names_axes=self._names_axes)
        derived._made = self._made
        return derived

    def name_dimension(self, symbol: str, *, is_made: bool = False) -> None:
        """Let a symbol that no value has stand for one number in the whole model.

        Args:
            symbol: The symbol.
            is_made: Whether how the value is made may tell more of the number.
        """
        self._symbols |= {symbol}
        if is_made:
            self._made |= {symbol}

    def may_follow(self, dim: int | str | None) -> bool:
        """Whether how a value is made may tell more of a dimension than its type does."""
        return not self.is_same_number(dim) or dim in self._made

    def __getitem__(self, value: ir.Value) -> ValueType:
        """Return what is known of a value."""
        return self._types.get(value, UNKNOWN)

    def items(self) -> Iterable[tuple[ir.Value, ValueType]]:
        """Return all values that something is known of."""
        return self._types.items()

    def set(self, value: ir.Value, type_: ValueType) -> None:
        """Enter what is known of a value."""
        self._types[value] = type_

    def set_empty(self, value: ir.Value) -> None:
        """Note that inference says 0 of a dimension, which is entered as unknown."""
        self._empty.add(value)

    def is_said_empty(self, value: ir.Value) -> bool:
        """Whether inference says 0 of a dimension that is unknown here; a runtime believes it."""
        return value in self._empty

    def note_once(self, values: Iterable[ir.Value]) -> None:
        """Note that the model computes some values once: its main graph does."""
        self._once.update(values)

    def is_once(self, value: ir.Value) -> bool:
        """Whether a value is known to be computed once, so that it is the same for all readers."""
        return value in self._once

    def copy(self, values: Mapping[ir.Value, ir.Value | None]) -> None:
        """Give each new value the type of the old one, which it computes anew."""
        for old, new in values.items():
            if new is not None and old in self._types:
                self._types[new] = _combined(self[new], self[old])

    def is_sequence(self, value: ir.Value) -> bool | None:
        """Whether the value is a sequence; None if its type is unknown."""
        type_ = self[value].type
        return None if type_ is None else isinstance(type_, ir.SequenceType)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a tensor, or of a sequence's elements."""
        type_ = self[value].type
        return None if type_ is None else type_.dtype

    def dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return the dimensions; None if the rank is unknown."""
        return self[value].dims

    def dim(self, value: ir.Value, axis: int) -> int | str | None:
        """Return a dimension, None where it is not known; a negative axis counts from the back."""
        dims = self.dims(value)
        return dims[axis % len(dims)] if dims else None

    def rank(self, value: ir.Value) -> int | None:
        """Return the rank, if it is known."""
        dims = self[value].dims
        return None if dims is None else len(dims)

    def static_dims(self, value: ir.Value) -> tuple[int, ...] | None:
        """Return the dimensions if all are numbers."""
        dims = self[value].dims
        if dims is None or not all(isinstance(d, int) for d in dims):
            return None
        return tuple(d for d in dims if isinstance(d, int))

    def is_one_number(self, dim: int | str | None) -> bool:
        """Whether a dimension is a number, or a symbol that stands for one in the whole model."""
        return isinstance(dim, int) or (isinstance(dim, str) and dim in self._symbols)

    def is_same_number(self, dim: int | str | None) -> bool:
        """Whether all dimensions with this number or symbol are the same number."""
        return isinstance(dim, int) or (self._names_axes and self.is_one_number(dim))

    def have_one_shape(self, one: ir.Value, other: ir.Value) -> bool:
        """Whether two values have the same dimensions wherever both are computed, by proof.

        A symbol proves it only in the proven typing, where no two inputs share one.
        """
        dims = self[one].dims
        return (
            dims is not None and dims == self[other].dims and all(map(self.names_dimension, dims))
        )

    def names_dimension(self, dim: int | str | None) -> bool:
        """Whether all dimensions that are this are one number wherever they are computed."""
        return isinstance(dim, int) or (self._names_axes and dim is not None)


@dataclasses.dataclass(frozen=True)
class Typings:
    """The declared and the proven typing of one model.

    Attributes:
        declared: What the model's types say.
        proven: What holds whatever they say.
        contradicted: The bodies in which declared dimensions contradict each other.
    """

    declared: Typing
    proven: Typing
    contradicted: set[ir.Graph] = dataclasses.field(default_factory=set)

    def copy(self, values: Mapping[ir.Value, ir.Value | None]) -> None:
        """Give each new value the types of the old one."""
        self.declared.copy(values)
        self.proven.copy(values)

    def set(self, value: ir.Value, type_of: Callable[[Typing], ValueType]) -> None:
        """Enter what each typing knows of a value."""
        for typing in (self.declared, self.proven):
            typing.set(value, type_of(typing))

    def equal_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return the dimensions of a body's value, None for each that may differ by sample.

        A number is taken from the declared typing too. This is for uses only where a sample
        that breaks it ends in an error, such as the scan output of a Loop.
        """
        proven, declared = self.proven[value].dims, self.declared[value].dims
        if declared is None or (proven is not None and len(proven) != len(declared)):
            declared = proven
        if proven is None:
            proven = declared
        if proven is None or declared is None:
            return None
        return tuple(
            p if self.proven.is_one_number(p) else d if isinstance(d, int) else None
            for p, d in zip(proven, declared, strict=True)
        )

    def proven_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return `equal_dims` with None for each number that is only declared."""
        dims, proven = self.equal_dims(value), self.proven[value].dims
        if dims is None or proven is None:
            return None if dims is None else (None,) * len(dims)
        return tuple(p if self.proven.is_one_number(p) else None for p in proven)

    def numbered_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return `equal_dims` with the numbers that are declared in the place of symbols.

        This is for what a value of no samples, or of no steps, has for its dimensions.
        """
        dims, declared = self.equal_dims(value), self.declared[value].dims
        if dims is None or declared is None or len(dims) != len(declared):
            return dims
        pairs = zip(dims, declared, strict=True)
        return tuple(n if isinstance(n, int) and not isinstance(d, int) else d for d, n in pairs)

    def takes_declared(self, value: ir.Value) -> bool:
        """Whether `equal_dims` takes a number for the value that is declared and not proven."""
        proven, dims = self.proven[value].dims, self.equal_dims(value)
        if dims is None or proven is None:
            return dims is not None
        return any(isinstance(d, int) and p != d for p, d in zip(proven, dims, strict=True))


def _combined(a: ValueType, b: ValueType) -> ValueType:
    """Return what two inferences know together of one value."""
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return ValueType(a.type or b.type, b.dims if a.dims is None else a.dims)
    dims = (x if isinstance(x, int) else y for x, y in zip(a.dims, b.dims, strict=True))
    return ValueType(a.type or b.type, tuple(dims))
