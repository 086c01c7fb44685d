"""What the table says of each operator beside its rule: each name stands there for a reason.

An operator that is left out by accident is batched where it must not be, or not moved where it
may be; no model need show that at once.
"""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching import rule_choice, rules, table
from passes.batching.packed import rules as packed_rules
from passes.batching.promotion import Promotions
from passes.batching.rule_choice import choose_rule
from passes.decisions import Decline
from passes.typing import Typing, Typings

assert rules and packed_rules and rule_choice  # they fill the table

ROUNDING = """
    Acos Acosh Asin Asinh Atan Atanh Attention CausalConvWithState Celu Conv ConvTranspose Cos
    Cosh DFT DeformConv Einsum Elu Erf Exp GRU Gelu Gemm GroupNormalization InstanceNormalization LSTM
    LayerNormalization LinearAttention Log MatMul MeanVarianceNormalization Mish
    NegativeLogLikelihoodLoss Pow
    RMSNormalization RNN Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean
    ReduceProd ReduceSum ReduceSumSquare Resize STFT Selu Sigmoid Sin Sinh
    SoftmaxCrossEntropyLoss Softplus Swish Tan Tanh
"""
DISCRETE = """
    ArgMax ArgMin BitCast Cast CastLike Ceil DynamicQuantizeLinear Equal Floor Greater
    GreaterOrEqual GridSample Hardmax Less LessOrEqual Mod NonMaxSuppression NonZero
    QLinearConv QLinearMatMul QuantizeLinear Range Round Shrink Sign ThresholdedRelu TopK
    Unique
"""
TOTAL = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitwiseAnd BitwiseNot BitwiseOr
    BitwiseXor Ceil Celu Clip Concat Constant Conv ConvTranspose Cos Cosh DepthToSpace Det
    Dropout Einsum Elu Equal Erf Exp EyeLike Flatten Floor Gelu Gemm Greater GreaterOrEqual
    HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log LogSoftmax
    LpNormalization MatMul MatMulInteger Max Mean Min Mish Mul Neg Not Or PRelu Reciprocal
    RegexFullMatch Relu Round Selu SequenceEmpty Shape Shrink Sigmoid Sign Sin Sinh Size
    Softmax Softplus Softsign SpaceToDepth Sqrt StringConcat StringSplit Sub Sum SwiGLU Swish
    Tan Tanh ThresholdedRelu Transpose Trilu Unsqueeze Where Xor
"""
DRAWS = "Dropout"


@pytest.mark.parametrize(
    ("flag", "names"),
    [("rounding", ROUNDING), ("discrete", DISCRETE), ("total", TOTAL), ("draws", DRAWS)],
)
def test_flags(flag: str, names: str) -> None:
    rows = [row for row in table.rows() if isinstance(row, table.Row) and row.domain == ""]
    flagged = {row.op_type for row in rows if getattr(row, flag)}
    assert flagged == set(names.split())
    assert all(getattr(row, flag) for row in rows if row.op_type in flagged)


FOREIGN_ROUNDING = """
    ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor ai.onnx.ml.SVMClassifier
    ai.onnx.ml.SVMRegressor ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier
    ai.onnx.ml.TreeEnsembleRegressor com.microsoft.BiasGelu com.microsoft.FastGelu
    com.microsoft.FusedMatMul com.microsoft.Gelu com.microsoft.QuickGelu
    com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization
"""
FOREIGN_DISCRETE = """
    ai.onnx.ml.Binarizer ai.onnx.ml.CategoryMapper ai.onnx.ml.LabelEncoder
    ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor ai.onnx.ml.OneHotEncoder
    ai.onnx.ml.SVMClassifier ai.onnx.ml.SVMRegressor ai.onnx.ml.TreeEnsemble
    ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor
"""
FOREIGN_TOTAL = """
    ai.onnx.ml.Binarizer ai.onnx.ml.CategoryMapper ai.onnx.ml.LabelEncoder
    com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.FusedMatMul com.microsoft.Gelu
    com.microsoft.QuickGelu
"""


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("rounding", FOREIGN_ROUNDING),
        ("discrete", FOREIGN_DISCRETE),
        ("total", FOREIGN_TOTAL),
        ("draws", ""),
    ],
)
def test_flags_of_operators_that_are_not_onnx_own(flag: str, names: str) -> None:
    rows = [row for row in table.rows() if isinstance(row, table.Row) and row.domain]
    flagged = {f"{row.domain}.{row.op_type}" for row in rows if getattr(row, flag)}
    assert flagged == set(names.split())


FIRST_AXIS_ALONE = """
    AveragePool CausalConvWithState ConvInteger ConvTranspose DepthToSpace Det Einsum GRU
    GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization InstanceNormalization LRN
    LSTM LinearAttention LpPool MaxPool NegativeLogLikelihoodLoss NonZero
    QLinearConv RNN RoiAlign RotaryEmbedding Scan ScatterND
    SoftmaxCrossEntropyLoss SpaceToDepth SwiGLU TensorScatter TfIdfVectorizer Trilu
"""
TWO_AXES = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot
    BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater
    GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log
    LogSoftmax MatMul Max Mean Min Mish Mod Mul Neg Not Or Pow Reciprocal RegexFullMatch Relu
    Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt StringConcat Sub Sum
    Swish Tan Tanh ThresholdedRelu TopK Trilu Where Xor
"""


FOREIGN_ANY_AXIS = """
    ArrayFeatureExtractor Binarizer CategoryMapper Gelu LabelEncoder OneHotEncoder QuickGelu
"""
FOREIGN_TWO_AXES = "Binarizer CategoryMapper Gelu LabelEncoder QuickGelu"


def test_axes_that_rules_for_packed_samples_know() -> None:
    rows = [row for row in table._packed.values() if not row.domain]
    assert {row.op_type for row in rows if not row.any_axis} == set(FIRST_AXIS_ALONE.split())
    assert {row.op_type for row in rows if row.two_axes} == set(TWO_AXES.split())
    foreign = [row for row in table._packed.values() if row.domain]
    assert {row.op_type for row in foreign if row.any_axis} == set(FOREIGN_ANY_AXIS.split())
    assert {row.op_type for row in foreign if row.two_axes} == set(FOREIGN_TWO_AXES.split())


FLAGGED = {
    "allowzero": "Reshape",
    "ceil_mode": "MaxPool",
    "count_include_pad": "AveragePool",
    "exclusive": "CumSum",
    "keepdims": "ReduceSum",
    "largest": "TopK",
    "noop_with_empty_axes": "ReduceSum",
    "reverse": "CumSum",
    "select_last_index": "ArgMax",
    "transA": "Gemm",
    "transB": "Gemm",
    "upper": "Trilu",
}


@pytest.mark.parametrize("name", FLAGGED)
def test_a_flag_that_is_neither_0_nor_1_has_no_rule(name: str) -> None:
    node = ir.node(FLAGGED[name], [ir.Value(name="x")], {name: 2})
    typings = Typings(Typing(frozenset()), Typing(frozenset()))
    promotions = Promotions(typings, {}, None, "map")
    with pytest.raises(Decline, match=f"its {name} is neither 0 nor 1"):
        choose_rule(node, table.find(node, 18), [], promotions, 18, takes_flat=False)


@pytest.mark.parametrize(
    ("known", "names"),
    [
        (table._packed, "CumProd CumSum LogSoftmax Softmax"),
        (
            table._flat,
            "AveragePool BatchNormalization GlobalAveragePool GlobalLpPool GlobalMaxPool "
            "GridSample LogSoftmax LpPool MaxPool RoiAlign Softmax",
        ),
    ],
    ids=["packed", "flat"],
)
def test_what_rounds_only_where_samples_differ_in_size(
    known: dict[tuple[str, str], table.RaggedRow], names: str
) -> None:
    """Of others the table says it already."""
    assert {row.op_type for row in known.values() if row.rounding} == set(names.split())
    assert not set(names.split()) & set(ROUNDING.split())
