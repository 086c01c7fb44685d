"""Numbers chosen by flags, for every element type."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.context import Context

__all__ = ["select"]


def select(
    ctx: Context, mask: ir.Value, one: ir.Value, other: ir.Value, dtype: ir.DataType | None
) -> ir.Value:
    """Return ``one`` where the mask is true, else ``other``; all three broadcast."""
    if dtype != ir.DataType.BOOL:
        return ctx.op("Where", [mask, one, other])
    # onnxruntime has no Where for booleans.
    chosen = ctx.op("And", [mask, one])
    return ctx.op("Or", [chosen, ctx.op("And", [ctx.op("Not", [mask]), other])])
