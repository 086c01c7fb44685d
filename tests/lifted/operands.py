"""Which operands of an operator are constants in typical models, and which are indices."""

from __future__ import annotations

__all__ = ["CONSTANT_OPERANDS", "INDEX_OPERANDS", "SCATTERS", "SHAPED_BY_VALUES"]

_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)


def _positions(*positions: int) -> frozenset[int]:
    return frozenset(positions)


#: Operands that set shapes, axes, counts, weights or scales: operator to input positions.
CONSTANT_OPERANDS: dict[str, frozenset[int]] = {
    **dict.fromkeys(_REDUCTIONS, _positions(1)),
    "AffineGrid": _positions(1),
    "BatchNormalization": _positions(1, 2, 3, 4),
    "BlackmanWindow": _positions(0),
    "CausalConvWithState": _positions(1, 2),
    "CenterCropPad": _positions(1),
    "Col2Im": _positions(1, 2),
    "ConstantOfShape": _positions(0),
    "Conv": _positions(1, 2),
    "ConvInteger": _positions(1, 2, 3),
    "ConvTranspose": _positions(1, 2),
    "CumProd": _positions(1),
    "CumSum": _positions(1),
    "DFT": _positions(1, 2),
    "DeformConv": _positions(1, 3),
    "DequantizeLinear": _positions(1, 2),
    "Expand": _positions(1),
    "GRU": _positions(1, 2, 3),
    "Gemm": _positions(1, 2),
    "GroupNormalization": _positions(1, 2),
    "HammingWindow": _positions(0),
    "HannWindow": _positions(0),
    "InstanceNormalization": _positions(1, 2),
    "LSTM": _positions(1, 2, 3, 7),
    "LayerNormalization": _positions(1, 2),
    "Loop": _positions(0, 1),
    "MatMulInteger": _positions(2, 3),
    "MaxUnpool": _positions(2),
    "MelWeightMatrix": _positions(0, 1, 2, 3, 4),
    "NegativeLogLikelihoodLoss": _positions(2),
    "NonMaxSuppression": _positions(2, 3, 4),
    "OneHot": _positions(1),
    "PRelu": _positions(1),
    "Pad": _positions(1, 3),
    "QLinearConv": _positions(1, 2, 3, 4, 5, 6, 7, 8),
    "QLinearMatMul": _positions(1, 2, 4, 5, 6, 7),
    "QuantizeLinear": _positions(1, 2),
    "RMSNormalization": _positions(1),
    "RNN": _positions(1, 2, 3),
    "Range": _positions(0, 1, 2),
    "Reshape": _positions(1),
    "Resize": _positions(1, 2, 3),
    "RotaryEmbedding": _positions(1, 2),
    "STFT": _positions(1, 2, 3),
    "Slice": _positions(1, 2, 3, 4),
    "SoftmaxCrossEntropyLoss": _positions(2),
    "Split": _positions(1),
    "Squeeze": _positions(1),
    "Tile": _positions(1),
    "TopK": _positions(1),
    "Trilu": _positions(1),
    "Unsqueeze": _positions(1),
}

#: Integers that select: no engine promises to notice one that is out of range.
INDEX_OPERANDS: dict[str, frozenset[int]] = {
    "Attention": _positions(6),
    "Gather": _positions(1),
    "GatherElements": _positions(1),
    "GatherND": _positions(1),
    "GRU": _positions(4),
    "LSTM": _positions(4),
    "MaxUnpool": _positions(1),
    "NegativeLogLikelihoodLoss": _positions(1),
    "OneHot": _positions(0),
    "RNN": _positions(4),
    "ReverseSequence": _positions(1),
    "RoiAlign": _positions(2),
    "RotaryEmbedding": _positions(3),
    "ScatterElements": _positions(1),
    "ScatterND": _positions(1),
    "SoftmaxCrossEntropyLoss": _positions(1),
    "TensorScatter": _positions(2),
}

#: Operators whose result is undefined when two of their indices are equal.
SCATTERS: frozenset[str] = frozenset({"MaxUnpool", "ScatterElements", "ScatterND"})

#: Operators whose results take their shapes from the values of operands.
SHAPED_BY_VALUES: frozenset[str] = frozenset(
    {
        *_REDUCTIONS,
        "AffineGrid",
        "BlackmanWindow",
        "CenterCropPad",
        "Col2Im",
        "Compress",
        "ConstantOfShape",
        "DFT",
        "Expand",
        "HammingWindow",
        "HannWindow",
        "Loop",
        "MelWeightMatrix",
        "NonMaxSuppression",
        "NonZero",
        "OneHot",
        "Pad",
        "Range",
        "Reshape",
        "Resize",
        "STFT",
        "Slice",
        "Split",
        "Squeeze",
        "StringNormalizer",
        "StringSplit",
        "Tile",
        "TopK",
        "Unique",
        "Unsqueeze",
    }
)
