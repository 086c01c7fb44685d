"""What has no rule where images differ in size: it stays per-sample, for the reason that is said."""

from __future__ import annotations

import pytest

from tests.passes.batching.images import FlatCase

pytestmark = pytest.mark.quick

FRONT = ("float[1,3,H,W]", "float[1,c,h,w]")
LAST = ("float[H,W,3]", "float[h,w,c]")
PLANE = ("float[H,W]", "float[h,w]")
HALF = "r = Constant <value_floats = [0.5, 0.5, 1.0]> () y = Resize "
EDGES = "p = Constant <value_ints = [1, 1, 0, 1, 1, 0]> () "
ONES = "o = Constant <value_floats = [1.0, 1.0, 1.0]> () "
FILTERS = "o = Constant <value = float {1.0}> () d = Constant <value_ints = [3, 2, 2, 2]> () "
OWN_FILTERS = "o = ReduceMean (x) d = Constant <value_ints = [3, 3, 2, 2]> () k = Expand (o, d) "
SPREAD = f"{FILTERS}k = Expand (o, d) y = ConvTranspose "
REGION = (
    "q = Constant <value_floats = [0.1, 0.1, 0.1, 0.9, 0.9, 0.9]> () "
    "r = Constant <value_floats = [0.5, 0.5, 1.0]> () y = Resize "
    '<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (x, q, r)'
)

CASES = {
    "spread to a size": (
        f"{SPREAD}<output_shape = [30, 30]> (x, k)",
        FRONT,
        "ConvTranspose no-rule: what it pads hangs on the size of an image",
    ),
    "spread to the same size": (
        f'{SPREAD}<auto_pad = "SAME_UPPER"> (x, k)',
        FRONT,
        "ConvTranspose no-rule: what it pads hangs on the size of an image",
    ),
    "spread by filters of its own": (
        f"{OWN_FILTERS}y = ConvTranspose (x, k)",
        FRONT,
        "ConvTranspose batched-operand: more than its X differs from sample to sample",
    ),
    "convolved by filters of its own": (
        f"{OWN_FILTERS}y = Conv (x, k)",
        FRONT,
        "Conv batched-operand: its filters differ from sample to sample",
    ),
    "convolved, any number of channels": (
        "o = Constant <value = float {1.0}> () d = Constant <value_ints = [1, 1, 2, 2]> () "
        "k = Expand (o, d) y = Conv (x, k)",
        ("float[1,C,H,3]", "float[1,c,h,w]"),
        "Conv ragged: images differ in number, or in their channels",
    ),
    "squeezed along axes that are not given": (
        "y = Squeeze (x)",
        ("float[1,H,W,3]", "float[h,w,c]"),
        "Squeeze ragged: its axes are not given, and a size may be 1",
    ),
    "squeezed along its height": (
        "a = Constant <value_ints = [0]> () y = Squeeze (x, a)",
        ("float[H,W,3]", "float[w,c]"),
        "Squeeze ragged: it removes an axis along which samples differ",
    ),
    "cut along an axis that hangs on its size": (
        "z = Constant <value_ints = [0]> () o = Constant <value_ints = [1]> () "
        "s = Shape <start = 0, end = 1> (x) a = Min (s, o) y = Slice (x, z, o, a)",
        LAST,
        "Slice no-rule: its axes and steps are no constants",
    ),
    "padded in a mode that is none": (
        f'{EDGES}y = Pad <mode = "nothing"> (x, p)',
        LAST,
        "Pad no-rule: nothing padding has no form for samples of several sizes",
    ),
    "cropped and wrapped": (
        'p = Constant <value_ints = [-1, 1, 0, 1, 1, 0]> () y = Pad <mode = "wrap"> (x, p)',
        LAST,
        "Pad no-rule: it may crop what it wraps around",
    ),
    "padded by a number of its own": (
        f"m = ReduceMean <keepdims = 0> (x) {EDGES}y = Pad (x, p, m)",
        LAST,
        "Pad batched-operand: its fill differs from sample to sample",
    ),
    "more channels": (
        "s = Shape <start = 0, end = 1> (x) z = Constant <value_ints = [0, 0, 0, 0, 0]> () "
        "p = Concat <axis = 0> (z, s) y = Pad (x, p)",
        LAST,
        "Pad no-rule: it may pad an axis beside the ragged ones",
    ),
    "padded strings": (
        f"{EDGES}t = Cast <to = 8> (x) u = Pad (t, p) y = Cast <to = 1> (u)",
        LAST,
        "Pad no-rule: samples of STRING cannot be padded here",
    ),
    "antialiased to the nearest": (
        f'{HALF}<mode = "nearest", antialias = 1> (x, , r)',
        LAST,
        "Resize no-rule: it is antialiased to the nearest place",
    ),
    "to a rounding that is none": (
        f'{HALF}<mode = "nearest", nearest_mode = "round"> (x, , r)',
        LAST,
        "Resize no-rule: rounding by round has no form for samples of several sizes",
    ),
    "cubic sums, channels behind": (
        f'{HALF}<mode = "cubic"> (x, , r)',
        LAST,
        "Resize no-rule: onnxruntime knows cubic sums of [H,W] and [N,C,H,W] alone",
    ),
    "the aspect of one axis": (
        "z = Constant <value_ints = [7]> () y = Resize "
        '<mode = "linear", axes = [0], keep_aspect_ratio_policy = "not_larger"> (x, , , z)',
        LAST,
        "Resize no-rule: it keeps the aspect of one axis",
    ),
    "the aspect that channels decide": (
        "z = Constant <value_ints = [7, 7, 3]> () y = Resize "
        '<mode = "linear", keep_aspect_ratio_policy = "not_larger"> (x, , , z)',
        LAST,
        "Resize no-rule: an axis that stays decides the size of the others",
    ),
    "a region, channels behind": (
        REGION,
        LAST,
        "Resize no-rule: onnxruntime sums regions of rank 3 along three axes",
    ),
    "reshaped to two open dimensions": (
        "z = Constant <value_ints = [-1, -1]> () y = Reshape (x, z)",
        ("float[H,W,3]", "float[h,w]"),
        "Reshape no-rule: no shape has such dimensions",
    ),
    "reshaped to a negative dimension": (
        "z = Constant <value_ints = [-2, 3]> () y = Reshape (x, z)",
        ("float[H,W,3]", "float[h,w]"),
        "Reshape no-rule: no shape has such dimensions",
    ),
    "reshaped to an axis that is not there": (
        "z = Constant <value_ints = [-1, 1, 1, 0]> () y = Reshape (x, z)",
        ("float[H,W,3]", "float[h,w,c,d]"),
        "Reshape no-rule: it copies an axis that is not there",
    ),
    "it learns": (
        f"{ONES}y, m, v = BatchNormalization <training_mode = 1> (x, o, o, o, o)",
        FRONT,
        "BatchNormalization no-rule: it learns from the samples",
    ),
    "normalized, and its means": (
        f"{ONES}y, m = LayerNormalization (x, o)",
        LAST,
        "LayerNormalization no-rule: its means are asked for, too",
    ),
    "normalized along its width": (
        "o = Constant <value_floats = [1.0]> () y = LayerNormalization <axis = 1> (x, o)",
        LAST,
        "LayerNormalization ragged: it works along an axis that differs in size",
    ),
    "normalized column by column": (
        "y = MeanVarianceNormalization <axes = [0, 2]> (x)",
        LAST,
        "MeanVarianceNormalization ragged: it leaves out an axis that differs in size",
    ),
    "a norm of power 3": (
        "y = GlobalLpPool <p = 3> (x)",
        FRONT,
        "GlobalLpPool no-rule: no reduction is the norm of power 3",
    ),
    "an equation of another rank": (
        'y = Einsum <equation = "ab->ba"> (x)',
        ("float[H,W,3]", "float[h,w]"),
        "Einsum no-rule: its equation has another rank than its operands",
    ),
    "a diagonal": (
        'y = Einsum <equation = "aab->b"> (x)',
        ("float[H,W,3]", "float[c]"),
        "Einsum no-rule: its equation has a letter twice in a term",
    ),
    "as many classes as rows": (
        "i = Cast <to = 7> (x) s = Shape <start = 0, end = 1> (x) "
        "v = Constant <value_floats = [0.0, 1.0]> () y = OneHot (i, s, v)",
        ("float[H,W]", "float[h,w,c]"),
        "OneHot batched-operand: its depth or values differ from sample to sample",
    ),
    "bounds of its own for short integers": (
        "c = Cast <to = 5> (x) a = ReduceMin <keepdims = 0> (c) d = Clip (c, a) "
        "y = Cast <to = 1> (d)",
        PLANE,
        "Clip no-rule: bounds of each sample have no form for INT16",
    ),
    "a row of another width behind it": (
        "a = Constant <value_floats = [0.0, 1.0]> () b = Constant <value_ints = [0]> () "
        "c = Unsqueeze (a, b) y = Concat <axis = 0> (x, c)",
        PLANE,
        "Concat ragged: what it joins with does not differ along several axes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_has_no_rule_says_why(name: str) -> None:
    nodes, (element, result), reason = CASES[name]
    assert FlatCase(name, nodes, element, result, opset=19).declined() == {reason}
