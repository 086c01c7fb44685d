"""Writes whose branch may fail elsewhere: it stays in an If, which yields places and rows.

``if n_i > 0: out[i] = f(x_i)`` writes one row to one place, or no rows to no places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import Term, added, added_constant
from passes.carried.selections import Selection
from passes.carried.writes import Write
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.typing.value_types import Typing

__all__ = ["branched_write"]


def branched_write(
    done: Write,
    named: int,
    mask: Selection,
    copies: Sequence[ir.Node],
    typing: Typing,
    *,
    is_turned: bool,
) -> tuple[tuple[Term, ...], list[ir.Node]] | None:
    """Return the places and the rows of those iterations that write, and their nodes, or None.

    Args:
        done: What is written; its terms are known outside of the branch.
        named: Along how many axes its places are named.
        mask: Says when.
        copies: What computes the terms, and what may fail among them.
        typing: The proven typing.
        is_turned: Whether it is written where the condition is false.
    """
    dtype = typing.dtype(done.carried.initial)
    index_type = typing.dtype(done.terms[0].value) or ir.DataType.INT64
    if dtype is None:
        return None
    none = _no_rows(done, named, dtype, typing)
    if none is None:
        return None
    outside = [node for node in copies if _reads_shape(node, done.carried.inner)]

    def taken(builder: Builder) -> list[ir.Value]:
        builder.nodes.extend(node for node in copies if node not in outside)
        return [_rows(builder, term) for term in done.terms]

    def left(builder: Builder) -> list[ir.Value]:
        places = builder.constant(np.zeros([0, named], index_type.numpy()))
        builder.nodes.extend(none)
        return [places, none[-1].outputs[0]]

    names = ("else_branch", "then_branch") if is_turned else ("then_branch", "else_branch")
    graphs = [Builder("branch").subgraph(n, [], w) for n, w in (("taken", taken), ("left", left))]
    made = added("If", [mask.condition], dict(zip(names, graphs, strict=True)), outputs=2)
    terms = tuple(Term(value, "concatenated") for value in made.outputs)
    return terms, [*outside, made]


def _reads_shape(node: ir.Node, inner: ir.Value) -> bool:
    """Whether a node reads nothing but the shape of a tensor."""
    return is_operator(node, "Shape") and node.inputs[0] is inner


def _rows(builder: Builder, term: Term) -> ir.Value:
    """Record what a term gives as rows."""
    if term.kind == "concatenated":
        return term.value
    return builder.op("Unsqueeze", [term.value, builder.ints(0)])


def _no_rows(done: Write, named: int, dtype: ir.DataType, typing: Typing) -> list[ir.Node] | None:
    """Return nodes that cannot fail and end with one that yields no rows; None if none do."""
    initial = done.carried.initial
    dims = typing.dims(initial)
    if dims is None:
        return None
    sizes = [d for d in dims[named:] if isinstance(d, int)]
    if len(sizes) == len(dims) - named:
        return [added_constant(np.zeros([0, *sizes], dtype.numpy()))]
    if named > 1:
        return None
    zero = added_constant(np.array([0], np.int64))
    bounds = [zero.outputs[0]] * 3
    return [zero, added("Slice", [initial, *bounds])]
