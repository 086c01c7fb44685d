"""The table's rules for packed operands, by family; what has none here stays per-sample."""

from __future__ import annotations

from passes.batching.families import attention, branches, contributed, control, convolution, losses
from passes.batching.families.elementwise import in_inference, same_shape
from passes.batching.families.merging import merging
from passes.batching.families.normalization import group_normalization
from passes.batching.packed import (
    distinct,
    finding,
    operators,
    picks,
    recurrent,
    reshaping,
    segments,
    shapes,
)
from passes.batching.packed.attention import attention_rows
from passes.batching.packed.best_rows import best_rows, hardmax_over_rows
from passes.batching.packed.control import scan
from passes.batching.packed.cumulations import cumulation_rows
from passes.batching.packed.finding import suppression_of_rows
from passes.batching.packed.inner_products import inner_products
from passes.batching.packed.products import beside_lengths
from passes.batching.packed.row_by_row import (
    along_other_axis,
    broadcasting_rows,
    matrix_rows,
    of_images,
    rows,
    trailing_rows,
)
from passes.batching.packed.rows_as_samples import ANY, loss_of_rows, rows_as_samples
from passes.batching.packed.slicing import cuts, pads
from passes.batching.packed.slicing.sliding import framed_rows, sliding
from passes.batching.packed.softmax_rows import softmax_over_rows
from passes.batching.packed.tokens import normalized_words, tf_idf_of_rows
from passes.batching.packed.top_k import top_k_rows
from passes.batching.table import register_packed

__all__ = ["BROADCASTING", "UNARY"]

UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log Neg Not BitwiseNot Reciprocal "
    "Sigmoid Sin Sinh Sqrt Tan Tanh Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu "
    "Softplus Softsign Swish Identity IsInf IsNaN RegexFullMatch Ceil Floor Round Sign BitCast "
    "Shrink ThresholdedRelu Cast"
)
"""Operators of one operand that work element by element."""

BROADCASTING = (
    "Add Sub Mul Div Pow Mod And Or Xor BitwiseAnd BitwiseOr BitwiseXor BitShift Max Min Mean Sum "
    "Where StringConcat Equal Greater GreaterOrEqual Less LessOrEqual"
)
"""Operators that work element by element on operands that broadcast."""

register_packed(UNARY, beside_lengths(rows), any_axis=True, two_axes=True)
register_packed(BROADCASTING, beside_lengths(broadcasting_rows), any_axis=True, two_axes=True)

register_packed(
    "Dropout", in_inference(beside_lengths(rows)), since=7, any_axis=True, two_axes=True
)
register_packed("PRelu", operators.one_sided_rows, since=7, any_axis=True)
register_packed("QuantizeLinear DequantizeLinear", operators.quantization_rows, any_axis=True)
register_packed(
    "Clip", beside_lengths(operators.clip_rows), since=11, any_axis=True, two_axes=True
)
register_packed("CastLike", operators.cast_like_rows, since=15, any_axis=True, two_axes=True)

# Along axes.
register_packed(
    "Softmax LogSoftmax",
    along_other_axis(softmax_over_rows),
    rounding=True,
    since=13,
    any_axis=True,
    two_axes=True,
)
register_packed("Hardmax", along_other_axis(hardmax_over_rows), since=13, any_axis=True)
register_packed("LpNormalization", along_other_axis(), any_axis=True)
register_packed("TopK", top_k_rows, since=10, any_axis=True, two_axes=True)
register_packed("LayerNormalization RMSNormalization", trailing_rows, any_axis=True)
register_packed("Flatten", reshaping.flatten_rows, any_axis=True)
register_packed("ArgMax ArgMin", best_rows, any_axis=True)
register_packed(
    "ReduceMax ReduceMin ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceSumSquare",
    segments.reduction_rows,
    any_axis=True,
)
register_packed("CumSum CumProd", cumulation_rows, rounding=True, since=14, any_axis=True)
register_packed("Split", cuts.split_rows, any_axis=True)
register_packed("ReverseSequence", shapes.turned_rows, any_axis=True)

register_packed("StringNormalizer", normalized_words, since=10, any_axis=True)
register_packed("TfIdfVectorizer", tf_idf_of_rows, since=9)

# Matrices and images.
register_packed("MatMul", inner_products(matrix_rows), any_axis=True, two_axes=True)
register_packed("MatMulInteger QLinearMatMul", matrix_rows, any_axis=True)
register_packed("Gemm", operators.gemm_rows, since=7, any_axis=True)
register_packed("Einsum", operators.einsum_rows)
register_packed("Trilu", operators.trilu_rows, two_axes=True)
register_packed("BatchNormalization", of_images(2, by_channel=True), since=9, any_axis=True)
register_packed("Conv", sliding(of_images(3)), any_axis=True)
register_packed("STFT", framed_rows, since=17, any_axis=True)
register_packed(
    "ConvTranspose ConvInteger QLinearConv AveragePool LpPool MaxPool GlobalAveragePool "
    "GlobalMaxPool GlobalLpPool LRN InstanceNormalization",
    of_images(3),
)
register_packed("DepthToSpace SpaceToDepth", of_images(4))
register_packed("Det", of_images(3), since=11)

# Rows that are samples of one row each.
register_packed("SwiGLU", rows_as_samples(same_shape, {}), since=28)
register_packed("GroupNormalization", rows_as_samples(group_normalization, {1: 1, 2: 1}), since=18)
register_packed("Attention", attention_rows, since=23, any_axis=True)
register_packed("LinearAttention", rows_as_samples(attention.linear_attention, {}), since=27)
register_packed(
    "RotaryEmbedding", rows_as_samples(attention.rotary_embedding, {1: 2, 2: 2}), since=23
)
register_packed("TensorScatter", rows_as_samples(merging, {}), since=24)
register_packed(
    "CausalConvWithState",
    rows_as_samples(convolution.causal_convolution, {1: ANY, 2: ANY}),
    since=27,
)
register_packed(
    "NegativeLogLikelihoodLoss", loss_of_rows(losses.negative_log_likelihood_loss), since=16
)
register_packed(
    "SoftmaxCrossEntropyLoss", loss_of_rows(losses.softmax_cross_entropy_loss), since=16
)

# Shapes and positions.
register_packed("Transpose", shapes.transpose_rows, any_axis=True)
register_packed("Squeeze", shapes.squeeze_rows, any_axis=True)
register_packed("Unsqueeze", shapes.unsqueeze_rows, any_axis=True)
register_packed("Reshape", reshaping.reshape_rows, any_axis=True)
register_packed("Expand", shapes.expand_rows, any_axis=True)
register_packed("Tile", shapes.tile_rows, any_axis=True)
register_packed("Shape", shapes.shape_of_rows, any_axis=True)
register_packed("Size", shapes.size_of_rows, any_axis=True)
register_packed("Gather", picks.gather_rows, any_axis=True)
register_packed("Slice", cuts.slice_rows, since=10, any_axis=True)
register_packed("Pad", pads.pad_rows, since=11, any_axis=True)
register_packed("Concat", cuts.concat_rows, any_axis=True)
register_packed("LSTM GRU RNN", recurrent.recurrent_rows)
register_packed("If", branches.branch, since=16, any_axis=True)
register_packed("Loop", control.loop, since=16, any_axis=True)
register_packed("Scan", scan.scan_rows, since=16)
register_packed("GatherND", picks.gather_nd_rows, since=12, any_axis=True)
register_packed("GatherElements ScatterElements", picks.element_rows, since=11, any_axis=True)
register_packed("ScatterND", picks.scatter_nd_rows, since=12)
register_packed("Compress", picks.compress_rows, since=11, any_axis=True)
register_packed("Unique", distinct.unique_rows, since=16, any_axis=True)
register_packed("NonMaxSuppression", suppression_of_rows, since=11, any_axis=True)
register_packed("NonZero", finding.non_zero_rows, since=11)
register_packed("RoiAlign", operators.roi_align_rows)
register_packed("OneHot", operators.one_hot_rows, any_axis=True)

# Features and models.
_ML = "ai.onnx.ml"
register_packed(
    "LabelEncoder CategoryMapper Binarizer",
    beside_lengths(rows),
    any_axis=True,
    two_axes=True,
    domain=_ML,
)
register_packed("OneHotEncoder", rows, any_axis=True, domain=_ML)
register_packed("FeatureVectorizer", operators.joined_columns, domain=_ML)
register_packed("ArrayFeatureExtractor", operators.picked_columns, any_axis=True, domain=_ML)
register_packed(
    "Scaler Normalizer Imputer LinearClassifier LinearRegressor SVMClassifier SVMRegressor "
    "TreeEnsembleClassifier TreeEnsembleRegressor TreeEnsemble",
    operators.rows_of_features,
    domain=_ML,
)

# Contributed by onnxruntime.
_CONTRIBUTED = "com.microsoft"
register_packed(
    "Gelu QuickGelu", beside_lengths(rows), any_axis=True, two_axes=True, domain=_CONTRIBUTED
)
register_packed(
    "FastGelu BiasGelu", rows_as_samples(contributed.per_channel, {1: 1}), domain=_CONTRIBUTED
)
register_packed("FusedMatMul", contributed.fused_rows, domain=_CONTRIBUTED)
register_packed(
    "SkipLayerNormalization SkipSimplifiedLayerNormalization",
    rows_as_samples(contributed.skipped_normalization, {2: ANY, 3: ANY, 4: ANY}),
    domain=_CONTRIBUTED,
)
