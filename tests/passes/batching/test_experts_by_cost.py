"""Experts under ``auto``: tiles where samples have few rows, a loop where they have many."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from benchmarks.experts import added_expert_model, expert_model
from passes.decisions import Verdict
from rewriter.backends import open_session
from rewriter.proof.count_iterations import ITERATIONS, with_iterations
from tests.passes.batching.harness import run_model


def graphs_in(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_in(attribute.g)


def loops_in(graph: onnx.GraphProto) -> int:
    return sum(node.op_type == "Loop" for one in graphs_in(graph) for node in one.node)


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
    "few that hold much": (30_000, 0, 20_000),
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
    assert any("up to 12 samples" in note for note in said)
    assert "cost" not in codes
    assert loops_in(rewriter.optimize(expert_model(64)).graph) == 2


def test_the_loop_for_few_samples_alone_cuts_them_beforehand() -> None:
    """A cut copies all of it once more, which takes longer than bounds where it is much."""
    graph = rewriter.optimize(expert_model(64)).graph
    loops = [graph for graph in graphs_in(graph) if any(n.op_type == "Loop" for n in graph.node)]
    assert len(loops) == 2
    many, few = ([n.op_type for n in one.node if n.op_type != "Constant"] for one in loops)
    assert few == ["SplitToSequence", "SequenceConstruct", "Loop", "ConcatFromSequence"]
    assert many[-3:] == ["SequenceConstruct", "Loop", "ConcatFromSequence"]
    assert "SplitToSequence" not in many


def test_few_samples_are_told_by_two_sizes() -> None:
    graph = rewriter.optimize(expert_model(64)).graph
    assert [n.op_type for n in graph.node if n.op_type != "Constant"] == [
        *("Size", "Greater", "Size", "Greater", "Or"),
        "If",
    ]


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


def test_a_known_few_experts_have_a_copy_each() -> None:
    (decision,) = rewriter.explain(SCRIPTED).decisions
    assert decision.verdict is Verdict.UNROLLED
    assert decision.form.startswith("6 copies")


def twice_as_many(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the same model with 12 experts."""
    for tensor in model.graph.initializer:
        value = onnx.numpy_helper.to_array(tensor)
        if 6 in value.shape:
            both = np.concatenate([value, value], value.shape.index(6))
            tensor.CopyFrom(onnx.numpy_helper.from_array(both, tensor.name))
    twelve = onnx.numpy_helper.from_array(np.array(12, np.int64))
    for attribute in [one for node in model.graph.node for one in node.attribute]:
        if attribute.name == "value" and onnx.numpy_helper.to_array(attribute.t).tolist() == 6:
            attribute.t.CopyFrom(twelve)
    return model


def test_a_loop_of_many_nodes_is_asked_for_its_rows_too() -> None:
    (decision,) = rewriter.explain(twice_as_many(onnx.load(SCRIPTED))).decisions
    assert decision.verdict is Verdict.FUSED
    assert any("many rows" in note for note in decision.notes)


def scripted(width: int, count: str = "E") -> onnx.ModelProto:
    """Return experts as a Loop that goes from one row to the next and appends to a sequence."""
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[T, {width}] x, int64[{count}] counts, '
        f"float[{count}, {width}, {width}] w) => (float[U, {width}] out) {{ "
        "empty = SequenceEmpty <dtype = 1> () first = Constant <value_int = 0> () "
        "go = Constant <value = bool {1}> () shape = Shape (counts) n = Squeeze (shape) "
        "last, ys = Loop (n, go, first, empty) <body = one (int64 i, bool c, int64 start, "
        "seq(float[N, M]) ys0) => (bool again, int64 end, seq(float[N, M]) ys1) { "
        "again = Identity (c) many = Gather <axis = 0> (counts, i) end = Add (start, many) "
        "ax = Constant <value_ints = [0]> () s = Unsqueeze (start, ax) e = Unsqueeze (end, ax) "
        "rows = Slice (x, s, e, ax) matrix = Gather <axis = 0> (w, i) y = MatMul (rows, matrix) "
        "ys1 = SequenceInsert (ys0, y) }> out = ConcatFromSequence <axis = 0> (ys) }"
    )


@pytest.mark.parametrize("name", [name for name in LOADS if LOADS[name]])
def test_a_loop_as_given_runs_where_there_are_many_rows(name: str) -> None:
    width, counts = 4, np.array(LOADS[name], np.int64)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((int(counts.sum()), width)).astype(np.float32)
    w = rng.standard_normal((len(counts), width, width)).astype(np.float32)
    feeds = {"x": x, "counts": counts, "w": w}
    made = rewriter.optimize(scripted(width))
    assert loops_in(made.graph) == 3
    (wanted,), (got,) = run_model(scripted(width), feeds), run_model(made, feeds)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_few_experts_stay_as_they_are() -> None:
    (decision,) = rewriter.explain(scripted(64, "8")).decisions
    assert decision.verdict is Verdict.KEPT
    assert "cost" in {reason.code for reason in decision.reasons}


CHOSEN = {
    "no token": (40, 0, 0.5),
    "no expert": (0, 4, 0.5),
    "one expert": (1, 9, 0.5),
    "as many as run in the loop": (7, 9, 0.1),
    "one more": (8, 9, 0.1),
    "many of few tokens": (60, 40, 0.05),
    "many of few tokens, all chosen": (60, 40, 1.0),
    "none is chosen": (60, 40, 0.0),
    "many tokens": (60, 4000, 0.001),
}


@pytest.mark.parametrize("scatter", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_added_by_index_is_the_same_for_any_load(name: str, scatter: str) -> None:
    (experts, tokens, share), width = CHOSEN[name], 4
    rng = np.random.default_rng(0)
    x = rng.standard_normal((tokens, width)).astype(np.float32)
    gate = (rng.random((experts, tokens)) < share).astype(np.float32)
    w = rng.standard_normal((experts, width, width)).astype(np.float32)
    feeds, given = {"x": x, "gate": gate, "w": w}, added_expert_model(width, scatter)
    made = rewriter.optimize(given)
    assert loops_in(made.graph) == 3
    (wanted,), (got,) = run_model(given, feeds), run_model(made, feeds)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("count", "loops"), [("6", 0), ("64", 2), ("E", 3)])
def test_a_known_number_of_experts_is_not_asked_for(count: str, loops: int) -> None:
    given = added_expert_model(64, "ScatterND", count)
    (decision,) = rewriter.explain(given).decisions
    assert decision.verdict is (Verdict.UNROLLED if count == "6" else Verdict.FUSED)
    assert (decision.few > 0) == (count == "E")
    made = rewriter.optimize(given)
    assert loops_in(made.graph) == loops
    assert rewriter.optimize(made) == made
    if count == "6":
        return
    run = iterations_of(made, experts=64)
    assert run(tokens=16) == 0
    assert run(tokens=2000) == 64


def iterations_of(made: onnx.ModelProto, experts: int) -> Callable[..., int]:
    counted = open_session(ir.to_proto(with_iterations(ir.from_proto(made))))
    rng = np.random.default_rng(0)

    def run(tokens: int) -> int:
        gate = np.zeros((experts, tokens), np.float32)
        gate[rng.integers(0, experts, tokens), np.arange(tokens)] = 1
        x, w = np.ones((tokens, 64), np.float32), np.ones((experts, 64, 64), np.float32)
        return int(counted.run({"x": x, "gate": gate, "w": w})[ITERATIONS])

    return run


def test_a_device_and_a_target_without_loops_are_not_asked() -> None:
    given = added_expert_model(64, "ScatterND")
    assert loops_in(rewriter.optimize(given, target="portable", tensor_io=True).graph) == 0
    assert loops_in(rewriter.optimize(given, strategy="fuse").graph) == 0
