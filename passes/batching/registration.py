"""The public way to register a batching rule, for operators of any domain."""

from __future__ import annotations

from passes.batching import (
    rules,  # noqa: F401  (fills the table)
    table,
)
from passes.batching.context import Rule
from passes.batching.elementwise import broadcasting, elementwise
from passes.batching.packed import rules as packed_rules  # noqa: F401  (fills the table)
from passes.batching.packed.row_by_row import broadcasting_rows, rows

__all__ = ["register"]

_PACKED_FORMS: dict[Rule, Rule] = {elementwise: rows, broadcasting: broadcasting_rows}


def register(
    op_types: str,
    rule: Rule,
    *,
    packed: Rule | None = None,
    domain: str = "",
    since: int = 1,
    until: int | None = None,
    rounding: bool = False,
    discrete: bool = False,
    total: bool = False,
    draws: bool = False,
) -> None:
    """Register a batching rule for operators that have none.

    Args:
        op_types: Names of operators, separated by spaces.
        rule: ``rule(ctx, node, operands) -> outputs`` for stacked operands, see
            `passes.batching.context.Rule`; `elementwise` and `broadcasting` are two of them.
        packed: The same for packed operands (samples that differ in length). By default the
            form that belongs to the family of ``rule``; without one such nodes stay per-sample.
        domain: Domain of the operators.
        since: First opset of ONNX's operators for which the rule holds.
        until: Last one.
        rounding: Whether batching may change results by rounding.
        discrete: Whether a rounding difference in an operand can change the result by more.
        total: Whether the operator yields a result for all values of fitting shapes.
        draws: Whether it draws random numbers.

    Raises:
        ValueError: One of the operators has a rule already.
    """
    packed = packed or _form_of_family(op_types, rule, domain)
    table.register(
        op_types,
        rule,
        since=since,
        until=until,
        rounding=rounding,
        discrete=discrete,
        total=total,
        draws=draws,
        domain=domain,
    )
    if packed is not None:
        table.register_packed(
            op_types,
            packed,
            rounding=rounding,
            since=since,
            any_axis=packed in _PACKED_FORMS.values(),
            domain=domain,
        )


def _form_of_family(op_types: str, rule: Rule, domain: str) -> Rule | None:
    """Return the packed form that belongs to a rule, unless another range of opsets brought it."""
    names = set(op_types.split())
    known = (row for row in table.rows() if isinstance(row, table.Row) and row.domain == domain)
    has_one = any(row.op_type in names and table.has_packed_rule(row) for row in known)
    return None if has_one else _PACKED_FORMS.get(rule)
