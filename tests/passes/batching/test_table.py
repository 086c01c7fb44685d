"""The table is whole: every operator stands in it, and every rule in it is proven by a case."""

from __future__ import annotations

import onnx
import pytest

from passes.batching import rules, table
from tests.passes.batching.proofs import proven_operators

assert rules

NEWEST = onnx.defs.onnx_opset_version()
DEFINED = {s.name: s for s in onnx.defs.get_all_schemas() if s.domain == ""}
ROWS = [row for row in table.rows() if row.domain == ""]
PROVERS = {"prove", "prove_directly", "prove_ragged"}


def test_every_operator_stands_in_the_table() -> None:
    assert {row.op_type for row in ROWS} == set(DEFINED)


@pytest.mark.parametrize("op_type", sorted(DEFINED))
def test_it_is_a_rule_or_never_or_opened(op_type: str) -> None:
    """One that is gone from the newest opset may have an end; the others must not."""
    found = [row for row in ROWS if row.op_type == op_type]
    kinds = {type(row) for row in found}
    assert len(kinds) == 1
    schema = DEFINED[op_type]
    newest = schema.since_version - 1 if schema.deprecated else NEWEST
    if kinds == {table.Row}:
        assert sum(row.holds_at(newest) for row in found if isinstance(row, table.Row)) == 1
    elif kinds == {table.Never}:
        assert [row.reason for row in found if isinstance(row, table.Never)] != [""]
    else:
        assert schema.has_function or schema.has_context_dependent_function


@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if isinstance(r, table.Row)],
    ids=lambda row: f"{row.op_type} since {row.since}",
)
def test_a_row_begins_when_its_operator_does_or_later(row: table.Row) -> None:
    first = min(
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == row.op_type and schema.domain == ""
    )
    assert row.since == 1 or row.since >= first
    assert row.until is None or row.since <= row.until < NEWEST


def test_what_stands_there_of_other_domains_is_defined() -> None:
    others = [row for row in table.rows() if row.domain != ""]
    assert all(onnx.defs.has(row.op_type, row.domain) for row in others)


def test_rows_of_one_operator_do_not_overlap() -> None:
    for opset in range(1, NEWEST + 1):
        held = [r.op_type for r in ROWS if isinstance(r, table.Row) and r.holds_at(opset)]
        assert len(held) == len(set(held))


def test_every_rule_is_proven_by_a_case() -> None:
    """An operator without operands is the same for all samples, and its rule never runs."""
    proven = proven_operators(PROVERS, ("mapped", "ragged"))
    wanted = [r for r in ROWS if isinstance(r, table.Row) and DEFINED[r.op_type].max_input > 0]
    missing = [
        f"{row.op_type} from {row.since}"
        for row in wanted
        if not any(row.op_type == name and row.holds_at(opset) for name, opset in proven)
    ]
    assert missing == []
