"""The table is whole: every operator stands in it, and every rule in it is proven by a case."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import onnx
import pytest

import tests.passes.batching
from passes.batching import rules, table
from tests.passes.batching.harness import Case, single_model
from tests.passes.batching.ragged import RaggedCase

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


@pytest.mark.parametrize("row", [r for r in ROWS if isinstance(r, table.Row)], ids=str)
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


def proven_cases() -> Iterator[Case]:
    """Yield every case that a test of this folder is parametrised with and proves.

    A test proves its cases if it calls one of `PROVERS` by name.
    """
    for module in pkgutil.iter_modules(tests.passes.batching.__path__):
        if not module.name.startswith("test_") or module.name == "test_table":
            continue
        members = vars(importlib.import_module(f"tests.passes.batching.{module.name}"))
        for name, member in members.items():
            code = getattr(member, "__code__", None)
            if name.startswith("test_") and code is not None and PROVERS & set(code.co_names):
                for mark in getattr(member, "pytestmark", []):
                    yield from _cases_in(mark.args)


def _cases_in(value: Any) -> Iterator[Case]:
    if isinstance(value, Case):
        yield value
    elif isinstance(value, RaggedCase):
        yield dataclasses.replace(value.single(), loops=value.loops)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _cases_in(one)


def _batched_operators(case: Case) -> Iterator[str]:
    """Yield the operators of a case that read what differs from sample to sample."""
    kinds = ("mapped", "ragged")
    mapped = {name for name, operand in case.operands.items() if operand.kind in kinds}
    yield from _reading(single_model(case).graph, mapped)


def _reading(graph: onnx.GraphProto, mapped: set[str]) -> Iterator[str]:
    for node in graph.node:
        inner = [a.g for a in node.attribute if a.HasField("g")]
        inside = [op_type for g in inner for op_type in _reading(g, set(mapped))]
        yield from inside
        if mapped & set(node.input) or inside:
            mapped.update(node.output)
            yield node.op_type


def proven_rows() -> set[table.Row]:
    """Return the rows that a case without a loop proves."""
    found = {
        (op_type, case.opset)
        for case in proven_cases()
        if case.loops == 0
        for op_type in _batched_operators(case)
    }
    return {
        row
        for row in ROWS
        if isinstance(row, table.Row)
        for op_type, opset in found
        if op_type == row.op_type and row.holds_at(opset)
    }


def test_every_rule_is_proven_by_a_case() -> None:
    """An operator without operands is the same for all samples, and its rule never runs."""
    wanted = {r for r in ROWS if isinstance(r, table.Row) and DEFINED[r.op_type].max_input > 0}
    missing = sorted(f"{row.op_type} from {row.since}" for row in wanted - proven_rows())
    assert missing == []
