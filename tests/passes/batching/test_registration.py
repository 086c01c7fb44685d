"""The public way to register rules."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir
import pytest

import passes
from passes.batching import table
from passes.batching.packed.row_by_row import rows


@pytest.fixture(autouse=True)
def forgets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what a test registers."""
    monkeypatch.setattr(table, "_rows", {k: list(v) for k, v in table._rows.items()})
    monkeypatch.setattr(table, "_packed", dict(table._packed))
    yield


def test_a_family_brings_its_form_for_ragged_samples() -> None:
    passes.register("Fancy", passes.broadcasting, domain="my.domain")
    (row,) = [row for row in table.rows() if row.op_type == "Fancy"]
    assert isinstance(row, table.Row)
    assert table.has_packed_rule(row)


def test_what_is_said_of_an_operator_stands_in_its_row() -> None:
    said: dict[str, Any] = {"rounding": True, "discrete": True, "total": True, "draws": True}
    passes.register("Odd", passes.elementwise, domain="my.domain", until=12, **said)
    passes.register("Odd", passes.broadcasting, domain="my.domain", since=13)
    old, new = (row for row in table.rows() if row.op_type == "Odd")
    assert isinstance(old, table.Row)
    assert isinstance(new, table.Row)
    assert (old.since, old.until, new.since, new.until) == (1, 12, 13, None)
    assert {name: getattr(old, name) for name in said} == said
    assert not any(getattr(new, name) for name in said)
    assert table._packed["my.domain", "Odd"].rule is rows


def test_a_rule_for_ragged_samples_of_ones_own() -> None:
    def own(ctx: passes.Context, node: ir.Node, operands: Sequence[passes.Operand]) -> Any:
        return rows(ctx, node, operands)

    passes.register("Odd", passes.elementwise, packed=own, domain="my.domain")
    assert inspect.unwrap(table._packed["my.domain", "Odd"].rule) is own


def test_without_a_rule_for_ragged_samples_there_is_none() -> None:
    def stacked(ctx: passes.Context, node: ir.Node, operands: Sequence[passes.Operand]) -> Any:
        return ctx.same(node, [])

    passes.register("Odd", stacked, domain="my.domain")
    (row,) = [row for row in table.rows() if row.op_type == "Odd"]
    assert isinstance(row, table.Row)
    assert not table.has_packed_rule(row)
