"""What runtimes are known to get wrong: one row each.

To add a row: a test that shows the defect, in `tests/passes/runtimes/`, so that we notice when it
is mended; what tells a node that meets it; a form that computes the same without it.

The rows of other runtimes than onnxruntime stand in `other_runtimes.py`.

A row stays until the oldest version that `pyproject.toml` allows is mended: a model is deployed
on any of them.
"""

from __future__ import annotations

import functools

from passes.graph.made import REDUCTIONS
from passes.runtimes import branches
from passes.runtimes.beside import TAKEN_AWAY, anywhere, by_way_of
from passes.runtimes.defect import Defect, seen_in
from passes.runtimes.defects import (
    choices,
    contractions,
    empties,
    inferred_sizes,
    integers,
    loops,
    matrix_products,
    own_weights,
    quantized,
    rearranged,
    recurrence_of_nan,
    reshapes,
    running_statistics,
    yields,
)
from passes.runtimes.other_runtimes import OTHERS

__all__ = ["DEFECTS"]


_REDUCTIONS = (*sorted(REDUCTIONS), "ArgMax", "ArgMin")

_onnxruntime = functools.partial(seen_in, "onnxruntime", "1.31.1")
_mended = functools.partial(_onnxruntime, mended_in="1.32.0")


DEFECTS: tuple[Defect, ...] = (
    _mended("max-int64", ("Max", "Min"), integers.is_at_risk, integers.compared),
    _mended("clip-int64", ("Clip",), integers.is_at_risk, integers.clipped),
    _mended("sign-int64", ("Sign",), integers.is_at_risk, integers.signs),
    _mended(
        "reduce-max-int64",
        ("ReduceMax", "ReduceMin"),
        integers.is_at_risk,
        integers.extremum,
    ),
    _mended(
        "reduction-from-the-back",
        _REDUCTIONS,
        empties.has_negative_axes,
        empties.from_the_front,
    ),
    _mended(
        "product-by-a-vector",
        ("MatMul",),
        matrix_products.is_by_a_vector,
        matrix_products.by_a_matrix,
        rounds=True,
    ),
    _mended(
        "product-of-a-short-left-side",
        ("MatMul",),
        matrix_products.is_left_short,
        matrix_products.left_as_long,
    ),
    _mended(
        "product-of-a-transpose",
        ("MatMul",),
        matrix_products.is_fused_with_transpose,
        matrix_products.untransposed,
        beside=by_way_of(*TAKEN_AWAY, "Transpose"),
        needs="Transpose",
    ),
    _onnxruntime(
        "transpose-by-a-vector",
        ("MatMul",),
        matrix_products.is_transposed_by_a_vector,
        matrix_products.untransposed,
        beside=anywhere,
        needs="Transpose",
    ),
    _onnxruntime(
        "product-of-halves",
        ("MatMul",),
        matrix_products.is_of_halves,
        matrix_products.of_kept_halves,
        beside=anywhere,
        needs="Transpose",
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
        "resize-to-sizes-of-unknown-number",
        ("Resize",),
        reshapes.is_to_sizes_of_unknown_number,
        reshapes.to_so_many_sizes,
    ),
    _onnxruntime(
        "branch-of-another-size",
        ("Resize", *inferred_sizes.POOLS),
        inferred_sizes.is_of_another_size,
        inferred_sizes.behind_a_cut,
    ),
    _onnxruntime(
        "expand-to-nothing",
        ("Expand",),
        empties.is_expanded_to_nothing,
        empties.cut_to_nothing,
        beside=anywhere,
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
        "one-value-yielded-twice",
        ("If", "Scan"),
        yields.yields_a_value_twice,
        yields.with_each_value_once,
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
        needs="DequantizeLinear",
    ),
    _onnxruntime(
        "dequantized-and-moved",
        quantized.MOVING,
        quantized.is_dequantized_and_moved,
        rearranged.of_what_is_kept,
        beside=anywhere,
        needs="DequantizeLinear",
    ),
    _onnxruntime(
        "dequantized-from-outside",
        ("DequantizeLinear",),
        own_weights.is_dequantized_from_outside,
        own_weights.with_its_own_weights,
    ),
    _onnxruntime(
        "product-of-dequantized-weights",
        ("Gemm", "MatMul"),
        own_weights.is_by_dequantized_weights,
        own_weights.by_kept_weights,
        needs="DequantizeLinear",
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
        needs="DequantizeLinear",
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
        reshapes.is_cut_by_several,
        reshapes.with_its_axis,
    ),
    _onnxruntime("where-of-few-types", ("Where",), choices.has_no_kernel, choices.of_another_type),
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
        needs="Shape",
    ),
    _onnxruntime(
        "normalization-of-a-cast",
        ("ReduceMean",),
        rearranged.is_normalized_behind_a_cast,
        rearranged.of_what_is_kept,
        beside=anywhere,
        needs="Cast",
    ),
    _onnxruntime(
        "clip-of-a-relu-of-doubles",
        ("Clip",),
        rearranged.is_clipped_behind_a_relu,
        rearranged.of_what_is_kept,
        beside=anywhere,
        needs="Relu",
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
        needs="Reshape",
    ),
    _onnxruntime(
        "batch-normalization-writes-weights",
        ("BatchNormalization",),
        running_statistics.trains,
        running_statistics.from_means,
    ),
    _onnxruntime(
        "branch-taken-for-good", ("If",), branches.has_constant_condition, branches.branch_taken
    ),
    _onnxruntime(
        "scan-along-another-axis-of-nothing",
        ("Scan",),
        loops.is_along_another_axis,
        loops.along_the_first_axis,
    ),
    _onnxruntime(
        "recurrence-of-nan",
        ("GRU", "LSTM", "RNN"),
        recurrence_of_nan.loses_nan,
        recurrence_of_nan.with_nan,
        asking=recurrence_of_nan.with_nan_asked,
    ),
    *OTHERS,
)
