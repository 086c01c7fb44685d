"""The judge itself sees another value, another shape, an error, and under exact another bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from rewriter.proof.compare import TOLERANCES
from tests.property import judge as judging
from tests.property.bodies import Body
from tests.property.judge import Engine, judge, program_for
from tests.property.pool import Value
from tests.property.programs import Program, Result
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
    patch.setattr(judging, "_fails_as_given", lambda *given: False)
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
    monkeypatch.setattr(judging, "_fails_as_given", lambda *given: False)
    outcome = judge(_float_program(strategy="expand", settled=True), "expand")
    assert (outcome.verdict, "it does not run" in outcome.detail) == ("failing", True)


@pytest.mark.parametrize(
    ("samples", "found", "forgets"),
    [
        ([(1, 1), (0, 0)], [(1, 1), (0, 1)], True),
        ([(1, 1), (0, 2)], [(1, 1), (0, 0)], True),
        ([(1, 1), (0, 2)], [(1, 1), (0, 3)], False),
        ([(1, 1), (0, 2)], [(1, 2), (0, 2)], False),
        ([(1, 1), (0, 2)], [(1, 1)], False),
    ],
)
def test_dimensions_that_a_loop_forgets(
    samples: list[tuple[int, int]], found: list[tuple[int, int]], forgets: bool
) -> None:
    result = Result("y", "sequence")
    wanted, actual = ([np.ones(shape) for shape in shapes] for shapes in (samples, found))
    assert judging._forgets(result, wanted, actual, (0.0, 0.0)) == forgets
    assert not judging._forgets(result, wanted, [a + 1 for a in actual], (0.0, 0.0))


@pytest.mark.parametrize(
    ("shape", "forgets"), [((0, 0), True), ((0, 7), True), ((0, 6), False), ((1, 0), False)]
)
def test_dimensions_that_are_forgotten_behind_a_join(
    shape: tuple[int, int], forgets: bool
) -> None:
    samples = [np.ones((0, 7)), np.ones((0, 7))]
    found = judging._forgets(Result("y", "concat"), samples, np.ones(shape), (0.0, 0.0))
    assert found == forgets


@pytest.mark.parametrize(
    ("samples", "shape", "forgets"),
    [
        ([(0, 0, 0)] * 5, (0, 5, 1), True),
        ([(0, 0, 0)] * 5, (0, 0, 0), True),
        ([(0, 2, 0), (0, 0, 0)], (0, 3, 4), True),
        ([(0, 2, 0), (0, 0, 0)], (0, 1, 4), False),
        ([(0, 2, 0), (0, 1, 0)], (0, 4, 0), False),
        ([(0, 0, 0)] * 5, (0, 5, 1, 1), False),
        ([(1, 2, 0), (1, 0, 0)], (1, 3, 1), False),
    ],
)
def test_dimensions_that_are_forgotten_along_a_join(
    samples: list[tuple[int, ...]], shape: tuple[int, ...], forgets: bool
) -> None:
    wanted = [np.ones(sample) for sample in samples]
    found = judging._forgets(Result("y", "concat", 1), wanted, np.ones(shape), (0.0, 0.0))
    assert found == forgets


@pytest.mark.parametrize(("trips", "behind"), [(0, {"r", "s"}), (1, set())])
def test_what_is_computed_of_no_iterations(trips: int, behind: set[str]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N] x, int64 n) => (float[M] s) {
        v, w = Loop (n, "", x) <body = l (int64 i, bool c, float[?] a)
            => (bool d, float[?] b, float[?] o) { d = Identity (c) b = Neg (a) o = Neg (b) }>
        r = Transpose (w) s = ReduceSum <keepdims = 0> (r) t = Exp (v) }"""
    nodes = onnx.parser.parse_model(text).graph.node
    x, n = Value("x", (np.ones(3, np.float32),)), Value("n", (np.array(trips),))
    body = Body(18, (x, n), (), (), {}, tuple(nodes), ("s", "t"))
    assert judging.behind_no_iterations(body) == behind


def test_a_double_is_as_exact_as_the_floats_that_it_was_computed_of() -> None:
    nodes = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (double[N] x) => (double[N] y) { f = Cast <to = 1> (x) y = Cast <to = 11> (f) }""")
    x = Value("x", (np.ones(3),))
    tolerances = []
    for chosen in (nodes.graph.node, ()):
        body = Body(18, (x,), (), (), {}, tuple(chosen), ("y",))
        program = dataclasses.replace(program_for(0, "expand"), body=body)
        tolerances.append(judging._tolerance(program, np.ones(3), 1.0))
    assert tolerances == [TOLERANCES["float32"], TOLERANCES["float64"]]


def test_what_fails_as_given_is_not_held_against_the_rewrite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = _float_program(strategy="expand", settled=True)
    judge_feed = judging._judge_feed
    verdicts = iter(["failing", "failing"])
    monkeypatch.setattr(
        judging, "_judge_feed", lambda *given: (next(verdicts, judge_feed(*given)[0]), "")
    )
    assert judge(program, "expand").verdict == "right"


def test_a_rewrite_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **options: Any) -> Any:
        raise RuntimeError("no rewrite")

    monkeypatch.setattr(judging, "rewrite", fail)
    outcome = judge(_float_program(strategy="expand", settled=True), "expand")
    assert (outcome.verdict, outcome.detail) == ("failing", "rewrite: RuntimeError: no rewrite")
