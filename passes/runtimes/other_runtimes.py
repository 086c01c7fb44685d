"""What runtimes other than onnxruntime are known to get wrong: rows of `passes.runtimes.table`."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.graph.node_copies import copy_body
from passes.runtimes.defect import Defect, seen_in
from passes.runtimes.defects import integers, loops, quantized, quotients, reshapes
from passes.runtimes.types import Types

__all__ = ["OTHERS"]

_TURNED = frozenset({"Add", "Max", "Min", "Mul"})
"""Operators whose operands may change places."""


def _has_slices_in_front(node: ir.Node, types: Types) -> bool:
    """Whether a node in a Scan joins a slice to something else that is no slice."""
    return any(True for _ in _in_front(node))


def _with_slices_behind(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same Scan, where a slice is the second operand."""
    (scan,) = copy_body([node], {})
    for inner in list(_in_front(scan)):
        first, second = inner.inputs
        inner.replace_input_with(0, second)
        inner.replace_input_with(1, first)
    builder.nodes.append(scan)
    return list(scan.outputs)


def _in_front(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the nodes of a Scan whose first operand is a slice, and whose second one is none."""
    body = node.attributes["body"].as_graph()
    slices = body.inputs[len(body.inputs) - node.attributes.get_int("num_scan_inputs", 0) :]
    for inner in body:
        if is_operator(inner, _TURNED) and len(inner.inputs) == 2:
            first, second = (operand(inner, at) for at in range(2))
            if first in slices and second not in slices:
                yield inner


_openvino = functools.partial(seen_in, "openvino", "2026.4.1")
_iree = functools.partial(seen_in, "iree", "3.13.0")
_tract = functools.partial(seen_in, "tract", "0.23.9")


OTHERS: tuple[Defect, ...] = (
    _openvino(
        "openvino-what-an-if-yields",
        ("If",),
        loops.is_read_early,
        loops.expanded_to_its_shape,
        stays=True,
    ),
    _openvino(
        "openvino-loop-from-nothing",
        ("Loop",),
        loops.begins_with_nothing,
        loops.with_made_beginnings,
        stays=True,
    ),
    _openvino(
        "openvino-nothing-as-a-number",
        ("Concat", "Expand", "Gather", "Shape", "Slice", "Where"),
        loops.reads_nothing,
        loops.with_made_constants,
        stays=True,
    ),
    _openvino(
        "openvino-constant-of-nothing",
        ("Constant",),
        loops.yields_nothing,
        loops.made_constant,
    ),
    _openvino(
        "openvino-quantized-by-computed-rows",
        ("QuantizeLinear",),
        quantized.is_quantized_by_computed_rows,
        quantized.quantized_by_steps,
    ),
    _openvino(
        "openvino-reshape-of-too-few",
        ("Reshape",),
        reshapes.fails_by_its_size,
        reshapes.failing_by_a_product,
    ),
    _openvino(
        "openvino-division",
        ("Div",),
        quotients.is_of_whole_numbers,
        quotients.rounded_once,
    ),
    _openvino(
        "openvino-slice-in-front",
        ("Scan",),
        _has_slices_in_front,
        _with_slices_behind,
    ),
    _tract(
        "tract-reshape-of-too-few",
        ("Reshape",),
        reshapes.fails_by_its_size,
        reshapes.failing_by_a_product,
    ),
    _tract(
        "tract-division",
        ("Div",),
        quotients.is_of_whole_numbers,
        quotients.rounded_once,
    ),
    _iree(
        "iree-bytes-from-floats",
        ("Cast",),
        integers.is_byte_of_a_float,
        integers.by_way_of_integers,
    ),
)
