"""What runtimes are known to get wrong: one row each.

To add a row: a test that shows the defect, in `tests/passes/runtimes/`, so that we notice when it
is mended; what tells a node that meets it; a form that computes the same without it.

A row stays until the oldest version that `pyproject.toml` allows is mended: a model is deployed
on any of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.runtimes import (
    branches,
    contractions,
    empties,
    integers,
    loops,
    quantized,
    rearranged,
    reshapes,
    sequences,
    signs,
)
from passes.runtimes.beside import TAKEN_AWAY, Beside, anywhere, by_way_of
from passes.runtimes.types import Types

__all__ = ["DEFECTS", "Defect"]


@dataclasses.dataclass(frozen=True)
class Defect:
    """One defect of a runtime and the way around it.

    Attributes:
        name: What it is called in tests and on its page in ``docs/upstream``.
        runtime: The runtime.
        since: The oldest version in which it was seen.
        operators: The default-domain operators that may meet it.
        meets: Whether a node, with its types, meets the defect.
        form: Records nodes that compute the same and do not meet it. Returns the new outputs,
            None where the node stays as it is.
        pinned_by: The test that fails when the runtime is mended.
        mended_in: The first version without it; None where there is none yet.
        stays: Whether the node stays: the form gives it other inputs, or makes new outputs of its
            own.
        rounds: Whether the form may round otherwise. It is for batched nodes alone: a node in a
            loop, or a copy of one of the body, reads what it read in the model as given, and
            rounds as it did there.
        beside: Whether a node of the author's is looked at as well, since the runtime takes it
            together with new ones; None where it never does.
    """

    name: str
    runtime: str
    since: str
    operators: tuple[str, ...]
    meets: Callable[[ir.Node, Types], bool]
    form: Callable[[ir.Node, Types, Builder], list[ir.Value] | None]
    pinned_by: str
    mended_in: str | None = None
    stays: bool = False
    rounds: bool = False
    beside: Beside | None = None


_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin"),
)


def _onnxruntime(
    name: str,
    operators: tuple[str, ...],
    meets: Callable[[ir.Node, Types], bool],
    form: Callable[[ir.Node, Types, Builder], list[ir.Value] | None],
    mended_in: str | None = None,
    *,
    stays: bool = False,
    rounds: bool = False,
    beside: Beside | None = None,
) -> Defect:
    return Defect(
        name,
        "onnxruntime",
        "1.31.1",
        operators,
        meets,
        form,
        _pin(name),
        mended_in,
        stays,
        rounds,
        beside,
    )


def _pin(name: str) -> str:
    return f"tests/passes/runtimes/test_upstream.py::test_defect[{name}]"


DEFECTS: tuple[Defect, ...] = (
    _onnxruntime(
        "max-int64",
        ("Max", "Min"),
        integers.is_at_risk,
        integers.compared,
        mended_in="1.32.0",
    ),
    _onnxruntime(
        "clip-int64",
        ("Clip",),
        integers.is_at_risk,
        integers.clipped,
        mended_in="1.32.0",
    ),
    _onnxruntime(
        "sign-int64",
        ("Sign",),
        integers.is_at_risk,
        integers.signs,
        mended_in="1.32.0",
    ),
    _onnxruntime(
        "reduce-max-int64",
        ("ReduceMax", "ReduceMin"),
        integers.is_at_risk,
        integers.extremum,
        mended_in="1.32.0",
    ),
    _onnxruntime(
        "reduction-from-the-back",
        _REDUCTIONS,
        empties.has_negative_axes,
        empties.from_the_front,
        mended_in="1.32.0",
    ),
    _onnxruntime(
        "product-by-a-vector",
        ("MatMul",),
        empties.is_by_a_vector,
        empties.by_a_matrix,
        mended_in="1.32.0",
        rounds=True,
    ),
    _onnxruntime(
        "product-of-a-short-left-side",
        ("MatMul",),
        empties.is_left_short,
        empties.left_as_long,
        mended_in="1.32.0",
    ),
    _onnxruntime(
        "product-of-a-transpose",
        ("MatMul",),
        contractions.is_fused_with_transpose,
        contractions.untransposed,
        mended_in="1.32.0",
        beside=by_way_of(*TAKEN_AWAY, "Transpose"),
    ),
    _onnxruntime(
        "transpose-by-a-vector",
        ("MatMul",),
        contractions.is_transposed_by_a_vector,
        contractions.untransposed,
        beside=anywhere,
    ),
    _onnxruntime(
        "product-of-halves",
        ("MatMul",),
        contractions.is_of_halves,
        contractions.of_kept_halves,
        beside=anywhere,
    ),
    _onnxruntime(
        "einsum-of-nothing",
        ("Einsum",),
        contractions.is_sum_of_products,
        contractions.as_matrix_products,
        rounds=True,
    ),
    _onnxruntime(
        "division-of-nothing",
        ("Div", "Mod"),
        integers.divides_nothing,
        integers.divided_one_by_one,
    ),
    _onnxruntime(
        "reshape-to-a-computed-shape",
        ("Reshape",),
        empties.is_shape_replaced,
        empties.computed_shape,
    ),
    _onnxruntime(
        "expand-to-nothing",
        ("Expand",),
        empties.is_expanded_to_nothing,
        empties.cut_to_nothing,
    ),
    _onnxruntime(
        "instance-normalization-of-nothing",
        ("InstanceNormalization",),
        empties.is_normalization_of_nothing,
        empties.cut_after,
    ),
    _onnxruntime(
        "cast-back-and-captured",
        ("Cast", "CastLike"),
        loops.is_cast_back_and_captured,
        loops.before_the_casts,
        beside=anywhere,
    ),
    _onnxruntime(
        "inlined-loop-without-condition",
        ("Loop",),
        loops.lacks_condition,
        loops.with_condition,
        stays=True,
    ),
    _onnxruntime(
        "dequantized-and-captured",
        quantized.MOVING,
        quantized.is_dequantized_and_captured,
        quantized.kept,
        beside=anywhere,
    ),
    _onnxruntime(
        "dequantized-and-moved",
        quantized.MOVING,
        quantized.is_dequantized_and_moved,
        rearranged.of_what_is_kept,
        beside=anywhere,
    ),
    _onnxruntime(
        "dequantized-by-row",
        ("DequantizeLinear",),
        quantized.is_dequantized_by_row,
        quantized.kept,
    ),
    _onnxruntime(
        "quantized-by-row",
        ("QuantizeLinear",),
        quantized.is_quantized_by_row,
        rearranged.of_what_is_kept,
    ),
    _onnxruntime(
        "quantized-twice",
        ("QuantizeLinear",),
        quantized.is_quantized_again,
        rearranged.of_what_is_kept,
        beside=anywhere,
    ),
    _onnxruntime(
        "rows-of-text", ("Gather",), rearranged.reads_rows_of_text, rearranged.gathered_one_by_one
    ),
    _onnxruntime(
        "pad-of-some-axes",
        ("Pad", "CenterCropPad"),
        rearranged.is_of_some_axes,
        rearranged.of_all_axes,
        beside=anywhere,
    ),
    _onnxruntime(
        "split-of-several-rows",
        ("SplitToSequence",),
        sequences.is_cut_by_several,
        sequences.with_its_axis,
    ),
    _onnxruntime(
        "product-with-an-inverse",
        ("Div",),
        rearranged.is_inverse_of_a_constant,
        rearranged.reciprocal,
    ),
    _onnxruntime(
        "size-of-a-shape",
        ("Size",),
        reshapes.is_of_a_shape,
        reshapes.counted,
        beside=anywhere,
    ),
    _onnxruntime(
        "normalization-of-a-cast",
        ("ReduceMean",),
        rearranged.is_normalized_behind_a_cast,
        rearranged.of_what_is_kept,
        beside=anywhere,
    ),
    _onnxruntime(
        "clip-of-a-relu-of-doubles",
        ("Clip",),
        rearranged.is_clipped_behind_a_relu,
        rearranged.of_what_is_kept,
        beside=anywhere,
    ),
    _onnxruntime(
        "scale-of-a-vector",
        ("Add", "Mul"),
        rearranged.is_scaled_from_the_left,
        rearranged.scaled_from_the_right,
    ),
    _onnxruntime(
        "reshape-by-a-reshape",
        ("Reshape", "Squeeze", "Unsqueeze"),
        reshapes.is_by_a_reshape,
        reshapes.behind_a_negation,
        beside=by_way_of("Identity", "Reshape", "Squeeze", "Unsqueeze"),
    ),
    _onnxruntime(
        "branch-taken-for-good",
        ("If",),
        branches.has_constant_condition,
        branches.branch_taken,
    ),
    _onnxruntime(
        "scan-along-another-axis-of-nothing",
        ("Scan",),
        loops.is_along_another_axis,
        loops.along_the_first_axis,
    ),
    Defect(
        "openvino-what-an-if-yields",
        "openvino",
        "2026.4.1",
        ("If",),
        loops.is_read_early,
        loops.expanded_to_its_shape,
        _pin("openvino-what-an-if-yields"),
        stays=True,
    ),
    Defect(
        "openvino-loop-from-nothing",
        "openvino",
        "2026.4.1",
        ("Loop",),
        loops.begins_with_nothing,
        loops.with_made_beginnings,
        _pin("openvino-loop-from-nothing"),
        stays=True,
    ),
    Defect(
        "openvino-nothing-as-a-number",
        "openvino",
        "2026.4.1",
        ("Concat", "Expand", "Gather", "Shape", "Slice", "Where"),
        loops.reads_nothing,
        loops.with_made_constants,
        _pin("openvino-nothing-as-a-number"),
        stays=True,
    ),
    Defect(
        "iree-bytes-from-floats",
        "iree",
        "3.13.0",
        ("Cast",),
        signs.is_byte_of_a_float,
        signs.by_way_of_integers,
        _pin("iree-bytes-from-floats"),
    ),
)
