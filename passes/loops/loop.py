"""Writes a map as a Loop.

Three forms, by what is known of the shape of an output:

1. one shape for all samples: a scan output of the Loop, ``[B, *shape]``;
2. samples that differ along one axis: blocks. An inner Loop collects a block of samples in a
   short sequence and concatenates it, an outer Loop collects the blocks. Inserting into a
   sequence copies it, so one long sequence takes quadratic time and short ones do not;
3. anything else: one sequence, by insertion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.batching.table import families
from passes.graph.builder import Builder
from passes.graph.graphs import subgraphs, walk_nodes
from passes.graph.hidden import hide_type
from passes.loops.blocks import BlockLoopWriter
from passes.loops.forms import Form, LoopBody, OutputPlan
from passes.loops.one_shape import with_shapes, with_true_shape
from passes.loops.writer import LoopWriter
from passes.maps.element_source import ElementSource
from passes.typing import Typings, ValueType

__all__ = ["write_loop"]

_INT64 = ir.DataType.INT64

_NO_QUESTIONS = {
    "elementwise",
    "broadcasting",
    "matrix product",
    "along axis",
    "trailing normalization",
}
"""Families of operators whose results are the same whatever is believed of their shapes."""


def write_loop(
    builder: Builder,
    body: LoopBody,
    typings: Typings,
    plans: Mapping[int, OutputPlan],
    count: ir.Value | None = None,
    *,
    is_some: bool = False,
) -> dict[int, Batched]:
    """Record a Loop over the samples of a map.

    Args:
        builder: Writes the graph that the map stands in.
        body: What is computed for each sample.
        typings: Gains the types of the copies.
        plans: How each used output of the body is collected.
        count: Number of samples, an int64 scalar; otherwise the first element source gives it.
        is_some: Whether there is at least one.

    Returns:
        What each of these outputs has become.
    """
    shared = _shared_symbols(body, typings)
    asks_nothing = not shared and _asks_for_no_shape(body, plans)
    elements = [
        (inner, source if asks_nothing else _hidden(builder, source, typings, shared))
        for inner, source in body.elements
    ]
    reads = [source.prepare(builder, typings.declared.dtype(inner)) for inner, source in elements]
    if count is None:
        count = elements[0][1].scalar_count(builder, typings.proven)
    in_blocks = any(plan.form is Form.BLOCKS for plan in plans.values())
    writer = BlockLoopWriter if in_blocks else LoopWriter
    whole, all_plans, shapes = with_shapes(body, plans)
    held = writer(whole, typings, all_plans, reads).write(builder, count)
    rows = {i: held.pop(position).value for i, position in shapes.items()}
    for i, plan in plans.items():
        held[i] = with_true_shape(builder, plan, held[i], rows.get(i), count, is_some=is_some)
        _enter_types(typings, plan, held[i])
    return held


def _asks_for_no_shape(body: LoopBody, plans: Mapping[int, OutputPlan]) -> bool:
    """Whether what onnxruntime believes of shapes changes nothing that the loop computes.

    So it is where no operator asks for a shape, and where results are put into a sequence one by
    one, each with its true shape. Hiding would cost two operators for each run of the loop.
    """
    if any(plan.form is not Form.INSERTION for plan in plans.values()):
        return False
    found = [families(node) for node in walk_nodes(body.nodes)]
    return all(some and some <= _NO_QUESTIONS for some in found)


def _hidden(
    builder: Builder, source: ElementSource, typings: Typings, shared: Collection[str]
) -> ElementSource:
    """Return a source that hides from onnxruntime what is only declared of its elements.

    Args:
        builder: Writes the graph that the map stands in.
        source: The source.
        typings: Both typings of the model.
        shared: Symbols that are declared more than once.
    """

    def hidden(sequence: ir.Value) -> ir.Value:
        declared, proven = (t.dims(sequence) for t in (typings.declared, typings.proven))
        told = [
            (axis, d) for axis, d in enumerate(declared or ()) if isinstance(d, int) or d in shared
        ]
        if set(told) <= set(enumerate(proven or ())):
            return sequence
        return hide_type(builder, sequence, typings.declared.dtype(sequence))

    return source.through(hidden)


def _shared_symbols(body: LoopBody, typings: Typings) -> set[str]:
    """Return the symbols of elements that are declared of something else in the body too.

    One symbol of two sequences says nothing of their elements, but onnxruntime gives one value
    the memory of another if both have the same symbols. A sequence that the body reads as well
    has another element there.
    """
    read = (source.sequence for _, source in body.elements)
    sequences = dict.fromkeys(sequence for sequence in read if sequence is not None)
    symbols = Counter(
        dim
        for value in (*sequences, *dict.fromkeys(_read_from_outside(body)))
        for dim in typings.declared.dims(value) or ()
        if isinstance(dim, str)
    )
    return {symbol for symbol, times in symbols.items() if times > 1}


def _read_from_outside(body: LoopBody) -> list[ir.Value]:
    """Return the values that are one for all samples: shared ones and captured ones."""
    nodes = list(walk_nodes(body.nodes))
    inside = {value for node in nodes for value in node.outputs}
    inside.update(inner for inner, _ in body.elements)
    inside.update(
        value for node in nodes for _, graph in subgraphs(node) for value in graph.inputs
    )
    read = (value for node in nodes for value in node.inputs if value is not None)
    return [body.shared.get(value, value) for value in read if value not in inside]


def _enter_types(typings: Typings, plan: OutputPlan, held: Batched) -> None:
    """Tell what is known of the tensors that a loop gives: a later map may read them."""
    if plan.form is Form.INSERTION or plan.dims is None or plan.dtype is None:
        return
    proven = plan.proven or (None,) * len(plan.dims)
    for typing, known in ((typings.declared, plan.dims), (typings.proven, proven)):
        dims: list[int | str | None] = list(known)
        if plan.form is Form.SCAN_OUTPUT:
            dims.insert(0, None)
        else:
            dims[plan.axis] = None
        typing.set(held.value, ValueType(ir.TensorType(plan.dtype), tuple(dims)))
        if held.lengths is not None:
            typing.set(held.lengths.value, ValueType(ir.TensorType(_INT64), (None,)))
