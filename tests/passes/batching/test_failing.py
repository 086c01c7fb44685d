"""Which nodes may run where they would not have run."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching import rule_choice, rules
from passes.batching.anywhere import runs_anywhere
from passes.batching.failing import cannot_fail, is_total
from passes.typing import ValueType, type_values

assert rules and rule_choice  # they fill the table

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float f, int64 i, string s) => (float y)
<int64 two = {2}, int64 zero = {0}, int64 minus = {-1}> { %s }"""

CASES = [
    ("y = Div(f, f)", True),
    ("y = Div(i, i)", False),
    ("y = Div(i, two)", True),
    ("y = Div(i, zero)", False),
    ("y = Div(i, minus)", False),
    ("y = Mod(i, two)", True),
    ("y = Mod<fmod = 1>(f, f)", True),
    ("y = Pow(f, i)", True),
    ("y = Pow(i, two)", False),
    ("y = Cast<to = 1>(i)", True),
    ("y = Cast<to = 1>(s)", False),
    ("y = CastLike(f, s)", True),
    ("y = CastLike(s, f)", False),
    ("y = Add(f, f)", True),
    ("y = Gather(f, i)", False),
    ("y = Slice(f, i, i)", True),
    ("y = Slice(f, i, i, zero, two)", True),
    ("y = Slice(f, i, i, zero, zero)", False),
    ("y = Slice(f, i, i, i)", False),
    ("y = Slice(f, i, i, , two)", True),
    ("y = Slice(f, i, i, zero, i)", False),
    ("y = Slice <starts = [0], ends = [1]> (f)", False),
    ("y = Pow(f, two)", True),
    ("y = ReduceSum(f)", True),
    ("y = ReduceSum(f, zero)", True),
    ("y = ReduceSum(f, i)", False),
    ("y = ReduceMax(f, zero)", False),
    ("y = custom.Div(f, f)", False),
]


@pytest.mark.parametrize(("text", "total"), CASES, ids=[text for text, _ in CASES])
def test_total_by_operator_and_element_type(text: str, total: bool) -> None:
    model = ir.from_onnx_text(TEXT % text)
    (node,) = model.graph
    types = {v: ValueType(v.type, ()) for v in model.graph.inputs}
    known = {
        v: ValueType(ir.TensorType(ir.DataType.INT64), ())
        for v in model.graph.initializers.values()
    }
    unknown = ValueType(None, None)
    assert is_total(node, 18, lambda v: (types | known).get(v, unknown)) is total
    if node.op_type in ("Div", "Mod", "Cast", "CastLike", "Slice", "ReduceSum"):
        assert not is_total(node, 18, lambda _: unknown)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("d = Shape (x) n = Gather (d, zero) y = Range (zero, n, two)", True),
        ("d = Shape<start = 0, end = 1> (x) n = Squeeze (d) y = Range (zero, n, minus)", True),
        ("d = Shape (x) n = Gather (d, zero) m = Cast<to = 6> (n) y = Range (z, m, o)", True),
        ("d = Shape (x) n = Gather (d, zero) m = Cast<to = 1> (n) y = Range (zf, m, of)", False),
        ("d = Shape (x) n = Gather (d, zero) y = Range (zero, n, zero)", False),
        ("d = Shape (x) n = Gather (d, zero) y = Range (zero, n, i)", False),
        ("d = Shape (x) n = Gather (d, zero) y = Range (i, n, two)", False),
        ("d = Shape (x) n = Gather (d, zero) m = Mul (n, n) y = Range (zero, m, two)", False),
        ("y = Range (zero, i, two)", False),
        ("n = own.Count (x) y = Range (zero, n, two)", False),
        ("d = Shape (x) n = Gather (d, zero) m = Add (n, two) y = Range (two, m, two)", True),
        ("d = Shape (x) n = Gather (d, zero) m = Sub (n, two) y = Range (zero, m, two)", True),
        (
            """d = Shape <end = 1> (x) s = Sub (d, one1) c = Max (s, zero1) n = Squeeze (c)
               m = Add (n, two) y = Range (two, m, two)""",
            True,
        ),
        ("d = Shape (x) n = Gather (d, zero) m = Min (n, i) y = Range (zero, m, two)", False),
        ("d = Shape (x) n = Gather (d, zero) m = Add (n, far) y = Range (zero, m, two)", False),
        ("d = Shape (x) n = Gather (d, zero) m = Mul (n, near) y = Range (zero, m, two)", False),
        ("d = Shape (x) n = Gather (d, zero) m = Add (n, i) y = Range (zero, m, two)", False),
        ("d = Shape (x) n = Gather (d, zero) y = Range (near, n, minus)", True),
        ("d = Shape (x) n = Gather (d, zero) y = Range (far, n, minus)", False),
        (
            "d = Shape (x) n = Gather (d, zero) c = Cast<to = 3> (n) m = Cast<to = 7> (c) y = Range (zero, m, two)",
            False,
        ),
    ],
)
def test_a_range_is_as_long_as_a_dimension(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
        g (float[N,M] x, int64 i) => (int64[K] y) <int64 n, int64 two = {{2}}, int64 zero = {{0}}, int64 minus = {{-1}}, int32 z = {{0}},
         int64 near = {{1048576}}, int64 far = {{1048577}}, int64[1] one1 = {{1}}, int64[1] zero1 = {{0}},
         int32 o = {{1}}, float zf = {{0}}, float of = {{1}}> {{ {text} }}""")
    node = next(n for n in model.graph if n.op_type == "Range")
    for value in model.graph.outputs:
        value.type = None
    assert cannot_fail(node, type_values(model, proven=True)) is safe


@pytest.mark.parametrize(
    ("condition", "branch", "safe"),
    [
        ("bool", "r = Neg (f)", True),
        ("bool[N]", "r = Neg (f)", False),
        ("bool", "r = Gather (f, i)", False),
    ],
)
def test_a_branch_may_run_if_both_of_its_graphs_may(
    condition: str, branch: str, safe: bool
) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g ({condition} c, float[M] f, int64[K] i) => (float[P] y) {{
            y = If (c) <then_branch = a () => (float[P] r) {{ {branch} }},
                        else_branch = b () => (float[P] s) {{ s = Exp (f) }}> }}""")
    (node,) = model.graph
    assert cannot_fail(node, type_values(model, proven=True)) is safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("y = CumSum (x, one)", True),
        ("y = CumSum (x, minus)", True),
        ("y = CumSum (x, two)", False),
        ("y = CumSum (x, i)", False),
    ],
)
def test_a_running_sum_goes_along_an_axis_that_is_there(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N,M] x, int64 i) => (float[N,M] y)
        <int64 one = {{1}}, int64 two = {{2}}, int64 minus = {{-2}}> {{ {text} }}""")
    (node,) = model.graph
    assert cannot_fail(node, type_values(model, proven=True)) is safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("y = DequantizeLinear (w, s, z)", True),
        ("y = DequantizeLinear (w, s)", True),
        ("y = DequantizeLinear <axis = 0> (w, s4, z4)", True),
        ("y = DequantizeLinear <axis = -2> (w, s4)", True),
        ("y = DequantizeLinear (w, s4, z4)", False),
        ("y = DequantizeLinear <axis = 0> (w, s4, z)", False),
        ("y = DequantizeLinear <axis = 2> (w, s4)", False),
        ("y = DequantizeLinear (w, open)", False),
        ("y = DequantizeLinear <axis = 0> (free, s4)", False),
        ("y = DequantizeLinear <axis = 0, block_size = 2> (w, s4)", False),
        ("y = DequantizeLinear <axis = 0> (b, s4, n4)", True),
        ("y = DequantizeLinear (b, s, n1)", False),
        ("y = DequantizeLinear (b, s, n0)", False),
        ("y = DequantizeLinear (b, s)", True),
        ("y = QuantizeLinear (f, s, z)", True),
        ("y = QuantizeLinear (f, s)", True),
        ("y = QuantizeLinear <axis = 0> (f, s4, z4)", False),
        ("y = QuantizeLinear (f, s4, z4)", True),
        ("y = QuantizeLinear <output_dtype = 17> (f, s)", False),
        ("y = QuantizeLinear (f, s, n0)", False),
    ],
)
def test_a_scale_fits_what_it_is_for(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 21]>
        g (int8[4,3] w, int8[N,3] free, int32[4] b, float[N,4] f, float s, float[4] s4, float[K] open,
           int8 z, int8[4] z4, int32 n0) => (float[P] y)
        <int32[4] n4 = {{0, 0, 0, 0}}, int32 n1 = {{1}}> {{ {text} }}""")
    (node,) = model.graph
    for value in model.graph.outputs:
        value.type = value.shape = None
    assert cannot_fail(node, type_values(model, proven=True)) is safe


FILLS = {
    "like a tensor": ("s = Shape (x) y = ConstantOfShape (s)", True),
    "as long as a tensor": (
        "s = Shape (x) n = Gather (s, one) m = Unsqueeze (n, axes) y = ConstantOfShape (m)",
        True,
    ),
    "as long as a number": ("m = Unsqueeze (i, axes) y = ConstantOfShape (m)", False),
    "longer than a tensor": ("s = Shape (x) m = Mul (s, s) y = ConstantOfShape (m)", False),
}


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("y = ReduceMin (c)", True),
        ("y = ReduceMean <keepdims = 0> (c)", True),
        ("y = ArgMax <axis = -1> (c)", True),
        ("y = ReduceMin (none)", False),
        ("y = ArgMax (none)", False),
        ("y = ReduceMax (x)", False),
        ("y = ReduceMax <keepdims = 0> (c, axes)", False),
    ],
)
def test_an_extreme_of_numbers_that_are_there(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N,3] x, float[2,3] c, float[0,3] none, int64[K] axes) => (float[R] y) {{ {text} }}""")
    (node,) = model.graph
    for value in model.graph.outputs:
        value.type = value.shape = None
    assert cannot_fail(node, type_values(model, proven=True)) is safe


@pytest.mark.parametrize("name", FILLS)
def test_a_fill_as_large_as_a_tensor_runs_anywhere(name: str) -> None:
    text, safe = FILLS[name]
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N,M] x, int64 i) => (float[] y)
        <int64 one = {{1}}, int64[1] axes = {{0}}> {{ {text} }}""")
    typing = type_values(model, proven=True, ranks=False)
    assert cannot_fail(model.graph[-1], typing) is safe
    assert runs_anywhere(model.graph[-1], typing, 18) is safe


@pytest.mark.parametrize(
    ("lengths", "axes", "safe"),
    [
        ("l = Expand (n, m)", "", True),
        ("l = Expand (m, n)", "<time_axis = 1, batch_axis = 0>", True),
        ("l = Expand (m, n)", "", False),
        ("l = Expand (n, n)", "", False),
        ("k = Add (n, one) l = Expand (k, m)", "", False),
        ("l = Expand (i, m)", "", False),
        ("l = Identity (many)", "", False),
    ],
)
def test_a_whole_axis_is_reversed(lengths: str, axes: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N,M,3] x, int64[1] i, int64[M] many) => (float[N,M,3] y) <int64[1] one = {{1}}> {{
            n = Shape <start = 0, end = 1> (x)  m = Shape <start = 1, end = 2> (x)
            {lengths}  y = ReverseSequence {axes} (x, l) }}""")
    assert cannot_fail(model.graph[-1], type_values(model, proven=True)) is safe


@pytest.mark.parametrize(
    ("lengths", "safe"), [("{4, 4}", True), ("{3, 4}", False), ("{5, 4}", False)]
)
def test_a_whole_axis_is_reversed_by_constants(lengths: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[4,2,3] x) => (float[4,2,3] y) <int64[2] l = {lengths}> {{
            y = ReverseSequence (x, l) }}""")
    assert cannot_fail(model.graph[-1], type_values(model, proven=True)) is safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("y = ConstantOfShape (many)", True),
        ("y = ConstantOfShape (most)", False),
        ("y = ConstantOfShape (over)", False),
        ("y = Expand (one, many)", True),
        ("y = Expand (one, most)", False),
        ("y = Expand (one, over)", False),
        ("y = Tile (c, many)", True),
        ("y = Tile (c, most)", False),
    ],
)
def test_what_finds_no_memory_is_made_where_it_is_needed(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[1,1] c) => (float[] y)
        <int64[2] many = {{1000, 2000}}, int64[2] most = {{4611686018427387904, 1}},
         int64[2] over = {{4294967296, 4294967296}}, float one = {{1}}> {{ {text} }}""")
    typing = type_values(model, proven=True)
    assert cannot_fail(model.graph[-1], typing) is safe
    assert runs_anywhere(model.graph[-1], typing, 18) is safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("y = Gather (c, ends)", True),
        ("y = Gather (c, behind)", False),
        ("y = Gather (c, before)", False),
        ("y = Gather <axis = 1> (c, last)", True),
        ("y = Gather <axis = 1> (c, three)", False),
        ("y = Gather <axis = -1> (c, last)", True),
        ("y = Gather (c, i)", False),
        ("y = Gather (x, ends)", False),
    ],
)
def test_a_position_that_is_there(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N,3] x, float[2,3] c, int64[2] i) => (float[K,3] y)
        <int64[2] ends = {{-2, 1}}, int64[2] behind = {{0, 2}}, int64[2] before = {{-3, 0}},
         int64[2] last = {{-3, 2}}, int64[1] three = {{3}}> {{ {text} }}""")
    (node,) = model.graph
    for value in model.graph.outputs:
        value.type = value.shape = None
    assert cannot_fail(node, type_values(model, proven=True)) is safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("d = Shape (x) y = ConstantOfShape (d)", True),
        ("d = Shape (x) n = Slice (d, zero, one) y = ConstantOfShape (n)", True),
        ("d = Shape (x) n = Sub (d, one) y = ConstantOfShape (n)", False),
        ("y = ConstantOfShape (i)", False),
        ("d = Shape (x) y = Expand (one, d)", True),
        ("d = Shape (x) y = Expand (number, d)", True),
        ("d = Shape (x) y = Expand (pair, d)", False),
        ("y = Expand (one, i)", False),
        ("y, z, w = Split <axis = 0> (three, ones)", True),
        ("y, z, w = Split <axis = 0> (three, i)", False),
        ("y, z = Split <axis = 0, num_outputs = 2> (i)", False),
    ],
)
def test_a_shape_of_dimensions_is_filled_by_one_number(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N,M] x, int64[K] i, int64 number) => (int64[P] y)
        <int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[2] pair = {{1, 2}},
         int64[3] three = {{4, 5, 6}}, int64[3] ones = {{1, 1, 1}}> {{ {text} }}""")
    node = list(model.graph)[-1]
    for value in model.graph.outputs:
        value.type = value.shape = None
    assert cannot_fail(node, type_values(model, proven=True)) is safe
