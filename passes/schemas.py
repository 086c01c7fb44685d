"""The schemas of operators, as ONNX has them."""

from __future__ import annotations

import onnx

__all__ = ["schema_of"]


def schema_of(op_type: str, version: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """Return the schema of an operator, None if there is none.

    Args:
        op_type: The operator.
        version: Version of its domain.
        domain: The domain; ``ai.onnx`` is another name of ONNX's own.
    """
    try:
        return onnx.defs.get_schema(op_type, version, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return None
