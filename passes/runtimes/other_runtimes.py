"""What runtimes other than onnxruntime are known to get wrong: rows of `passes.runtimes.table`."""

from __future__ import annotations

import functools

from passes.runtimes import integers, loops, quantized, scan_operands
from passes.runtimes.defect import Defect, seen_in

__all__ = ["OTHERS"]

_openvino = functools.partial(seen_in, "openvino", "2026.4.1")
_iree = functools.partial(seen_in, "iree", "3.13.0")


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
        "openvino-slice-in-front",
        ("Scan",),
        scan_operands.has_slices_in_front,
        scan_operands.with_slices_behind,
    ),
    _iree(
        "iree-bytes-from-floats",
        ("Cast",),
        integers.is_byte_of_a_float,
        integers.by_way_of_integers,
    ),
)
