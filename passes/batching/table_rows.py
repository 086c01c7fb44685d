"""The rows of the table of operators."""

from __future__ import annotations

import dataclasses

from passes.batching.context import Rule
from passes.decisions import Code

__all__ = ["Decomposed", "RaggedRow", "Row", "Unsupported"]


@dataclasses.dataclass(frozen=True)
class Row:
    """The rule of one operator for a range of opsets.

    Attributes:
        op_type: The operator.
        rule: The rule.
        family: Name of the family that the rule belongs to.
        since: First opset of the model for which the rule holds.
        until: Last one, None if it still holds.
        rounding: Whether batching may change results by rounding.
        discrete: Whether a rounding difference in an operand can change the result by more.
        total: Whether the operator yields a result for all operand values of fitting shapes,
            so that it may run where it would not have run.
        draws: Whether it draws random numbers for some operands: its rule decides even where
            all of them are shared.
        domain: Domain of the operator.
    """

    op_type: str
    rule: Rule
    family: str
    since: int = 1
    until: int | None = None
    rounding: bool = False
    discrete: bool = False
    total: bool = False
    draws: bool = False
    domain: str = ""


@dataclasses.dataclass(frozen=True)
class Unsupported:
    """An operator that cannot be batched.

    Attributes:
        op_type: The operator.
        code: Why.
        reason: What exactly, in one clause.
        domain: Domain of the operator.
    """

    op_type: str
    code: Code
    reason: str
    domain: str = ""


@dataclasses.dataclass(frozen=True)
class RaggedRow:
    """The rule of one operator for samples of several sizes, beside its row.

    Attributes:
        op_type: The operator.
        rule: The rule.
        rounding: Whether it may change results by rounding where the rule for stacked operands
            does not.
        since: First opset of the model for which the rule holds.
        any_axis: Whether a rule for packed operands knows samples that differ in length along
            another axis than the first.
        two_axes: Whether it knows samples that differ in length along the last axis, too.
        stays_flat: Whether a rule for flat operands takes samples of one shape as well, which it
            need not read off their rows; otherwise they are read as stacked ones.
        domain: Domain of the operator.
    """

    op_type: str
    rule: Rule
    rounding: bool = False
    since: int = 1
    any_axis: bool = False
    two_axes: bool = False
    domain: str = ""
    stays_flat: bool = False


@dataclasses.dataclass(frozen=True)
class Decomposed:
    """An operator that is a function by its definition, whose nodes are batched instead.

    Attributes:
        op_type: The operator.
        domain: Domain of the operator.
    """

    op_type: str
    domain: str
