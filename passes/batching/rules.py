"""The table's rows, by family."""

from __future__ import annotations

from passes.batching import control, pooling, reductions, sequences
from passes.batching.elementwise import broadcasting, elementwise
from passes.batching.table import never, register
from passes.decisions import Code

register(
    "Abs Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log Neg Not BitwiseNot Reciprocal "
    "Sigmoid Sin Sinh Sqrt Tan Tanh Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu "
    "Shrink Softplus Softsign Swish ThresholdedRelu Identity IsInf IsNaN",
    elementwise,
    total=True,
)
register("Ceil Floor Round Sign Cast BitCast", elementwise, discrete=True, total=True)
register("Add Sub Mul And Or Xor BitwiseAnd BitwiseOr BitwiseXor", broadcasting, total=True)
register("Max Min Mean Sum Where", broadcasting, total=True)
register(
    "Equal Greater GreaterOrEqual Less LessOrEqual", broadcasting, discrete=True, total=True
)
register("Div Mod Pow BitShift", broadcasting)

# Control flow, and sequences inside of a body.
register("If", control.branch, family="control flow", since=11)
register("Loop", control.loop, family="control flow", since=13)
register("Scan", control.scan, family="control flow", since=9)
register("SequenceConstruct", sequences.construct, family="sequence")
register("SequenceAt", sequences.at, family="sequence")
register("SequenceErase", sequences.erase, family="sequence")
register("SequenceInsert", sequences.insert, family="sequence")
register("SequenceLength", sequences.length, family="sequence")
register("ConcatFromSequence", sequences.concatenate, family="sequence")
register("SplitToSequence", sequences.split, family="sequence")
register("SequenceEmpty", elementwise, family="sequence", total=True)
register("Optional OptionalGetElement", elementwise, family="optional")
register("OptionalHasElement", sequences.has_element, family="optional")
never(
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
register("GlobalAveragePool GlobalMaxPool GlobalLpPool", reductions.global_pool)
register("TopK", reductions.top_k, since=10, discrete=True)

# Pooling over windows and over regions of interest.
register("AveragePool LpPool", pooling.pooling)
register("MaxPool", pooling.max_pool, family="pooling")
register("MaxUnpool", pooling.max_unpool, family="pooling")
register("RoiAlign", pooling.roi_align, family="regions of interest")
register("MaxRoiPool", pooling.max_roi_pool, family="regions of interest")
