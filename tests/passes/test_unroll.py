"""Maps of a small known length become copies of their bodies, and compute the same."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Verdict
from passes.loops.copies import FEW_NODES
from passes.unroll import UnrollSequenceMapPass
from rewriter.backends import BackendError, run
from rewriter.model_files.model_facts import count_operators
from rewriter.proof.compare import compare
from tests.passes.invariants import apply
from tests.passes.sequence_chains import Chain

MODELS = pathlib.Path(__file__).parents[2] / "models"
TORCH = {
    "torch_hstack_of_scalars": ["Concat", "Reshape", "Reshape"],
    "torch_vstack": ["Concat", "Reshape"],
    "torch_dstack": ["Concat", "Reshape", "Unsqueeze"],
    "torch_column_stack": ["Concat", "Reshape"],
    "torch_atleast_2d": ["Concat", "Reshape", "Reshape"],
    "torch_atleast_3d": ["Concat", "Reshape", "Reshape", "Unsqueeze"],
}
HEADER = '<ir_version: 8, opset_import: ["" : 18]>\n'
ADD = "body = b (e, w) => (o) { o = Add (e, w) }"
RELU = "body = b (e) => (o) { o = Relu (e) }"


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


def unroll(
    before: onnx.ModelProto, *, is_fused: bool = False
) -> tuple[onnx.ModelProto, list[str]]:
    """Run the pass, check what holds of every model that it gives, and return its decisions."""
    applied = apply(before, lambda: UnrollSequenceMapPass(is_fused=is_fused))
    assert all(d.verdict is Verdict.UNROLLED for d in applied.first.decisions)
    assert applied.again.decisions == []
    return applied.model, [f"{d.path}: {d.form}" for d in applied.first.decisions]


def maps(model: onnx.ModelProto) -> int:
    return count_operators(ir.from_proto(model)).by_type.get("SequenceMap", 0)


def numbers(*shape: int) -> Any:
    return np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) - 2, np.float32)


def prove(before: onnx.ModelProto, feeds: dict[str, Any], *, is_fused: bool = False) -> list[str]:
    after, decisions = unroll(before, is_fused=is_fused)
    assert maps(after) == 0
    expected = run(before, feeds, backend="reference")
    for backend in ("reference", "onnxruntime"):
        difference = compare(expected, run(after, feeds, backend=backend))
        assert difference.equal, f"{backend}: {difference.message}"
    return decisions


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize("name", TORCH)
def test_what_pytorch_writes_ends_as_a_few_plain_nodes(name: str, strategy: Any) -> None:
    before = onnx.parser.parse_model((MODELS / "text" / f"{name}.onnxtxt").read_text("utf-8"))
    result = rewriter.rewrite(before, strategy=strategy, require=["sequence-free", "loop-free"])
    after = result.model
    assert isinstance(after, onnx.ModelProto)
    assert sorted(node.op_type for node in after.graph.node) == TORCH[name]
    feeds = {
        value.name: numbers(*(dim.dim_value for dim in value.type.tensor_type.shape.dim))
        for value in before.graph.input
    }
    expected = run(before, feeds, backend="reference")
    for backend in ("reference", "onnxruntime"):
        assert compare(expected, run(after, feeds, backend=backend)).equal


def test_the_report_tells_of_an_unrolled_map() -> None:
    path = MODELS / "text" / "torch_vstack.onnxtxt"
    report = rewriter.explain(onnx.parser.parse_model(path.read_text("utf-8")))
    [decision] = report.decisions
    assert (decision.verdict, decision.form) == (Verdict.UNROLLED, "2 copies, 1 node")
    assert "unrolled" in report.to_text()


# name: declarations, nodes, feeds, decision
CASES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "elements of any shape": (
        "(float[N] a, float[M] c, float[1] w) => (seq(float[K]) y)",
        f"s = SequenceConstruct (a, c) [m] y = SequenceMap (s, w) <{ADD}>",
        {"a": numbers(3), "c": numbers(5), "w": numbers(1)},
        "m: 2 copies, 2 nodes",
    ),
    "one sample": (
        "(float[N] a) => (seq(float[K]) y)",
        f"s = SequenceConstruct (a) [m] y = SequenceMap (s) <{RELU}>",
        {"a": numbers(3)},
        "m: 1 copy, 1 node",
    ),
    "a chain of insertions": (
        "(float[N] a, float[M] c) => (seq(float[K]) y)",
        "k = Constant <value_int = 0> () e = SequenceEmpty () s = SequenceInsert (e, a) "
        f"t = SequenceInsert (s, c, k) u = Identity (t) [m] y = SequenceMap (u) <{RELU}>",
        {"a": numbers(3), "c": numbers(5)},
        "m: 2 copies, 2 nodes",
    ),
    "two sequences, the second longer": (
        "(float[N] a, float[M] c) => (seq(float[K]) y)",
        "s = SequenceConstruct (a, c) t = SequenceConstruct (c, c, a) "
        f"[m] y = SequenceMap (s, t) <{ADD}>",
        {"a": numbers(1), "c": numbers(4)},
        "m: 2 copies, 2 nodes",
    ),
    "a second sequence of unknown length": (
        "(float[N] a, float[M] c, seq(float[J]) t) => (seq(float[K]) y)",
        f"s = SequenceConstruct (a, c) [m] y = SequenceMap (s, t) <{ADD}>",
        {"a": numbers(1), "c": numbers(4), "t": [numbers(3), numbers(4), numbers(1)]},
        "m: 2 copies, 2 nodes",
    ),
    "outputs that are elements and shared values": (
        "(float[N] a, float[M] c, float[2] w) => (seq(float[K]) y, seq(float[K]) z)",
        "s = SequenceConstruct (a, c) "
        "[m] y, z = SequenceMap (s, w) <body = b (e, v) => (e1, v1) "
        "{ e1 = Identity (e) v1 = Identity (v) }>",
        {"a": numbers(1), "c": numbers(4), "w": numbers(2)},
        "m: 2 copies, 0 nodes",
    ),
    "a map over a map": (
        "(float[N] a, float[M] c) => (seq(float[K]) y)",
        f"s = SequenceConstruct (a, c) [l] t = SequenceMap (s) <{RELU}> "
        "[m] y = SequenceMap (t) <body = n (f) => (p) { p = Neg (f) }>",
        {"a": numbers(3), "c": numbers(5)},
        "m: 2 copies, 2 nodes",
    ),
    "a map in a map": (
        "(float[N] a, float[M] c, float[1] w) => (seq(float[K]) y)",
        "s = SequenceConstruct (a, c) [m] y = SequenceMap (s) <body = b (e) => (o) { "
        "t = SequenceConstruct (e, w) "
        "[i] u = SequenceMap (t) <body = r (f) => (g) { g = Relu (f) }> "
        "o = ConcatFromSequence <axis = 0> (u) }>",
        {"a": numbers(3), "c": numbers(5), "w": numbers(1)},
        "m: 2 copies, 8 nodes",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_unrolled_computes_the_same(case: str) -> None:
    declared, nodes, feeds, decision = CASES[case]
    assert prove(parse(f"main {declared} {{ {nodes} }}"), feeds)[-1] == decision


# name: declarations, nodes
KEPT = {
    "unknown length": ("(seq(float[N]) s) => (seq(float[N]) y)", f"y = SequenceMap (s) <{RELU}>"),
    "no samples": (
        "(float[N] a) => (seq(float[N]) y)",
        f"s = SequenceEmpty () y = SequenceMap (s) <{RELU}>",
    ),
    "too many nodes": (
        "(float[N] a) => (seq(float[N]) y)",
        f"s = SequenceConstruct ({', '.join(['a'] * (FEW_NODES + 1))}) "
        f"y = SequenceMap (s) <{RELU}>",
    ),
    "random numbers": (
        "(float[N] a, float[M] c) => (seq(float[K]) y)",
        "s = SequenceConstruct (a, c) y = SequenceMap (s) "
        "<body = b (e) => (o) { o = RandomNormalLike <seed = 1.0> (e) }>",
    ),
    "a tensor cut in two": (
        "(float[2,N] a) => (seq(float[K]) y)",
        f"s = SplitToSequence <axis = 0, keepdims = 0> (a) y = SequenceMap (s) <{RELU}>",
    ),
    "samples of one shape, many nodes": (
        "(float[4] a, float[4] c, float[4] d) => (seq(float[K]) y)",
        "s = SequenceConstruct (a, c, d) y = SequenceMap (s) <body = b (e) => (o) { "
        "p = Relu (e) q = Tanh (p) r = Exp (q) t = Sin (r) u = Cos (t) o = Neg (u) }>",
    ),
}


def test_one_sample_is_unrolled_whatever_its_body() -> None:
    nodes = " ".join(f"v{i + 1} = Neg (v{i})" for i in range(2 * FEW_NODES))
    before = parse(
        f"main (float[N] a) => (seq(float[K]) y) {{ s = SequenceConstruct (a) y = SequenceMap (s) "
        f"<body = b (v0) => (v{2 * FEW_NODES}) {{ {nodes} }}> }}"
    )
    assert prove(before, {"a": numbers(3)})[0].endswith(f"1 copy, {2 * FEW_NODES} nodes")


def test_constants_are_not_copied() -> None:
    before = parse(
        "main (float[N] a, float[M] c) => (seq(float[K]) y) { s = SequenceConstruct (a, c) "
        "y, z = SequenceMap (s) <body = b (e) => (o, k) { k = Constant <value = float[1] {2}> () "
        "o = Mul (e, k) }> }"
    )
    after, _ = unroll(before)
    assert count_operators(ir.from_proto(after)).by_type["Constant"] == 1


@pytest.mark.parametrize("case", KEPT)
def test_a_map_is_left_alone(case: str) -> None:
    declared, nodes = KEPT[case]
    after, decisions = unroll(parse(f"main {declared} {{ {nodes} }}"))
    assert maps(after) == 1
    assert decisions == []


def test_what_was_not_fused_is_unrolled_before_it_becomes_a_loop() -> None:
    before = parse(
        "main (float[5,N] a) => (float[5,N] y) { n = Constant <value_ints = [2, 3]> () "
        "s = SplitToSequence (a, n) [m] t = SequenceMap (s) <body = b (e) => (o) { "
        "o = Softmax <axis = 0> (e) }> y = ConcatFromSequence <axis = 0> (t) }"
    )
    assert prove(before, {"a": numbers(5, 3)}, is_fused=True) == ["m: 2 copies, 2 nodes"]
    assert unroll(before)[1] == []


def test_too_short_a_second_sequence_is_still_an_error() -> None:
    before = parse(
        "main (float[N] a, float[M] c, seq(float[J]) t) => (seq(float[K]) y) {"
        f"s = SequenceConstruct (a, c) y = SequenceMap (s, t) <{ADD}> }}"
    )
    after, _ = unroll(before)
    feeds = {"a": numbers(1), "c": numbers(4), "t": [numbers(3)]}
    for model in (before, after):
        with pytest.raises(BackendError):
            run(model, feeds, backend="reference")


def test_what_depends_on_the_rank_of_each_sample_is_folded() -> None:
    branches = (
        "k = Constant <value_int = 1> () n = Shape (e) r = Size (n) c = Equal (r, k) "
        "o = If (c) <then_branch = t () => (p) { p = Relu (e) }, "
        "else_branch = f () => (q) { q = Neg (e) }>"
    )
    before = parse(
        "main (float[N] a, float[N,M] c) => (seq(float[]) y) { s = SequenceConstruct (a, c) "
        f"y = SequenceMap (s) <body = b (e) => (o) {{ {branches} }}> }}"
    )
    prove(before, {"a": numbers(3), "c": numbers(2, 3)})
    after, _ = unroll(before)
    assert sorted(n.op_type for n in after.graph.node if n.op_type != "Constant") == [
        "Neg",
        "Relu",
        "SequenceConstruct",
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
@pytest.mark.parametrize(
    ("declared", "source"),
    [
        ("float[B,4] x", "s = SplitToSequence <keepdims = 0> (x)"),
        ("float[3,4] x", "u = Neg (x) z = Slice (u, i, j) s = SequenceConstruct (x, z)"),
    ],
    ids=["fused", "unrolled"],
)
def test_a_later_map_may_read_the_results_as_its_second_sequence(
    declared: str, source: str, strategy: Any
) -> None:
    before = parse(
        f"main ({declared}, seq(float[M,4]) q) => (seq(float[]) y) {{ "
        f"i = Constant <value_ints = [0]> () j = Constant <value_ints = [1]> () {source} "
        "t = SequenceMap (s) <body = b (e) => (o) { o = Relu (e) }> "
        "y = SequenceMap (q, t) <body = b2 (f, g) => (p) { p = Add (f, g) }> }"
    )
    feeds = {"x": numbers(3, 4), "q": [numbers(1, 4), numbers(3, 4)]}
    expected = run(before, feeds, backend="reference")
    after = rewriter.rewrite(before, strategy=strategy).model
    for backend in ("reference", "onnxruntime"):
        assert compare(expected, run(after, feeds, backend=backend)).equal


def test_the_pipeline_unrolls_what_it_cannot_fuse() -> None:
    before = parse(
        "main (float[5,N] a) => (float[P] y) { n = Constant <value_ints = [2, 3]> () "
        "s = SplitToSequence (a, n) [m] t = SequenceMap (s) <body = b (e) => (o) { "
        "k = Constant <value_ints = [-1]> () z = Reshape (e, k) c = Unique (z) "
        "o = Neg (c) }> y = ConcatFromSequence <axis = 0> (t) }"
    )
    result = rewriter.rewrite(before, require=["loop-free", "sequence-free"])
    [decision] = result.report.decisions
    assert (decision.verdict, decision.form) == (Verdict.UNROLLED, "2 copies, 6 nodes")
    feeds = {"a": numbers(5, 3)}
    expected = run(before, feeds, backend="reference")
    for backend in ("reference", "onnxruntime"):
        assert compare(expected, run(result.model, feeds, backend=backend)).equal


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_chains_with_maps(first: int) -> None:
    for seed in range(first, first + 20):
        chain = Chain(seed, maps=True)
        expected = run(chain.model, chain.feeds, backend="reference")
        after = rewriter.rewrite(chain.model).model
        for backend in ("reference", "onnxruntime"):
            difference = compare(expected, run(after, chain.feeds, backend=backend))
            assert difference.equal, f"seed {seed}, {backend}: {difference.message}"
