"""LSTM, GRU and RNN."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import (
    BATCHES,
    Case,
    Operand,
    constant,
    decline_of,
    mapped,
    prove,
    shared,
)

STEPS, ROWS, SIZE, HIDDEN = 4, 2, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
X = mapped((STEPS, ROWS, SIZE))
ONE = mapped((STEPS, 1, SIZE))
BY_ROW = mapped((ROWS, STEPS, SIZE))
LENGTHS = np.array([2, 4], np.int32)


def weights(op_type: str, directions: int = 1, kind: object = constant) -> dict[str, Operand]:
    rng = np.random.default_rng(7)
    gates = GATES[op_type] * HIDDEN
    shapes = {
        "w": (directions, gates, SIZE),
        "r": (directions, gates, HIDDEN),
        "b": (directions, 2 * gates),
    }
    return {n: kind(rng.standard_normal(s).astype(np.float32)) for n, s in shapes.items()}


def state(seed: int = 1, directions: int = 1, rows: int = ROWS) -> Operand:
    return mapped((directions, rows, HIDDEN), seed=seed)


CASES = [
    *(
        Case(
            f"{op} at opset {opset}",
            f"y, h = {op}<hidden_size={HIDDEN}>(x, w, r)",
            {"x": X, **{n: v for n, v in weights(op).items() if n != "b"}},
            ("y", "h"),
            opset=opset,
        )
        for op in GATES
        for opset in (17, 22)
    ),
    *(
        Case(
            f"{op} {direction} with all operands mapped",
            f'y, h = {op}<hidden_size={HIDDEN}, direction="{direction}">(x, w, r, b, n, h0)',
            {
                "x": X,
                **weights(op, 2 if direction == "bidirectional" else 1, shared),
                "n": mapped(LENGTHS, LENGTHS[::-1], np.array([1, 3], np.int32)),
                "h0": state(directions=2 if direction == "bidirectional" else 1),
            },
            ("y", "h"),
        )
        for op in GATES
        for direction in ("forward", "reverse", "bidirectional")
    ),
    Case(
        "LSTM last states only, symbolic",
        f"o, h, c = LSTM<hidden_size={HIDDEN}>(x, w, r, b)",
        {"x": X, **weights("LSTM")},
        ("h", "c"),
        symbolic=True,
    ),
    Case(
        "LSTM without the first output",
        f'"", h = LSTM<hidden_size={HIDDEN}>(x, w, r)',
        {"x": ONE, **weights("LSTM")},
        ("h",),
    ),
    Case(
        "LSTM with peepholes and mapped states",
        f'y, h, c = LSTM<hidden_size={HIDDEN}>(x, w, r, b, "", h0, c0, p)',
        {
            "x": X,
            **weights("LSTM"),
            "h0": state(1),
            "c0": state(2),
            "p": constant(np.random.default_rng(3).random((1, 3 * HIDDEN)).astype(np.float32)),
        },
        ("y", "h", "c"),
        symbolic=True,
    ),
    Case(
        "LSTM with shared states and lengths",
        f"y, h, c = LSTM<hidden_size={HIDDEN}>(x, w, r, b, n, h0, c0)",
        {
            "x": X,
            **weights("LSTM"),
            "n": shared(LENGTHS),
            "h0": shared(state(1).of(0)),
            "c0": constant(state(2).of(0)),
        },
        ("y", "h", "c"),
    ),
    Case(
        "GRU of a shared sequence",
        f'y, h = GRU<hidden_size={HIDDEN}, linear_before_reset=1>(x, w, r, b, "", h0)',
        {"h0": state(1), "x": shared(X.of(0)), **weights("GRU")},
        ("y", "h"),
    ),
    *(
        Case(
            f"{op} by row",
            f'y, h = {op}<hidden_size={HIDDEN}, layout=1>(x, w, r, b, "", h0)',
            {"x": BY_ROW, **weights(op), "h0": mapped((ROWS, 1, HIDDEN), seed=1)},
            ("y", "h"),
            opset=22,
            atol=1e-5,
        )
        for op in GATES
    ),
]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


@pytest.mark.parametrize("name", ["w", "r", "b"])
@pytest.mark.parametrize("op", GATES)
def test_mapped_weights_decline(op: str, name: str) -> None:
    given = weights(op)
    given[name] = mapped(*[given[name].of(0)] * 3)
    text = f"y, h = {op}<hidden_size={HIDDEN}>(x, w, r, b)"
    assert (op, "batched-operand") in decline_of(Case("mapped", text, {"x": X, **given}))
