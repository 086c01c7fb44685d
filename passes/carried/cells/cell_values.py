"""A value of a recurrent cell: a sum of products, and its dimensions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.carried.cells.cell_sums import Gate, NotACellError, Sum, added_up
from passes.graph.graphs import constant_value
from passes.graph.made import axes_of, operand

__all__ = [
    "ACTIVATIONS",
    "CellValue",
    "Dim",
    "Lead",
    "activated",
    "between_zero_and",
    "broadcast",
    "columns_of",
    "is_like",
    "with_axes",
]

Dim = int | str | None
Lead = tuple[Dim, ...]

ACTIVATIONS: Mapping[str, Mapping[str, float]] = {
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    **{name: {} for name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")},
}
"""The activations that recurrent operators have, with the numbers that they have there."""


@dataclasses.dataclass(frozen=True)
class CellValue:
    """What is known of a value.

    Attributes:
        total: The value as a sum of products.
        lead: Its dimensions but the last one.
        width: Its last dimension; None for a number, which is repeated.
    """

    total: Sum
    lead: Lead
    width: int | None


def activated(value: CellValue, node: ir.Node) -> CellValue:
    """Return what an activation makes of a value.

    Raises:
        NotACellError: It has other numbers than the same activation of a recurrent operator.
    """
    if node.op_type == "HardSigmoid":
        defaults = ACTIVATIONS["HardSigmoid"]
        slope, rise = (node.attributes.get_float(name, n) for name, n in defaults.items())
        return _bent_sigmoid(value, slope, rise)
    for name, number in ACTIVATIONS[node.op_type].items():
        if not math.isclose(node.attributes.get_float(name, number), number, rel_tol=1e-6):
            raise NotACellError
    return dataclasses.replace(value, total=Sum.of(Gate.of(node.op_type, value.total)))


def between_zero_and(value: CellValue, top: float) -> CellValue:
    """Return what Clip makes of a value: a HardSigmoid times ``top``, or Relu.

    Raises:
        NotACellError: ``top`` is not above 0.
    """
    if top == math.inf:
        return dataclasses.replace(value, total=Sum.of(Gate.of("Relu", value.total)))
    if top <= 0:
        raise NotACellError
    gate = _bent_sigmoid(value, 1.0 / top, 0.0)
    return dataclasses.replace(gate, total=added_up((gate.total, top)))


def _bent_sigmoid(value: CellValue, slope: float, rise: float) -> CellValue:
    """Return ``slope * x + rise`` within 0 and 1: a HardSigmoid of another sum.

    Recurrent operators take ``0.2 * y + 0.5``, so ``y`` is ``(slope * x + rise - 0.5) / 0.2``.

    Raises:
        NotACellError: The slope is not above 0.
    """
    if slope <= 0:
        raise NotACellError
    own, begin = ACTIVATIONS["HardSigmoid"].values()
    total = added_up((value.total, slope / own), (Sum.number(1.0), (rise - begin) / own))
    return dataclasses.replace(value, total=Sum.of(Gate.of("HardSigmoid", total)))


def columns_of(value: CellValue, start: int, stop: int) -> CellValue:
    """Return some columns of a value, which are all of them or those of a gate.

    Raises:
        NotACellError: They are something else.
    """
    if (start, stop) == (0, value.width):
        return value
    if not 0 <= start < stop:
        raise NotACellError
    return CellValue(value.total.columns(start, stop), value.lead, stop - start)


def with_axes(value: CellValue, node: ir.Node) -> CellValue:
    """Return what a Squeeze or Unsqueeze makes of a value, whose last axis stays where it is.

    A Gather of the only one along an axis is a Squeeze.

    Raises:
        NotACellError: It does something else.
    """
    axes, is_new = axes_of(node) or (), node.op_type == "Unsqueeze"
    if node.op_type == "Gather":
        place = constant_value(operand(node, 1))
        if place is None or place.ndim or place.item() not in (0, -1):
            raise NotACellError
        axes = [node.attributes.get_int("axis", 0)]
    rank = len(value.lead) + 1 + (len(axes) if is_new else 0)
    places = {axis % rank for axis in axes}
    if not places or rank - 1 in places:
        raise NotACellError
    if is_new:
        old = iter(value.lead)
        lead = tuple(1 if at in places else next(old) for at in range(rank - 1))
    elif any(value.lead[at] != 1 for at in places):
        raise NotACellError
    else:
        lead = tuple(dim for at, dim in enumerate(value.lead) if at not in places)
    return dataclasses.replace(value, lead=lead)


def broadcast(total: Sum, values: Sequence[CellValue], state: Lead) -> CellValue:
    """Return what an operator makes of operands that are broadcast.

    Args:
        total: The result.
        values: The operands.
        state: The dimensions of a state but the last one.

    Raises:
        NotACellError: The dimensions of the result are not known.
    """
    lead: Lead = ()
    for value in values:
        short, long = sorted((lead, value.lead), key=len)
        pairs = zip(_padded(short, len(long)), long, _padded(state, len(long)), strict=True)
        lead = tuple(_dim(*pair) for pair in pairs)
    widths = {value.width for value in values} - {None}
    if len(widths) > 1:
        raise NotACellError
    return CellValue(total, lead, next(iter(widths), None))


def _padded(lead: Lead, rank: int) -> Lead:
    return ((1,) * (rank - len(lead)) + lead)[-rank:] if rank else ()


def _dim(one: Dim, other: Dim, state: Dim) -> Dim:
    """Return the dimension of what is broadcast.

    Of two that may differ one is 1, or no iteration runs: the state has the other one from the
    first iteration on, or from the start.
    """
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    if state in (one, other) and _may_be_equal(one, other):
        return state
    raise NotACellError


def is_like(one: Lead, other: Lead) -> bool:
    """Whether two states have the same dimensions, or may have."""
    if len(one) != len(other):
        return False
    return all(
        (a == 1) == (b == 1) and _may_be_equal(a, b) for a, b in zip(one, other, strict=True)
    )


def _may_be_equal(one: Dim, other: Dim) -> bool:
    return one == other or not (isinstance(one, int) and isinstance(other, int))
