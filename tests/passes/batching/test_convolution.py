"""Convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import (
    BATCHES,
    Case,
    Operand,
    constant,
    decline_of,
    fused_model,
    mapped,
    prove,
    shared,
)


def whole(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> Operand:
    rng = np.random.default_rng(seed)
    return mapped(*(np.asarray(rng.integers(0, 50, shape), dtype) for _ in range(3)))


POINTS = mapped(*(np.uint8(n) for n in (3, 200, 0)))


def convolve(
    op_type: str, name: str, attributes: str = "", opset: int = 18, **operands: Any
) -> Case:
    symbolic = operands.pop("symbolic", False)
    text = f"y = {op_type}{attributes}({', '.join(operands)})"
    label = f"{op_type} {name}"
    return Case(label, text, operands, opset=opset, symbolic=symbolic, rtol=1e-4, atol=1e-5)


X, X1 = mapped((2, 4, 5, 6)), mapped((1, 4, 5, 6))
LINE = mapped((2, 4, 7))
W, W1 = mapped((6, 4, 3, 3), seed=1), mapped((6, 4, 3), seed=1)
GROUPED = mapped((6, 2, 3, 3), seed=1)
TURNED, TURNED_GROUPS = mapped((4, 6, 3, 3), seed=1), mapped((4, 3, 3, 3), seed=1)
BIAS = mapped((6,), seed=2)
WIDE = "<pads = [1, 1, 1, 1], strides = [2, 1]>"
CASES = [
    convolve("Conv", "of images", x=X, w=constant(W.first)),
    convolve("Conv", "of one image", WIDE, x=X1, w=constant(W.first), b=constant(BIAS.first)),
    convolve(
        "Conv", "symbolic", WIDE, x=X, w=shared(W.first), b=shared(BIAS.first), symbolic=True
    ),
    convolve("Conv", "one image, symbolic", x=X1, w=shared(W.first), symbolic=True),
    convolve(
        "Conv", "of lines", "<dilations = [2]>", x=LINE, w=shared(W1.first), b=shared(BIAS.first)
    ),
    convolve(
        "Conv", "of volumes", x=mapped((1, 2, 3, 4, 3)), w=shared(mapped((3, 2, 2, 2, 2)).first)
    ),
    convolve("Conv", "same size", '<auto_pad = "SAME_UPPER">', x=X, w=shared(W.first), opset=22),
    convolve(
        "Conv", "in groups", "<group = 2>", x=X, w=shared(GROUPED.first), b=constant(BIAS.first)
    ),
    convolve("Conv", "mapped bias", WIDE, x=X, w=shared(W.first), b=BIAS),
    convolve("Conv", "mapped bias of lines", x=LINE, w=shared(W1.first), b=BIAS, symbolic=True),
    convolve("Conv", "mapped filters", WIDE, x=shared(X.first), w=W),
    convolve("Conv", "mapped filters and bias", x=shared(X.first), w=W, b=BIAS),
    convolve(
        "Conv", "mapped filters, shared bias", x=constant(LINE.first), w=W1, b=shared(BIAS.first)
    ),
    convolve(
        "Conv", "mapped filters in groups", "<group = 2>", x=shared(X.first), w=GROUPED, b=BIAS
    ),
    convolve("Conv", "mapped filters, symbolic", x=shared(X.first), w=W, symbolic=True),
    convolve("Conv", "bias alone mapped", x=shared(X.first), w=shared(W.first), b=BIAS),
    convolve("ConvTranspose", "of images", x=X, w=constant(TURNED.first), b=constant(BIAS.first)),
    convolve(
        "ConvTranspose",
        "with strides, symbolic",
        "<strides = [2, 2], output_padding = [1, 0]>",
        x=X,
        w=shared(TURNED.first),
        symbolic=True,
    ),
    convolve("ConvTranspose", "in groups", "<group = 2>", x=X1, w=shared(TURNED_GROUPS.first)),
    convolve("ConvTranspose", "to a size", "<output_shape = [6, 7]>", x=X, w=shared(TURNED.first)),
    convolve("ConvTranspose", "mapped bias", x=X, w=shared(TURNED.first), b=BIAS),
    convolve("ConvTranspose", "mapped filters", x=shared(X.first), w=TURNED, b=BIAS),
    convolve(
        "ConvTranspose",
        "mapped filters in groups",
        "<group = 2>",
        x=shared(X.first),
        w=TURNED_GROUPS,
    ),
    convolve("ConvInteger", "of images", x=whole(2, 4, 5, 6), w=shared(whole(6, 4, 3, 3).first)),
    convolve(
        "ConvInteger",
        "with zero points",
        WIDE,
        x=whole(1, 4, 5, 6),
        w=constant(whole(6, 4, 3, 3).first),
        xz=constant(np.uint8(3)),
        wz=shared(np.uint8(5)),
    ),
    convolve(
        "ConvInteger",
        "a zero point of each sample",
        WIDE,
        x=whole(2, 4, 5, 6),
        w=constant(whole(6, 4, 3, 3).first),
        xz=POINTS,
        wz=shared(np.uint8(5)),
    ),
    convolve(
        "ConvInteger",
        "signed numbers, a vector of one zero point of each sample",
        '<auto_pad = "SAME_UPPER", strides = [2, 2]>',
        x=whole(1, 4, 5, 6, dtype=np.int8),
        w=shared(whole(6, 4, 3, 3, dtype=np.int8).first),
        xz=mapped(*(np.array([n], np.int8) for n in (-100, 0, 3))),
        symbolic=True,
    ),
    convolve(
        "ConvInteger",
        "a zero point alone of each sample",
        "<group = 2, dilations = [2, 1]>",
        x=shared(whole(1, 4, 5, 6).first),
        w=shared(whole(6, 2, 2, 3).first),
        xz=POINTS,
    ),
    convolve(
        "ConvInteger",
        "symbolic",
        x=whole(2, 1, 6, 6),
        w=shared(whole(2, 1, 3, 3).first),
        symbolic=True,
    ),
]


def quantized(name: str, attributes: str = "", **changed: Operand) -> Case:
    operands = {
        "x": whole(2, 4, 5, 6),
        "xs": constant(np.float32(0.02)),
        "xz": constant(np.uint8(7)),
        "w": constant(whole(6, 4, 3, 3, seed=1).first),
        "ws": constant(np.float32(0.03)),
        "wz": constant(np.uint8(9)),
        "ys": constant(np.float32(0.3)),
        "yz": constant(np.uint8(1)),
        **changed,
    }
    return convolve("QLinearConv", name, attributes, **operands)


COLUMNS = np.linspace(0.01, 0.05, 6, dtype=np.float32)
QUANTIZED = [
    quantized("of images"),
    quantized("of one image", WIDE, x=whole(1, 4, 5, 6)),
    quantized("with a bias", b=shared(np.arange(6, dtype=np.int32) * 100)),
    quantized("scales by filter", ws=shared(COLUMNS), wz=constant(np.full(6, 9, np.uint8))),
    quantized("run-time scales", xs=shared(np.float32(0.05)), ys=shared(np.float32(0.5))),
]

OFFSETS = mapped((2, 18, 3, 4), seed=3)
MASK = mapped((2, 9, 3, 4), seed=4)
DEFORM = {"x": X, "w": shared(W.first), "o": OFFSETS}
DEFORMED = [
    convolve("DeformConv", "of images", opset=19, **DEFORM),
    convolve("DeformConv", "with a bias", opset=22, **DEFORM, b=shared(BIAS.first)),
    convolve(
        "DeformConv", "with a bias and a mask", opset=19, **DEFORM, b=constant(BIAS.first), m=MASK
    ),
    convolve(
        "DeformConv", "with a mapped bias", opset=19, **DEFORM, b=BIAS, m=MASK, symbolic=True
    ),
    convolve("DeformConv", "shared offsets", opset=19, **{**DEFORM, "o": shared(OFFSETS.first)}),
    convolve("DeformConv", "shared images", opset=19, **{**DEFORM, "x": shared(X.first)}, b=BIAS),
    Case(
        "DeformConv mask without bias",
        'y = DeformConv(x, w, o, "", m)',
        {**DEFORM, "m": MASK},
        opset=19,
        rtol=1e-4,
        atol=1e-5,
    ),
]


@BATCHES
@pytest.mark.parametrize("case", [*CASES, *QUANTIZED, *DEFORMED], ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    convolve("Conv", "at 11", WIDE, 11, x=X, w=shared(W.first), b=BIAS),
    convolve("Conv", "mapped filters at 14", "", 14, x=shared(X.first), w=W),
    convolve("Conv", "mapped filters at 13", "", 13, x=shared(X.first), w=W),
    convolve("Conv", "mapped filters at 11", "", 11, x=shared(X.first), w=W),
    convolve("ConvTranspose", "mapped filters at 13", "", 13, x=shared(X.first), w=TURNED),
    convolve("ConvTranspose", "at 11", "", 11, x=X1, w=shared(TURNED.first)),
    convolve(
        "ConvInteger", "at 10", "", 10, x=whole(1, 4, 5, 6), w=shared(whole(6, 4, 3, 3).first)
    ),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


STATE = mapped((1, 3, 2), seed=5)
CAUSAL = {"x": mapped((1, 3, 6)), "w": constant(mapped((3, 1, 3), seed=1).first)}
STATES = [
    Case("CausalConvWithState", "y, z = CausalConvWithState(x, w)", CAUSAL, ("y", "z"), 27),
    Case(
        "CausalConvWithState with bias and state",
        'y, z = CausalConvWithState<activation = "silu">(x, w, b, s)',
        {**CAUSAL, "b": shared(mapped((3,)).first), "s": STATE},
        ("y", "z"),
        27,
    ),
    Case(
        "CausalConvWithState with a shared state",
        'y, z = CausalConvWithState(x, w, "", s)',
        {**CAUSAL, "x": mapped((2, 3, 6)), "s": shared(mapped((2, 3, 2), seed=5).first)},
        ("y", "z"),
        27,
    ),
]


@BATCHES
@pytest.mark.parametrize("case", STATES, ids=str)
def test_convolutions_of_the_newest_opset(case: Case, batch: int) -> None:
    """The evaluator alone runs them."""
    prove(case, batch)


DECLINES = [
    convolve("Conv", "all mapped", x=X, w=W),
    convolve("ConvInteger", "mapped filters", x=whole(1, 4, 5, 6), w=whole(6, 4, 3, 3)),
    quantized("mapped scale", xs=mapped(*(np.float32(n) for n in (0.1, 0.2, 0.3)))),
    convolve("DeformConv", "mapped filters", opset=19, x=X, w=W, o=OFFSETS),
]


@pytest.mark.parametrize("case", DECLINES, ids=str)
def test_rule_declines(case: Case) -> None:
    assert decline_of(case) == [(case.name.split()[0], "batched-operand")]


BATCH_OF_ONE = Case(
    "a batch of one in each sample",
    "u = Unsqueeze(x, a) c = Conv(u, w) r = Relu(c) g = GlobalAveragePool(r) y = Squeeze(g, a)",
    {
        "x": mapped((2, 5, 5)),
        "w": constant(np.ones((3, 2, 3, 3), np.float32)),
        "a": constant(np.array([0])),
    },
)


@BATCHES
def test_batches_of_one_are_one_batch(batch: int) -> None:
    prove(BATCH_OF_ONE, batch)
    proto, _ = fused_model(BATCH_OF_ONE)
    kinds = [node.op_type for node in proto.graph.node if node.op_type != "Constant"]
    assert kinds == ["Conv", "Relu", "GlobalAveragePool"]
