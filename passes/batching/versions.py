"""Compares operators of two versions: does a function mean the same in a model?"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import walk_nodes
from passes.graph.opsets import schema_of

__all__ = ["DEFAULT_DOMAINS", "WIDENED", "means_the_same"]

DEFAULT_DOMAINS = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""

_WIDENED_FROM = 13
_WIDENED = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast CastLike Ceil Clip Concat Constant
ConstantOfShape Cos Cosh Div Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND
Greater GreaterOrEqual Identity If Less LessOrEqual Log Loop MatMul Max Min Mul Neg Not Or Pow
Reciprocal Relu Reshape Round Shape Sigmoid Sign Sin Sinh Size Slice Softmax Sqrt Squeeze Sub Tan
Tanh Transpose Unsqueeze Where
"""
WIDENED = frozenset(_WIDENED.split())
"""Operators that since opset 13 gained nothing but types, and attributes that may be left out."""


def means_the_same(function: ir.Function, domain: str, one: int, other: int) -> bool:
    """Whether the operators of a domain in a function mean at ``other`` what they mean at ``one``.

    Args:
        function: The function.
        domain: The domain; nodes of others are not looked at.
        one: Version that the function imports.
        other: Version that the model imports.
    """
    is_default = domain in DEFAULT_DOMAINS
    names = DEFAULT_DOMAINS if is_default else (domain,)
    used = {node.op_type for node in walk_nodes(function) if node.domain in names}
    if is_default and _WIDENED_FROM <= one <= other:
        used -= WIDENED
    return one == other or all(
        _since(n, domain, one) == _since(n, domain, other) is not None for n in used
    )


def _since(op_type: str, domain: str, version: int) -> int | None:
    schema = schema_of(op_type, version, domain)
    return None if schema is None else int(schema.since_version)
