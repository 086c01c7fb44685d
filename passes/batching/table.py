"""Every operator of ONNX and its batching rule: one table, one row per family and opset range.

Each operator is a row with a rule, or a row that says why it can never be batched, or a function
that is opened so that the nodes of its body are batched instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from passes.batching.context import Rule
from passes.batching.table_rows import Decomposed, RaggedRow, Row, Unsupported
from passes.decisions import Code
from passes.graph.graphs import subgraphs, walk_nodes

__all__ = [
    "NEWEST",
    "Decomposed",
    "RaggedRow",
    "Row",
    "Unsupported",
    "decomposed",
    "families",
    "find",
    "find_flat",
    "find_packed",
    "has_flat_rule",
    "has_packed_rule",
    "holds_at",
    "may_draw",
    "may_round_inside",
    "register",
    "register_flat",
    "register_packed",
    "rows",
    "unsupported",
]


NEWEST = 1 << 30

_rows: dict[tuple[str, str], list[Row]] = {}
_unsupported: dict[tuple[str, str], Unsupported] = {}
_decomposed: dict[tuple[str, str], Decomposed] = {}
_packed: dict[tuple[str, str], RaggedRow] = {}
_flat: dict[tuple[str, str], RaggedRow] = {}


def _key(domain: str, op_type: str) -> tuple[str, str]:
    return ("" if domain == "ai.onnx" else domain, op_type)


def register(
    op_types: str,
    rule: Rule,
    *,
    family: str | None = None,
    since: int = 1,
    until: int | None = None,
    rounding: bool = False,
    discrete: bool = False,
    total: bool = False,
    draws: bool = False,
    domain: str = "",
) -> None:
    """Add a row to the table for each of some operators.

    Args:
        op_types: Names, separated by spaces.
        rule: The rule; see `passes.batching.context.Rule`.
        family: Name of the family, by default the name of the rule.
        since: First opset of the model for which the rule holds.
        until: Last one.
        rounding: See `Row`.
        discrete: See `Row`.
        total: See `Row`.
        draws: See `Row`.
        domain: Domain of the operators, for operators that are not ONNX's own.

    Raises:
        ValueError: A row for one of the operators holds at one of the opsets already.
    """
    for op_type in op_types.split():
        row = Row(
            op_type,
            rule,
            family or rule.__name__.replace("_", " "),
            since,
            until,
            rounding,
            discrete,
            total,
            draws,
            domain,
        )
        known = _rows.setdefault(_key(domain, op_type), [])
        for other in known:
            if other.since <= (until or NEWEST) and since <= (other.until or NEWEST):
                raise ValueError(f"{op_type} has two rules at opset {max(since, other.since)}")
        known.append(row)


def unsupported(op_types: str, code: Code, reason: str) -> None:
    """Enter operators that can never be batched, with the reason."""
    for op_type in op_types.split():
        _unsupported[_key("", op_type)] = Unsupported(op_type, code, reason)


def decomposed(op_type: str, domain: str) -> None:
    """Enter an operator without a rule that is opened (see `passes.batching.opening`)."""
    _decomposed[_key(domain, op_type)] = Decomposed(op_type, domain)


def register_packed(
    op_types: str,
    rule: Rule,
    *,
    rounding: bool = False,
    since: int = 1,
    any_axis: bool = False,
    two_axes: bool = False,
    domain: str = "",
) -> None:
    """Add a rule for packed operands to rows of the table.

    Args:
        op_types: Names, separated by spaces.
        rule: The rule; see `passes.batching.context.Rule`.
        rounding: See `RaggedRow`.
        since: See `RaggedRow`.
        any_axis: See `RaggedRow`.
        two_axes: See `RaggedRow`.
        domain: Domain of the operators.

    Raises:
        ValueError: An operator has such a rule already.
    """
    for op_type in op_types.split():
        row = RaggedRow(op_type, rule, rounding, since, any_axis, two_axes, domain)
        _enter(_packed, row, "packed")


def register_flat(
    op_types: str,
    rule: Rule,
    *,
    rounding: bool = False,
    since: int = 1,
    stays_flat: bool = False,
) -> None:
    """Add a rule for samples that differ along several axes to rows of the table.

    The arguments and errors are those of `register_packed`; for ``stays_flat`` see `RaggedRow`.
    """
    for op_type in op_types.split():
        row = RaggedRow(op_type, rule, rounding, since, stays_flat=stays_flat)
        _enter(_flat, row, "flat")


def _enter(known: dict[tuple[str, str], RaggedRow], row: RaggedRow, layout: str) -> None:
    key = _key(row.domain, row.op_type)
    if key in known:
        raise ValueError(f"{row.op_type} has two rules for {layout} operands")
    known[key] = row


def find_flat(node: ir.Node, opset: int) -> RaggedRow | None:
    """Return the rule of a node for flat operands, None if there is none.

    Args:
        node: A node of a body.
        opset: Version of ONNX's operators in the model.
    """
    return _found(_flat, node, opset)


def find_packed(node: ir.Node, opset: int) -> RaggedRow | None:
    """Return the rule of a node for packed operands, None if there is none.

    Args:
        node: A node of a body.
        opset: Version of ONNX's operators in the model.
    """
    return _found(_packed, node, opset)


def _found(
    known: Mapping[tuple[str, str], RaggedRow], node: ir.Node, opset: int
) -> RaggedRow | None:
    row = known.get(_key(node.domain, node.op_type))
    return row if row is not None and row.since <= opset else None


def has_flat_rule(row: Row) -> bool:
    """Whether the operator of a row has a rule for samples that differ along several axes."""
    return _key(row.domain, row.op_type) in _flat


def has_packed_rule(row: Row) -> bool:
    """Whether the operator of a row has a rule for packed operands, too."""
    return _key(row.domain, row.op_type) in _packed


def find(node: ir.Node, opset: int) -> Row | Unsupported | None:
    """Return what the table says of a node, None if nothing.

    Args:
        node: A node of a body.
        opset: Version of ONNX's operators in the model.
    """
    key = _key(node.domain, node.op_type)
    for row in _rows.get(key, ()):
        if holds_at(row, opset):
            return row
    return _unsupported.get(key)


def holds_at(row: Row, opset: int) -> bool:
    """Whether a row is for models of an opset."""
    return row.since <= opset <= (row.until or NEWEST)


def families(node: ir.Node) -> set[str]:
    """Return the families that a node's operator belongs to, at any opset; none if unknown."""
    return {row.family for row in _rows.get(_key(node.domain, node.op_type), ())}


def may_draw(node: ir.Node, opset: int) -> bool:
    """Whether a node, or a node in the graphs that it owns, may draw random numbers."""
    for inner in walk_nodes([node]):
        said = find(inner, opset)
        if said is not None and (
            said.draws if isinstance(said, Row) else said.code is Code.RANDOM
        ):
            return True
    return False


def may_round_inside(node: ir.Node, opset: int) -> bool:
    """Whether batching a node in the graphs that a node owns may change results by rounding."""
    inner = (n for _, graph in subgraphs(node) for n in walk_nodes(graph))
    return any(
        isinstance(said, Row | RaggedRow) and said.rounding
        for n in inner
        for said in (find(n, opset), find_packed(n, opset), find_flat(n, opset))
    )


def rows() -> Iterator[Row | Unsupported | Decomposed]:
    """Yield the whole table, by operator."""
    for key in sorted({*_rows, *_unsupported, *_decomposed}):
        yield from _rows.get(key, ())
        if key in _unsupported:
            yield _unsupported[key]
        elif key in _decomposed and key not in _rows:
            yield _decomposed[key]
