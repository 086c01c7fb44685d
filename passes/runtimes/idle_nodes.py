"""Nodes of a branch that run where it is not taken, and find nothing there that could fail.

What reads places of a tensor reads the first one, and zeros stand there if the tensor has none;
what writes places writes none; a check is told that nothing is amiss. Where the branch is taken
they do what they did, and fail where they failed. No result gets another shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

from passes.batching.absent_rows import (
    PADDED,
    put_row_of_zeros,
    put_zeros_behind,
    reads_one_place,
    reduced_along,
)
from passes.batching.failing import is_near
from passes.graph.builder import END, Builder
from passes.graph.graphs import is_operator
from passes.graph.made import either_order, made_by, operand, operands
from passes.numbers.folding import Folder
from passes.numbers.number_order import is_nonnegative
from passes.runtimes.defects.reshapes import flags_counted
from passes.typing import Typing

__all__ = ["can_idle", "let_idle"]


def can_idle(node: ir.Node, typing: Typing) -> bool:
    """Whether `let_idle` knows a node.

    Args:
        node: A node of a branch.
        typing: The proven typing.
    """
    if reads_one_place(node, typing) or reduced_along(node, typing):
        return True
    form = _FORMS.get(node.op_type)
    return form is not None and is_operator(node, node.op_type) and form.knows(node, typing)


def let_idle(
    builder: Builder, node: ir.Node, old: ir.Node, taken: ir.Value, typing: Typing
) -> None:
    """Let a node find nothing that could fail where its branch is not taken.

    Args:
        builder: Records what comes before the node.
        node: A copy of ``old``, which is changed.
        old: A node that `can_idle`.
        taken: Whether its branch is taken, a boolean of rank 0.
        typing: The proven typing.
    """
    number = builder.op("Cast", [taken], {"to": ir.DataType.INT64})
    some, rank = builder.op("Reshape", [number, builder.ints(1)]), typing.rank(operand(old, 0))
    assert rank is not None
    if axes := reduced_along(old, typing):
        put_zeros_behind(builder, node, some, rank, axes)
    elif reads_one_place(old, typing):
        place = typing.static_dims(operand(old, 1))
        assert place is not None
        put_row_of_zeros(builder, node, some, rank, place)
    else:
        _FORMS[old.op_type].write(_Idle(builder, node, old, taken, some, typing))


@dataclasses.dataclass(frozen=True)
class _Idle:
    """A node that is to be idle where its branch is not taken.

    Attributes:
        builder: Records what comes before it.
        node: The node, which is changed.
        old: What it is a copy of.
        taken: Whether its branch is taken, a boolean of rank 0.
        some: The same as a number, int64 ``[1]``.
        typing: The proven typing.
    """

    builder: Builder
    node: ir.Node
    old: ir.Node
    taken: ir.Value
    some: ir.Value
    typing: Typing

    def put_first_places(self) -> None:
        """Let the places that are read be the first ones where the branch is not taken."""
        places = self.typing.dtype(operand(self.old, 1))
        assert places is not None
        some = self.builder.op("Cast", [self.some], {"to": places})
        # A number of rank 0: the places may have none either.
        some = self.builder.op("Squeeze", [some, self.builder.ints(0)])
        self.node.replace_input_with(1, self.builder.op("Mul", [operand(self.node, 1), some]))

    def put_zeros(self, axes: Collection[int], count: ir.Value) -> None:
        """Put so many zeros behind the tensor, along axes of unknown size."""
        dims = self.typing.dims(operand(self.old, 0))
        assert dims is not None
        open_axes = [axis for axis in axes if not dims[axis] or not isinstance(dims[axis], int)]
        if not open_axes:
            return
        none = self.builder.ints(0)
        behind = [count if axis in open_axes else none for axis in range(len(dims))]
        pads = [self.builder.ints(*[0] * len(dims)), *behind]
        both = self.builder.op("Concat", pads, {"axis": 0})
        padded = self.builder.op("Pad", [operand(self.node, 0), both])
        self.node.replace_input_with(0, padded)

    @property
    def absent(self) -> ir.Value:
        """1 where the branch is not taken, else 0, int64 ``[1]``."""
        return self.builder.op("Sub", [self.builder.ints(1), self.some])


def _axis(node: ir.Node, rank: int, default: int = 0) -> int | None:
    axis = node.attributes.get_int("axis", default)
    return axis % rank if -rank <= axis < rank else None


def _pads(node: ir.Node, typing: Typing) -> tuple[int | str | None, ...] | None:
    """Return the dimensions of what a node reads, if zeros can be put behind it."""
    return typing.dims(operand(node, 0)) if typing.dtype(operand(node, 0)) in PADDED else None


def _gathers(node: ir.Node, typing: Typing) -> bool:
    dims = _pads(node, typing)
    return (
        bool(dims)
        and typing.rank(operand(node, 1)) is not None
        and (_axis(node, len(dims or ())) is not None)
    )


def _gather(idle: _Idle) -> None:
    axis = _axis(idle.old, idle.typing.rank(operand(idle.old, 0)) or 0)
    assert axis is not None
    idle.put_zeros([axis], idle.absent)
    idle.put_first_places()


def _gathers_elements(node: ir.Node, typing: Typing) -> bool:
    """Whether a GatherElements reads of a tensor that has all rows that it has places for."""
    dims, places = _pads(node, typing), typing.dims(operand(node, 1))
    if not dims or places is None or len(dims) != len(places):
        return False
    axis = _axis(node, len(dims))
    others = [at for at in range(len(dims)) if at != axis]
    return axis is not None and _are_equal(
        [dims[at] for at in others], [places[at] for at in others], typing
    )


def _gathers_nd(node: ir.Node, typing: Typing) -> bool:
    batched = node.attributes.get_int("batch_dims", 0)
    dims, places = _pads(node, typing), typing.dims(operand(node, 1))
    if not dims or not places or batched:
        return False
    return isinstance(places[-1], int) and 0 < places[-1] <= len(dims)


def _gather_nd(idle: _Idle) -> None:
    places = idle.typing.dims(operand(idle.old, 1))
    assert places is not None and isinstance(places[-1], int)
    idle.put_zeros(range(places[-1]), idle.absent)
    idle.put_first_places()


def _finds_best(node: ir.Node, typing: Typing) -> bool:
    """Whether a TopK finds as many as is known to be few."""
    dims = _pads(node, typing)
    if not dims or len(node.inputs) != 2 or _axis(node, len(dims), -1) is None:
        return False
    count = operand(node, 1)
    return typing.static_dims(count) == (1,) and is_near(count, typing)


def _find_best(idle: _Idle) -> None:
    """Find as many of zeros, if the count is no number below 0."""
    axis = _axis(idle.old, idle.typing.rank(operand(idle.old, 0)) or 0, -1)
    assert axis is not None
    count = operand(idle.node, 1)
    number = Folder(idle.typing).number(operand(idle.old, 1))
    if number is None or not is_nonnegative(number):
        no_less = idle.builder.op("Max", [count, idle.builder.ints(0)])
        count = idle.builder.op("Where", [idle.taken, count, no_less])
        idle.node.replace_input_with(1, count)
    idle.put_zeros([axis], idle.builder.op("Mul", [count, idle.absent]))


def _scatters_nd(node: ir.Node, typing: Typing) -> bool:
    """Whether a ScatterND writes what fits, wherever that may be."""
    data, places, updates = (typing.dims(value) for value in operands(node))
    if not data or places is None or updates is None or len(places) < 2:
        return False
    depth = places[-1]
    if not isinstance(depth, int) or not 0 < depth <= len(data):
        return False
    return _are_equal(updates, (*places[:-1], *data[depth:]), typing)


def _scatters_elements(node: ir.Node, typing: Typing) -> bool:
    """Whether a ScatterElements writes as much as it has places for."""
    data, places, updates = (typing.dims(value) for value in operands(node))
    if not data or not places or updates is None or len(data) != len(places):
        return False
    return _axis(node, len(data)) is not None and _are_equal(places, updates, typing)


def _scatter(idle: _Idle) -> None:
    end = idle.builder.op("Mul", [idle.some, idle.builder.ints(END)])
    for at in (1, 2):
        given = [operand(idle.node, at), idle.builder.ints(0), end, idle.builder.ints(0)]
        idle.node.replace_input_with(at, idle.builder.op("Slice", given))


def _checks_flags(node: ir.Node, typing: Typing) -> bool:
    return flags_counted(node, typing) is not None


def _check_flags(idle: _Idle) -> None:
    """Add no flag to the size of a vector that is reshaped."""
    added = made_by(operand(idle.node, 1), "Add")
    pairs = ((size, made_by(more, "ReduceSum")) for size, more in either_order(added))
    size, total = next((size, total) for size, total in pairs if total is not None)
    cast = made_by(operand(total, 0), "Cast")
    assert cast is not None
    flags = idle.builder.op("And", [operand(cast, 0), idle.taken])
    numbers = idle.builder.op("Cast", [flags], cast.attributes)
    more = idle.builder.op("ReduceSum", [numbers, *total.inputs[1:]], total.attributes)
    idle.node.replace_input_with(1, idle.builder.op("Add", [size, more]))


def _are_equal(
    one: Sequence[int | str | None], other: Sequence[int | str | None], typing: Typing
) -> bool:
    return tuple(one) == tuple(other) and all(map(typing.names_dimension, one))


@dataclasses.dataclass(frozen=True)
class _Form:
    """How an operator is idle."""

    knows: Callable[[ir.Node, Typing], bool]
    write: Callable[[_Idle], None]


_FORMS = {
    "Gather": _Form(_gathers, _gather),
    "GatherElements": _Form(_gathers_elements, _gather),
    "GatherND": _Form(_gathers_nd, _gather_nd),
    "Reshape": _Form(_checks_flags, _check_flags),
    "ScatterElements": _Form(_scatters_elements, _scatter),
    "ScatterND": _Form(_scatters_nd, _scatter),
    "TopK": _Form(_finds_best, _find_best),
}
