"""The table's rows, by family."""

from __future__ import annotations

from passes.batching.elementwise import broadcasting, elementwise
from passes.batching.table import register

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
