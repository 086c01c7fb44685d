"""Random Loops that carry several values compute what they did, whatever became of them."""

from __future__ import annotations

import onnx
import pytest

import rewriter
from rewriter.backends import open_session
from tests.passes.carried.carried import feeds
from tests.passes.loops import model, read, same
from tests.property.carried import draw
from tests.property.few import ask_for_one

SIZES = (0, 1, 2, 7, 20)


def check(seed: int, recurrences: bool = True) -> int:
    """Assert that a model computes what it did; return how many Loops are left."""
    before = model(draw(seed, recurrences=recurrences))
    found = read(before)
    assert same(before, found.model, *(feeds(n, seed) for n in SIZES)) == len(SIZES)
    return found.loops


@pytest.mark.parametrize("seed", range(24))
def test_a_random_loop_computes_what_it_did(seed: int) -> None:
    check(seed)


def without_types(given: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose Loops declare the number of the iteration and the condition alone."""
    bodies = [a.g for node in given.graph.node if node.op_type == "Loop" for a in node.attribute]
    for body in bodies:
        for value in (*body.input[2:], *body.output):
            value.ClearField("type")
    return given


@pytest.mark.parametrize("seed", range(24))
def test_a_random_loop_without_types_computes_what_it_did(seed: int) -> None:
    """As onnxscript writes them; without iterations rows may have the shape that they never had."""
    before = without_types(model(draw(seed)))
    found = read(before)
    some = SIZES[1:]
    assert same(before, found.model, *(feeds(n, seed) for n in some)) == len(some)
    open_session(found.model).run(feeds(0, seed))


def check_from_one(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that models compute what they did where few iterations run as many do."""
    left_out = ask_for_one(monkeypatch)
    for seed in seeds:
        before = model(draw(seed))
        after = rewriter.optimize(before)
        assert same(before, after, *(feeds(n, seed) for n in SIZES)) == len(SIZES), seed
    assert any(left_out)


def test_a_random_loop_is_batched_from_one_iteration_on(monkeypatch: pytest.MonkeyPatch) -> None:
    check_from_one(range(200, 204), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("first", range(204, 244, 8))
def test_random_loops_are_batched_from_one_iteration_on(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_from_one(range(first, first + 8), monkeypatch)


@pytest.mark.long
def test_many_of_them_end_without_a_loop() -> None:
    left = [check(seed, recurrences=False) for seed in range(100, 120)]
    assert left.count(0) >= 10


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_random_loops_compute_what_they_did(seed: int) -> None:
    check(seed)
