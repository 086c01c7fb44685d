"""Packed samples that differ in length along another axis than the first."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.fuse import FuseSequenceMapPass
from tests.passes.batching.harness import Operand, constant, mapped, run_model, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged, reasons_of

X = ragged(4)
W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def turned(name: str, then: str, **operands: Operand) -> RaggedCase:
    """Make a case that reads ``t``, the transpose ``[4, n]`` of its samples."""
    return RaggedCase(name, f"t = Transpose(x) {then}", {"x": X, **operands})


def ints(*numbers: int) -> Operand:
    return constant(np.array(numbers, np.int64))


ROW = constant(np.ones((1, 3), np.float32))
LONG = ragged(4, lengths=(4, 2, 3))
ONE_OF_TWO = mapped(np.array(1), np.array(-2), np.array(0))
PLACES = ragged(4, dtype=np.int64, low=-0.9, high=0.9, seed=3)
ROWS = ragged(4, dtype=np.int64, low=-4, high=3.9, seed=4)
TABLE = mapped((4, 5))
SOME_OF_TWO = ragged(dtype=np.int64, low=0, high=1.9, seed=2)

CASES = [
    turned("transpose", "y = Identity(t)"),
    turned("elementwise", "a = Exp(t) y = Neg(a)"),
    turned("and back", "a = Exp(t) y = Transpose(a)"),
    turned("a column for all", "y = Add(t, c)", c=shared(np.ones((4, 1), np.float32))),
    turned("a number for all", "y = Mul(t, c)", c=constant(np.float32(2))),
    turned("a number of a sample", "y = Mul(t, m)", m=mapped(())),
    turned("one number of a sample", "y = Mul(t, m)", m=mapped((1,))),
    turned("itself", "y = Mul(t, t)"),
    turned("a third axis", "y = Add(t, c)", c=shared(np.ones((2, 1, 1), np.float32))),
    turned("columns of a product", "y = MatMul(w, t)", w=constant(W)),
    turned("columns of a product, batched", "y = MatMul(w, t)", w=shared(W[None].repeat(2, 0))),
    turned("columns as rows", "y = Gemm<transA = 1>(t, w, c)", w=shared(W.T), c=ROW),
    turned(
        "columns as rows of both",
        "y = Gemm<transA = 1, transB = 1, alpha = 0.5>(t, w, c)",
        w=constant(W),
        c=ragged(3, seed=3),
    ),
    turned("softmax", "y = Softmax<axis = 0>(t)"),
    turned("the best of each row", "y = Hardmax<axis = 1>(t)"),
    turned("the best of each column", "y = Hardmax<axis = 0>(t)"),
    RaggedCase("the best of rows as they are", "y = Hardmax<axis = 0>(x)", {"x": X}),
    turned("elements along it", "p = Transpose(i) y = GatherElements<axis = 1>(t, p)", i=PLACES),
    turned("elements beside it", "p = Transpose(i) y = GatherElements<axis = 0>(t, p)", i=ROWS),
    turned(
        "elements of a table",
        "p = Transpose(i) y = GatherElements<axis = 1>(m, p)",
        i=ROWS,
        m=TABLE,
    ),
    turned(
        "counts",
        'p = Transpose(i) y = ScatterElements<axis = -1, reduction = "add">(m, p, t)',
        i=ROWS,
        m=TABLE,
    ),
    turned("unsqueeze", "y = Unsqueeze(t, a)", a=ints(0, 2)),
    turned("squeeze", "u = Unsqueeze(t, a) y = Squeeze(u, a)", a=ints(0, -1)),
    turned("shape", "y = Shape(t)"),
    turned("end of the shape", "y = Shape<start = 1>(t)"),
    turned("size", "y = Size(t)"),
    turned("row", "y = Gather(t, i)", i=constant(np.array(2))),
    turned("rows", "y = Gather(t, i)", i=ints(-1, 0)),
    turned("a column", "y = Gather<axis = 1>(t, i)", x=LONG, i=constant(np.array(-2))),
    turned("columns", "y = Gather<axis = 1>(t, i)", x=LONG, i=ints(-1, 0, 1)),
    turned("a column of each", "y = Gather<axis = 1>(t, i)", x=LONG, i=ONE_OF_TWO),
    turned("columns by places of each", "y = Gather<axis = 1>(t, i)", x=LONG, i=SOME_OF_TWO),
    RaggedCase(
        "a middle axis by a table",
        "t = Transpose<perm = [1, 0, 2]>(x) y = Gather<axis = 1>(t, i)",
        {"x": ragged(4, 3, lengths=(4, 2, 3)), "i": constant(np.array([[0, -1], [1, 0]]))},
    ),
    RaggedCase(
        "columns of one size by places of each",
        "y = Gather<axis = 1>(x, i)",
        {"x": mapped((3, 2, 2)), "i": SOME_OF_TWO},
    ),
    turned("slice", "y = Slice(t, s, e, a)", s=ints(1), e=ints(3), a=ints(0)),
    turned("slice of columns", "y = Slice(t, s, e, a)", s=ints(1), e=ints(3), a=ints(1)),
    RaggedCase(
        "split",
        "t = Transpose(x) y, z = Split<axis = 0, num_outputs = 2>(t)",
        {"x": X},
        ("y", "z"),
    ),
    turned("concat", "y = Concat<axis = 0>(t, t)"),
    turned("tile", "y = Tile(t, r)", r=ints(2, 1)),
    turned("expand", "y = Expand(t, s)", s=ints(2, 4, 1)),
    turned("flatten", "u = Unsqueeze(t, a) y = Flatten<axis = 2>(u)", a=ints(0)),
    turned("reshape", "y = Reshape(t, s)", s=ints(2, 2, -1)),
    turned(
        "layer norm",
        "u = Unsqueeze(t, a) v = Transpose<perm = [0, 2, 1]>(u) y = LayerNormalization(v, w)",
        a=ints(0),
        w=constant(W[0]),
    ),
    turned(
        "kept columns",
        "c = Less(x1, l) y = Compress<axis = 1>(t, c)",
        x1=ragged(seed=3),
        l=constant(np.float32(1)),
    ),
    turned("sum of columns", "y = ReduceSum(t, a)", a=ints(1)),
    turned("sum of columns, squeezed", "y = ReduceSum<keepdims = 0>(t, a)", a=ints(-1)),
    turned("maximum of rows", "y = ReduceMax(t, a)", a=ints(0)),
    turned("maximum of rows, squeezed", "y = ReduceMax<keepdims = 0>(t, a)", a=ints(0)),
    turned("mean of all", "y = ReduceMean<keepdims = 0>(t)", x=ragged(4, lengths=(2, 1, 3))),
    RaggedCase(
        "sums of a middle axis",
        "t = Transpose<perm = [1, 0, 2]>(x) y = ReduceSum<keepdims = 0>(t, a) z = ReduceSum(t, a)",
        {"x": ragged(4, 3), "a": ints(1)},
        ("y", "z"),
    ),
    RaggedCase(
        "sums of a middle axis and a first",
        "t = Transpose<perm = [1, 0, 2]>(x) y = ReduceL1<keepdims = 0>(t, a) z = ReduceL1(t, a)",
        {"x": ragged(4, 3), "a": ints(0, 1)},
        ("y", "z"),
    ),
    RaggedCase("unsqueeze at the front", "u = Unsqueeze(x, a) y = Exp(u)", {"x": X, "a": ints(0)}),
    RaggedCase(
        "positions of a table",
        "y = Gather<axis = 1>(t, x)",
        {"t": shared(np.arange(8).reshape(2, 4)), "x": ragged(dtype=np.int64, low=0, high=3.9)},
    ),
    RaggedCase("vectors", "y = Reshape(x, s)", {"x": X, "s": ints(-1)}),
    RaggedCase("pairs", "y = Reshape(x, s)", {"x": X, "s": ints(-1, 2)}),
    RaggedCase("pairs behind an axis", "y = Reshape(x, s)", {"x": X, "s": ints(1, -1, 2)}),
    RaggedCase("flatten of rows", "y = Flatten<axis = -1>(x)", {"x": ragged(2, 2)}),
    RaggedCase("one row", "y = Flatten<axis = 0>(x)", {"x": X}),
    RaggedCase(
        "elements by flags",
        "f = Reshape(x, s) z = Abs(f) c = Less(f, z) y = Compress(x, c)",
        {"x": X, "s": ints(-1)},
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


SQUARE = ragged(4, lengths=(4, 4, 4))
DECLINED = {
    "rows beside columns": (turned("", "y = Add(t, x)", x=SQUARE), "Add"),
    "contracted": (
        turned("", "y = MatMul(t, w)", w=shared(W), x=ragged(4, lengths=(3, 3, 3))),
        "MatMul",
    ),
    "mixed up": (turned("", "y = Reshape(t, s)", s=ints(-1)), "Reshape"),
    "no whole rows": (
        RaggedCase("", "y = Reshape(x, s)", {"x": ragged(4, lengths=(2, 0, 4)), "s": ints(-1, 8)}),
        "Reshape",
    ),
    "no rule": (turned("", "y = Trilu(t)"), "Trilu"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_could_go_wrong_stays_per_sample(name: str) -> None:
    case, op_type = DECLINED[name]
    assert reasons_of(case) == [(op_type, "ragged")]


CUT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[3,T] x, int64[B] n, float[3,3] w) => ({outputs}) {{
  xs = SplitToSequence <axis = {axis}> (x, n)
  ys, zs = SequenceMap (xs) <body = b (float[3,N] a) => (float[M,N] r, float[3] s) {{
    p = MatMul (w, a)
    t = Softmax <axis = 0> (p)
    r = Mul (t, a)
    one = Constant <value_ints = [1]> ()
    s = ReduceSum <keepdims = 0> (r, one)
  }}>
  y = {result} (ys)
  z = ConcatFromSequence <axis = 0, new_axis = 1> (zs)
}}"""


@pytest.mark.parametrize("sizes", [(), (2,), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("axis", [1, -1])
def test_a_tensor_cut_along_another_axis(axis: int, sizes: tuple[int, ...]) -> None:
    text = CUT.format(
        axis=axis,
        outputs="float[3,M] y, float[B,3] z",
        result="ConcatFromSequence <axis = -1>",
    )
    model = ir.from_proto(onnx.parser.parse_model(text))
    FuseSequenceMapPass()(model)
    proto = ir.to_proto(model)
    assert not {n.op_type for n in proto.graph.node} & {"Loop", "SequenceMap", "SplitToSequence"}
    x = np.random.default_rng(0).standard_normal((3, sum(sizes))).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((3, 3)).astype(np.float32)
    y, z = run_model(proto, {"x": x, "w": w, "n": np.array(sizes, np.int64)})
    powers = np.exp(w @ x)
    wanted = powers / powers.sum(0) * x
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-6)
    ends = np.cumsum(sizes, dtype=np.int64)
    sums = [wanted[:, end - n : end].sum(1) for end, n in zip(ends, sizes, strict=True)]
    np.testing.assert_allclose(z, np.reshape(sums, (-1, 3)), rtol=1e-4, atol=1e-5)


def test_a_sequence_is_cut_along_the_same_axis() -> None:
    text = CUT.format(axis=1, outputs="seq(float[3,M]) y, float[B,3] z", result="Identity")
    model = ir.from_proto(onnx.parser.parse_model(text))
    FuseSequenceMapPass()(model)
    proto = ir.to_proto(model)
    x, w = np.ones((3, 5), np.float32), np.eye(3, dtype=np.float32)
    y, _ = run_model(proto, {"x": x, "w": w, "n": np.array([2, 0, 3], np.int64)})
    assert [a.shape for a in y] == [(3, 2), (3, 0), (3, 3)]


PLACES = """<ir_version: 10, opset_import: ["" : 22]>
g (seq(float[A,C]) xs) => (seq(int64[2,L]) ys) {
  ys = SequenceMap (xs) <body = b (float[A,C] x) => (int64[2,L] y) {
    s = Shape (x) k = Constant <value_ints = [0]> ()
    t = Unsqueeze (s, k) e = Expand (t, s) y = NonZero (e) }> }"""


def test_places_in_what_a_loop_collects_leave_as_rows_and_sizes() -> None:
    model = onnx.parser.parse_model(PLACES)
    after = rewriter.optimize(model, strategy="fuse", target="openvino", tensor_io=True)
    assert not any(value.type.HasField("sequence_type") for value in after.graph.output)
    xs = [np.ones((2, 2), np.float32), np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)]
    check = rewriter.validate(model, after, inputs={"xs": xs})
    assert check.ok, check
