"""Which nodes meet a defect."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import pytest

from passes.runtimes import beside
from passes.runtimes.defects import (
    contractions,
    empties,
    integers,
    matrix_products,
    quantized,
    quotients,
    rearranged,
    reshapes,
)
from passes.runtimes.types import Types

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N,3] x, string[A,B] t, string[] u, float[2,3] f, float[] a, int64[K] k, float[N,2,3] b,
   float[2,3,N] cube, float16[4,2,3] h, float16[2,3] h2, float[3] v, float[L] w, int64[N,2,3] bi,
   int64 ni, int64 nj, int32 i32, int64[2,2] m, float[N,2,H,W] image, int64[4] p, float[N,2] rect,
   float[Q] scales, float one_scale, uint8[Q] points, int16[Q] wide_points, float[N,Q] q)
  => (float[] y)
<int64[1] all = {-1}, int64[1] back = {-1}, int64[1] zero = {0}, int64[1] first = {1},
 int64 far = {4294967296}, int64 farther = {8589934592}, int64 near = {4294967295}, int64 five = {5},
 int64[2] fars = {4294967296, 4294967296}, int64 below = {-4294967297}, int64[2] some = {1, 2},
 int64[2] none = {1, 0}, int64[2] less = {1, -1}, float[3] three = {1, 2, 3}, float[1] single = {1},
 float[2,3] grid = {1, 2, 3, 4, 5, 6}, uint8 point = {3},
 float[3] halves = {2, 0.5, -8}, float[2] flags = {0, 1}> { %s }"""
Meets = Callable[[ir.Node, Types], bool]
FLAGS = "s = Shape (k) c = Less (k, ni) n = Cast <to = 7> (c) r = ReduceSum (n)"
SIZES = "nf = Cast <to = 1> (ni) mf = Cast <to = 1> (nj) c = Equal (ni, nj)"
PLACES = "i = NonZero (x) j = Reshape (i, all) "
FROM_A_SHAPE = (
    *(f"r = {op} (k, s)" for op in ("Add", "Div", "Mul", "Sub", "Concat <axis = 0>")),
    *(f"r = {op} (s)" for op in ("Identity", "Cast <to = 6>")),
    *(f"r = {op}" for op in ("Gather (s, k)", "Reshape (s, all)", "Slice (s, zero, first)")),
    "one = Slice (s, zero, first) r1 = Squeeze (one, zero) r = Unsqueeze (r1, zero)",
    "r1 = Size (s) r = Unsqueeze (r1, zero)",
)
CASES: list[tuple[Meets, str, bool]] = [
    *((reshapes.is_of_a_shape, f"s = Shape (b) {way} y = Size (r)", True) for way in FROM_A_SHAPE),
    (reshapes.is_of_a_shape, "s = Shape (b) r = Neg (s) y = Size (r)", False),
    (reshapes.is_of_a_shape, "s = Shape (b) r = Gather (s, ni) y = Size (r)", False),
    (reshapes.is_of_a_shape, "r = Identity (k) y = Size (r)", False),
    (reshapes.is_by_a_reshape, "s = Reshape (k, all) y = Reshape (x, s)", True),
    (reshapes.is_by_a_reshape, "r = Reshape (k, all) s = Identity (r) y = Reshape (x, s)", True),
    (reshapes.is_by_a_reshape, "r = Reshape (k, all) s = Neg (r) y = Reshape (x, s)", False),
    (reshapes.is_by_a_reshape, "s = Unsqueeze (k, zero) y = Reshape (x, s)", False),
    (reshapes.is_by_a_reshape, "s = Identity (k) y = Reshape (x, s)", False),
    (reshapes.is_by_a_reshape, "y = Reshape (x, k)", False),
    (reshapes.is_by_a_reshape, "y = Squeeze (x)", False),
    (rearranged.reads_rows_of_text, "y = Gather (t, k)", True),
    (rearranged.reads_rows_of_text, "y = Gather <axis = -2> (t, k)", True),
    (rearranged.reads_rows_of_text, "y = Gather <axis = 1> (t, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather <axis = 2> (t, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather <axis = -3> (t, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather (u, k)", True),
    (rearranged.reads_rows_of_text, "y = Gather <axis = 1> (u, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather (x, k)", False),
    (empties.has_negative_axes, "y = ReduceSum (x, back)", True),
    (empties.has_negative_axes, "y = ReduceSum (f, back)", False),
    (empties.has_negative_axes, "y = ReduceSum (x, zero)", False),
    (empties.has_negative_axes, "y = ReduceSum (x)", False),
    (
        empties.is_expanded_to_nothing,
        "c, o = Split <num_outputs = 2> (single) s = Shape (o) y = Expand (single, s)",
        True,
    ),
    (
        empties.is_expanded_to_nothing,
        "c, o = Split <num_outputs = 2> (v) s = Shape (o) y = Expand (single, s)",
        False,
    ),
    (empties.is_expanded_to_nothing, "y = Expand (single, none)", True),
    (empties.is_expanded_to_nothing, "y = Expand (single, less)", False),
    (empties.is_expanded_to_nothing, "y = Expand (single, k)", False),
    (empties.is_expanded_to_nothing, "s = Abs (k) y = Expand (single, s)", False),
    (empties.is_shape_replaced, "y = Reshape (x, k)", False),
    (empties.is_shape_replaced, "c = Concat <axis = 0> (first, all) y = Reshape (x, c)", False),
    (empties.is_shape_replaced, "c = Concat <axis = 0> (k, all) y = Reshape (x, c)", True),
    (empties.is_shape_replaced, "c = Concat <axis = 0> (k, all) y = Reshape (f, c)", False),
    (
        empties.is_shape_replaced,
        "c = Concat <axis = 0> (k, all) y = Reshape <allowzero = 1> (x, c)",
        False,
    ),
    (integers.divides_nothing, PLACES + "y = Div (j, k)", True),
    (integers.divides_nothing, PLACES + "s = Shape (j) e = Expand (k, s) y = Div (j, e)", False),
    (integers.divides_nothing, PLACES + "s = Shape (k) e = Expand (k, s) y = Div (j, e)", True),
    (
        matrix_products.is_fused_with_transpose,
        "l = Transpose <perm = [0, 2, 1]> (b) y = MatMul (l, rect)",
        True,
    ),
    (
        matrix_products.is_fused_with_transpose,
        "l = Transpose <perm = [0, 2, 1]> (b) y = MatMul (l, b)",
        False,
    ),
    (
        matrix_products.is_fused_with_transpose,
        "l = Transpose <perm = [0, 2, 1]> (bi) y = MatMul (l, m)",
        False,
    ),
    (matrix_products.is_fused_with_transpose, "l = Transpose (x) y = MatMul (l, v)", False),
    (matrix_products.is_fused_with_transpose, "l = Transpose (a) y = MatMul (l, rect)", False),
    (
        matrix_products.is_fused_with_transpose,
        "l = Transpose <perm = [0, 2, 1]> (b) y = MatMul (l, a)",
        False,
    ),
    (matrix_products.is_fused_with_transpose, "y = MatMul (b, x)", False),
    (matrix_products.is_transposed_by_a_vector, "l = Transpose (x) y = MatMul (l, w)", True),
    (matrix_products.is_transposed_by_a_vector, "l = Transpose (x) y = MatMul (l, rect)", False),
    (matrix_products.is_transposed_by_a_vector, "l = Transpose (m) y = MatMul (l, k)", False),
    (matrix_products.is_transposed_by_a_vector, "y = MatMul (x, v)", False),
    (
        matrix_products.is_of_halves,
        "l = Transpose <perm = [1, 0, 2]> (h) y = MatMul (l, h2)",
        True,
    ),
    (
        matrix_products.is_of_halves,
        "l = Transpose <perm = [0, 2, 1]> (h) y = MatMul (l, h2)",
        False,
    ),
    (matrix_products.is_of_halves, "l = Transpose <perm = [1, 0]> (h2) y = MatMul (l, h2)", False),
    (matrix_products.is_of_halves, "l = Transpose (h) y = MatMul (l, h2)", True),
    (matrix_products.is_of_halves, "l = Transpose (h2) y = MatMul (l, h2)", False),
    (
        matrix_products.is_of_halves,
        "l = Transpose <perm = [1, 0, 2]> (h) y = MatMul (l, h)",
        False,
    ),
    (
        matrix_products.is_of_halves,
        "l = Transpose <perm = [1, 0, 2]> (b) y = MatMul (l, x)",
        False,
    ),
    (
        matrix_products.is_of_halves,
        "l = Transpose <perm = [1, 0, 2]> (h) e = Cast <to = 1> (l) y = MatMul (e, rect)",
        True,
    ),
    (
        matrix_products.is_of_halves,
        "l = Transpose <perm = [1, 0, 2]> (h) y = MatMul (h2, l)",
        True,
    ),
    (contractions.is_sum_of_products, 'y = Einsum <equation = "ij,jk->ik"> (x, rect)', True),
    (contractions.is_sum_of_products, 'y = Einsum <equation = "ij->ji"> (x)', False),
    (contractions.is_sum_of_products, 'y = Einsum <equation = "ij,kj->ik"> (f, grid)', False),
    (empties.has_negative_axes, "y = ReduceMax <axes = [-1]> (x)", True),
    (empties.has_negative_axes, "y = ReduceMax <axes = [0]> (x)", False),
    (empties.has_negative_axes, "y = ArgMax <axis = -1> (x)", True),
    (empties.has_negative_axes, "y = ArgMax <axis = 1> (x)", False),
    (empties.has_negative_axes, "y = ArgMax (x)", False),
    (empties.has_negative_axes, "y = ReduceSum (x, k)", False),
    (matrix_products.is_left_short, "y = MatMul (f, cube)", False),
    (matrix_products.is_left_short, "y = MatMul (rect, b)", True),
    (matrix_products.is_left_short, "y = MatMul (v, b)", True),
    (matrix_products.is_left_short, "y = MatMul (f, h)", False),
    (matrix_products.is_left_short, "y = MatMul (f, x)", False),
    (matrix_products.is_left_short, "y = MatMul (a, b)", False),
    (matrix_products.is_left_short, "y = MatMul (f, a)", False),
    (matrix_products.is_left_short, "y = MatMul (b, b)", False),
    (matrix_products.is_left_short, "y = MatMul (v, x)", False),
    (empties.is_normalization_of_nothing, "y = InstanceNormalization (image, rect, rect)", True),
    (empties.is_normalization_of_nothing, "y = InstanceNormalization (h, rect, rect)", False),
    (empties.is_normalization_of_nothing, "y = InstanceNormalization (a, rect, rect)", False),
    (
        empties.is_normalization_of_nothing,
        "e = Pad (image, p) y = InstanceNormalization (e, rect, rect)",
        True,
    ),
    (
        empties.is_normalization_of_nothing,
        "n = Cast <to = 6> (zero) o = Cast <to = 7> (n) z = Concat <axis = 0> (p, p, o) e = Pad (image, z) y = InstanceNormalization (e, rect, rect)",
        False,
    ),
    (
        empties.is_normalization_of_nothing,
        "z = Concat <axis = 0> (p, p) e = Pad (image, z) y = InstanceNormalization (e, rect, rect)",
        True,
    ),
    (integers.is_at_risk, "y = Max (ni, nj)", True),
    (integers.is_at_risk, "y = Max (i32, i32)", False),
    (integers.is_at_risk, "y = Max (x, x)", False),
    (integers.is_at_risk, "y = Max (far, five)", False),
    (integers.is_at_risk, "y = Max (far, farther)", True),
    (integers.is_at_risk, "y = Max (near, near)", True),
    (integers.is_at_risk, "y = Max (fars, five)", True),
    (integers.is_at_risk, "y = Max (below, five)", False),
    (integers.is_at_risk, "y = Max (below, far)", True),
    (integers.is_at_risk, "s = Size (x) y = Max (s, five)", False),
    (integers.is_at_risk, "s = Size (x) y = Max (s, far)", False),
    (integers.is_at_risk, "d = Cast <to = 7> (i32) y = Max (d, five)", False),
    (integers.is_at_risk, "d = Cast <to = 7> (x) y = Max (d, five)", True),
    (
        integers.is_at_risk,
        "e = ConstantOfShape <value = int64[1] {4294967296}> (k) y = Max (e, five)",
        True,
    ),
    (
        integers.is_at_risk,
        "e = ConstantOfShape <value = int64[1] {7}> (k) y = Max (e, five)",
        False,
    ),
    (integers.is_at_risk, "e = ConstantOfShape (k) y = Clip (ni, five, five)", True),
    (integers.is_at_risk, "s = Size (x) y = Clip (s, , five)", False),
    (integers.is_at_risk, "u1, u2 = TopK (k, first) y = Max (u2, five)", False),
    (integers.is_at_risk, "u1, u2 = TopK (k, first) y = Max (u1, five)", True),
    (integers.is_at_risk, "y = ReduceMax (k)", True),
    (integers.is_at_risk, "s = Shape (x) y = ReduceMax (s)", False),
    (integers.is_at_risk, "s = Shape (x) d = Add (s, five) y = ReduceMax (d)", False),
    (integers.is_at_risk, "s = Shape (x) d = Tile (s, first) y = ReduceMax (d)", False),
    (integers.is_at_risk, "d = Tile (k, first) y = ReduceMax (d)", True),
    (integers.is_at_risk, "s = Shape (x) d = Add (s, k) y = ReduceMax (d)", True),
    (integers.is_at_risk, "s = Size (x) lo = Max (ni, five) y = Min (lo, s)", True),
    (
        integers.is_at_risk,
        "s = Size (x) lo = Max (ni, five) hi = Min (lo, s) y = Max (hi, s)",
        False,
    ),
    (
        integers.is_at_risk,
        "s = Size (x) lo = Min (ni, five) hi = Max (s, lo) y = Max (hi, s)",
        False,
    ),
    (integers.is_at_risk, "s = Size (x) hi = Min (ni, s) y = Max (hi, s)", True),
    (integers.is_at_risk, "s = Size (x) hi = Max (ni, s) y = Max (hi, s)", True),
    (
        integers.is_at_risk,
        "s = Size (x) lo = Max (ni, five) hi = Max (lo, s) y = Max (hi, s)",
        True,
    ),
    (
        integers.is_at_risk,
        "lo = Max (ni, five) hi = Min (lo, five) d = Sub (hi, hi) y = Max (d, five)",
        False,
    ),
    (integers.is_at_risk, "hi = Min (ni, five) d = Sub (hi, five) y = Max (d, five)", True),
    (integers.is_at_risk, "hi = Max (ni, five) d = Sub (five, hi) y = Max (d, five)", True),
    (
        integers.is_at_risk,
        "lo = Max (k, k) hi = Concat <axis = 0> (lo, k) y = ReduceMax (hi)",
        True,
    ),
    (
        integers.is_at_risk,
        "s = Shape (x) lo = Max (k, s) mid = Min (lo, s) hi = Concat <axis = 0> (mid, s) y = ReduceMax (hi)",
        False,
    ),
    (integers.divides_nothing, "y = Div (x, x)", False),
    (integers.divides_nothing, "y = Div (m, ni)", False),
    (integers.divides_nothing, "y = Div (k, k)", False),
    (integers.divides_nothing, "y = Div (k, ni)", True),
    (integers.divides_nothing, "y = Div (k, five)", False),
    (integers.divides_nothing, "y = Div (k, zero)", True),
    (integers.divides_nothing, "g = Max (ni, five) y = Div (k, g)", False),
    (integers.divides_nothing, "g = Max (ni, zero) y = Div (k, g)", True),
    (integers.divides_nothing, "g = Max (some, ni) y = Mod (k, g)", False),
    (integers.divides_nothing, "g = Max (none, ni) y = Mod (k, g)", True),
    (integers.divides_nothing, "y = Mod (k, less)", False),
    (integers.divides_nothing, "y = Mod (k, none)", True),
    (
        quantized.is_quantized_again,
        "d = DequantizeLinear (points, one_scale) y = QuantizeLinear (d, one_scale)",
        False,
    ),
    (
        quantized.is_quantized_again,
        "d = DequantizeLinear (points, one_scale, point) y = QuantizeLinear (d, one_scale, point)",
        False,
    ),
    (
        quantized.is_quantized_again,
        "d = DequantizeLinear (points, one_scale, point) y = QuantizeLinear (d, one_scale)",
        True,
    ),
    (
        quantized.is_quantized_again,
        "d = DequantizeLinear (points, one_scale) y = QuantizeLinear (d, a)",
        True,
    ),
    (quantized.is_quantized_by_row, "y = QuantizeLinear (q, scales)", True),
    (quantized.is_quantized_by_row, "y = QuantizeLinear (q, one_scale)", False),
    (quantized.is_quantized_by_row, "y = QuantizeLinear (q, single)", False),
    (quantized.is_quantized_by_row, "y = QuantizeLinear (grid, scales)", False),
    (quantized.is_quantized_by_row, "e = Max (q) y = QuantizeLinear (e, scales)", False),
    (quantized.is_quantized_by_row, "e = Max (q, q) y = QuantizeLinear (e, scales)", True),
    (quantized.is_quantized_by_row, "e = Neg (q) y = QuantizeLinear (e, scales)", True),
    (quantized.is_quantized_by_row, "y = QuantizeLinear (q, a)", True),
    (quantized.is_quantized_by_computed_rows, "y = QuantizeLinear (q, scales)", True),
    (quantized.is_quantized_by_computed_rows, "y = QuantizeLinear (q, scales, points)", True),
    (
        quantized.is_quantized_by_computed_rows,
        "y = QuantizeLinear (q, scales, wide_points)",
        False,
    ),
    (quantized.is_quantized_by_computed_rows, "y = QuantizeLinear (f, three)", False),
    (quantized.is_quantized_by_computed_rows, "y = QuantizeLinear (q, one_scale)", False),
    (quantized.is_quantized_by_computed_rows, "y = QuantizeLinear (a, scales)", False),
    (
        quantized.is_quantized_by_computed_rows,
        "y = QuantizeLinear <output_dtype = 2> (q, scales)",
        False,
    ),
    (
        quantized.is_quantized_by_computed_rows,
        "y = QuantizeLinear <precision = 1> (q, scales)",
        False,
    ),
    (reshapes.fails_by_its_size, f"{FLAGS} e = Add (s, r) y = Reshape (k, e)", True),
    (reshapes.fails_by_its_size, f"{FLAGS} e = Add (r, s) y = Reshape (k, e)", True),
    # Fewer than there are, another shape of as many, and what holds no numbers.
    (reshapes.fails_by_its_size, f"{FLAGS} e = Sub (s, r) y = Reshape (k, e)", False),
    (reshapes.fails_by_its_size, f"{FLAGS} e = Add (s, ni) y = Reshape (k, e)", False),
    (reshapes.fails_by_its_size, f"{FLAGS} e = Add (s, n) y = Reshape (k, e)", False),
    (
        reshapes.fails_by_its_size,
        f"{FLAGS} rn = ReduceSum (k) e = Add (s, rn) y = Reshape (k, e)",
        False,
    ),
    (reshapes.fails_by_its_size, f"{FLAGS} e = Add (s, r) y = Reshape (w, e)", False),
    (
        reshapes.fails_by_its_size,
        f"{FLAGS} z = Shape (a) e = Add (z, r) y = Reshape (a, e)",
        False,
    ),
    (
        reshapes.fails_by_its_size,
        f"{FLAGS} z = Shape (points) e = Add (z, r) y = Reshape (points, e)",
        False,
    ),
    (reshapes.fails_by_its_size, f"{FLAGS} y = Reshape (k, s)", False),
    (quotients.is_of_whole_numbers, f"{SIZES} y = Div (nf, mf)", True),
    (quotients.is_of_whole_numbers, f"{SIZES} e = Add (nf, three) y = Div (e, mf)", True),
    (quotients.is_of_whole_numbers, f"{SIZES} y = Div (three, nf)", True),
    (quotients.is_of_whole_numbers, f"{SIZES} y = Div (nf, three)", True),
    (quotients.is_of_whole_numbers, f"{SIZES} e = Where (c, nf, three) y = Div (e, mf)", True),
    # What is divided by a power of 2, or is 0 or 1, is rounded once.
    (quotients.is_of_whole_numbers, f"{SIZES} y = Div (nf, halves)", False),
    (quotients.is_of_whole_numbers, f"{SIZES} y = Div (flags, nf)", False),
    (quotients.is_of_whole_numbers, f"{SIZES} cf = Cast <to = 1> (c) y = Div (cf, nf)", False),
    # Pixels, and what is given as floats.
    (quotients.is_of_whole_numbers, f"{SIZES} y = Div (nf, one_scale)", False),
    (quotients.is_of_whole_numbers, f"{SIZES} y = Div (a, nf)", False),
    (quotients.is_of_whole_numbers, f"{SIZES} e = Add (nf, a) y = Div (e, nf)", False),
    (quotients.is_of_whole_numbers, f"{SIZES} e = Sqrt (nf) y = Div (e, nf)", False),
    (quotients.is_of_whole_numbers, "e = Cast <to = 1> (points) y = Div (e, three)", False),
    # Of another type.
    (quotients.is_of_whole_numbers, "y = Div (k, k)", False),
    (
        quotients.is_of_whole_numbers,
        "kd = Cast <to = 11> (k) md = Cast <to = 11> (m) y = Div (kd, md)",
        False,
    ),
]


@pytest.mark.quick
@pytest.mark.parametrize(("meets", "text", "is_met"), CASES, ids=[text for _, text, _ in CASES])
def test_what_meets_a_defect(meets: Meets, text: str, is_met: bool) -> None:
    model = ir.from_onnx_text(TEXT % text)
    *_, node = model.graph
    assert meets(node, Types(model)) is is_met


@pytest.mark.parametrize(
    ("end", "is_captured"),
    [
        ("y = Neg (s64)", False),
        (
            """c = Constant <value = bool {1}> ()
            y = If (c) <then_branch = g () => (float[] a) { a = Neg (s64) },
                else_branch = h () => (float[] b) { b = Neg (x) }>""",
            True,
        ),
    ],
)
def test_ways_that_meet_again_are_gone_once(end: str, is_captured: bool) -> None:
    doubled = " ".join(f"s{at + 1} = Add (s{at}, s{at})" for at in range(64))
    model = ir.from_onnx_text(TEXT % f"s0 = Identity (x) {doubled} {end}")
    assert beside.is_captured(model.graph[0]) is is_captured
