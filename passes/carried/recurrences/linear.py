"""Linear recurrences: ``s = a_i * s + b_i``, in steps of twice as many rows each.

Two iterations, one behind the other, are one: ``a2 * (a1 * s + b1) + b2`` has the factor
``a2 * a1`` and the term ``a2 * b1 + b2``. Discounted sums, moving averages and states that decay
are such recurrences.

Where a target has If and Loop, a Loop of two operators runs for few iterations, and where a
product of factors or a sum of terms could overflow that does not in the Loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.widths import FACTORS, ONE_FACTOR
from passes.carried.joined import Joined, covers
from passes.carried.pattern import Pattern
from passes.carried.recurrences.linear_steps import (
    Role,
    in_front,
    in_loop,
    in_steps,
    in_steps_by_signs,
)
from passes.carried.totals.doubling import check_steps
from passes.carried.totals.filled import expanded
from passes.decisions import Code
from passes.graph.builder import END, Builder
from passes.graph.looped_branches import take_loops
from passes.numbers.integer_reads import INTEGERS
from passes.reading.not_a_map import NotAMapError

__all__ = ["TYPES", "LinearRecurrence"]

_LARGEST = {ir.DataType.FLOAT: 1e30, ir.DataType.DOUBLE: 1e300}
"""Up to which sum of all terms nothing on the way can overflow."""

TYPES = frozenset(_LARGEST) | INTEGERS
"""The element types of recurrences that are computed in steps."""

_FEW = 15
"""So many iterations take no longer in a Loop of two operators."""


@dataclasses.dataclass(frozen=True)
class LinearRecurrence(Pattern):
    """A carried value that is multiplied by a factor and gains a term in each iteration.

    Attributes:
        terms: What is needed of an iteration.
        roles: What each term is.
        dtype: Its element type.
        number: The factor, where it is one number in all iterations.
        keeps: Whether no factor is larger than 1, by proof.
        spoils: Whether an infinite value becomes NaN in all iterations.
        is_small: Whether the Loop as given is as fast for few iterations as one of two operators.
    """

    roles: tuple[Role, ...]
    dtype: ir.DataType
    number: float | None
    keeps: bool
    spoils: bool
    is_small: bool
    name = "linear recurrence"
    keeps_shape = "by its terms"
    gives_next = True

    @property
    def few(self) -> int:  # type: ignore[override]
        """Up to how many iterations the Loop as given is no slower."""
        return _FEW if self.is_small or self.dtype in INTEGERS else 1

    @property
    def rounds(self) -> bool:  # type: ignore[override]
        """Whether it rounds otherwise than the Loop: integers do not, even where they overflow."""
        return self.dtype not in INTEGERS

    def can_collect(self, *, is_after: bool) -> bool:
        """The values of all iterations are computed at once."""
        return True

    def write(self, joined: Joined) -> ir.Value:
        """Record the value behind the last iteration."""
        return joined.last_of(self._whole(joined))

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the values behind each iteration, or those in front of it."""
        return (
            self._behind(joined) if is_after else _cut(joined.builder, self._whole(joined), 0, -1)
        )

    def _whole(self, joined: Joined) -> ir.Value:
        """Return the initial value and the values behind all iterations, recorded once."""

        def write() -> ir.Value:
            return self._with_first(joined, [self._behind(joined)])

        return joined.once((self.carried.inner, "whole"), write)

    def _behind(self, joined: Joined) -> ir.Value:
        """Return the values behind all iterations, recorded once."""
        return joined.once(self.carried.inner, lambda: self._recorded(joined))

    def _recorded(self, joined: Joined) -> ir.Value:
        """Record the values behind all iterations.

        Raises:
            NotAMapError: Factors may be larger than 1, or the Loop is faster.
        """
        self._check_pays(joined)
        if self.dtype in INTEGERS or not joined.asks:
            return self._in_steps(joined)
        if joined.trips.static is not None or (self.is_small and joined.weighs_cost):
            return self._if_finite(joined)
        builder = joined.builder
        many = builder.op("Greater", [joined.trips.write(builder), builder.ints(_FEW)])
        return _either(joined, builder.op("Squeeze", [many]), self._if_finite, self._looped)

    def _check_pays(self, joined: Joined) -> None:
        """Check that the shape stays, that factors are not too large, and that it pays."""
        detail, count = "", joined.trips.static
        if self.dtype not in INTEGERS and not (joined.asks or self.keeps):
            detail = ", and its factor is not proven to lie between -1 and 1"
        has_both = joined.branches and joined.loops
        if has_both and count is not None and count <= _FEW:
            detail = f", and {count} iterations are faster in the Loop"
        if not all(covers(joined.typing, self.carried.initial, t.dims) for t in joined.types):
            detail = ", and is not proven to keep its shape"
        if detail:
            detail = f"'{self.carried.inner.name}' depends on its own past{detail}"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        check_steps(joined, self.carried, self._widest)

    @property
    def _widest(self) -> int:
        """So many bytes may a row have that is faster in steps."""
        return FACTORS if self.number is None else ONE_FACTOR

    def _if_finite(self, joined: Joined) -> ir.Value:
        """Record the steps where nothing can overflow and rows are narrow, and else the Loop."""
        asked = self._is_finite(joined)
        if joined.typing.static_dims(self.carried.initial) is None:
            asked = joined.builder.op("And", [asked, self._is_narrow(joined)])
        made = _either(joined, asked, self._in_steps, self._looped)
        take_loops(joined.builder.nodes[-1:], joined.builder.origin, joined.opset)
        return made

    def _is_narrow(self, joined: Joined) -> ir.Value:
        """Record whether a row is no wider than what is faster in steps."""
        builder = joined.builder
        widest = builder.scalar(self._widest // int(self.dtype.itemsize))
        return builder.op("LessOrEqual", [builder.op("Size", [self.carried.initial]), widest])

    def _is_finite(self, joined: Joined) -> ir.Value:
        """Record whether all terms are finite, and no factor is larger than 1."""
        builder = joined.builder
        size = builder.op("ReduceL1", [joined.values[0]], {"keepdims": 0})
        first = builder.op("ReduceL1", [self.carried.initial], {"keepdims": 0})
        largest = builder.constant(np.array(_LARGEST[self.dtype], self.dtype.numpy()))
        asked = builder.op("Less", [builder.op("Add", [size, first]), largest])
        if self.keeps:
            return asked
        one = builder.constant(np.array(1, self.dtype.numpy()))
        is_kept = builder.op("LessOrEqual", [builder.op("Abs", [self._of(joined, "factor")]), one])
        others = builder.op("Cast", [builder.op("Not", [is_kept])], {"to": int(ir.DataType.FLOAT)})
        count = builder.op("ReduceSum", [others], {"keepdims": 0})
        none = builder.constant(np.array(0, np.float32))
        return builder.op("And", [asked, builder.op("Equal", [count, none])])

    def _in_steps(self, joined: Joined) -> ir.Value:
        """Record the values behind all iterations in steps of twice as many rows each."""
        offset = expanded(joined, self.carried, 0, joined.rank(self.carried.initial))
        rows, factors = self._with_first(joined, [offset]), self._factors(joined)
        if self.dtype in INTEGERS or joined.asks:
            whole = in_steps(joined, rows, factors, self.dtype)
        else:
            anew = self._in_front(joined, "anew", False) if "anew" in self.roles else None
            signs = self._signs(joined, factors)
            whole = in_steps_by_signs(joined, rows, factors, signs, anew, self.dtype)
        return _cut(joined.builder, whole, 1, END)

    def _with_first(self, joined: Joined, rows: Sequence[ir.Value]) -> ir.Value:
        """Record rows behind the initial value."""
        builder = joined.builder
        first = builder.op("Unsqueeze", [self.carried.initial, builder.ints(0)])
        return builder.op("Concat", [first, *rows], {"axis": 0})

    def _factors(self, joined: Joined) -> ir.Value:
        """Record the factors, with 1 in front as that of the initial value, or the one number."""
        if self.number is not None:
            return joined.builder.constant(np.array(self.number, self.dtype.numpy()))
        return self._in_front(joined, "factor", 1)

    def _signs(self, joined: Joined, factors: ir.Value) -> ir.Value:
        """Record what an infinite value is multiplied by: 0 makes NaN of it."""
        builder = joined.builder
        if self.spoils:
            return builder.op("Sub", [factors, factors])
        signs = builder.op("Sign", [factors])
        if "spoilt" not in self.roles:
            return signs
        zero = builder.constant(np.array(0, self.dtype.numpy()))
        return builder.op("Where", [self._in_front(joined, "spoilt", False), zero, signs])

    def _of(self, joined: Joined, role: Role) -> ir.Value:
        return joined.values[self.roles.index(role)]

    def _in_front(self, joined: Joined, role: Role, number: int) -> ir.Value:
        """Record a term of all iterations with a number, or a flag, in front of it."""
        dtype = ir.DataType.BOOL if isinstance(number, bool) else self.dtype
        return in_front(joined, self.carried, self.roles.index(role), number, dtype)

    def _looped(self, joined: Joined) -> ir.Value:
        """Record the values behind all iterations one by one."""
        given = dict(zip(self.roles, joined.values, strict=True))
        return in_loop(joined, self.carried, given, self.dtype, self.number, spoils=self.spoils)


_Write = Callable[[Joined], ir.Value]


def _cut(builder: Builder, rows: ir.Value, start: int, end: int) -> ir.Value:
    return builder.op("Slice", [rows, *(builder.ints(n) for n in (start, end, 0))])


def _either(joined: Joined, asked: ir.Value, one: _Write, other: _Write) -> ir.Value:
    """Record an If that runs one of two ways to write something."""
    builder = joined.builder
    graphs = {
        "then_branch": builder.subgraph("then", [], lambda b: [one(joined.within(b))]),
        "else_branch": builder.subgraph("else", [], lambda b: [other(joined.within(b))]),
    }
    return builder.op("If", [asked], graphs)
