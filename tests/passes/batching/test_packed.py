"""Rules for packed operands that work row by row."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from rewriter.backends import run
from rewriter.pipeline import rewrite
from tests.passes.batching.harness import constant, mapped, run_model, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged, reasons_of

X = ragged(4)
W = constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
_WEIGHTS = np.array([0.5, 2, 1, 0.25], np.float32)

ELEMENTWISE = [
    RaggedCase("chain", "a = Exp(x) b = Neg(a) y = Cast<to=11>(b)", {"x": X}),
    RaggedCase("rank 1", "y = Abs(x)", {"x": ragged()}, rtol=0, atol=0),
    RaggedCase(
        "clip",
        "y = Clip(x, low, high)",
        {"x": X, "low": constant(np.float32(-1)), "high": shared(np.float32(2))},
    ),
    RaggedCase("dropout", "y, m = Dropout<seed = 3>(x)", {"x": X}, outputs=("y", "m")),
    RaggedCase(
        "dropout by a ratio of each sample",
        "y = Dropout(x, r, t)",
        {
            "x": X,
            "r": mapped(np.float32(0.1), np.float32(0.5), np.float32(0.9)),
            "t": constant(np.array(False)),
        },
    ),
    RaggedCase(
        "quantized per channel",
        "y = QuantizeLinear<axis=-1>(x, s)",
        {"x": X, "s": constant(np.array([0.1, 0.2, 0.5, 1], np.float32))},
    ),
]

BROADCASTS = [
    RaggedCase("itself", "y = Mul(x, x)", {"x": X}),
    RaggedCase("same lengths", "y = Sub(x, z)", {"x": X, "z": ragged(4, seed=1)}),
    RaggedCase("shared row", "y = Add(x, c)", {"x": X, "c": shared(np.ones(4, np.float32))}),
    RaggedCase("shared number", "y = Pow(x, c)", {"x": X, "c": constant(np.float32(2))}),
    RaggedCase("shared 1", "y = Add(c, x)", {"x": X, "c": constant(np.ones((1, 4), np.float32))}),
    RaggedCase("row of a sample", "y = Div(x, m)", {"x": X, "m": mapped((4,))}),
    RaggedCase("number of a sample", "y = Div(x, m)", {"x": X, "m": mapped(())}),
    RaggedCase("one row of a sample", "y = Div(x, m)", {"x": X, "m": mapped((1, 4))}),
    RaggedCase("rank 1 and number", "y = Mul(x, m)", {"x": ragged(), "m": mapped(())}),
    RaggedCase("where", "c = Less(x, m) y = Where(c, x, m)", {"x": X, "m": mapped((4,))}),
    RaggedCase("prelu", "y = PRelu(x, s)", {"x": X, "s": constant(np.ones(4, np.float32) / 3)}),
]

AXES = [
    RaggedCase("softmax", "y = Softmax(x)", {"x": X}),
    RaggedCase("softmax 1", "y = LogSoftmax<axis=1>(x)", {"x": X}),
    RaggedCase("hardmax", "y = Hardmax(x)", {"x": X}),
    RaggedCase("norm", "y = LpNormalization(x)", {"x": X}),
    RaggedCase(
        "layer norm",
        "y = LayerNormalization(x, s, b)",
        {"x": X, "s": constant(np.full(4, 2, np.float32)), "b": shared(np.ones(4, np.float32))},
    ),
    RaggedCase("topk", "y, i = TopK(x, k)", {"x": X, "k": constant(np.array([2]))}, ("y", "i")),
    RaggedCase("argmax", "y = ArgMax<axis=-1>(x)", {"x": ragged(4, lengths=(2, 1, 3))}),
    RaggedCase("flatten", "y = Flatten(x)", {"x": ragged(2, 3)}),
    RaggedCase("cumsum", "y = CumSum(x, a)", {"x": X, "a": constant(np.array(-1))}),
    RaggedCase(
        "compressed by flags of each place",
        "y = Compress<axis = 0>(x, c)",
        {
            "x": ragged(2, lengths=(3, 1, 4)),
            "c": mapped(*np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]], bool)),
        },
    ),
    RaggedCase(
        "compressed by flags that all share",
        "y = Compress<axis = 0>(x, c)",
        {"x": ragged(2, lengths=(3, 1, 4)), "c": shared(np.array([True, False, True]))},
    ),
    RaggedCase("split", "y, z = Split<axis=1, num_outputs=2>(x)", {"x": X}, ("y", "z")),
    RaggedCase("mean of rows", "y = ReduceMean(x, a)", {"x": X, "a": constant(np.array([1]))}),
]

MATRICES = [
    RaggedCase("matmul", "y = MatMul(x, w)", {"x": X, "w": W}),
    RaggedCase("matmul rank 3", "y = MatMul(x, w)", {"x": ragged(2, 4), "w": W}),
    RaggedCase(
        "matmul of transposed matrices",
        "t = Transpose<perm = [0, 2, 1]>(x) p = MatMul(t, w) y = Neg(p)",
        {"x": ragged(4, 2), "w": W},
    ),
    RaggedCase(
        "matmul vector",
        "y = MatMul(x, w)",
        {"x": ragged(4, lengths=(2, 1, 3)), "w": shared(np.ones(4, np.float32))},
    ),
    RaggedCase(
        "gemm",
        "y = Gemm<alpha=0.5>(x, w, c)",
        {"x": X, "w": W, "c": constant(np.ones(3, np.float32))},
    ),
    RaggedCase("gemm packed C", "y = Gemm(x, w, c)", {"x": X, "w": W, "c": ragged(3, seed=2)}),
    RaggedCase("einsum", 'y = Einsum<equation="ij,jk->ik">(x, w)', {"x": X, "w": W}),
    RaggedCase("einsum, no result named", 'y = Einsum<equation="ij,jk">(x, w)', {"x": X, "w": W}),
    RaggedCase("einsum, any axes", 'y = Einsum<equation="...i,ij->...j">(x, w)', {"x": X, "w": W}),
    RaggedCase("einsum of rows", 'y = Einsum<equation="ij,ij->i">(x, x)', {"x": X}),
]

IMAGES = [
    RaggedCase(
        "conv",
        "y = Conv(x, w)",
        {"x": ragged(2, 5, 5), "w": constant(np.ones((3, 2, 3, 3), np.float32))},
    ),
    RaggedCase("pool", "y = MaxPool<kernel_shape=[2,2]>(x)", {"x": ragged(2, 5, 5)}),
    RaggedCase("global pool", "y = GlobalAveragePool(x)", {"x": ragged(2, 5, 5)}),
    RaggedCase("depth", "y = DepthToSpace<blocksize=2>(x)", {"x": ragged(4, 2, 2)}),
]

AS_SAMPLES = [
    RaggedCase(
        "clip by bounds of the samples",
        "y = Clip(x, low, high)",
        {"x": X, "low": mapped(()), "high": constant(np.float32(2))},
    ),
    RaggedCase(
        "clip by bounds of the samples that are NaN",
        "y = Clip(x, low, high)",
        {
            "x": X,
            "low": mapped(*(np.float32(n) for n in (np.nan, 0, np.nan))),
            "high": constant(np.float32(1)),
        },
    ),
    RaggedCase("cast like", "y = CastLike(x, z)", {"x": X, "z": ragged(4, dtype=np.float64)}),
    RaggedCase(
        "group norm",
        "y = GroupNormalization<num_groups=2>(x, s, s)",
        {"x": ragged(4, 3, lengths=(2, 1, 3)), "s": constant(np.array([1, 2], np.float32))},
    ),
    RaggedCase(
        "attention over lists of sequences",
        "y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v)",
        {
            "q": ragged(3, 4, lengths=(2, 1, 3)),
            "k": ragged(5, 4, lengths=(2, 1, 3), seed=1),
            "v": ragged(5, 4, lengths=(2, 1, 3), seed=2),
        },
        opset=24,
    ),
    RaggedCase("trilu", "y = Trilu(x)", {"x": X}),
    RaggedCase(
        "trilu below a diagonal of the sample",
        "y = Trilu<upper=0>(x, k)",
        {"x": X, "k": mapped(np.array(0), np.array(1), np.array(-1))},
    ),
    RaggedCase("trilu of matrices", "y = Trilu(x)", {"x": ragged(3, 3)}),
    *(
        RaggedCase(
            f"loss {reduction}",
            f'y = SoftmaxCrossEntropyLoss<reduction="{reduction}">(x, t)',
            {
                "x": ragged(4, lengths=(2, 1, 3)),
                "t": ragged(lengths=(2, 1, 3), dtype=np.int64, low=0, high=3),
            },
        )
        for reduction in ("none", "sum", "mean")
    ),
    *(
        RaggedCase(
            f"mean of a loss, {name}",
            f"y = {op_type}{attributes}({operands})",
            {
                "x": ragged(4, lengths=(2, 1, 3)),
                "t": ragged(lengths=(2, 1, 3), dtype=np.int64, low=0, high=3),
                **weights,
            },
        )
        for op_type in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
        for name, attributes, operands, weights in (
            ("one class ignored", "<ignore_index = 1>", "x, t", {}),
            ("none of which is ignored", "<ignore_index = -100>", "x, t", {}),
            ("weights", "", "x, t, w", {"w": shared(_WEIGHTS)}),
            ("both", "<ignore_index = 2>", "x, t, w", {"w": shared(_WEIGHTS)}),
        )
    ),
    RaggedCase(
        "mean of a loss and logarithms",
        "y, p = SoftmaxCrossEntropyLoss<ignore_index = 1>(x, t)",
        {
            "x": ragged(4, lengths=(2, 1, 3)),
            "t": ragged(lengths=(2, 1, 3), dtype=np.int64, low=0, high=3),
        },
        outputs=("y", "p"),
    ),
]

PROVEN = [*AS_SAMPLES, *ELEMENTWISE, *BROADCASTS, *AXES, *MATRICES, *IMAGES]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", PROVEN, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


DECLINED = {
    "shared columns beside rows": (
        RaggedCase(
            "",
            "c = Concat<axis = 1>(x, z) y = ReduceSum<keepdims = 0>(c)",
            {"x": ragged(4, lengths=(2, 2, 2)), "z": shared(np.ones((2, 3), np.float32))},
        ),
        [("Concat", "ragged")],
    ),
    "positions of maxima that the body returns": (
        RaggedCase(
            "", "m, y = MaxPool<kernel_shape=[2]>(x)", {"x": ragged(1, 4, lengths=(2, 1, 3))}
        ),
        [("MaxPool", "no-rule")],
    ),
    "a product of shared matrices onto rows": (
        RaggedCase(
            "",
            "y = Gemm(a, w, c)",
            {
                "a": shared(np.ones((3, 4), np.float32)),
                "w": W,
                "c": ragged(3, lengths=(3, 1, 3)),
            },
        ),
        [("Gemm", "ragged")],
    ),
    "a product along the rows": (
        RaggedCase("", "y = Gemm<transA = 1>(x, x)", {"x": X}),
        [("Gemm", "ragged")],
    ),
    "squeeze without axes": (
        RaggedCase("", "y = Squeeze(x)", {"x": ragged(1, lengths=(2, 3, 3))}),
        [("Squeeze", "ragged")],
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_could_go_wrong_stays_per_sample(name: str) -> None:
    case, reasons = DECLINED[name]
    assert reasons_of(case) == reasons


UNKNOWN_BOUNDS = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[N,2]) xs, int64[S] s, int64[S] e) => (seq(float[M,K]) ys) {
  ys = SequenceMap (xs) <body = b (float[N,2] a) => (float[M,K] r) {
    d = Neg (a)
    r = Slice (d, s, e)
  }>
}"""


def test_bounds_of_unknown_number_stay_per_sample() -> None:
    fuse = FuseSequenceMapPass()
    fuse(ir.from_proto(onnx.parser.parse_model(UNKNOWN_BOUNDS)))
    (decision,) = fuse.decisions
    assert ("Slice", "ragged") in [(r.op_type, r.code.value) for r in decision.reasons]


CAPTURED = """<ir_version: 9, opset_import: ["" : 18]>
g (float[T,2] x, int64[B] n) => (float[T,2] y) {
  xs = SplitToSequence <axis = 0> (x, n)
  one = Constant <value_int = 1> ()
  c = SequenceAt (xs, one)
  ys = SequenceMap (xs) <body = b (float[N,2] a) => (float[N,2] r) {
    s = Shape (c)
    r = Reshape (a, s)
  }>
  y = ConcatFromSequence <axis = 0> (ys)
}"""


def test_a_captured_element_has_no_length_of_the_samples() -> None:
    model = ir.from_proto(onnx.parser.parse_model(CAPTURED))
    FuseSequenceMapPass()(model)
    ExpandSequenceMapPass()(model)
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    got = run_model(ir.to_proto(model), {"x": rows, "n": np.array([2, 2])})
    np.testing.assert_array_equal(got[0], rows)
    with pytest.raises(Fail, match="Reshape"):
        run_model(ir.to_proto(model), {"x": rows, "n": np.array([1, 3])})


APART = """<ir_version: 9, opset_import: ["" : 18]>
g (float[T,2] x, int64[B] n) => (float[N,K] y) {
  xs = SplitToSequence <axis = 0> (x, n)
  ys = SequenceMap (xs) <body = b (float[N,2] a) => (float[N,2] r) { d = Neg (a)  r = Abs (d) }>
  y = ConcatFromSequence <axis = 1> (ys)
}"""


def test_packed_samples_that_are_joined_across_say_why_they_come_from_a_loop() -> None:
    model = ir.from_proto(onnx.parser.parse_model(APART))
    fuse = FuseSequenceMapPass()
    fuse(model)
    (decision,) = fuse.decisions
    assert [(r.op_type, r.code.value) for r in decision.reasons] == [("Abs", "ragged")]
    ExpandSequenceMapPass()(model)
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    (got,) = run_model(ir.to_proto(model), {"x": rows, "n": np.array([2, 2])})
    np.testing.assert_array_equal(got, np.concatenate([rows[:2], rows[2:]], axis=1))


def test_positions_without_coordinates_yield_all_of_one_sample() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (seq(float[N]) xs) => (seq(float[M]) ys) {
          ys = SequenceMap (xs) <body = b (float[N] x) => (float[M] y) {
            p = MatMul (x, x)  none = Shape (p)  two = Constant <value_ints = [2]> ()
            t = Tile (x, two)  y = GatherND (t, none) }> }""")
    samples = [np.arange(n, dtype=np.float32) for n in (2, 3, 4)]
    found = run(rewrite(model, strategy="fuse").model, {"xs": samples})["ys"]
    assert [one.tolist() for one in found] == [[*x, *x] for x in samples]


@pytest.mark.parametrize("end", [0, 1])
def test_positions_of_unknown_width_yield_nothing_of_another_sample(end: int) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        g (seq(float[N]) xs, seq(int64[2]) places, int64[1] end) => (seq(float[]) ys) {
          ys = SequenceMap (xs, places) <body = f (float[N] x, int64[2] place) => (float[] y) {
            begin = Constant <value_ints = [0]> ()
            some = Slice (place, begin, end)  y = GatherND (x, some) }> }""")
    xs = [np.arange(n, dtype=np.float32) for n in (4, 4, 3)]
    feeds = {"xs": xs, "places": [np.array([1, 2])] * 3, "end": np.array([end])}
    promise = {"xs": (None,), "places": (2,)}
    found = run(rewrite(model, strategy="fuse", input_shapes=promise).model, feeds)["ys"]
    assert [one.tolist() for one in found] == [x[1] if end else x.tolist() for x in xs]


def test_a_recurrence_over_samples_of_an_unknown_rank_stays_in_a_loop() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 22]>
        g (seq(float) xs) => (seq(int64[M]) ys, seq(bool[R,S]) zs) {
          ys, zs = SequenceMap (xs) <body = b (x) => (y, z) {
            w = Constant <value = float[1,2,1] {0, 0}> ()
            r = Constant <value = float[1,2,2] {1, 0, 0, 1}> ()
            k = Constant <value = float[3,1] {2, 1, 3}> ()
            h = RNN <hidden_size = 2> (x, w, r)  y = Shape (h)  z = GreaterOrEqual (x, k) }> }""")
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.ClearField("shape")
    assert rewrite(model, strategy="fuse").report.decisions
