"""The judge itself sees another value, another shape, an error, and under exact another bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.property import judge as judging
from tests.property.judge import Engine, judge, program_for
from tests.property.programs import Program
from tests.property.rounding import settled_outputs

SEEDS = range(100)


def _float_program(*, strategy: str, settled: bool) -> Program:
    """Return the first program that yields floats only, which are settled or not."""
    for seed in SEEDS:
        program = program_for(seed, strategy)
        kinds = {a.dtype.name for row in program.body.rows for a in row if a.size}
        wanted = set(program.body.outputs) if settled else set()
        is_wanted = settled_outputs(program) == wanted
        if kinds == {"float32"} and is_wanted and program.feeds[0].samples:
            return program
    raise AssertionError("no such program")


def _verdict(
    program: Program, change: Callable[[Any], Any], strategy: str, patch: pytest.MonkeyPatch
) -> str:
    """Judge a program after a change to each tensor that the rewritten model yields."""
    run = Engine.run

    def changed(self: Engine, feeds: Any) -> list[Any]:
        found = run(self, feeds)
        return [[change(a) for a in v] if isinstance(v, list) else change(v) for v in found]

    patch.setattr(Engine, "run", changed)
    return judge(program, strategy).verdict


def _next_bit(array: Any) -> Any:
    return np.nextafter(array, np.float32(np.inf)) if array.dtype == np.float32 else array


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda a: a, "right"),
        (_next_bit, "right"),
        (lambda a: a + np.ones_like(a), "wrong"),
        (lambda a: a[None], "wrong"),
        (lambda a: a.astype(np.float64), "wrong"),
    ],
    ids=["nothing", "last bits", "another value", "another shape", "another element type"],
)
def test_a_change_of_results(
    change: Callable[[Any], Any], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _float_program(strategy="expand", settled=True)
    assert _verdict(program, change, "expand", monkeypatch) == verdict


@pytest.mark.parametrize(("settled", "verdict"), [(True, "wrong"), (False, "right")])
def test_last_bits_under_exact(
    settled: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _float_program(strategy="exact", settled=settled)
    assert _verdict(program, _next_bit, "exact", monkeypatch) == verdict


def test_a_model_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Engine, feeds: Any) -> list[Any]:
        raise RuntimeError("it does not run")

    monkeypatch.setattr(Engine, "run", fail)
    outcome = judge(_float_program(strategy="expand", settled=True), "expand")
    assert (outcome.verdict, "it does not run" in outcome.detail) == ("failing", True)


def test_a_rewrite_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **options: Any) -> Any:
        raise RuntimeError("no rewrite")

    monkeypatch.setattr(judging, "rewrite", fail)
    outcome = judge(_float_program(strategy="expand", settled=True), "expand")
    assert (outcome.verdict, outcome.detail) == ("failing", "rewrite: RuntimeError: no rewrite")
