"""Operators of our own, which ONNX's inference asks our functions about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import onnx

from passes.graph.opsets import schema_of

__all__ = ["register_operator"]


def register_operator(
    op_type: str,
    domain: str,
    version: int,
    attributes: Callable[[Any], Sequence[Any]],
    infer: Callable[[Any], None],
    *,
    takes: Iterable[str] = ("Identity",),
) -> None:
    """Tell ONNX the schema of an operator and how to infer its types; once is enough.

    Args:
        op_type: Its name; it has any number of inputs and outputs.
        domain: Its domain.
        version: Its version.
        attributes: Makes its attributes by ``onnx.defs.OpSchema``.
        infer: The inference function; it gets the context of a node.
        takes: Operators of ONNX; their inputs and outputs have all types that its own may have.
    """
    if onnx.defs.has(op_type, domain):
        return
    schema: Any = onnx.defs.OpSchema
    parameter = schema.FormalParameter
    variadic = schema.FormalParameterOption.Variadic
    types = sorted({one for name in takes for one in _types_of(name)})
    made = schema(
        op_type,
        domain,
        version,
        inputs=[parameter("inputs", "V", param_option=variadic, is_homogeneous=False)],
        outputs=[parameter("outputs", "V", param_option=variadic, is_homogeneous=False)],
        type_constraints=[("V", types, "Any type.")],
        attributes=list(attributes(schema)),
    )
    made.set_type_and_shape_inference_function(infer)
    onnx.defs.register_schema(made)


def _types_of(op_type: str) -> list[str]:
    schema = schema_of(op_type)
    assert schema is not None
    return [t for constraint in schema.type_constraints for t in constraint.allowed_type_strs]
