"""Products, Softmax and slices where the axis of different lengths is not the first."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from passes.promises import FuseOptions
from tests.passes.batching.harness import constant, mapped, run_model
from tests.passes.batching.ragged import RaggedCase, loops_of, prove_ragged, ragged, reasons_of

X, Z = ragged(4), ragged(3, seed=1)
ROWS = constant(np.array([1]))
TURNED = "t = Transpose (x)"
CASES = [
    RaggedCase("softmax of columns", f"{TURNED} s = Softmax (t) y = Transpose (s)", {"x": X}),
    RaggedCase(
        "log softmax of columns",
        f"{TURNED} s = LogSoftmax <axis = 1> (t) y = Transpose (s)",
        {"x": X},
    ),
    RaggedCase(
        "softmax along the axis in the middle",
        "t = Transpose <perm = [1, 0, 2]> (x) s = Softmax <axis = 1> (t) "
        "y = Transpose <perm = [1, 0, 2]> (s)",
        {"x": ragged(2, 3)},
    ),
    RaggedCase("weights by values", f"{TURNED} y = MatMul (t, z)", {"x": X, "z": Z}),
    RaggedCase(
        "wide weights by wide values",
        f"{TURNED} y = MatMul (t, z)",
        {"x": ragged(20), "z": ragged(30, seed=1)},
        loops=1,
        rtol=1e-4,
        atol=1e-4,
    ),
    RaggedCase("row of weights", "y = MatMul (w, z)", {"w": ragged(), "z": Z}),
    RaggedCase(
        "column of weights",
        f"{TURNED} u = Neg (t) y = MatMul (u, w)",  # onnxruntime joins Transpose and MatMul wrongly
        {"x": X, "w": ragged(seed=2)},
    ),
    RaggedCase("two vectors", "y = MatMul (v, w)", {"v": ragged(), "w": ragged(seed=2)}),
    RaggedCase("rows by a vector", "y = MatMul (x, q)", {"x": X, "q": mapped((4,))}),
    RaggedCase("vector by columns", f"{TURNED} y = MatMul (q, t)", {"x": X, "q": mapped((4,))}),
    RaggedCase(
        "matrix by columns",
        f"{TURNED} s = MatMul (q, t) y = Transpose (s)",
        {"x": X, "q": mapped((3, 4))},
    ),
    RaggedCase(
        "attention with few queries",
        f"{TURNED} s = MatMul (q, t) w = Softmax (s) y = MatMul (w, z)",
        {"x": X, "z": Z, "q": mapped((2, 4))},
    ),
    RaggedCase(
        "distance from the mean of columns",
        f"{TURNED} m = ReduceMax (t, rows) d = Sub (t, m) y = Transpose (d)",
        {"x": ragged(4, lengths=(2, 1, 3)), "rows": ROWS},
    ),
    RaggedCase(
        "number of each channel",
        "t = Transpose <perm = [1, 0, 2]> (x) d = Mul (q, t) y = Transpose <perm = [1, 0, 2]> (d)",
        {"x": ragged(2, 3), "q": mapped((2, 1, 3))},
    ),
    RaggedCase(
        "slices along the second axis",
        "s = Slice (q, a, b, rows) y = Transpose (s)",
        {
            "q": mapped((4, 6)),
            "a": mapped(np.array([1]), np.array([0]), np.array([-4])),
            "b": mapped(np.array([3]), np.array([0]), np.array([9])),
            "rows": ROWS,
        },
    ),
    RaggedCase(
        "slices along the last axis, backwards",
        "s = Slice (q, a, b, rows, back) y = Transpose <perm = [2, 0, 1]> (s)",
        {
            "q": mapped((2, 3, 6)),
            "a": mapped(np.array([4]), np.array([0]), np.array([-1])),
            "b": mapped(np.array([1]), np.array([2]), np.array([-6])),
            "rows": constant(np.array([2])),
            "back": constant(np.array([-2])),
        },
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


SCORES = "t = Transpose (k) s = MatMul (q, t)"
NOT_BATCHED = {
    "columns by scores": (
        f"{SCORES} u = Transpose (v) y = MatMul (u, s)",
        {"v": ragged(3, lengths=(2, 2, 2))},
    ),
    "scores by a vector": (f"{SCORES} y = MatMul (s, w)", {"w": mapped((2,))}),
    "vector by scores": (f"{SCORES} y = MatMul (w, s)", {"w": mapped((2,))}),
}


@pytest.mark.parametrize("name", NOT_BATCHED)
def test_matrices_that_differ_along_both_axes(name: str) -> None:
    nodes, others = NOT_BATCHED[name]
    alike = {"q": ragged(4, lengths=(2, 2, 2)), "k": ragged(4, lengths=(2, 2, 2), seed=2)}
    case = RaggedCase(name, nodes, {**alike, **others})
    assert ("MatMul", "ragged") in reasons_of(case)


@pytest.mark.parametrize("lengths", [(2, 0, 3), (1,), ()])
def test_rows_of_no_known_size_by_a_vector_of_each(lengths: tuple[int, ...]) -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[T,K] x, int64[B] n, float[B,L] v) => (float[R] y) {
      xs = SplitToSequence <axis = 0> (x, n)
      vs = SplitToSequence <axis = 0, keepdims = 0> (v)
      ys = SequenceMap (xs, vs) <body = b (float[P,K2] a, float[L2] c) => (float[P] o) {
        o = MatMul (a, c) }>
      y = ConcatFromSequence <axis = 0> (ys) }"""
    model = ir.from_onnx_text(text)
    FuseSequenceMapPass(FuseOptions())(model)
    ExpandSequenceMapPass()(model)
    assert loops_of(model) == 0
    rng = np.random.default_rng(len(lengths))
    x = rng.standard_normal((sum(lengths), 4)).astype(np.float32)
    v = rng.standard_normal((len(lengths), 4)).astype(np.float32)
    (found,) = run_model(ir.to_proto(model), {"x": x, "n": np.array(lengths, np.int64), "v": v})
    own = np.repeat(v, lengths, axis=0)
    np.testing.assert_allclose(found, (x * own).sum(axis=1), rtol=1e-5, atol=1e-6)
