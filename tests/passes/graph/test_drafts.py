"""Nodes that are not kept read nothing any more, and what was remembered of them is forgotten."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.builder import Builder, tensor_value
from passes.graph.drafts import Memo, drafting, recorded


class Doubled:
    """A value that is recorded when it is first asked for."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.x = tensor_value("x", None)

    @recorded
    def twice(self):
        """Twice the value."""
        return self.builder.op("Add", [self.x, self.x])


def test_a_draft_that_is_not_kept_leaves_no_trace() -> None:
    builder, memo = Builder("a"), Memo[str, int]()
    doubled = Doubled(builder)
    memo["before"] = 1
    with drafting():
        first = doubled.twice
        memo["inside"] = 2
        assert doubled.twice is first
    assert not builder.nodes
    assert not doubled.x.uses()
    assert memo == {"before": 1}
    assert doubled.twice is not first


def test_a_draft_that_is_kept_stays() -> None:
    builder, memo = Builder("a"), Memo[str, int]()
    doubled = Doubled(builder)
    with drafting() as draft:
        first = doubled.twice
        memo["inside"] = 2
        draft.keep_all()
    assert [node.op_type for node in builder.nodes] == ["Add"]
    assert doubled.twice is first
    assert memo == {"inside": 2}


def test_what_may_be_placed_beside_a_plan_is_dropped_if_it_is_not() -> None:
    plan, beside = Builder("a"), Builder("b")
    x = tensor_value("x", None)
    with drafting() as draft:
        plan.op("Abs", [x])
        placed, left = beside.node("Neg", [x]), beside.node("Relu", [x])
        beside.node("Tanh", [x])
        draft.keep(plan.nodes, [placed, left])
        assert [user.op_type for user, _ in x.uses()] == ["Abs", "Neg", "Relu"]
        ir.Graph([x], [], nodes=[placed])
    assert [user.op_type for user, _ in x.uses()] == ["Abs", "Neg"]


def test_what_is_kept_is_part_of_the_draft_around() -> None:
    builder = Builder("a")
    doubled = Doubled(builder)
    with drafting():
        with drafting() as inner:
            first = doubled.twice
            inner.keep_all()
        assert doubled.twice is first
    assert not builder.nodes
    assert doubled.twice is not first


def test_an_error_takes_back_what_was_recorded_since() -> None:
    builder = Builder("a")
    kept = builder.ints(1)
    with pytest.raises(ValueError, match="no"), drafting():
        builder.ints(2)
        raise ValueError("no")
    assert builder.ints(1) is kept
    assert [node.op_type for node in builder.nodes] == ["Constant"]
    assert builder.ints(2).producer() is builder.nodes[-1]
