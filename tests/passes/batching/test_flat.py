"""Rules for samples that differ along several axes, against each sample alone."""

from __future__ import annotations

import itertools

import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.batching import table
from passes.batching.flat import flat_rules
from passes.decisions import Code
from rewriter.errors import BackendError
from tests.passes.batching import (
    test_flat_branches,
    test_flat_distinct,
    test_flat_entries,
    test_flat_grid_sample,
    test_flat_joined,
    test_flat_padded,
    test_flat_parts,
    test_flat_regions_of_interest,
    test_flat_resize,
    test_flat_shapes,
)
from tests.passes.batching.images import (
    FlatCase,
    drawn,
    numbers,
    prove_flat,
    prove_nothing,
    reached,
)

assert flat_rules

FLOATS = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
]
REDUCTIONS = [
    "ReduceMax",
    "ReduceMin",
    "ReduceSum",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
    "ReduceProd",
]
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum"]
COMPARE = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]


def many(name: str, op_types: list[str], form: str, result: str, **given: object) -> FlatCase:
    """Make a case with an output for each of some operators."""
    outputs = [f"y{n}" for n in range(len(op_types))]
    lines = [form.format(y=y, op=op) for y, op in zip(outputs, op_types, strict=True)]
    return FlatCase(name, " ".join(lines), result=result, outputs=tuple(outputs), **given)  # type: ignore[arg-type]


ELEMENTWISE = [
    # The kernels of onnxruntime treat the last elements of a tensor otherwise.
    many("one operand", FLOATS, "{y} = {op} (x)", "float[h,w,3]", low=0.1, high=0.9,
         tolerance=1e-6),
    many("newer operators", ["Gelu"], "{y} = {op} (x)", "float[h,w,3]", opset=20,
         tolerance=1e-6),
    many("swish", ["Swish"], "{y} = {op} (x)", "float[h,w,3]", opset=24, tolerance=1e-6),
    many("with itself", BINARY, "{y} = {op} (x, x)", "float[h,w,3]", low=0.5, high=2.5,
         tolerance=1e-6),
    many(
        "with a channel operand",
        BINARY,
        "c_{y} = Constant <value_floats = [1.5, 2.0, 3.0]> () {y} = {op} (x, c_{y})",
        "float[h,w,3]",
        low=0.5,
        high=2.5,
        tolerance=1e-6,
    ),
    many("compared", COMPARE, "c_{y} = Constant <value_float = 9.0> () {y} = {op} (x, c_{y})",
         "bool[h,w,3]", high=18.0),
    many("tests", ["IsNaN", "IsInf"], "{y} = {op} (x)", "bool[h,w,3]"),
    many("flags", ["And", "Or", "Xor"], "{y} = {op} (x, x)", "bool[h,w,3]",
         element="bool[H,W,3]"),
    many("no flags", ["Not"], "{y} = {op} (x)", "bool[h,w,3]", element="bool[H,W,3]"),
    many("bits", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"], "{y} = {op} (x, x)", "uint8[h,w,3]",
         element="uint8[H,W,3]"),
    many("other bits", ["BitwiseNot"], "{y} = {op} (x)", "uint8[h,w,3]", element="uint8[H,W,3]"),
    FlatCase("bits cast", "y = BitCast <to = 6> (x)", result="int32[h,w,3]", opset=26),
    FlatCase("bits shifted", 'y = BitShift <direction = "LEFT"> (x, x)', "uint8[H,W,3]",
             "uint8[h,w,3]", high=7.0),
    FlatCase("remainders", "c = Constant <value = uint8 {7}> () y = Mod (x, c)", "uint8[H,W,3]",
             "uint8[h,w,3]"),
    FlatCase("chosen", "c = Constant <value_float = 99.0> () g = Greater (x, c) "
             "y = Where (g, x, c)"),
    FlatCase("clipped", "a = Constant <value_float = 9.0> () b = Constant <value_float = 99.0> () "
             "y = Clip (x, a, b)"),
    FlatCase("nothing is dropped", "y, m = Dropout (x)"),
    FlatCase("cast", "y = Cast <to = 1> (x)", "uint8[H,W,3]"),
    FlatCase("three ragged axes", "y = Relu (x)", "float[C,H,W]", "float[c,h,w]", most=9),
    FlatCase("an operand for each place of a leading axis",
             "m = Constant <value = float[3,1,1] {1.0, 2.0, 3.0}> () y = Sub (x, m)",
             "float[3,H,W]", "float[3,h,w]"),
    FlatCase("an operand of each image",
             numbers("k", 0, 1, 2) + "m = ReduceMax <keepdims = 0> (x, k) y = Div (x, m)"),
    FlatCase("an operand of each channel of each image",
             numbers("k", 0, 1) + "m = ReduceMax (x, k) y = Sub (x, m)"),
    FlatCase("an operand of each leading place of each image",
             numbers("k", 1, 2) + "m = ReduceMax (x, k) y = Sub (x, m)",
             "float[3,H,W]", "float[3,h,w]"),
    FlatCase("normalised over its pixels",
             numbers("k", 1, 2) + "m = ReduceMean (x, k) d = Sub (x, m) q = Mul (d, d) "
             "v = ReduceMean (q, k) s = Sqrt (v) y = Div (d, s)",
             "float[3,H,W]", "float[3,h,w]", least=2, tolerance=1e-5),
    FlatCase("between a crop and a result",
             numbers("t", 30) + "c = CenterCropPad <axes = [1]> (x, t) r = Relu (c) "
             "y = Neg (r)", result="float[h,30,3]"),
]  # fmt: skip

ARRANGED = [
    FlatCase("channels first", "y = Transpose <perm = [2, 0, 1]> (x)", "uint8[H,W,3]",
             "uint8[3,h,w]"),
    FlatCase("rows for columns", "y = Transpose <perm = [1, 0, 2]> (x)", "uint8[H,W,3]",
             "uint8[w,h,3]"),
    FlatCase("a batch of one", numbers("z", 0) + "t = Transpose <perm = [2, 0, 1]> (x) "
             "y = Unsqueeze (t, z)", result="float[1,3,h,w]"),
    FlatCase("no batch of one", numbers("z", 0) + "y = Squeeze (x, z)", "float[1,3,H,W]",
             "float[3,h,w]"),
    FlatCase("shapes and sizes", numbers("z", 0) + "s = Shape (x) n = Size (x) "
             "u = Unsqueeze (n, z) y = Concat <axis = 0> (s, u)", result="int64[4]",
             stacked=True),
    FlatCase("part of a shape", "t = Transpose <perm = [2, 1, 0]> (x) y = Shape <start = 1> (t)",
             result="int64[2]", stacked=True),
    FlatCase("a matrix", "m = Constant <value = float[3,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> () "
             "y = MatMul (x, m)", result="float[h,w,2]", tolerance=1e-6),
    FlatCase("more channels", "r = Neg (x) y = Concat <axis = 2> (x, r)", result="float[h,w,6]"),
    FlatCase("fewer channels", numbers("a", 1) + numbers("b", 3) + numbers("k", 2)
             + "y = Slice (x, a, b, k)", result="float[h,w,2]"),
]  # fmt: skip

WINDOWS = [
    FlatCase("the middle", numbers("t", 9, 11) + "y = CenterCropPad <axes = [0, 1]> (x, t)",
             "uint8[H,W,3]", "uint8[9,11,3]", stacked=True),
    FlatCase("the middle of columns", numbers("t", 11) + "y = CenterCropPad <axes = [1]> (x, t)",
             result="float[h,11,3]"),
    FlatCase("the middle of all axes", numbers("t", 9, 11, 5) + "y = CenterCropPad (x, t)",
             "uint8[H,W,3]", "uint8[9,11,5]", stacked=True),
    FlatCase("the middle of nothing", numbers("t", 3, 2) + "y = CenterCropPad <axes = [0, 1]> "
             "(x, t)", "uint8[H,W,3]", "uint8[3,2,3]", stacked=True, least=0, most=2),
    FlatCase("nothing, padded", numbers("p", 1, 2, 0, 3, 4, 0) + "y = Pad (x, p)", least=0,
             most=2),
    FlatCase("nothing, padded, and cut", numbers("p", 1, 2, 0, 3, 4, 0) + numbers("t", 3)
             + "z = Pad (x, p) y = CenterCropPad <axes = [1]> (z, t)", least=0, most=2,
             result="float[h,3,3]"),
    FlatCase("a slice", numbers("a", 2, -9) + numbers("b", 1000, -1) + numbers("k", 0, 1)
             + "y = Slice (x, a, b, k)"),
    FlatCase("flipped", numbers("a", -1, 3) + numbers("b", -1000, 20) + numbers("k", 0, 1)
             + numbers("s", -1, 2) + "y = Slice (x, a, b, k, s)"),
    FlatCase("steps beyond all places", numbers("a", 1, -1) + numbers("b", 20, -1000)
             + numbers("k", 0, 1) + numbers("s", 2**63 - 1, -(2**63))
             + "y = Slice (x, a, b, k, s)"),
    FlatCase("one size, less a number of each image", numbers("t", 9, 11) + numbers("k", 0, 1)
             + "m = ReduceMax <keepdims = 0> (x, k) r = Resize <axes = [0, 1]> (x,,,t) "
             "y = Sub (r, m)", result="float[9,11,3]", stacked=True),
    FlatCase("one width, resized", numbers("t", 11) + "s = Constant <value_floats = [0.7, 1.3]> () "
             'c = CenterCropPad <axes = [1]> (x, t) r = Resize <mode = "linear"> (c,,s) '
             "y = Identity (r)", "uint8[H,W]", "uint8[h,w]", least=2),
    FlatCase("a slice of a slice", numbers("a", 1) + numbers("b", -1) + numbers("k", 0)
             + "z = Slice (x, a, b, k) y = Slice (z, a, b, k)", least=3),
    FlatCase("a slice of what is large enough", numbers("s", 20, 20) + numbers("a", 2)
             + numbers("b", 9) + numbers("k", 1)
             + 'r = Resize <keep_aspect_ratio_policy = "not_smaller", axes = [0, 1]> (x,,,s) '
             "y = Slice (r, a, b, k)", result="float[h,7,3]"),
    FlatCase("padded", numbers("p", 1, 2, 0, 3, 4, 0) + "v = Constant <value_float = 7.5> () "
             "y = Pad (x, p, v)"),
    FlatCase("padded with zeros along axes", numbers("p", 1, 2) + numbers("k", 1)
             + "y = Pad (x, p, , k)"),
    FlatCase("padded and cut", numbers("p", -1, 2, 0, 3, -1, 0) + "y = Pad (x, p)", least=3),
    FlatCase("edges", numbers("p", 1, 2, 0, 3, 4, 0) + 'y = Pad <mode = "edge"> (x, p)'),
    FlatCase("mirrored", numbers("p", 1, 2, 0, 3, 4, 0) + 'y = Pad <mode = "reflect"> (x, p)',
             least=5),
    FlatCase("padded twice", numbers("p", 1, 2, 0, 3, 4, 0)
             + "v = Constant <value_float = 7.5> () z = Pad (x, p, v) y = Pad (z, p)"),
    FlatCase("padded to one size", numbers("z", 0, 0, 0) + numbers("m", 30, 31, 3)
             + "s = Shape (x) d = Sub (m, s) p = Concat <axis = 0> (z, d) q = Pad (x, p) "
             "y = Softmax (q)", result="float[30,31,3]", stacked=True, tolerance=1e-6),
]  # fmt: skip

REDUCED = [
    many("over pixels", REDUCTIONS, numbers("k_{y}", 0, 1) + "{y} = {op} <keepdims = 0> (x, k_{y})",
         "float[3]", stacked=True, low=0.5, high=1.5, most=7, tolerance=1e-5),
    many("over pixels behind channels", REDUCTIONS, numbers("k_{y}", 1, 2) + "{y} = {op} (x, k_{y})",
         "float[3,1,1]", stacked=True, element="float[3,H,W]", low=0.5, high=1.5, most=7,
         tolerance=1e-5),
    many("over channels", REDUCTIONS, numbers("k_{y}", 2) + "{y} = {op} <keepdims = 0> (x, k_{y})",
         "float[h,w]", low=0.5, high=1.5),
    many("over all", REDUCTIONS, "{y} = {op} <keepdims = 0> (x)", "float[]", stacked=True,
         low=0.5, high=1.5, most=7, tolerance=1e-5),
]  # fmt: skip

BESIDE = [
    FlatCase("a channel of each pixel", "k = Constant <value_int = 1> () "
             "y = Gather <axis = 2> (x, k)", "float[H,W,3]", "float[h,w]"),
    FlatCase("a channel in front", "k = Constant <value_int = 1> () y = Gather <axis = 0> (x, k)",
             "float[3,H,W]", "float[h,w]"),
    FlatCase("a channel cut out", numbers("a", 1) + numbers("b", 2) + numbers("k", -3)
             + "c = Slice (x, a, b, k) y = Squeeze (c, k)", "uint8[3,H,W]", "uint8[h,w]"),
    FlatCase("a channel cut out of what is padded", numbers("a", 0) + numbers("b", 1)
             + numbers("k", 0) + numbers("q", 0, 1, 0, 0, 0, 2) + "p = Pad (x, q) "
             "c = Slice (p, a, b, k) y = Squeeze (c, k)", "float[3,H,W]", "float[h,w]"),
    FlatCase("the one image of a batch that is cut out", numbers("z", 0) + numbers("k", 0, 1)
             + numbers("t", 0, 0) + numbers("o", 1) + "u = Unsqueeze (x, z) h = Shape <end = 1> (x) "
             "e = Concat <axis = 0> (h, h) p = Slice (u, t, e, k) c = Slice (p, z, o, z) "
             "y = Squeeze (c, z)"),
    FlatCase("the one image of a batch that is scaled", "u = Constant <value_floats = [1.0, 1.0]> "
             "() t = Constant <value_float = 2.0> () m = Shape (u) f = Expand (t, m) "
             "s = Concat <axis = 0> (u, f) r = Resize (x, , s) k = Constant <value_int = 0> () "
             "y = Gather <axis = 0> (r, k)", "float[1,2,H,W]", "float[2,h,w]"),
    FlatCase("channels in another order", numbers("k", 2, 1, 0) + "y = Gather <axis = 1> (x, k)",
             "float[1,3,H,W]", "float[1,3,h,w]"),
    FlatCase("channels by a table", "k = Constant <value = int64[2,2] {2, 1, 0, 1}> () "
             "y = Gather <axis = 2> (x, k)", "uint8[H,W,3]", "uint8[h,w,2,2]"),
    FlatCase("classes", "y = ArgMax <axis = 0, keepdims = 0> (x)", "float[5,H,W]", "int64[h,w]"),
    FlatCase("least classes", "y = ArgMin <axis = 1> (x)", "float[1,5,H,W]", "int64[1,1,h,w]"),
    many("over channels in front", ["Softmax", "LogSoftmax", "Hardmax"],
         "{y} = {op} <axis = 1> (x)", "float[1,3,h,w]", element="float[1,3,H,W]", high=3.0,
         tolerance=1e-6),
    many("over the last axis", ["Softmax", "LpNormalization"], "{y} = {op} (x)", high=3.0,
         result="float[h,w,3]", tolerance=1e-6),
    FlatCase("the first best of lines", "r = Round (x) y = Hardmax <axis = 1> (r)", low=-2.0, high=2.0),
    FlatCase("the best of columns", "y = Hardmax <axis = 0> (x)"),
    FlatCase("lines sorted", "n = Shape <start = 1, end = 2> (x) y, z = TopK <axis = 1> (x, n)"),
    FlatCase(
        "columns sorted upwards",
        "n = Shape <end = 1> (x) z, y = TopK <axis = 0, largest = 0> (x, n)",
        result="int64[h,w,3]",
    ),
    FlatCase("the best of each line", numbers("n", 2) + "y, z = TopK <axis = 1> (x, n)"),
    FlatCase(
        "the least of each column in front",
        numbers("n", 2) + "t = Transpose <perm = [2, 0, 1]> (x) "
        "y, z = TopK <axis = 1, largest = 0> (t, n)",
    ),
    FlatCase(
        "the best of crossed lines",
        numbers("n", 1) + "t = Transpose <perm = [1, 0, 2]> (x) z, y = TopK <axis = 1> (t, n)",
        result="int64[w,1,3]",
    ),
    FlatCase("the best channels", numbers("n", 2) + "y, z = TopK <axis = 0> (x, n)",
             "float[3,H,W]", "float[2,h,w]"),
    FlatCase("split channels", numbers("n", 1, 2) + "a, b = Split <axis = 2> (x, n) "
             "y = Concat <axis = 2> (b, a)", "uint8[H,W,3]", "uint8[h,w,3]"),
    FlatCase("classes of what was resized", numbers("t", 9, 11) + "r = Resize <axes = [1, 2], "
             'mode = "linear", keep_aspect_ratio_policy = "not_larger"> (x,,,t) '
             "y = ArgMax <axis = 0, keepdims = 0> (r)", "float[3,H,W]", "int64[h,w]"),
]  # fmt: skip

FILTERS = (
    "w = Constant <value_floats = [1.0, -2.0, 0.5, 3.0, -1.0, 2.0, 0.25, 1.5, -0.5, 1.0, 2.0, -3.0,"
    " 0.75, 1.25, -1.5, 2.5, 0.5, 1.0, -1.0, 0.5, 2.0, 1.0, -2.0, 3.0, 0.5, -0.25, 1.0]> () "
    + numbers("d", 1, 3, 3, 3)
    + "f = Reshape (w, d) "
)
IMAGE = {"element": "float[1,3,H,W]", "least": 5, "high": 1.0, "tolerance": 3e-6}
WINDOWED = [
    FlatCase("convolved", FILTERS + "y = Conv (x, f)", result="float[1,1,h,w]", **IMAGE),
    FlatCase("convolved, with no bias in its place", FILTERS + 'y = Conv (x, f, "")',
             result="float[1,1,h,w]", **IMAGE),
    FlatCase("convolved by steps", FILTERS + "y = Conv <strides = [2, 3], pads = [1, 0, 2, 1], "
             "dilations = [1, 2]> (x, f)", result="float[1,1,h,w]", **IMAGE),
    FlatCase("convolved to the same size", FILTERS + 'y = Conv <auto_pad = "SAME_UPPER"> (x, f)',
             result="float[1,1,h,w]", **IMAGE),
    FlatCase("one axis that differs", FILTERS + "y = Conv <pads = [1, 1, 1, 1]> (x, f)",
             result="float[1,1,8,w]", **{**IMAGE, "element": "float[1,3,8,W]"}),
    FlatCase("the greatest around each", "y = MaxPool <kernel_shape = [3, 2], strides = [2, 1], "
             "pads = [1, 0, 1, 1]> (x)", "float[1,3,H,W]", "float[1,3,h,w]", low=-9.0, high=-1.0),
    FlatCase("the mean around each", "y = AveragePool <kernel_shape = [3, 2]> (x)",
             result="float[1,3,h,w]", **IMAGE),
    FlatCase("the mean with what is padded", "y = AveragePool <kernel_shape = [3, 2], "
             "pads = [1, 1, 1, 0], count_include_pad = 1> (x)", result="float[1,3,h,w]", **IMAGE),
    FlatCase("the root of squares around each", "y = LpPool <kernel_shape = [2, 2], pads = [1, 1, "
             "0, 0]> (x)", result="float[1,3,h,w]", **IMAGE),
    FlatCase("a small network", numbers("k", 2, 3) + FILTERS + "a = Conv <strides = [2, 2], "
             "pads = [1, 1, 1, 1]> (x, f) b = Constant <value_float = 2.0> () c = Add (a, b) "
             "r = Relu (c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) "
             "q = Concat <axis = 1> (p, p, p) s = Conv <pads = [1, 1, 1, 1]> (q, f) "
             "y = ReduceMean (s, k)", result="float[1,1,1,1]", stacked=True, **IMAGE),
]  # fmt: skip
THREE = (
    "s = Constant <value_floats = [1.0, 2.0, -3.0]> () "
    "v = Constant <value_floats = [0.5, 2.0, 3.0]> () "
)
WINDOWED += [
    many("over all pixels", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"], "{y} = {op} (x)",
         "float[1,3,1,1]", stacked=True, **IMAGE),
    FlatCase("by numbers of channels", THREE + "y = BatchNormalization (x, s, v, v, v)",
             result="float[1,3,h,w]", **IMAGE),
    FlatCase("over the pixels of each", THREE + "y = InstanceNormalization (x, s, v)",
             result="float[1,3,h,w]", **{**IMAGE, "tolerance": 2e-5}),
    FlatCase("over the pixels of each, channels moved", THREE + "t = Transpose "
             "<perm = [0, 3, 1, 2]> (x) y = InstanceNormalization (t, s, v)",
             "float[1,H,W,3]", "float[1,3,h,w]", least=5, high=1.0, tolerance=2e-5),
]  # fmt: skip
STAY_APART = {
    "steps over places": "y = LpPool <kernel_shape = [2, 2], strides = [4, 1], "
    'auto_pad = "SAME_UPPER"> (x)',
    "by filters of its body": "f = Constant <value = float[1,3,1,1] {1., 2., 3.}> () "
    'y = Conv <auto_pad = "SAME_UPPER", strides = [3, 3]> (x, f)',
    "a part of the padding is counted": "y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], "
    "pads = [1, 1, 0, 0], ceil_mode = 1, count_include_pad = 1> (x)",
    "with places": "y, z = MaxPool <kernel_shape = [2, 2]> (x)",
}

CASES = [*ELEMENTWISE, *WINDOWED, *BESIDE, *ARRANGED, *WINDOWS, *REDUCED]


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_images_of_any_size(case: FlatCase) -> None:
    prove_flat(case)


@pytest.mark.parametrize("case", [*CASES[::4], CASES[-1], *WINDOWED], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


def test_every_rule_is_proven() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    ruled = {name for name in names if table.find_flat(ir.node(name, []), 28) is not None}
    tables = (
        test_flat_branches,
        test_flat_distinct,
        test_flat_entries,
        test_flat_grid_sample,
        test_flat_joined,
        test_flat_padded,
        test_flat_parts,
        test_flat_regions_of_interest,
        test_flat_resize,
        test_flat_shapes,
    )
    others = (one.CASES for one in tables)
    proven = {
        node.op_type
        for case in (*CASES, *itertools.chain(*others), *test_flat_padded.GROUPED)
        for mapped in case.model.graph.node
        for attribute in mapped.attribute
        for node in attribute.g.node
    }
    assert ruled - proven == {"RegexFullMatch", "StringConcat"}  # no image is text


def test_an_image_without_pixels_reads_no_neighbour() -> None:
    """As the model as given does, the new one fails."""
    (case,) = (c for c in test_flat_resize.CASES if c.name == "mode = nearest of float[H,W]")
    images = drawn(case, 2)
    images[0] = images[0][:0]
    from rewriter import backends

    with pytest.raises(BackendError, match="out of data bounds"):
        backends.open_session(reached(case), "onnxruntime").run({"xs": images})


def test_a_divisor_that_no_image_keeps_may_be_zero() -> None:
    """Rows that are cut off are not divided by."""
    case = FlatCase(
        "divided by what is left",
        numbers("a", 1) + numbers("b", 999) + numbers("k", 0) + "s = Slice (x, a, b, k) "
        "c = Constant <value = int64 {100}> () y = Div (c, s)",
        "int64[H,W,3]",
        "int64[h,w,3]",
    )
    images = [image + 1 for image in drawn(case, 2)]
    for image in images:
        image[0] = 0
    prove_flat(case, feeds=[images])


@pytest.mark.parametrize("name", STAY_APART)
def test_windows_that_hang_on_the_size_of_an_image_stay_apart(name: str) -> None:
    case = FlatCase("", STAY_APART[name], "float[1,3,H,W]", "float[1,c,h,w]")
    report = rewriter.explain(case.model, strategy="fuse", target="portable", tensor_io=True)
    assert not report.reached
    reasons = [
        r for d in report.decisions for r in d.reasons if r.op_type.endswith(("Conv", "Pool"))
    ]
    assert {reason.code for reason in reasons} == {Code.NO_RULE}


def test_the_number_that_pads_may_be_a_vector() -> None:
    """onnxruntime takes one, and exporters write it."""
    pads = "q = Constant <value_ints = [1, 0, 2, 1]> () v = Constant <value_floats = [7.0]> () "
    prove_flat(FlatCase("a vector", f"{pads}y = Pad (x, q, v)", "float[H,W]", "float[h,w]"))


@pytest.mark.parametrize("amounts", ["0, 0, 1, 1", "0, 0, 1, 0, 0, 1, 0, 0"])
def test_a_pad_of_more_or_fewer_amounts_than_it_has_axes_has_no_form(amounts: str) -> None:
    """It is an error for each image, as exporters write it that do not know a rank."""
    pads = f"q = Constant <value_ints = [{amounts}]> () y = Pad (x, q)"
    case = FlatCase("amounts", pads, "float[H,W,3]", "float[h,w,c]")
    with pytest.raises(rewriter.TargetError, match="two amounts for each axis"):
        reached(case)
