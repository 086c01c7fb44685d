"""Fourier transforms, and the windows and matrices that go with them."""

from __future__ import annotations

from typing import Any

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


def number(n: int) -> np.ndarray[Any, Any]:
    return np.array(n, np.int64)


REAL, COMPLEX = mapped((2, 4, 6, 1)), mapped((2, 4, 6, 2))
ONE_AXIS = mapped((8, 1))
SIGNAL, ROWS = mapped((2, 16, 1)), mapped((1, 16))
WINDOW = np.hanning(8).astype(np.float32)


def dft(name: str, x: Operand, attributes: str = "", opset: int = 20, **more: Any) -> Case:
    """Make a case of operands ``n`` (dft_length) and ``a`` (axis), where they are given."""
    symbolic = bool(more.pop("symbolic", False))
    inputs = ["x", "n" if "n" in more else '""', "a" if "a" in more else '""']
    while inputs[-1] == '""':
        inputs.pop()
    text = f"y = DFT{attributes}({', '.join(inputs)})"
    return Case(
        f"DFT {name}, opset {opset}",
        text,
        {"x": x, **more},
        opset=opset,
        symbolic=symbolic,
        atol=1e-5,
    )


def stft(name: str, x: Operand, inputs: str, **more: Any) -> Case:
    text = f"y = STFT{more.pop('attributes', '')}({inputs})"
    symbolic = bool(more.pop("symbolic", False))
    return Case(f"STFT {name}", text, {"x": x, **more}, opset=17, symbolic=symbolic, atol=1e-5)


CASES = [
    dft("default axis", REAL, opset=17),
    dft("axis 2", COMPLEX, "<axis = 2>", 17),
    dft("axis 0", REAL, "<axis = 0>", 19, symbolic=True),
    dft("axis -2", REAL, "<axis = -2>", 17),
    dft("inverse", COMPLEX, "<inverse = 1>", 17),
    dft("onesided", REAL, "<onesided = 1, axis = 2>", 17),
    dft("constant length", REAL, opset=17, n=constant(number(7))),
    dft("run-time length", COMPLEX, "<axis = 2>", 18, n=shared(number(3))),
    dft("default axis", REAL),
    dft("default axis of one signal", ONE_AXIS),
    dft("constant axis 0", REAL, a=constant(number(0))),
    dft("constant axis 1", COMPLEX, a=constant(number(1)), symbolic=True),
    dft("constant axis -3", COMPLEX, a=constant(number(-3))),
    dft("run-time axis 1", REAL, a=shared(number(1))),
    dft("run-time axis -2", REAL, a=shared(number(-2))),
    dft("length", REAL, n=constant(number(9))),
    dft("run-time length and axis", REAL, n=shared(number(5)), a=shared(number(0))),
    dft("inverse", COMPLEX, "<inverse = 1>", a=constant(number(1))),
    dft("onesided", REAL, "<onesided = 1>", a=constant(number(-2))),
    dft("of doubles", mapped((2, 4, 1), dtype=np.float64), opset=22),
    stft(
        "frame_length",
        SIGNAL,
        'x, s, "", n',
        s=constant(number(2)),
        n=constant(number(8)),
    ),
    stft(
        "run-time settings",
        SIGNAL,
        'x, s, "", n',
        s=shared(number(3)),
        n=shared(number(8)),
        symbolic=True,
    ),
    stft("window", SIGNAL, "x, s, w", s=constant(number(4)), w=constant(WINDOW)),
    stft("run-time window", SIGNAL, "x, s, w", s=constant(number(4)), w=shared(WINDOW)),
    stft(
        "both sides",
        SIGNAL,
        "x, s, w, n",
        attributes="<onesided = 0>",
        s=constant(number(4)),
        w=constant(WINDOW),
        n=constant(number(8)),
    ),
    stft(
        "complex",
        mapped((2, 16, 2)),
        "x, s, w",
        attributes="<onesided = 0>",
        s=constant(number(4)),
        w=constant(WINDOW),
    ),
    stft("rank 2", ROWS, "x, s, w", s=constant(number(2)), w=constant(WINDOW)),
]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


SIZES = mapped(*(number(n) for n in (4, 6, 5)))
MEL = """e = Constant<value_int = 8>() r = Constant<value_int = 16000>()
low = Constant<value_float = 0.0>() high = Constant<value_float = 8000.0>()
y = MelWeightMatrix(n, e, r, low, high)"""
DECLINES = [
    (dft("length per sample", REAL, n=SIZES), "data-dependent-shape"),
    (dft("length per sample of one signal", shared(REAL.of(0)), n=SIZES), "data-dependent-shape"),
    (
        dft("axis per sample", REAL, a=mapped(*(number(n) for n in (0, 1, 0)))),
        "batched-operand",
    ),
    (
        stft("step per sample", SIGNAL, "x, s, w", s=SIZES, w=constant(WINDOW)),
        "data-dependent-shape",
    ),
    (
        stft("window per sample", SIGNAL, "x, s, w", s=constant(number(4)), w=mapped((8,))),
        "batched-operand",
    ),
    (Case("HannWindow", "y = HannWindow(n)", {"n": SIZES}), "data-dependent-shape"),
    (Case("HammingWindow", "y = HammingWindow(n)", {"n": SIZES}), "data-dependent-shape"),
    (Case("BlackmanWindow", "y = BlackmanWindow(n)", {"n": SIZES}), "data-dependent-shape"),
    (Case("MelWeightMatrix", MEL, {"n": SIZES}), "batched-operand"),
]


@pytest.mark.parametrize(
    ("case", "code"), DECLINES, ids=lambda x: str(x) if isinstance(x, Case) else ""
)
def test_rule_declines(case: Case, code: str) -> None:
    assert decline_of(case) == [(case.name.split()[0], code)]


@BATCHES
@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_a_window_of_one_size_is_made_once(op_type: str, batch: int) -> None:
    case = Case(
        op_type, f"w = {op_type}(n) y = Mul(x, w)", {"x": mapped((4,)), "n": constant(number(4))}
    )
    prove(case, batch)


@BATCHES
def test_one_weight_matrix_is_made_once(batch: int) -> None:
    case = Case(
        "mel",
        MEL.replace("y =", "m =") + " y = MatMul(x, m)",
        {"x": mapped((2, 5)), "n": constant(number(3))},
    )
    prove(case, batch)
