"""Experts under ``auto``: tiles where samples have few rows, a loop where they have many."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import pytest

import rewriter
from benchmarks.images import expert_model
from passes.decisions import Verdict
from tests.passes.batching.harness import run_model


def loops_in(graph: onnx.GraphProto) -> int:
    inner = [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    return sum(n.op_type == "Loop" for n in graph.node) + sum(map(loops_in, inner))


def notes(width: int) -> tuple[list[str], list[str]]:
    (decision,) = rewriter.explain(expert_model(width)).decisions
    return list(decision.notes), [r.code for r in decision.reasons]


LOADS = {
    "none": (),
    "one": (3,),
    "three": (2, 0, 3),
    "of no rows": (0,) * 12,
    "few rows of many": (1, 0, 5, 2) * 5,
    "many rows": (90, 40, 0, 200) * 3,
    "one takes all": (0,) * 11 + (700,),
}


@pytest.mark.parametrize("name", LOADS)
def test_both_sides_of_the_question_multiply_the_same(name: str) -> None:
    width, counts = 4, np.array(LOADS[name], np.int64)
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, width)).astype(np.float32) for n in counts]
    w = rng.standard_normal((len(counts), width, width)).astype(np.float32)
    x = np.concatenate([np.zeros((0, width), np.float32), *rows])
    wanted = [np.zeros((0, width), np.float32), *(a @ b for a, b in zip(rows, w, strict=True))]
    made = rewriter.optimize(expert_model(width))
    (got,) = run_model(made, {"x": x, "counts": counts, "w": w})
    np.testing.assert_allclose(got, np.concatenate(wanted), rtol=1e-5, atol=1e-6)


def test_the_number_of_rows_is_asked_where_a_loop_may_be_faster() -> None:
    said, codes = notes(64)
    assert any("many rows" in note for note in said)
    assert "cost" not in codes
    assert loops_in(rewriter.optimize(expert_model(64)).graph) == 1


def test_large_matrices_stay_in_a_loop() -> None:
    assert "cost" in notes(128)[1]


@pytest.mark.parametrize(
    "options",
    [{"target": "portable", "tensor_io": True}, {"require": ("loop-free",)}, {"strategy": "fuse"}],
    ids=str,
)
def test_nothing_is_asked_where_no_loop_may_run(options: dict[str, object]) -> None:
    made = rewriter.optimize(expert_model(64), **options)  # type: ignore[arg-type]
    assert loops_in(made.graph) == 0


ROOT = pathlib.Path(__file__).parents[3]
SCRIPTED = ROOT / "models" / "pipelines" / "ts_moe_stacked_experts.onnx"


def test_nothing_is_asked_of_a_loop_that_was_read_as_a_map() -> None:
    (decision,) = rewriter.explain(SCRIPTED).decisions
    assert decision.verdict is Verdict.FUSED
    assert not any("many rows" in note for note in decision.notes)
