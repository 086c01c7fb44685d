"""Scan over the axis in which packed samples differ in length.

All samples go through their steps together, the longest first: step ``t`` works on those that have
more than ``t`` rows. No row is computed that no sample has, so nothing has to be masked, and the
body never sees padding.

Lengths ``[1, 3]``: step 0 works on both samples, steps 1 and 2 on the second alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched, Layout
from passes.batching.packed.control.longest_first import SortedByLength
from passes.batching.packed.control.rosters import ActiveBatch
from passes.batching.packed.control.step import StepBody
from passes.batching.packed.control.stepwise import run_steps
from passes.batching.packed.row_by_row import lengths_of
from passes.decisions import Code, Decline

__all__ = ["scan_rows"]


def scan_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """Run the steps of all samples together in a Loop; scan outputs are packed again.

    A final state is what a sample's last step left, or its initial state if it has no rows.

    Raises:
        Decline: What is scanned does not go row by row.
    """
    number = node.attributes["num_scan_inputs"].as_int()
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    initial, scanned = given[: len(given) - number], given[len(given) - number :]
    if not all(x.is_packed for x in scanned):
        raise Decline(Code.RAGGED, "it scans samples of different length beside others")
    if any(ctx.attribute(node, "scan_input_axes", ())) or any(
        ctx.attribute(node, "scan_output_axes", ())
    ):
        raise Decline(Code.RAGGED, "it scans along another axis than the first")
    lengths = lengths_of(scanned)
    backwards = ctx.attribute(node, "scan_input_directions", [0] * number)
    graph = node.attributes["body"].as_graph()
    states, inputs = graph.inputs[: len(initial)], graph.inputs[len(initial) :]
    ends = ctx.op("Sub", [lengths.ends, ctx.builder.scalar(1)]) if any(backwards) else None

    def bind(local: Context, team: ActiveBatch, step: ir.Value) -> dict[ir.Value, Batched]:
        found = {}
        for value, x, way in zip(inputs, scanned, backwards, strict=True):
            first = team.take(ends if way and ends is not None else lengths.starts)
            where = local.op("Sub" if way else "Add", [first, step])
            row = local.op("Gather", [x.value, where], {"axis": 0})
            known = ctx.type_of(value)
            found[value] = Batched(Layout.STACKED, row, known, rounding=x.rounding)
        return found

    count = len(graph.outputs) - len(initial)
    mirrored = ctx.attribute(node, "scan_output_directions", [0] * count)
    body = StepBody(graph, states, initial, bind, False, 0, [bool(m) for m in mirrored])
    return run_steps(ctx, node, body, SortedByLength(ctx, lengths))
