"""The table's rows, by family."""

from __future__ import annotations

import functools

from passes.batching.families import (
    attention,
    branches,
    contributed,
    control,
    convolution,
    image,
    indexing,
    linear,
    losses,
    normalization,
    pooling,
    quantization,
    recurrent,
    reductions,
    reshape,
    selection,
    sequences,
    shapes,
    signal,
    slices,
    sorting,
    tabular,
    text,
)
from passes.batching.families.elementwise import (
    broadcasting,
    cast_like,
    clip,
    dropout,
    elementwise,
    one_sided_broadcasting,
    same_shape,
)
from passes.batching.families.integer_products import matmul_integer, qlinear_matmul
from passes.batching.families.merging import merging
from passes.batching.packed.distinct import unique
from passes.batching.packed.fills import constant_of_lengths
from passes.batching.packed.finding import non_zero
from passes.batching.table import decomposed, register, unsupported
from passes.decisions import Code

register(
    "Abs Neg Not BitwiseNot Reciprocal Sqrt HardSigmoid HardSwish LeakyRelu Relu Softsign "
    "Identity IsInf IsNaN RegexFullMatch",
    elementwise,
    total=True,
)
# Kernels take several numbers at a time and the rest one by one, by another formula.
register(
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log Sigmoid Sin Sinh Tan Tanh Celu Elu "
    "Gelu Mish Selu Softplus Swish",
    elementwise,
    total=True,
    rounding=True,
)
register(
    "Ceil Floor Round Sign BitCast Shrink ThresholdedRelu", elementwise, discrete=True, total=True
)
register("Cast", elementwise, discrete=True)
register("CastLike", cast_like, family="elementwise", since=15, discrete=True)
register("Add Sub Mul And Or Xor BitwiseAnd BitwiseOr BitwiseXor", broadcasting, total=True)
register("Max Min Mean Sum Where StringConcat", broadcasting, total=True)
register("Equal Greater GreaterOrEqual Less LessOrEqual", broadcasting, discrete=True, total=True)
register("Div BitShift", broadcasting)
# onnxruntime multiplies for an exponent of 2 or 3 that is one number, unless the base is one too.
register("Pow", broadcasting, rounding=True)
register("Mod", broadcasting, discrete=True)
register("PRelu", one_sided_broadcasting, family="broadcasting", since=7, total=True)
register("SwiGLU", same_shape, family="elementwise", since=28, total=True)
register("Clip", clip, family="elementwise", since=6, total=True)
register("Dropout", dropout, family="elementwise", since=7, total=True, draws=True)

# Random numbers.
unsupported(
    "RandomNormal RandomUniform RandomNormalLike RandomUniformLike Bernoulli Multinomial",
    Code.RANDOM,
    "it draws for every sample anew",
)

# Control flow, and sequences inside of a body.
register("If", branches.branch, family="control flow", since=11)
register("Loop", control.loop, family="control flow", since=13)
register("Scan", control.scan, family="control flow", since=9)
register("SequenceConstruct", sequences.construct, family="sequence")
register("SequenceAt SequenceErase", sequences.at, family="sequence")
register("SequenceInsert", sequences.insert, family="sequence")
register("SequenceLength", sequences.length, family="sequence")
register("ConcatFromSequence", sequences.concatenate, family="sequence")
register("SplitToSequence", sequences.split, family="sequence")
register("SequenceEmpty", elementwise, family="sequence", total=True)
register("Optional OptionalGetElement", elementwise, family="optional")
register("OptionalHasElement", sequences.has_element, family="optional")
unsupported(
    "SequenceMap",
    Code.SEQUENCE_IN_BODY,
    "it is a map itself, and was not fused before the map around it",
)

# Reductions, scans and sorting along axes.
register("ReduceMax ReduceMin", reductions.reduction)
register(
    "ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceSumSquare",
    reductions.reduction,
    rounding=True,
)
register("ArgMax ArgMin", reductions.arg_extremum, discrete=True)
register("CumSum", reductions.cumulation, since=11)
register("CumProd", reductions.cumulation, since=26)
register("GlobalAveragePool GlobalMaxPool GlobalLpPool", merging)
register("TopK", sorting.top_k, since=10, discrete=True)

# Normalization.
register("Softmax LogSoftmax LpNormalization", normalization.along_axis, total=True)
register("Hardmax", normalization.along_axis, discrete=True)
register("LayerNormalization", normalization.trailing_normalization, since=17, rounding=True)
register("RMSNormalization", normalization.trailing_normalization, since=23, rounding=True)
register(
    "MeanVarianceNormalization", normalization.mean_variance_normalization, since=9, rounding=True
)
register("BatchNormalization", normalization.batch_normalization, since=9)
# Kernels sum a channel by several numbers at a time from where its row is aligned.
register("InstanceNormalization", normalization.instance_normalization, since=6, rounding=True)
register("GroupNormalization", normalization.group_normalization, since=18, rounding=True)
register("LRN", merging)

# Quantization.
register("QuantizeLinear", quantization.quantization, since=10, discrete=True)
register("DequantizeLinear", quantization.quantization, since=10)
register("DynamicQuantizeLinear", quantization.dynamic_quantization, since=11, discrete=True)

# Pooling over windows and over regions of interest.
register("AveragePool LpPool", merging, family="pooling")
register("MaxPool", pooling.max_pool, family="pooling")
register("MaxUnpool", pooling.max_unpool, family="pooling")
register("RoiAlign", pooling.roi_align, family="regions of interest")
register("MaxRoiPool", pooling.max_roi_pool, family="regions of interest")

# Images.
register("Resize", image.resize, since=11, rounding=True)
register("GridSample", merging, family="grid sample", since=16, discrete=True)
register("AffineGrid", image.affine_grid, since=20)
register(
    "NonMaxSuppression", selection.non_max_suppression, family="selection", since=11, discrete=True
)
unsupported(
    "ImageDecoder", Code.DATA_DEPENDENT, "the size of the image stands in the encoded bytes"
)

# Recurrent networks.
register("LSTM GRU RNN", recurrent.recurrent, rounding=True)

# Shapes.
register("Transpose", shapes.transpose, family="shape", total=True)
register("Squeeze", shapes.squeeze, family="shape")
register("Unsqueeze", shapes.unsqueeze, family="shape", total=True)
register("Reshape", reshape.reshape, family="shape", since=5)
register("Flatten", shapes.flatten, family="shape", since=9, total=True)
register("Expand", shapes.expand, family="shape", since=8)
register("Tile", shapes.tile, family="shape", since=6)
register("Concat", shapes.concat, family="shape", since=4, total=True)
register("Split", shapes.split, family="shape", since=2)
register("Shape", shapes.shape, family="shape", total=True)
register("Size", shapes.size, family="shape", total=True)
register("EyeLike", shapes.eye_like, family="shape", since=9, total=True)
register("Constant", elementwise, family="shape", total=True)
register("ConstantOfShape", constant_of_lengths, family="shape", since=9)
register("Range", selection.range_, family="selection", since=11, rounding=True, discrete=True)

# Cutting, padding and reordering along axes.
register("Slice", slices.slice_, family="slice")
register("Pad", slices.pad, family="slice", since=2)
register("CenterCropPad", slices.center_crop_pad, family="slice", since=18)
register("Trilu", slices.trilu, family="slice", since=14, total=True)
register("ReverseSequence", slices.reverse_sequence, family="slice", since=10)
register("DepthToSpace", slices.blocks, family="slice", total=True)
register("SpaceToDepth", slices.blocks, family="slice", total=True)
register("Col2Im", slices.col2im, family="slice", since=18)

# Reading and writing elements at positions.
register("Gather", indexing.gather, family="indexing")
register("GatherElements", indexing.along_with_data, family="indexing", since=11)
register("GatherND", indexing.gather_nd, family="indexing", since=11)
register("ScatterElements", indexing.along_with_data, family="indexing", since=11)
register("Scatter", indexing.along_with_data, family="indexing", since=9, until=10)
register("ScatterND", indexing.scatter_nd, family="indexing", since=11)
register("TensorScatter", merging, family="indexing", since=24)
register("OneHot", indexing.one_hot, family="indexing", since=9)
register("Compress", indexing.compress, family="indexing", since=9)
register("NonZero", non_zero, family="selection", since=11, discrete=True)
register("Unique", unique, family="selection", since=16, discrete=True)

# Products of matrices.
register("MatMul", linear.matmul, family="matrix product", total=True, rounding=True)
register("Gemm", linear.gemm, family="matrix product", since=7, total=True, rounding=True)
register("MatMulInteger", matmul_integer, family="matrix product", since=10, total=True)
register("QLinearMatMul", qlinear_matmul, family="matrix product", since=10, discrete=True)
register("Einsum", linear.einsum, family="matrix product", since=12, total=True, rounding=True)
register("Det", linear.det, family="matrix product", since=11, total=True)

# Convolutions.
register("Conv ConvTranspose", convolution.convolution, total=True, rounding=True)
register("ConvInteger", convolution.quantized_convolution, family="convolution", since=10)
register(
    "QLinearConv", convolution.quantized_convolution, family="convolution", since=10, discrete=True
)
register(
    "DeformConv", convolution.deformable_convolution, family="convolution", since=19, rounding=True
)
register(
    "CausalConvWithState",
    convolution.causal_convolution,
    family="convolution",
    since=27,
    rounding=True,
)

# Attention.
register("Attention", attention.attention, since=23, rounding=True)
register("LinearAttention", attention.linear_attention, since=27, rounding=True)
register("RotaryEmbedding", attention.rotary_embedding, since=23)

# Losses.
register(
    "SoftmaxCrossEntropyLoss",
    losses.softmax_cross_entropy_loss,
    family="loss",
    since=12,
    rounding=True,
)
register(
    "NegativeLogLikelihoodLoss",
    losses.negative_log_likelihood_loss,
    family="loss",
    since=12,
    rounding=True,
)

# Signals.
register("DFT", signal.dft, family="signal", since=17, rounding=True)
register("STFT", signal.stft, family="signal", since=17, rounding=True)
unsupported(
    "BlackmanWindow HammingWindow HannWindow",
    Code.DATA_DEPENDENT,
    "the size of the window differs from sample to sample",
)
unsupported("MelWeightMatrix", Code.BATCHED_OPERAND, "all of its operands must be shared")

# Text.
register("StringNormalizer", text.string_normalizer, family="text", since=10)
register("StringSplit", text.string_split, family="text", since=20, total=True)
register("TfIdfVectorizer", text.tf_idf_vectorizer, family="text", since=10)

# Features and models.
_feature = functools.partial(register, domain="ai.onnx.ml")
_feature("LabelEncoder CategoryMapper Binarizer", elementwise, discrete=True, total=True)
_feature("OneHotEncoder", elementwise, family="features", discrete=True)
_feature("Scaler Normalizer Imputer", tabular.feature_rows, family="features")
_feature("ArrayFeatureExtractor", tabular.picked_features, family="features")
_feature("FeatureVectorizer", tabular.joined_features, family="features")
_feature(
    "LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsembleClassifier "
    "TreeEnsembleRegressor TreeEnsemble",
    tabular.predictions,
    family="models",
    rounding=True,
    discrete=True,
)

# Contributed by onnxruntime.
_contributed = functools.partial(register, domain="com.microsoft")
_contributed("Gelu QuickGelu", elementwise, total=True, rounding=True)
_contributed(
    "FastGelu BiasGelu", contributed.per_channel, family="elementwise", total=True, rounding=True
)
_contributed(
    "FusedMatMul", contributed.fused_matmul, family="matrix product", total=True, rounding=True
)
_contributed(
    "SkipLayerNormalization SkipSimplifiedLayerNormalization",
    contributed.skipped_normalization,
    family="normalization",
    rounding=True,
)

# Gone.
unsupported("Upsample", Code.OPSET, "Resize has taken its place")

# A function whose nodes are batched.
decomposed("FlexAttention", "ai.onnx.preview")
