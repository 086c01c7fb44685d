"""What a choice by products with 0 and 1 leaves of what it does not take.

``m * a + (1 - m) * b`` is NaN where what it does not take is infinite or NaN. Of the initial
value and the values of all iterations, each but the one that is left loses once; and once it is
NaN, the carried value stays so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.selections import Selection
from passes.carried.joined import Joined
from passes.carried.pattern import added
from passes.carried.totals.filled import Begun
from passes.graph.builder import END, Builder

__all__ = [
    "before_it_is_spoilt",
    "weigh_all",
    "weigh_losers",
    "weigh_totals",
    "weighed_terms",
]


def weigh_losers(
    joined: Joined, found: ir.Value, whole: ir.Value, position: ir.Value, rank: int
) -> ir.Value:
    """Record what was chosen, made NaN by each other row that is infinite or NaN.

    Args:
        joined: Writes the graph.
        found: The row that was chosen.
        whole: All rows.
        position: The place of that row: one for all elements, or one for each.
        rank: The rank of a row.
    """
    builder = joined.builder
    number = builder.op("Gather", [builder.op("Shape", [whole]), builder.scalar(0)], {"axis": 0})
    places = builder.arange(number)
    places = builder.op("Reshape", [places, builder.ints(-1, *[1] * rank)])
    is_found = builder.op("Equal", [places, position])
    zero = _zero(joined, whole)
    losers = builder.op("Where", [is_found, zero, builder.op("Mul", [whole, zero])])
    return builder.op("Add", [found, joined.reduce("ReduceSum", losers)])


def weigh_all(builder: Builder, given: Begun, kept: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Record what was kept, NaN from where on a value that was not kept is infinite or NaN.

    Args:
        builder: Writes the graph.
        given: The initial value and the values of all iterations, and which of them are taken.
        kept: For each of these rows the last one up to it that is taken.
        dtype: The element type.
    """
    zero, nan = (builder.constant(np.array(n, dtype.numpy())) for n in (0, np.nan))

    def rows(value: ir.Value, start: int, end: int) -> ir.Value:
        return builder.op("Slice", [value, *(builder.ints(n) for n in (start, end, 0))])

    flags = rows(given.flags, 1, END)
    if given.is_whole and given.rank:
        flags = builder.op("Unsqueeze", [flags, builder.ints(*range(1, given.rank + 1))])
    lost = builder.op("Where", [flags, rows(kept, 0, -1), rows(given.rows, 1, END)])
    bad = builder.op("IsNaN", [builder.op("Mul", [lost, zero])])
    counts = builder.op("Cast", [bad], {"to": int(ir.DataType.INT64)})
    counts = builder.op("CumSum", [counts, builder.scalar(0)])
    is_spoilt = builder.op("Greater", [counts, builder.scalar(0)])
    left = builder.op("Where", [is_spoilt, nan, rows(kept, 1, END)])
    return builder.op("Concat", [rows(kept, 0, 1), left], {"axis": 0})


def before_it_is_spoilt(
    builder: Builder, rows: ir.Value, initial: ir.Value, worst: ir.Value
) -> ir.Value:
    """Record the rows, those as the worst value that come after the carried value became NaN.

    Args:
        builder: Writes the graph.
        rows: The values of all iterations; the best one is kept.
        initial: What they are compared with first.
        worst: The value than which none is worse.
    """
    bad = builder.op("Or", [builder.op("IsNaN", [rows]), builder.op("Equal", [rows, worst])])
    bad = builder.op("Or", [bad, builder.op("Equal", [initial, worst])])
    counts = builder.op("Cast", [bad], {"to": int(ir.DataType.INT64)})
    earlier = builder.op("CumSum", [counts, builder.scalar(0)], {"exclusive": 1})
    return builder.op("Where", [builder.op("Greater", [earlier, builder.scalar(0)]), worst, rows])


def weighed_terms(
    values: Sequence[ir.Value], mask: Selection, dtype: ir.DataType, *, is_turned: bool
) -> tuple[list[ir.Value], list[ir.Node]]:
    """Return values multiplied by 0 where a condition does not hold, and their nodes."""
    nodes = [added("Not", [mask.condition])] if is_turned else []
    flag = nodes[0].outputs[0] if is_turned else mask.condition
    nodes.append(added("Cast", [flag], {"to": int(dtype)}))
    weight = nodes[-1].outputs[0]
    products = [added("Mul", [weight, value]) for value in values]
    return [node.outputs[0] for node in products], [*nodes, *products]


def weigh_totals(
    joined: Joined, total: ir.Value, initial: ir.Value, terms: Sequence[ir.Value]
) -> ir.Value:
    """Record a total, made NaN by the initial value or a term but the last that is infinite."""
    builder, rank = joined.builder, joined.rank(initial)
    zero = _zero(joined, initial)
    number = builder.shape(terms[0], 0, 1)
    shape = builder.op("Concat", [number, builder.ints(*[1] * rank)], {"axis": 0})
    rows = builder.op("Expand", [zero, shape])
    first = builder.op("Mul", [rows, builder.op("Unsqueeze", [initial, builder.ints(0)])])
    total = builder.op("Add", [total, joined.reduce("ReduceSum", first)])
    for term in terms:
        bounds = [builder.ints(0), builder.ints(-1), builder.ints(0)]
        zeros = builder.op("Mul", [builder.op("Slice", [term, *bounds]), zero])
        total = builder.op("Add", [total, joined.reduce("ReduceSum", zeros)])
    return total


def _zero(joined: Joined, like: ir.Value) -> ir.Value:
    type_ = joined.types[-1].type
    return joined.number(0, None if type_ is None else type_.dtype, like)
