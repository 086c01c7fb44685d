"""What a reduction joins under a condition, in one branch or in both.

``s = s + a if c else s - b`` adds ``a`` or nothing, and subtracts nothing or ``b``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.in_branch import in_branch, may_fail_apart
from passes.carried.masks import masked_terms, neutral_value
from passes.carried.selections import Selection, hoist
from passes.carried.weighed import weighed_terms
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["Masking", "Part", "changed_sides"]


@dataclasses.dataclass(frozen=True)
class Part:
    """What is joined, outside of branches.

    Attributes:
        values: The values; they change no total where their condition does not hold.
        nodes: The nodes that compute them.
        speculated: See `passes.carried.pattern.Pattern`.
    """

    values: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()


def changed_sides(mask: Selection, inner: ir.Value) -> list[tuple[ir.Value, bool]]:
    """Return the values of a choice that are not the carried one, and whether each is the other.

    Where both are others, a choice that weighs them is none between two totals.
    """
    sides = [(mask.chosen, False), (mask.other, True)]
    changed = [side for side in sides if side[0] is not inner]
    return [] if mask.weighs and len(changed) > 1 else changed


@dataclasses.dataclass(frozen=True)
class Masking:
    """How the terms of one side of a choice are joined.

    Attributes:
        mask: The choice.
        is_turned: Whether they are joined where the condition is false.
        family: The operator that joins two totals.
        dtype: The element type.
    """

    mask: Selection
    is_turned: bool
    family: str
    dtype: ir.DataType

    def part(self, terms: Sequence[ir.Value], carried: Carried, typing: Typing) -> Part:
        """Return terms that change no total where their condition does not hold."""
        values, nodes, speculated = hoist(terms, self.mask.branches)
        if len(values) == 1 and may_fail_apart(speculated, typing):
            is_scalar = typing.dims(carried.initial) == ()
            none, beside = neutral_value(
                carried.inner, self.family, self.dtype, is_scalar=is_scalar
            )
            taken = in_branch(
                self.mask, values[0], nodes, none, speculated, typing, is_turned=self.is_turned
            )
            return Part((taken.outputs[0],), (*beside, taken))
        if self.mask.weighs:
            values, nodes = weighed_terms(values, self.mask, self.dtype, is_turned=self.is_turned)
        else:
            values, masked = masked_terms(
                values, self.mask, self.is_turned, self.family, self.dtype
            )
            nodes = [*nodes, *masked]
        return Part(tuple(values), tuple(nodes), tuple(speculated))
