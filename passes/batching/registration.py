"""The public way to register a batching rule, for operators of any domain."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching import (
    rules,  # noqa: F401  (fills the table)
    table,
)
from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.families.elementwise import broadcasting, elementwise
from passes.batching.packed import rules as packed_rules  # noqa: F401  (fills the table)
from passes.batching.packed.row_by_row import broadcasting_rows, rows
from passes.decisions import Decline
from passes.errors import RewriteError, RuleError

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
        TypeError: A rule is no function.
    """
    for one in (rule, packed):
        if one is not None and not callable(one):
            raise TypeError(f"the rule of {op_types} is {one!r}, which is no function")
    packed = packed or _form_of_family(op_types, rule, domain)
    table.register(
        op_types,
        _to_blame(rule),
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
            _to_blame(packed),
            rounding=rounding,
            since=since,
            any_axis=packed in _PACKED_FORMS.values(),
            domain=domain,
        )


def _to_blame(rule: Rule) -> Rule:
    """Return a rule that says where it is written if it fails; one of ours is no one else's."""
    if rule.__module__.startswith("passes."):
        return rule

    @functools.wraps(rule)
    def run(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
        try:
            return _checked(rule(ctx, node, operands), node)
        except (Decline, RewriteError):
            raise
        except Exception as error:
            name = f"{node.domain}::{node.op_type}".removeprefix("::")
            raise RuleError(
                f"the rule of {name}, {_place(rule, error)}, fails: {type(error).__name__}: "
                f"{error}; mend the rule"
            ) from error

    return run


def _checked(outputs: Sequence[Output | None], node: ir.Node) -> Sequence[Output | None]:
    if not all(isinstance(one, Output | None) for one in outputs):
        raise TypeError("it has to return what ctx.stacked or ctx.packed gives, or None")
    if len(outputs) != len(node.outputs):
        raise ValueError(
            f"it returns {len(outputs)} outputs, and the node has {len(node.outputs)}"
        )
    return outputs


def _place(rule: Rule, error: Exception) -> str:
    """Return the name of a rule, and the file and line where it failed."""
    code = getattr(inspect.unwrap(rule), "__code__", None)
    if code is None:
        return repr(rule)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == code.co_filename]
    line = lines[-1] if lines else code.co_firstlineno
    return f"{code.co_name!r} in {code.co_filename}, line {line}"


def _form_of_family(op_types: str, rule: Rule, domain: str) -> Rule | None:
    """Return the packed form that belongs to a rule, unless another range of opsets brought it."""
    names = set(op_types.split())
    known = (row for row in table.rows() if isinstance(row, table.Row) and row.domain == domain)
    has_one = any(row.op_type in names and table.has_packed_rule(row) for row in known)
    return None if has_one else _PACKED_FORMS.get(rule)
