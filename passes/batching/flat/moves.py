"""Moves that the rules for flat samples share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.context import Context, Operand, Output
from passes.batching.flat.reading import as_rows, as_stacked
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.decisions import Code, Decline

__all__ = ["has_fill", "one_place_each", "restacked", "rows_again"]


def one_place_each(flat: FlatSamples) -> bool:
    """Whether each place of a sample reads one place of the rows, and none reads nothing."""
    return flat.sampler is None and not has_fill(flat)


def has_fill(flat: FlatSamples) -> bool:
    """Whether a place of a sample may read nothing."""
    return any(t is not None and t.valid is not None for t in flat.tables)


def restacked(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Run the rule for stacked operands on flat ones of one shape.

    Raises:
        Decline: The samples of one differ in shape, or the rule declines.
    """
    given: list[Operand] = []
    for x in operands:
        if x is None or x.flat is None:
            given.append(x)
        elif x.flat.has_one_shape:
            value = as_stacked(ctx, x)
            given.append(dataclasses.replace(x, layout=Layout.STACKED, value=value, flat=None))
        else:
            raise Decline(Code.RAGGED, "its samples differ along several axes")
    row = table.find(node, ctx.opset)
    if not isinstance(row, table.Row):
        raise Decline(Code.NO_RULE, "it has no rule")
    return [out for out in row.rule(ctx, node, given) if out is not None]


def rows_again(ctx: Context, x: Batched) -> Batched:
    """Return flat samples whose rows lie as the samples do, but for the order of axes."""
    rows, samples = as_rows(ctx, x)
    return dataclasses.replace(x, value=rows, flat=samples)
