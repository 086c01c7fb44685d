from __future__ import annotations

import numpy as np
import onnx
import pytest

from passes.errors import RewriteError
from rewriter.evaluator import result_sizes, run_watch
from rewriter.evaluator.result_sizes import least_result_bytes
from rewriter.proof import budget as budgets
from rewriter.proof.budget import Allowance, Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "seconds", "memory"),
    [
        ("60s", 60, None),
        ("1.5min", 90, None),
        ("4GB", None, 4 * 2**30),
        ("512mb", None, 512 * 2**20),
        ("5s,1GB", 5, 2**30),
        ("1GB, 5s", 5, 2**30),
    ],
)
def test_a_budget_is_read(text: str, seconds: float | None, memory: int | None) -> None:
    default = Budget()
    expected = Budget(seconds or default.seconds, memory or default.memory)
    assert parse_budget(text) == expected


@pytest.mark.parametrize("text", ["", "60", "4 apples", "-1s", "s", "1GB,,2s"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no budget: give a time, a size or both, as in"):
        parse_budget(text)


def test_the_default_is_a_minute_and_a_quarter_of_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"SC_PHYS_PAGES": 2**20, "SC_PAGE_SIZE": 2**12}
    monkeypatch.setattr(budgets.os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(budgets, "_CGROUP_LIMIT", budgets.Path("/nowhere"))
    assert Budget() == Budget(60, 2**30)
    assert str(Budget()) == "60 s and 1 GB"


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_budget_is_finite(seconds: float) -> None:
    with pytest.raises(RewriteError, match="give finite numbers from 0"):
        Budget(seconds)


def test_a_feed_may_take_half_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(budgets.time, "monotonic", lambda: now[0])
    allowance = Allowance(Budget(60))
    allowance.start_feed()
    assert allowance.deadline == 130
    now[0] = 130
    assert allowance.is_over
    allowance.start_feed()
    assert allowance.deadline == 145
    assert allowance.rest() == Budget(30, allowance.budget.memory)
    with allowance.paused():
        now[0] = 170
    assert allowance.deadline == 145 + 40
    with allowance.paused():
        now[0] = 1000
    assert allowance.deadline == 145 + 40 + 20
    assert allowance.is_over
    assert allowance.rest().seconds == 0


def test_loading_has_a_minute_where_the_budget_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(budgets.time, "monotonic", lambda: now[0])
    allowance = Allowance(Budget(1))
    with allowance.paused():
        now[0] = 150
    assert not allowance.is_over
    with allowance.paused():
        now[0] = 200
    assert allowance.is_over


def _node(op_type: str, inputs: int, **attributes: object) -> onnx.NodeProto:
    return onnx.helper.make_node(op_type, [f"i{k}" for k in range(inputs)], ["y"], **attributes)


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


FLOATS = np.ones(4, np.float32)
COLUMN, ROW = np.ones((30_000, 1), np.float32), np.ones((1, 30_000), np.float32)
IMAGE = np.ones((1, 3, 10, 10), np.uint8)
SQUARE = 4 * 30_000**2


@pytest.mark.parametrize(
    ("node", "inputs", "expected"),
    [
        (_node("Expand", 2), [FLOATS, _ints(10**6, 1000, 4)], 16 * 10**9),
        (_node("Tile", 2), [FLOATS, _ints(10**9)], 16 * 10**9),
        (_node("ConstantOfShape", 1), [_ints(1000, 10**6)], 4 * 10**9),
        (_node("Range", 3), [np.int64(0), np.int64(10**9), np.int64(1)], 8 * 10**9),
        (_node("Pad", 2), [FLOATS, _ints(0, 10**9)], 4 * 10**9 + 16),
        (_node("OneHot", 3), [_ints(1), _ints(10**9), FLOATS[:2]], 4 * 10**9),
        (_node("Resize", 4), [IMAGE, None, None, _ints(1, 3, 20_000, 20_000)], 12 * 10**8),
        (_node("Add", 2), [COLUMN, ROW], SQUARE),
        (_node("MatMul", 2), [COLUMN, ROW], SQUARE),
        (_node("Einsum", 2, equation="ij,jk->ik"), [COLUMN, ROW], SQUARE),
        (_node("Gather", 2), [ROW[0, :10_000].reshape(1, -1), _ints(*[0] * 30_000)], 12 * 10**8),
        (_node("Add", 2), [FLOATS, FLOATS], 0),
        (_node("Expand", 2), [FLOATS, _ints(7)], 0),
        (_node("Nowhere", 2), [COLUMN, ROW], 0),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_the_size_of_a_result_is_known_before_it_is_made(
    node: onnx.NodeProto, inputs: list[np.ndarray | None], expected: int
) -> None:
    if node.op_type == "Resize":
        node.input[1], node.input[2] = "", ""
    assert least_result_bytes(node, 21, inputs, 10**8) == expected


def test_a_node_of_a_body_is_inferred_once() -> None:
    node = onnx.helper.make_node("Expand", ["x", "shape"], ["y"])
    sizes = [np.int64([n, 4]) for n in (3, 3, 5)]
    before = result_sizes._inferred.cache_info()
    found = [least_result_bytes(node, 21, [np.float32([[1]]), size], 10**8) for size in sizes]
    after = result_sizes._inferred.cache_info()
    assert found == [48, 48, 80]
    assert after.hits == before.hits + 1


def test_memory_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for the memory takes as long as a small node."""
    clock = [0.0]
    looks: list[float] = []

    def resident() -> int:
        looks.append(clock[0])
        return 1000 * len(looks)

    monkeypatch.setattr(run_watch, "_resident_bytes", resident)
    monkeypatch.setattr(run_watch.time, "monotonic", lambda: clock[0])
    watch = run_watch.RunWatch(1.0, 1500)
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    watch.check_node(node, 21, [np.float32([1])])
    clock[0] = 0.002
    watch.check_node(node, 21, [np.float32([1])])
    clock[0] = 0.004
    with pytest.raises(run_watch.OverBudgetError):
        watch.check_node(node, 21, [np.float32([1])])
    assert looks == [0.0, 0.002, 0.004]
