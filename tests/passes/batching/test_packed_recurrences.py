"""Recurrences over the axis of different lengths."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from tests.passes.batching.harness import Operand, constant, mapped, run_model
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged

X = ragged(2)
SUM = "<body = b (float[2] s, float[2] r) => (float[2] n, float[2] o) { n = Add(s, r) o = Mul(n, n) }, num_scan_inputs = 1"
ZERO = constant(np.array([0.5, -1], np.float32))

SCANS = [
    RaggedCase("running sum", f"e, y = Scan{SUM}>(z, x)", {"x": X, "z": ZERO}, ("e", "y")),
    RaggedCase(
        "states of the samples",
        f"e, y = Scan{SUM}>(z, x)",
        {"x": X, "z": mapped((2,))},
        ("e", "y"),
    ),
    RaggedCase(
        "backwards",
        f"e, y = Scan{SUM}, scan_input_directions = [1]>(z, x)",
        {"x": X, "z": ZERO},
        ("e", "y"),
    ),
    RaggedCase(
        "written backwards",
        f"e, y = Scan{SUM}, scan_output_directions = [1]>(z, x)",
        {"x": X, "z": ZERO},
        ("e", "y"),
    ),
    RaggedCase(
        "two inputs, a capture, no state",
        "y = Scan<body = b (float[2] p, float[2] q) => (float[2] o) { a = Mul(p, q) o = Add(a, m) }, num_scan_inputs = 2>(x, w)",
        {"x": X, "w": ragged(2, seed=4), "m": mapped((2,), seed=5)},
    ),
    RaggedCase(
        "products of matrices",
        "e, y = Scan<body = b (float[3,3] s, float[3,3] r) => (float[3,3] n, float[3,3] o) { n = MatMul(s, r) o = Identity(n) }, num_scan_inputs = 1>(i, x)",
        {"x": ragged(3, 3), "i": constant(np.eye(3, dtype=np.float32))},
        ("e", "y"),
    ),
    RaggedCase(
        "all rows in every step",
        "e, y = Scan<body = b (float[2] s, float[2] r) => (float[2] n, float[2] o) { d = Sub(w, r) q = ReduceMax<keepdims=0>(d, k) n = Add(s, q) o = Neg(q) }, num_scan_inputs = 1>(z, x)",
        {
            "x": X,
            "z": ZERO,
            "w": ragged(2, lengths=(1, 2, 4), seed=6),
            "k": constant(np.array([0])),
        },
        ("e", "y"),
    ),
    RaggedCase(
        "rows by positions that are scanned",
        "e, y = Scan<body = b (float[2] s, int64 p) => (float[2] n, float[2] o) { q = Gather(w, p) n = Add(s, q) o = Mul(n, q) }, num_scan_inputs = 1>(z, i)",
        {
            "i": Operand("ragged", tuple(np.array(v, np.int64) for v in ([1, 0, 1], [], [2, -1]))),
            "z": ZERO,
            "w": ragged(2, lengths=(2, 0, 3), seed=6),
        },
        ("e", "y"),
    ),
    RaggedCase(
        "a body that fails on padding",
        "e, y = Scan<body = b (int64[2] s, int64[2] r) => (int64[2] n, int64[2] o) { n = Add(s, r) o = Div(s, r) }, num_scan_inputs = 1>(i, x)",
        {"x": ragged(2, dtype=np.int64, low=1, high=9), "i": constant(np.array([40, 50]))},
        ("e", "y"),
    ),
]

WEIGHTS = {
    kind: {
        "w": constant(np.random.default_rng(1).uniform(-1, 1, (dirs, gates * 3, 2)).astype("f")),
        "r": constant(np.random.default_rng(2).uniform(-1, 1, (dirs, gates * 3, 3)).astype("f")),
    }
    for kind, gates, dirs in (("LSTM", 4, 1), ("GRU", 3, 1), ("RNN", 1, 2))
}
SEQUENCES = [
    RaggedCase(
        "lstm",
        "y, h, c = LSTM<hidden_size=3>(x, w, r)",
        {"x": ragged(1, 2, lengths=(2, 1, 3)), **WEIGHTS["LSTM"]},
        ("y", "h", "c"),
    ),
    RaggedCase(
        "lstm, one sample without rows",
        "y, h = LSTM<hidden_size=3>(x, w, r)",
        {"x": ragged(1, 2), **WEIGHTS["LSTM"]},
        ("y", "h"),
    ),
    RaggedCase(
        "lstm backwards, states of the samples",
        'y, h = LSTM<hidden_size=3, direction="reverse">(x, w, r, , , s)',
        {"x": ragged(2, 2), **WEIGHTS["LSTM"], "s": mapped((1, 2, 3))},
        ("y", "h"),
    ),
    RaggedCase(
        "gru",
        "y, h = GRU<hidden_size=3>(x, w, r)",
        {"x": ragged(1, 2, lengths=(2, 1, 3)), **WEIGHTS["GRU"]},
        ("y", "h"),
    ),
    RaggedCase(
        "rnn both ways, last state only",
        ', h = RNN<hidden_size=3, direction="bidirectional">(x, w, r)',
        {"x": ragged(1, 2, lengths=(4, 1, 3)), **WEIGHTS["RNN"]},
        ("h",),
    ),
]


SUMS = [
    RaggedCase(
        f"{op} {form}",
        f"y = {op}{form}(x, a)",
        {"x": ragged(*rest, lengths=(5, 0, 9), dtype=dtype), "a": constant(np.array(0))},
        opset=opset,
    )
    for op, form, rest, dtype, opset in [
        ("CumSum", "", (2,), np.float32, 18),
        ("CumSum", "<exclusive=1>", (2,), np.int64, 18),
        ("CumSum", "<reverse=1>", (), np.float64, 18),
        ("CumSum", "<exclusive=1, reverse=1>", (2, 2), np.float32, 18),
        ("CumProd", "", (2,), np.float32, 26),
        ("CumProd", "<exclusive=1, reverse=1>", (), np.float32, 26),
    ]
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", SUMS, ids=str)
def test_cumulation_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, inside=1)


def test_an_infinite_row_does_not_reach_other_samples() -> None:
    rows = [np.array(r, np.float32) for r in ([1, np.inf, 2], [3], [4, 5])]
    case = RaggedCase(
        "", "y = CumSum(x, a)", {"x": Operand("ragged", tuple(rows)), "a": constant(np.array(0))}
    )
    prove_ragged(case, 3, inside=1)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", SEQUENCES, ids=str)
def test_recurrent_network_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", SCANS, ids=str)
def test_scan_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, inside=2)


CONSTANT_LENGTHS = """<ir_version: 9, opset_import: ["" : 18]>
g (float[9,2] x) => (float[9,2] y) <int64[4] n = {5, 0, 1, 3}, int64 a = {0}> {
  xs = SplitToSequence <axis = 0> (x, n)
  ys = SequenceMap (xs) <body = b (float[N,2] s) => (float[N,2] r) { r = CumSum (s, a) }>
  y = ConcatFromSequence <axis = 0> (ys)
}"""


def test_cumulation_over_constant_lengths_has_no_loop() -> None:
    model = ir.from_proto(onnx.parser.parse_model(CONSTANT_LENGTHS))
    FuseSequenceMapPass()(model)
    assert "Loop" not in {node.op_type for node in model.graph}
    rows = np.arange(18, dtype=np.float32).reshape(9, 2)
    (got,) = run_model(ir.to_proto(model), {"x": rows})
    parts = [np.cumsum(part, axis=0) for part in np.split(rows, [5, 5, 6])]
    np.testing.assert_array_equal(got, np.concatenate(parts))
