"""Every rule for packed operands is proven by a case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from passes.batching import table
from passes.batching.packed import rules as packed_rules
from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.proofs import proven_operators
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged

assert packed_rules

X = ragged(4, low=0.1, high=0.9)
WIDE = ragged(4)
FLAGS, OTHER_FLAGS = ragged(4, dtype=np.bool_), ragged(4, dtype=np.bool_, seed=1)
BYTES, OTHER_BYTES = (ragged(4, dtype=np.uint8, low=1, high=7, seed=n) for n in (0, 1))
WORDS = Operand("ragged", tuple(np.array(w, object) for w in (["a", "bc"], [], ["", "d", "ef"])))
ROW = np.linspace(-1, 1, 4, dtype=np.float32)
POINT = constant(np.uint8(3))

IMAGES = ragged(2, 4, 6)
PIXELS = ragged(2, 4, 6, dtype=np.uint8, low=0, high=9)
CLASSES = ragged(dtype=np.int64, low=0, high=2.9)
PLACE = ragged(dtype=np.int64, low=0, high=2.9)
POINTS = ragged(3, dtype=np.int64, low=0, high=5.9)
CACHE = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
PLACES = ragged(2, dtype=np.int64, low=0, high=1.9)
TWO = np.array([1.5, 0.5], np.float32)
SAME = Operand(
    "ragged",
    tuple(
        np.array(i) for i in ([[1, 0], [0, 1]], np.zeros((0, 2), int), [[2, -1], [0, 0], [1, 1]])
    ),
)
FILTERS = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 2, 2)
BYTE_FILTERS = np.arange(24, dtype=np.uint8).reshape(3, 2, 2, 2)
BYTE_MATRIX = np.arange(12, dtype=np.uint8).reshape(4, 3)

FLOATS = (
    "Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Floor HardSigmoid HardSwish "
    "Identity IsInf IsNaN LeakyRelu Log Mish Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin "
    "Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu"
)
PAIRS = "Equal Greater GreaterOrEqual LessOrEqual Max Mean Min Sum"
LOGIC = "And Or Xor"
BITS = "BitwiseAnd BitwiseOr BitwiseXor"


def made(op_type: str, attributes: str = "", opset: int = 18, **operands: Any) -> RaggedCase:
    text = f"y = {op_type}{attributes}({', '.join(operands)})"
    kinds = ", ".join(x.kind for x in operands.values())
    name = f"{op_type}{attributes} of {kinds}"
    return RaggedCase(name, text, operands, opset=opset, rtol=1e-4, atol=1e-5)


CASES = [
    *(made(op_type, x=WIDE if op_type in ("Ceil", "Round") else X) for op_type in FLOATS.split()),
    made("Gelu", opset=20, x=WIDE),
    made("Swish", opset=24, x=WIDE),
    made("Not", x=FLAGS),
    made("BitwiseNot", x=BYTES),
    made("BitCast", "<to = 6>", opset=26, x=X),
    made("RegexFullMatch", '<pattern = "[a-c]*">', opset=20, x=WORDS),
    made("StringConcat", opset=20, x=WORDS, w=constant(np.array("-", object))),
    made("CastLike", x=WIDE, t=shared(np.array(1, np.int64))),
    *(made(op_type, x=X, w=shared(ROW)) for op_type in PAIRS.split()),
    *(made(op_type, x=X, z=WIDE) for op_type in PAIRS.split()),
    *(made(op_type, x=X, w=mapped((), seed=2)) for op_type in PAIRS.split()),
    *(made(op_type, x=FLAGS, z=OTHER_FLAGS) for op_type in LOGIC.split()),
    *(made(op_type, x=BYTES, z=OTHER_BYTES) for op_type in BITS.split()),
    made("BitShift", '<direction = "LEFT">', x=BYTES, z=OTHER_BYTES),
    made("Mod", x=BYTES, z=OTHER_BYTES),
    made("DequantizeLinear", x=BYTES, s=constant(np.float32(0.5)), z=POINT),
    made("LpNormalization", x=WIDE),
    made("RMSNormalization", opset=23, x=WIDE, s=shared(ROW)),
    made("Trilu", x=ragged(3, 3)),
    made("SwiGLU", opset=28, x=X, z=WIDE),
    made("TensorScatter", opset=24, x=ragged(2, 5, 3), u=ragged(2, 2, 3), i=PLACE),
    made(
        "RotaryEmbedding", opset=23, x=ragged(2, 3, 4), c=shared(CACHE), s=shared(-CACHE), p=POINTS
    ),
    RaggedCase(
        "CausalConvWithState",
        "y, z = CausalConvWithState(x, w)",
        {"x": ragged(3, 6), "w": constant(np.ones((3, 1, 3), np.float32))},
        ("y", "z"),
        27,
    ),
    RaggedCase(
        "LinearAttention",
        'y, z = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = "linear">(q, k, v)',
        {"q": ragged(3, 4), "k": ragged(3, 4, seed=1), "v": ragged(3, 4, seed=2)},
        ("y", "z"),
        27,
    ),
    # Images.
    made("GlobalLpPool", x=IMAGES),
    made("GlobalMaxPool", x=IMAGES),
    made("SpaceToDepth", "<blocksize = 2>", x=IMAGES),
    made("AveragePool", "<kernel_shape = [2, 2], pads = [1, 1, 0, 0]>", x=IMAGES),
    made("LpPool", "<kernel_shape = [2, 2], strides = [2, 2]>", x=IMAGES),
    made("LRN", "<size = 3>", x=IMAGES),
    made("InstanceNormalization", x=IMAGES, s=constant(TWO), b=constant(-TWO)),
    made(
        "BatchNormalization", x=IMAGES, s=shared(TWO), b=shared(-TWO), m=shared(TWO), v=shared(TWO)
    ),
    made("ConvTranspose", x=IMAGES, w=shared(FILTERS)),
    made("ConvInteger", x=PIXELS, w=shared(BYTE_FILTERS), z=POINT),
    made(
        "QLinearConv",
        x=PIXELS,
        xs=constant(np.float32(0.1)),
        xz=POINT,
        w=shared(BYTE_FILTERS),
        ws=constant(np.float32(0.2)),
        wz=POINT,
        ys=constant(np.float32(0.9)),
        yz=POINT,
    ),
    # Matrices.
    made("MatMulInteger", x=BYTES, w=shared(BYTE_MATRIX), z=POINT),
    made(
        "QLinearMatMul",
        x=BYTES,
        xs=constant(np.float32(0.1)),
        xz=POINT,
        w=shared(BYTE_MATRIX),
        ws=constant(np.float32(0.2)),
        wz=POINT,
        ys=constant(np.float32(0.9)),
        yz=POINT,
    ),
    # Positions.
    made("CumProd", opset=26, x=X, a=constant(np.array(1))),
    made("GatherElements", "<axis = 1>", x=X, i=ragged(2, dtype=np.int64, low=-4, high=3.9)),
    made(
        "ScatterElements",
        '<axis = 1, reduction = "add">',
        x=X,
        i=ragged(2, dtype=np.int64, low=-4, high=3.9),
        u=ragged(2),
    ),
    made("NegativeLogLikelihoodLoss", '<reduction = "none">', x=ragged(3), t=CLASSES),
    made("NegativeLogLikelihoodLoss", '<reduction = "sum">', x=ragged(3), t=CLASSES),
    made(
        "GatherElements",
        "<axis = 0>",
        x=ragged(4, lengths=(3, 1, 4)),
        i=ragged(2, lengths=(2, 0, 5), dtype=np.int64, low=-0.9, high=0.9),
    ),
    made("Det", x=ragged(3, 3)),
    made("GatherElements", "<axis = 0>", x=X, i=SAME),
    made("ScatterElements", "<axis = 0>", x=X, i=SAME, u=ragged(2, seed=5)),
    made(
        "ScatterElements",
        '<axis = -2, reduction = "add">',
        x=ragged(4, lengths=(3, 1, 4)),
        i=ragged(2, lengths=(2, 0, 5), dtype=np.int64, low=-0.9, high=0.9),
        u=ragged(2, lengths=(2, 0, 5), seed=5),
    ),
    made(
        "ScatterND",
        '<reduction = "add">',
        x=ragged(4, lengths=(3, 1, 4)),
        i=ragged(1, lengths=(2, 0, 5), dtype=np.int64, low=-0.9, high=0.9),
        u=ragged(4, lengths=(2, 0, 5), seed=5),
    ),
    made(
        "ScatterND",
        x=ragged(4, lengths=(3, 2, 4)),
        i=mapped(*(np.array([[n % 2, 1], [-1, 3]]) for n in range(3))),
        u=mapped((2,)),
    ),
    made(
        "ScatterND",
        '<reduction = "max">',
        x=mapped((3, 4)),
        i=ragged(1, dtype=np.int64, low=-2.9, high=2.9),
        u=ragged(4, seed=5),
    ),
    made(
        "OneHot",
        "<axis = 0>",
        x=CLASSES,
        d=constant(np.array(3)),
        v=constant(np.array([0.0, 1.0], np.float32)),
    ),
    made("GatherND", t=shared(np.arange(8).reshape(2, 2, 2)), i=PLACES),
    made("GatherND", "<batch_dims = 1>", x=X, i=ragged(1, dtype=np.int64, low=0, high=3.9)),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


def test_every_packed_rule_is_proven_by_a_case() -> None:
    """Those of other domains have cases of their own, see `test_tabular`."""
    proven = {name for name, _ in proven_operators(["prove_ragged"], ["ragged"])}
    own = {row.op_type for row in table._packed.values() if not row.domain}
    assert sorted(own - proven) == []
