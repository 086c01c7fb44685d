"""The pass over the table of defects: what it changes, and what it leaves."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_graphs
from passes.graph.node_copies import copy_body
from passes.runtimes import Authored, SidestepDefectsPass
from rewriter.backends import open_session
from rewriter.model_files.checking import check
from rewriter.options import Strategy
from rewriter.pipeline import rewrite
from tests.passes.runtimes.upstream import run


def parse(text: str, opset: int = 22) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for graph in all_graphs(model) for node in graph]


STAYS = {
    "an Expand to something": "k = Constant <value_ints = [2, 1, 1]> () y = Expand(x, k) r = Shape(y)",
    "counts": "n = Shape(x) m = Size(x) r = Max(n, m)",
    "a bound beyond 32 bits": """n = Shape(x) z = Constant <value = int64 {4611686018427387904}> ()
        r = Min(n, z)""",
    "what a Loop counts": """n = Size(x) t = Constant <value = bool {1}> () r = Loop (n, t) <body =
        b (int64 i, bool c) => (bool d, int64[1] o) {
            d = Identity(c) k = Constant <value_ints = [3]> () o = Min(i, k) }>""",
    "a scalar": "k = Constant <value_int = 1> () i = Add(s, k) r = ReduceMax(i)",
    "floats": "k = Neg(x) m = Max(x, k) r = Shape(m)",
    "int32": "k = Cast <to = 6> (v) m = Max(k, k) r = Cast <to = 7> (m)",
    "a Reshape to known numbers": """k = Constant <value_ints = [2, -1]> () y = Reshape(x, k)
        r = Shape(y)""",
    "a Reshape that takes 0 for 0": """h = Shape(x) k = Concat <axis = 0> (h, v)
        y = Reshape <allowzero = 1> (x, k) r = Shape(y)""",
    "a Reshape of a Reshape": """k = Constant <value_ints = [2, -1]> () y = Reshape(x, k)
        z = Reshape(y, v) r = Shape(z)""",
    "a Scan along the first axis": """r = Scan <num_scan_inputs = 1, scan_input_axes = [0],
        scan_output_axes = [0], body = b (int64 e) => (int64 o) { o = Neg(e) }> (v)""",
    "a Scan along a later axis of something": """k = Constant <value = int64[1, 2] {1, 2}> ()
        y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (int64[1] e) => (int64[1] o) { o = Neg(e) }> (k) r = Shape(y)""",
    "an If by what is fed": """z = Constant <value = int64 {0}> () c = Greater(s, z) r = If (c)
        <then_branch = t () => (int64[B] a) { a = Shape(x) },
        else_branch = f () => (int64[C] b) { b = Shape(v) }>""",
    "an If by a shape that is not known": """h = Shape(x) n = ReduceMax <keepdims = 0> (h)
        c = Greater(n, s) r = If (c) <then_branch = t () => (int64[B] a) { a = Shape(x) },
        else_branch = f () => (int64[C] b) { b = Shape(v) }>""",
    "a cast that rounds": """d = Cast <to = 10> (x) e = Cast <to = 1> (d) r = If (p)
        <then_branch = t () => (int64[B] a) { a = Shape(e) },
        else_branch = f () => (int64[C] b) { b = Shape(e) }>""",
    "a cast to the type that it has": """e = Cast <to = 1> (x) r = If (p)
        <then_branch = t () => (int64[B] a) { a = Shape(e) },
        else_branch = f () => (int64[C] b) { b = Shape(e) }>""",
    "a reduction along an axis that is not there": """k = Constant <value_ints = [-3]> ()
        y = ReduceSum <keepdims = 0> (x, k) r = Shape(y)""",
    "a largest integer along an axis that is not there": """k = Constant <value_ints = [3]> ()
        i = Cast <to = 7> (x) r = ReduceMax <keepdims = 0> (i, k)""",
    "a Pad of an axis that is not there": """k = Constant <value_ints = [-3]> ()
        t = Transpose <perm = [1, 0]> (x) z = Constant <value_float = 0.0> ()
        y = Pad(t, v, z, k) r = Shape(y)""",
    "a crop of one axis that meets no Transpose": """k = Constant <value_ints = [2]> ()
        r = CenterCropPad <axes = [0]> (v, k)""",
    "rows of text of an axis that is not there": """t = Cast <to = 8> (x)
        y = Gather <axis = -4> (t, v) r = Shape(y)""",
    "weights dequantized by row": """q = Constant <value = uint8[2, 2] {1, 2, 3, 4}> ()
        k = Constant <value_floats = [1.0, 2.0]> () d = DequantizeLinear <axis = 0> (q, k)
        y = Sigmoid(d) r = Shape(y)""",
    "int8 moved without a zero point": """q = Cast <to = 3> (x)
        k = Constant <value_float = 2.0> () d = DequantizeLinear (q, k)
        t = Transpose <perm = [1, 0]> (d) r = Shape(t)""",
    "uint8 moved": """q = Cast <to = 2> (x) z = Constant <value = uint8 {1}> ()
        k = Constant <value_float = 2.0> () d = DequantizeLinear (q, k, z)
        t = Transpose <perm = [1, 0]> (d) r = Shape(t)""",
    "numbers dequantized by one scale": """q = Cast <to = 2> (x)
        k = Constant <value_float = 2.0> () d = DequantizeLinear (q, k) y = MatMul(d, d)
        r = Shape(y)""",
    "the size of what is no shape": "k = Neg(v) m = Size(k) r = Add(m, v)",
    "the size of one number of a shape": """k = Constant <value_int = 1> () h = Shape(x)
        a = Gather(h, k) r = Size(a)""",
    "a matrix that is scaled from the left": """k = Constant <value_float = 2.0> ()
        a = Abs(x) r1 = Sqrt(a) d = Div(x, r1) y = Mul(k, d) r = Shape(y)""",
    "the mean of what was cast": """c = Cast <to = 11> (x) m = ReduceMean(c) k = Sub(m, m)
        r = Shape(k)""",
    "floats that are clipped behind a Relu": """a = Relu(x) k = Constant <value_float = 1.0> ()
        y = Clip(a, "", k) r = Shape(y)""",
    "weights by a transposed matrix of halves": """k = Constant <value = float16[1, 2] {1, 2}> ()
        c = Cast <to = 10> (x) t = Transpose <perm = [1, 0]> (c) y = MatMul(k, t) r = Shape(y)""",
    "weights by a matrix of halves that is turned": """
        k = Constant <value = float16[1, 2] {1, 2}> ()
        c = Cast <to = 10> (x) t = Transpose (c) y = MatMul(k, t) r = Shape(y)""",
    "a division by a constant": "k = Constant <value_ints = [2]> () r = Div(v, k)",
    "a division by 1 or more": """k = Constant <value = int32 {1}> () i = Cast <to = 6> (s)
        n = Max(i, k) w = Cast <to = 6> (v) m = Mod(w, n) r = Cast <to = 7> (m)""",
    "a division of a number": "r = Div(s, s)",
    "divisions of as many": "r = Div(v, v)",
    "a division of floats": "k = Cast <to = 1> (s) y = Div(x, k) r = Shape(y)",
    **{
        f"numbers that were {name}": f"a = Cast <to = {to}> (x) b = Cast <to = 7> (a) r = Max(b, b)"
        for name, to in (
            ("uint8", 2),
            ("int8", 3),
            ("uint16", 4),
            ("int16", 5),
            ("int32", 6),
            ("bool", 9),
        )
    },
    "a shape and what is filled with a small number": """h = Shape(x) n = Shape(h)
        k = ConstantOfShape <value = int64[1] {2147483647}> (n) r = Max(h, k)""",
    "a cast back that nothing captures": """d = Cast <to = 11> (x) e = Cast <to = 1> (d)
        r = Shape(e)""",
}


ROWS_OF_NO_DECLARED_RANK = """w, k = Loop (s, "", x) <body = b (int64 i, bool c, float[] a)
    => (bool d, float[] e, float[] o) { d = Identity(c) e = Neg(a) o = Identity(e) }>"""
STAYS |= {
    "a reduction of rows that a Loop collects": f"""{ROWS_OF_NO_DECLARED_RANK}
        j = Constant <value_ints = [-1]> () y = ReduceSum(k, j) r = Shape(y)""",
    "a reduction of what is made of rows that a Loop collects": f"""{ROWS_OF_NO_DECLARED_RANK}
        j = Constant <value_ints = [-1]> () q = If (p) <then_branch = t () => (float[] f) {{
            f = Neg(k) }}, else_branch = g () => (float[] h) {{ h = Abs(k) }}>
        y = ReduceSum(q, j) r = Shape(y)""",
    "a largest integer of rows that a Loop collects": f"""{ROWS_OF_NO_DECLARED_RANK}
        u = Cast <to = 7> (k) j = Constant <value_ints = [-1]> () y = ReduceMax(u, j)
        r = Shape(y)""",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", STAYS)
def test_what_meets_no_defect_stays(name: str) -> None:
    text = f"g (float[N, M] x, int64[K] v, int64 s, bool p) => (int64[] r) {{ {STAYS[name]} }}"
    model = ir.from_proto(parse(text))
    assert not SidestepDefectsPass()(model).modified


FORMS = {
    "Max of several": (
        "g (int64[N] x, int64[N] y, int64 z) => (int64[N] r) { r = Max(x, y, z) }",
        {"x": [2**31, 1], "y": [0, 2**31], "z": 3},
        [2**31, 2**31],
    ),
    "Max of a shape and what is filled with a large number": (
        """g (int64[A, B, C, D] x) => (int64[4] r) { s = Shape(x) n = Shape(s)
            k = ConstantOfShape <value = int64[1] {2147483648}> (n) r = Max(s, k) }""",
        {"x": np.zeros((4, 1, 1, 1), np.int64)},
        [2**31] * 4,
    ),
    "Min that broadcasts": (
        "g (int64[N] x, int64[M, 1] y) => (int64[M, N] r) { r = Min(x, y) }",
        {"x": [2**31, 1], "y": [[0], [2**32]]},
        [[0, 0], [2**31, 1]],
    ),
    "Clip with one bound": (
        'g (int64[N] x, int64 y) => (int64[N] r) { r = Clip(x, "", y) }',
        {"x": [2**31, 1, 7], "y": 5},
        [5, 1, 5],
    ),
    "ReduceMin along one axis": (
        """g (int64[N, M] x) => (int64[N] r) { k = Constant <value_ints = [-1]> ()
            r = ReduceMin <keepdims = 0> (x, k) }""",
        {"x": [[2**31, 1, 2**31, 2**31] * 2, [2**31, 2**32, 2**31, 5] * 2]},
        [1, 5],
    ),
    "rows dequantized by scales, times themselves": (
        """g (uint8[2, 1, 1] x, float[2] y) => (float[2, 1, 1] r) {
            k = Constant <value = uint8[2] {0, 1}> ()
            d = DequantizeLinear <axis = 0> (x, y, k) r = MatMul(d, d) }""",
        {"x": np.array([[[3]], [[3]]], np.uint8), "y": np.array([1, 2], np.float32)},
        np.array([[[9]], [[16]]], np.float32),
    ),
    "what a Sigmoid gives, quantized by scales": (
        """g (uint8[2, 1] x, float[2] y) => (uint8[2, 1] r) {
            k = Constant <value = uint8[2] {0, 1}> () o = Constant <value_float = 1.0> ()
            d = DequantizeLinear (x, o) s = Sigmoid(d) r = QuantizeLinear <axis = 0> (s, y, k) }""",
        {"x": np.array([[0], [100]], np.uint8), "y": np.array([0.5, 0.25], np.float32)},
        np.array([[1], [5]], np.uint8),
    ),
    "a vector times no matrices": (
        "g (int64[M] x, int64[B, M, K] y) => (int64[B, K] r) { r = MatMul(x, y) }",
        {"x": [1, 2], "y": np.zeros((0, 2, 3), np.int64)},
        np.zeros((0, 3), np.int64),
    ),
    "two axes that are expanded to nothing": (
        """g (int64[N, 1] x) => (int64[?, ?, ?] r) { k = Constant <value_ints = [0, 1, 0]> ()
            y = Neg(x) z = Expand(y, k) r = Neg(z) }""",
        {"x": [[1], [2]]},
        np.zeros((0, 2, 0), np.int64),
    ),
    "an axis that is expanded to what a Split leaves of one": (
        """g (int64[N] x) => (int64[?, ?] r) {
            k = Constant <value_ints = [0]> () t = Constant <value_ints = [2]> ()
            a = ReduceSum(x, k) v, w = Split <axis = 0, num_outputs = 2> (a) u = Unsqueeze(w, k)
            h = Shape(w) s = Concat <axis = 0> (t, h) o = Unsqueeze(a, k) e = Expand(o, s)
            r = Concat <axis = 0> (u, e) }""",
        {"x": [1, 2]},
        np.zeros((3, 0), np.int64),
    ),
    "an axis that is expanded to a rounded number": (
        """g (int64[N, 1] x) => (int64[?, ?] r) {
            k = Constant <value_floats = [2.4, 0.4]> () f = Floor(k) s = Cast <to = 7> (f)
            y = Neg(x) z = Expand(y, s) r = Neg(z) }""",
        {"x": [[1], [2]]},
        np.zeros((2, 0), np.int64),
    ),
    "an axis that is expanded to a place": (
        """g (int64[N, 1] x) => (int64[?, ?] r) {
            k = Constant <value_ints = [2, 0, 1]> () o = Constant <value_ints = [1]> ()
            v, s = TopK(k, o) y = Neg(x) z = Expand(y, s) r = Neg(z) }""",
        {"x": np.zeros((0, 1), np.int64)},
        np.zeros((0, 0), np.int64),
    ),
    "an axis that is expanded to a known size": (
        """g (int64[N, 1] x) => (int64[?, ?] r) {
            e = Constant <value = float[0, 2] {}> () k = Neg(e) s = Shape <end = 1> (k) y = Neg(x) z = Expand(y, s) r = Neg(z) }""",
        {"x": [[1], [2]]},
        np.zeros((2, 0), np.int64),
    ),
    "a vector times matrices": (
        "g (int64[M] x, int64[B, M, K] y) => (int64[B, K] r) { r = MatMul(x, y) }",
        {"x": [1, 2], "y": [[[1], [1]], [[2], [3]]]},
        [[3], [8]],
    ),
    "matrices of one transposed, times a vector": (
        """g (int64[B, M, N] x, int64[M] y) => (int64[B, N] r) {
            t = Transpose <perm = [0, 2, 1]> (x) r = MatMul(t, y) }""",
        {"x": np.zeros((0, 2, 3), np.int64), "y": [1, 1]},
        np.zeros((0, 3), np.int64),
    ),
    "a reduction from the back by the shape of rows that a Loop collects": (
        """g (int64[N, M] x, int64 n) => (int64[?, ?] r) {
            w, k = Loop (n, "", x) <body = b (int64 i, bool c, int64[] a)
                => (bool d, int64[] e, int64[] o) { d = Identity(c) e = Neg(a) o = Identity(e) }>
            h = Shape <start = 1> (k) y = Reshape <allowzero = 1> (k, h) j = Constant <value_ints = [-1]> ()
            r = ReduceSum(y, j) }""",
        {"x": np.zeros((0, 3), np.int64), "n": 1},
        np.zeros((0, 1), np.int64),
    ),
    "ArgMax from the back": (
        "g (int64[B, N] x) => (int64[B] r) { r = ArgMax <axis = -1, keepdims = 0> (x) }",
        {"x": np.zeros((0, 3), np.int64)},
        np.zeros(0, np.int64),
    ),
    "amounts of a Pad that are not known": (
        """g (int64[A, B] x, int64[2] y) => (int64[C, D] r) {
            k = Constant <value_ints = [-1]> () z = Constant <value_int = 9> ()
            t = Transpose <perm = [1, 0]> (x) u = Pad(t, y, z, k)
            r = Transpose <perm = [1, 0]> (u) }""",
        {"x": [[1, 2]], "y": [1, 0]},
        [[9, 9], [1, 2]],
    ),
    "amounts of a Pad that are known": (
        """g (int64[A, B] x) => (int64[C, D] r) {
            k = Constant <value_ints = [-1]> () z = Constant <value_int = 9> ()
            y = Constant <value_ints = [1, 2]> () t = Transpose <perm = [1, 0]> (x)
            u = Pad(t, y, z, k) r = Transpose <perm = [1, 0]> (u) }""",
        {"x": [[1, 2]]},
        [[9, 9], [1, 2], [9, 9], [9, 9]],
    ),
    "an axis that is squeezed from a Reshape": (
        """g (int64[1] x, int64[1, 1, 1] y) => (int64[1, 1] r) {
            k = Constant <value_ints = [1, 1]> () z = Constant <value_ints = [1]> ()
            t = Reshape(y, k) a = Squeeze(t, z) r = Unsqueeze(x, a) }""",
        {"x": [7], "y": [[[1]]]},
        [[7]],
    ),
    "a Scan of two inputs and outputs along several axes": (
        """g (int64[A, T, B] x, int64[T] y) => (int64[?, ?, ?] r) {
            z = Constant <value_int = 0> () k, q, w = Scan <num_scan_inputs = 2, scan_input_axes = [-2, 0],
                scan_input_directions = [1, 0], scan_output_axes = [-1, 0],
                body = b (int64 s, int64[A, B] e, int64 i) => (int64 t, int64[A, B] o, int64 p) {
                    t = Add(s, i) o = Add(e, s) p = Mul(i, s) }> (z, x, y)
            v = Add(w, k) r = Add(q, v) }""",
        {"x": [[[1, 2], [3, 4], [5, 6]]], "y": [10, 20, 30]},
        [[[65, 273, 991], [66, 274, 992]]],
    ),
    "CenterCropPad of one axis": (
        """g (int64[A, B] x, int64[1] y) => (int64[C, D] r) {
            t = Transpose <perm = [1, 0]> (x) u = CenterCropPad <axes = [-1]> (t, y)
            r = Transpose <perm = [1, 0]> (u) }""",
        {"x": [[1, 2]], "y": [3]},
        [[0, 0], [1, 2], [0, 0]],
    ),
    "a Transpose by a vector, with a node between": (
        """g (float[3, 2] x, float[3] v) => (float[2] r) {
            t = Transpose <perm = [1, 0]> (x) u = Abs (t) r = MatMul (u, v) }""",
        {"x": np.float32([[1, 2], [3, 4], [5, 6]]), "v": np.float32([1, 10, 100])},
        np.float32([531, 642]),
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    text, feeds, expected = FORMS[name]
    model = ir.from_proto(parse(text))
    sidestep = SidestepDefectsPass()
    assert sidestep(model).modified
    check(model)
    found = run(ir.to_proto(model), {k: np.asarray(v) for k, v in feeds.items()})
    np.testing.assert_array_equal(found, np.asarray(expected), strict=True)
    assert not sidestep(model).modified


CONDITIONS = {
    "a number": "c = Constant <value = bool {1}> ()",
    "a rank": "h = Shape(p) n = Shape(h) o = Constant <value_ints = [2]> () c = Equal(n, o)",
    "a shape": "n = Shape <start = 1> (p) o = Constant <value_ints = [2]> () c = Equal(n, o)",
    "floats": """f = Constant <value_floats = [0.5, 0.25]> () n = ReduceSum <keepdims = 0> (f)
        o = Constant <value_float = 0.7> () c = Greater(n, o)""",
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_branch_that_is_always_taken(name: str) -> None:
    text = f"""g (float[N, 2] x) => (float[N, 2] r) {{
        w = Constant <value = float[2, 2] {{1, 0, 0, 1}}> () p = MatMul(x, w)
        {CONDITIONS[name]} s = Shape <start = 1> (p) q = If (c)
        <then_branch = t () => (float[N, 2] a) <float k = {{2}}> {{ a = Mul(p, k) }},
        else_branch = e () => (float[N, 2] b) {{ b = Exp(p) }}>
        u = Cast <to = 1> (s) r = Add(q, u) }}"""
    model = ir.from_proto(parse(text))
    sidestep = SidestepDefectsPass()
    assert sidestep(model).modified
    check(model)
    assert ("If" in operators(model)) == (name == "floats")
    found = run(ir.to_proto(model), {"x": np.ones((3, 2), np.float32)})
    np.testing.assert_array_equal(found, np.full((3, 2), 4, np.float32))
    assert not sidestep(model).modified


READ_FIRST = {
    "a constant": "m = Abs(w) a = MatMul(p, m)",
    "a sequence": "e = SequenceAt(l, z) a = Mul(e, p)",
}


@pytest.mark.parametrize("name", READ_FIRST)
def test_a_condition_asks_for_the_size_of_a_tensor_that_is_fed(name: str) -> None:
    text = f"""g (float[N, 2] x, seq(float[N, 2]) l) => (float[N, 2] r, int64[1] s) {{
        w = Constant <value = float[2, 2] {{1, 0, 0, 1}}> () p = MatMul(x, w)
        z = Constant <value_int = 0> () {CONDITIONS["floats"]} s = Shape <start = 1> (p)
        r = If (c) <then_branch = t () => (float[N, 2] a) {{ {READ_FIRST[name]} }},
        else_branch = e () => (float[N, 2] b) {{ b = Exp(p) }}> }}"""
    model = ir.from_proto(parse(text))
    sidestep = SidestepDefectsPass()
    assert sidestep(model).modified
    check(model)
    x = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(run(ir.to_proto(model), {"x": x, "l": [x]}), x)
    assert not sidestep(model).modified


def test_what_only_the_other_branch_read_is_gone() -> None:
    text = """g (float[N] x, bool p) => (float[N] r) {
        c = Constant <value = bool {1}> ()
        q = If (p) <then_branch = t () => (float[N] a) { a = If (c) <
                then_branch = u () => (float[N] d) { d = Neg(x) },
                else_branch = v () => (float[N] f) { f = Exp(x) }> },
            else_branch = e () => (float[N] b) { b = Exp(x) }>
        r = If (c) <then_branch = t () => (float[N] h) { h = Abs(x) },
            else_branch = e () => (float[N] i) { i = Exp(q) }> }"""
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    assert operators(model) == ["Abs"]


def test_an_authors_if_that_a_rewrite_decides() -> None:
    text = """g (float[N, 2] x) => (float[N, 2] r, int64[2] s) {
        w = Constant <value = float[2, 2] {1, 0, 0, 1}> () p = MatMul(x, w) s = Shape(p)
        i = Constant <value_int = 1> () j = Constant <value_int = 2> ()
        l = SequenceConstruct(i, j) n = SequenceLength(l) c = Greater(n, i) d = Less(n, i)
        q = If (c) <then_branch = t () => (float[N, 2] a) { a = Neg(p) },
            else_branch = e () => (float[N, 2] b) { b = Exp(p) }>
        k = Constant <value = bool {1}> ()
        r = If (k) <then_branch = t () => (float[N, 2] a1) { a1 = Neg(q) },
            else_branch = e () => (float[N, 2] b1) { b1 = Exp(q) }> }"""
    model = parse(text)
    after = rewrite(model).model
    assert isinstance(after, onnx.ModelProto)
    assert operators(ir.from_proto(after)).count("If") == 1
    x = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(run(after, {"x": x}), x)


BESIDE = {
    "a product behind a new Transpose": (
        """g (float[N, 2] x, float[N] v) => (float[2] r) {
            s = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = b (float[2] e)
                => (float[2] o) { o = Neg(e) }> (x)
            r = MatMul(s, v) }""",
        {"x": [[1, 2], [3, 4], [5, 6]], "v": [1, 10, 100]},
        [-531, -642],
    ),
    "a product behind a new Transpose and a cast": (
        """g (float[N, 2] x, double[N] v) => (double[2] r) {
            s = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = b (float[2] e)
                => (float[2] o) { o = Neg(e) }> (x)
            c = Cast <to = 11> (s) r = MatMul(c, v) }""",
        {"x": [[1, 2], [3, 4], [5, 6]], "v": np.array([1, 10, 100], np.float64)},
        np.array([-531, -642], np.float64),
    ),
    "a product behind a Transpose and a new product by 1": (
        """g (float[2, N] x, float[2] v) => (float[N] r) {
            t = Transpose <perm = [1, 0]> (x)
            s = Scan <num_scan_inputs = 1, body = b (float[2] e) => (float[2] o) {
                k = Constant <value_float = 1.0> () o = Mul(k, e) }> (t)
            r = MatMul(s, v) }""",
        {"x": [[1, 3, 5], [2, 4, 6]], "v": [1, 10]},
        [21, 43, 65],
    ),
    "int8 behind a DequantizeLinear": (
        """g (int8[N, 2] x) => (float[2, N] r) <float k = {0.5}, int8 z = {1}> {
            d = DequantizeLinear(x, k, z)
            s = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = b (float[2] e)
                => (float[2] o) { o = Neg(e) }> (d)
            r = Identity(s) }""",
        {"x": np.array([[1, 3], [5, 7]], np.int8)},
        [[0, -2], [-1, -3]],
    ),
    "int8 at last positions": (
        """g (int8[2, N] x) => (float[N, 2] r) <float k = {0.5}, int8 z = {1}> {
            d = DequantizeLinear(x, k, z)
            r = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (float[2] e)
                => (float[2] o) { o = Neg(e) }> (d) }""",
        {"x": np.array([[1, 5], [3, 7]], np.int8)},
        [[0, -1], [-2, -3]],
    ),
    "a product behind a Transpose that is moved to it": (
        """g (float[N, 2, 2] x, float[N] v) => (float[2] r, float[N, 2] u) {
            t = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = b (float[2, 2] e)
                => (float[2, 2] o) { o = Neg(e) }> (x)
            c = Concat <axis = 2> (t, t) k = Constant <value_int = 0> ()
            d = Gather <axis = 2> (c, k) r = MatMul(d, v)
            u = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b1 (float[2] a)
                => (float[2] p) { p = Relu(a) }> (d) }""",
        {"x": [[[1, 0], [2, 0]], [[3, 0], [4, 0]], [[5, 0], [6, 0]]], "v": [1, 10, 100]},
        [-531, -642],
    ),
    "a cast back that a new Loop captures": (
        """g (float[N] x) => (float[N] r) {
            a1 = Cast <to = 11> (x) a2 = Cast <to = 1> (a1) a3 = Identity (a2)
            d = Cast <to = 11> (a3) e = Cast <to = 1> (d) f = Identity (e)
            s = SplitToSequence <keepdims = 0> (f)
            m = SequenceMap (s) <body = b (float a) => (float o) { o = Neg(a) }>
            r = ConcatFromSequence <axis = 0, new_axis = 1> (m) }""",
        {"x": [1, 2, 3]},
        [-1, -2, -3],
    ),
    "a dequantized value that a new Loop captures": (
        """g (float[2, N] x) => (float[N, 2] r) <float k = {0.5}, uint8 z = {0}> {
            q = QuantizeLinear(x, k, z) d = DequantizeLinear(q, k, z)
            w = Constant <value_float = 1.0> () t = Transpose <perm = [1, 0]> (d)
            h = Div(t, w) s = SplitToSequence <keepdims = 0> (h)
            m = SequenceMap (s) <body = b (float[2] a) => (float[2] o) { o = Neg(a) }>
            r = ConcatFromSequence <axis = 0, new_axis = 1> (m) }""",
        {"x": [[1, 3, 5], [2, 4, 6]]},
        [[-1, -2], [-3, -4], [-5, -6]],
    ),
    "what is quantized twice around an empty body": (
        """g (float[N, 1] x) => (float[N, 1] r) <float k = {0.125}, uint8 z = {100}, uint8 w = {0}> {
            q = QuantizeLinear(x, k, z) d = DequantizeLinear(q, k, z)
            s = Scan <num_scan_inputs = 1, body = b (float[1] a) => (float[1] o) {
                o = Identity(a) }> (d)
            p = QuantizeLinear(s, k, w) r = DequantizeLinear(p, k, w) }""",
        {"x": [[0.125], [1.25], [15.125]]},
        [[0.125], [1.25], [15.125]],
    ),
    "what is quantized twice around a product by 1": (
        """g (float[N, 1] x) => (float[N, 1] r) <float k = {0.125}, uint8 z = {100}, uint8 w = {0}> {
            q = QuantizeLinear(x, k, z) d = DequantizeLinear(q, k, z)
            s = Scan <num_scan_inputs = 1, body = b (float[1] a) => (float[1] o) {
                n = Constant <value_float = 1.0> () o = Mul(n, a) }> (d)
            p = QuantizeLinear(s, k, w) r = DequantizeLinear(p, k, w) }""",
        {"x": [[0.125], [1.25], [15.125]]},
        [[0.125], [1.25], [15.125]],
    ),
    "a Clip of doubles behind a Relu and a Transpose": (
        """g (double[2, N, 3] x) => (double[3, 2, N] r) <double low = {0.5}, double high = {2}> {
            k = Transpose <perm = [2, 0, 1]> (x)
            s = Scan <num_scan_inputs = 1, scan_output_axes = [2], body = b (double[2, N] a)
                => (double[2, N] o) { o = Relu(a) }> (k)
            t = Clip(s, low, high) r = Transpose <perm = [2, 0, 1]> (t) }""",
        {"x": np.array([[[0, 1, 3]], [[2, 3, 0]]], np.float64)},
        [[[0.5], [2]], [[1], [2]], [[2], [0.5]]],
    ),
    "a product of unknown rank behind a new Loop": (
        """g (float[N, 2, 2] x, float[2] v, int64[B] sizes) => (float[N, 2] r) {
            s = SplitToSequence <axis = 0> (x, sizes)
            m = SequenceMap (s) <body = b (float[L, 2, 2] a) => (float[L, 2, 2] o) { o = Neg(a) }>
            c = ConcatFromSequence <axis = 0> (m) t = Transpose <perm = [0, 2, 1]> (c)
            r = MatMul(t, v) }""",
        {
            "x": [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 0], [1, 2]]],
            "v": [1, 10],
            "sizes": np.array([1, 2]),
        },
        [[-31, -42], [-75, -86], [-19, -20]],
    ),
    "the size of what a Loop carried": (
        """g (float[N, M] x) => (float[K] r) {
            h = Shape(x) d = Shape(h) n = Constant <value_int = 1> () z = Constant <value_ints = [0]> ()
            k = Loop (n, "", d) <body = b (int64 i, bool c, int64[?] t) => (bool e, int64[?] u) {
                e = Identity(c) u = Identity(t) }>
            m = Size(k) f = Unsqueeze(m, z) w = Slice(h, z, f, z) a = Cast <to = 1> (w)
            p = Shape(a) r = Expand(a, p) }""",
        {"x": [[1, 2, 3], [4, 5, 6]]},
        [2],
    ),
    "an Expand to a size that is computed ahead without the sequence": (
        """g (float[N, 1] x) => (float[?, ?] r) {
            i = Constant <value_ints = [1]> () l = SequenceConstruct(i) n = SequenceLength(l)
            k = Sub(i, n) y = Neg(x) e = Expand(y, k) r = Neg(e) }""",
        {"x": [[1], [2]]},
        np.zeros((2, 0)),
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_an_authors_node_that_is_taken_together_with_a_new_one(name: str) -> None:
    text, given, expected = BESIDE[name]
    strategy: Strategy = "expand" if "new Loop" in name else "auto"
    after = rewrite(parse(text), strategy=strategy).model
    assert isinstance(after, onnx.ModelProto)
    assert "Scan" not in operators(ir.from_proto(after))
    feeds = {k: np.asarray(v, getattr(v, "dtype", np.float32)) for k, v in given.items()}
    np.testing.assert_array_equal(run(after, feeds), expected)


def test_an_authors_node_behind_the_branch_that_is_left_of_a_new_if() -> None:
    """The branch takes the place of its If while defects are sidestepped."""
    model = ir.from_proto(
        parse("""g (float[N] x) => (float[N] r)
        <float k = {0.125}, uint8 z = {100}, uint8 w = {0}, bool c = {1}> {
            i = If (c) <then_branch = t () => (float[N] d) {
                q = QuantizeLinear(x, k, z) d = DequantizeLinear(q, k, z) },
                else_branch = e () => (float[N] n) { n = Neg(x) }>
            p = QuantizeLinear(i, k, w) r = DequantizeLinear(p, k, w) }""")
    )
    authored = Authored(model)
    old = model.graph.node(0)
    (new,) = copy_body([old], {})
    model.graph.insert_before(old, new)
    ir.convenience.replace_all_uses_with(old.outputs[0], new.outputs[0])
    model.graph.remove(old)
    assert SidestepDefectsPass(authored=authored)(model).modified
    assert "If" not in operators(model)
    x = np.float32([0.125, 1.25, 15.125])
    np.testing.assert_array_equal(run(ir.to_proto(model), {"x": x}), x)


BEHIND = {
    "a product": ("y = MatMul(t, w)", "Transpose", True),
    "a product behind a cast": ("c = Cast <to = 1> (t) y = MatMul(c, w)", "Transpose", True),
    "a product behind what stays": ("c = Relu(t) y = MatMul(c, w)", "Transpose", False),
    "a product by a vector that no Transpose meets": (
        "m = ReduceMax <keepdims = 0> (w) v = Expand(m, k) k = Constant <value_ints = [3]> () "
        "q = MatMul(t, v) n = Constant <value_ints = [2]> () s = Unsqueeze(q, n) "
        "c = Concat <axis = 2> (s, s, s, s) y = Abs(c)",
        "Relu",
        False,
    ),
    "a product behind another new node": ("y = MatMul(t, w)", "Relu", False),
    "a Reshape": (
        "k = Constant <value_ints = [-1]> () s = Shape(t) h = Reshape(s, k) y = Reshape(t, h)",
        "Transpose",
        False,
    ),
}


@pytest.mark.parametrize("name", BEHIND)
def test_an_authors_node_by_way_of_others(name: str) -> None:
    nodes, op_type, is_changed = BEHIND[name]
    text = f"""g (float[N, 2, 3] x, float[3, 4] w) => (float[N, 2, 4] y) {{
        t = Identity(x) {nodes} }}"""
    model = ir.from_proto(parse(text))
    authored = Authored(model)
    old = model.graph.node(0)
    new = ir.node(op_type, [old.inputs[0]], {"perm": [0, 1, 2]} if op_type == "Transpose" else {})
    new.outputs[0].name, new.outputs[0].type = "new", old.outputs[0].type
    model.graph.insert_before(old, new)
    old.outputs[0].replace_all_uses_with(new.outputs[0])
    model.graph.remove(old, safe=True)
    assert SidestepDefectsPass(authored=authored)(model).modified == is_changed


@pytest.mark.parametrize("axes", [[0], [-1], [1, 2], [-3, 1], [-1, 0, -2]])
def test_a_pad_of_some_axes_of_unknown_rank(axes: list[int]) -> None:
    count = len(axes)
    amounts = np.arange(1, 2 * count + 1)
    text = f"""g (float[2, 3, 4] x, int64[K] h, int64[P] k) => (float[...] r) {{
        a = Constant <value_ints = {axes}> () z = Constant <value_float = 7.0> ()
        t = Transpose <perm = [1, 0, 2]> (x) s = Reshape(t, h) r = Pad(s, k, z, a) }}"""
    model = ir.from_proto(parse(text.replace("float[...]", "float")))
    model.graph.outputs[0].shape = None
    assert SidestepDefectsPass()(model).modified
    check(model)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = run(ir.to_proto(model), {"x": x, "h": np.array([3, 2, 4]), "k": amounts})
    widths = np.zeros((3, 2), np.int64)
    widths[axes] = amounts.reshape(2, count).T
    expected = np.pad(x.transpose(1, 0, 2), widths, constant_values=7)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("taken", [0, 1])
def test_a_branch_taken_for_good_that_reads_what_is_new(taken: int) -> None:
    text = f"""g (float[4] x, int64 n) => (int64[?] r, int64[1] s) {{
        v = Scan <num_scan_inputs = 1, body = l (float row) => (int64 k) {{ k = Identity(n) }}> (x)
        s = Shape(v) c = Constant <value = bool {{{taken}}}> () one = Constant <value_ints = [3]> ()
        r = If (c) <then_branch = t () => (int64[?] a) {{ lost = Abs(v) a = Expand(n, one) }},
          else_branch = e () => (int64[?] b) {{ gone = Neg(v) b = Expand(n, one) }}> }}"""
    after = rewrite(parse(text), strategy="fuse").model
    assert isinstance(after, onnx.ModelProto)
    feeds = {"x": np.ones(4, np.float32), "n": np.array(7)}
    np.testing.assert_array_equal(run(after, feeds), [7, 7, 7])


@pytest.mark.parametrize("shape", [(2, 3, 4, 2), (0, 3, 4, 2), (2, 3, 0, 2), (2, 0, 4, 0)])
def test_normalization_of_few_pixels(shape: tuple[int, ...]) -> None:
    text = """g (float[N, C, H, W] x, float[C] s, float[C] b) => (float[N, C, H, W] r) {
        a = Neg(x) r = InstanceNormalization <epsilon = 0.5> (a, s, b) }"""
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    s, b = np.float32([1, 2, 3])[: shape[1]], np.float32([0, 1, 2])[: shape[1]]
    found = run(ir.to_proto(model), {"x": x, "s": s, "b": b})
    feeds = {"x": x, "s": s, "b": b}
    expected = run(parse(text), feeds) if x.size else x
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_rows_of_text(axis: int, dtype: str) -> None:
    text = f"""g (string[A, B, C] x, {dtype}[N, M] i) => (string[] r) {{
        r = Gather <axis = {axis}> (x, i) }}"""
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    x = np.array([f"{n}" for n in range(12)], object).reshape(2, 2, 3)
    i = np.array([[1, 0, -1]], dtype)
    found = run(ir.to_proto(model), {"x": x, "i": i})
    np.testing.assert_array_equal(found, np.take(x, i, axis))


BRANCHES = """g (float[N, 2] x, bool p, bool q) => (float[A, 2] y, float[B, 2] z, bool r) {
    y, r, unread = If (p) <
        then_branch = t () => (float[C, 2] a, bool b, float[D, K] c) {
            a = Neg(x) b = Identity(q) c = ReduceSum(x) },
        else_branch = e () => (float[E, 2] d, bool f, float[F, L] h) {
            d = Concat <axis = 0> (x, x) f = Not(q) h = ReduceMax(x) }>
    z = If (r) <then_branch = v () => (float[G, 2] i) { i = Abs(y) },
        else_branch = w () => (float[H, 2] j) { j = Exp(y) }> }"""


def test_what_an_if_yields_is_expanded_where_a_node_reads_it() -> None:
    """The outputs of the model stay the If's own; branches of others read the expanded value."""
    model = ir.from_proto(parse(BRANCHES))
    sidestep = SidestepDefectsPass(["openvino"])
    assert sidestep(model).modified
    check(model)
    assert operators(model).count("Expand") == 2
    first, second = (node for node in model.graph if node.op_type == "If")
    assert list(model.graph.outputs) == [first.outputs[0], second.outputs[0], first.outputs[1]]
    inner = [node for graph in all_graphs(model) for node in graph if node.op_type in "AbsExp"]
    for node in (second, *inner):
        read = node.inputs[0]
        assert read is not None
        assert [n.op_type for n in (read.producer(),) if n is not None] == ["Expand"]
    assert not sidestep(model).modified
    x = np.float32([[1, -2], [3, 4]])
    for p in (True, False):
        feeds = {"x": x, "p": np.array(p), "q": np.array(True)}
        np.testing.assert_array_equal(
            run(ir.to_proto(model), feeds), run(parse(BRANCHES), feeds), strict=True
        )


def test_a_sequence_that_an_if_yields_is_left_alone() -> None:
    text = """g (seq(float[N]) x, bool p) => (int64 r) {
        y = If (p) <then_branch = t () => (seq(float[N]) a) { a = Identity(x) },
            else_branch = e () => (seq(float[N]) b) { b = SequenceEmpty() }>
        r = SequenceLength(y) }"""
    assert not SidestepDefectsPass(["openvino"])(ir.from_proto(parse(text))).modified


LOOPS = """g (float[N] x, int64 m, bool p) => (float[A, N] y) {{
    y = If (p) <then_branch = t () => (float[B, N] a) {{
            a = Loop (m, {given}) <body = l (int64 i, bool c) => (bool d, float[N] o) {{
                {condition} o = Neg(x) }}> }},
        else_branch = e () => (float[C, N] b) {{
            z = Constant <value_ints = [0]> () b = Unsqueeze(x, z) }}> }}"""
ENDS = "k = Constant <value = int64 {1}> () d = Less(i, k)"


@pytest.mark.parametrize(
    ("given", "condition", "is_met"),
    [
        ('""', "d = Identity(c)", True),
        ('""', "f = Identity(c) d = Identity(f)", True),
        ('""', ENDS, False),
        ("p", "d = Identity(c)", False),
    ],
)
def test_a_loop_in_a_branch_has_a_condition(given: str, condition: str, is_met: bool) -> None:
    """One that its body ends is left alone: with a condition it would end in every runtime."""
    text = LOOPS.format(given=given, condition=condition)
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified is is_met
    check(model)
    feeds = {"x": np.float32([1, 2]), "m": np.array(3), "p": np.array(True)}
    np.testing.assert_array_equal(run(ir.to_proto(model), feeds), run(parse(text), feeds))


def test_an_operator_of_another_domain_that_is_called_alike() -> None:
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 22, "odd": 1]>
    g (int64[2] a, int64[2] b) => (int64[2] y) { y = odd.Max (a, b) }""")
    assert not SidestepDefectsPass()(model).modified


def test_an_old_opset() -> None:
    text = "g (float[B, M, N] x, float[N] y) => (float[B, M] r) { r = MatMul(x, y) }"
    model = ir.from_proto(parse(text, opset=11))
    assert SidestepDefectsPass()(model).modified
    check(model)
    x, y = np.ones((2, 3, 4), np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(run(ir.to_proto(model), {"x": x, "y": y}), x @ y)


MOVED = """g (seq(int64[N]) s, int64[2] a, int64[2] b, bool p) => (seq(int64[M]) r, int64[K] y) {
    y = If (p) <then_branch = t () => (int64[2] c) { c = Max(a, b) },
        else_branch = e () => (int64[2] d) { d = Min(a, b) }>
    r = SequenceMap (s) <body = q (int64[N] x) => (int64[M] z) {
        u = Unique (x) z = Max(u, a) }> }"""


def test_only_what_was_written_or_moved() -> None:
    """Both branches stay, whoever else stands around them; the body stands in a Loop now."""
    after = rewrite(parse(MOVED), strategy="expand").model
    assert isinstance(after, onnx.ModelProto)
    found = operators(ir.from_proto(after))
    assert (found.count("Max"), found.count("Min"), found.count("Less")) == (1, 1, 1)


def test_a_graph_that_another_node_took_is_moved() -> None:
    model = ir.from_proto(parse(MOVED))
    authored = Authored(model)
    old = model.graph.node(0)
    graphs = {name: old.attributes[name].as_graph() for name in old.attributes}
    new = ir.Node("", "If", old.inputs, [ir.AttrGraph(k, g) for k, g in graphs.items()])
    model.graph.insert_before(old, new)
    assert {node.op_type for node in authored.others(model)} == {"If", "Max", "Min"}


@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "portable"])
def test_it_is_the_last_pass(target: str) -> None:
    text = """g (float[B, 2] x) => (float[B, 2] y) { s = SplitToSequence <keepdims = 0> (x)
        r = SequenceMap (s) <body = q (float[2] a) => (float[2] b) { b = Neg(a) }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (r) }"""
    names: list[str] = []
    rewrite(parse(text), target=target, on_pass=lambda name, model: names.append(name))
    near = ("NearWeightsPass", "NearConstantsPass")
    assert [n for n in names if n not in near][-1] == "SidestepDefectsPass"


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_integers_are_compared_without_what_an_old_opset_lacks(op_type: str) -> None:
    text = f"g (int64[N] x, int64[N] y) => (int64[N] r) {{ r = {op_type}(x, y) }}"
    model = ir.from_proto(parse(text, opset=11))
    SidestepDefectsPass()(model)
    assert op_type not in operators(model)
    found = run(ir.to_proto(model), {"x": np.array([1, 5]), "y": np.array([3, 2])})
    assert found.tolist() == {"Max": [3, 5], "Min": [1, 2]}[op_type]


def test_a_copy_of_a_node_rounds_as_it_did() -> None:
    text = """g (float[A, 3] x, float[B, 3] z, float[3] v) => (seq(float[?]) ys) {
        xs = SequenceConstruct(x, z)
        ys = SequenceMap(xs) <body = b (float[?, 3] e) => (float[?] y) { y = MatMul(e, v) }> }"""
    after = rewrite(parse(text), strategy="auto").model
    assert isinstance(after, onnx.ModelProto)
    products = [node for node in after.graph.node if node.op_type == "MatMul"]
    assert [node.input[1] for node in products] == ["v", "v"]


def test_no_strings_are_left_alone() -> None:
    """OpenVINO takes a constant of no numbers wrongly; strings that are none have no other form."""
    model = parse("""g (string[N] x) => (string[M] y) {
        k = Constant <value_strings = [""]> () y = Concat <axis = 0> (x, k) }""")
    loaded = ir.from_proto(model)
    none = ir.StringTensor([], shape=ir.Shape([0]))
    loaded.graph[0].attributes.clear()
    loaded.graph[0].attributes["value"] = ir.AttrTensor("value", none)
    assert not SidestepDefectsPass(["openvino"])(loaded).modified


RECURRENT = {
    "GRU": (3, ["a", "b"]),
    "LSTM": (4, ["a", "b", "c"]),
}


@pytest.mark.parametrize(
    ("op_type", "left_out"), [(op, at) for op, (_, outs) in RECURRENT.items() for at in outs]
)
@pytest.mark.parametrize("is_nan", [False, True])
def test_a_recurrence_whose_output_is_left_out(op_type: str, left_out: str, is_nan: bool) -> None:
    """Once ``Y``, the first, was left out, the form had a node without an output."""
    gates, outputs = RECURRENT[op_type]
    kept = [name for name in outputs if name != left_out]
    yielded = ", ".join(f"float[?,?,?{',?' * (name == 'a')}] {name}" for name in kept)
    model = parse(f"""g (float[T, B, 2] x, float[1, {3 * gates}, 2] w, float[1, {3 * gates}, 3] r)
        => ({yielded}) {{ {", ".join(outputs)} = {op_type} <hidden_size = 3> (x, w, r) }}""")
    recurrent = model.graph.node[0]
    recurrent.output[:] = ["" if name == left_out else name for name in outputs]
    random = np.random.default_rng(0)
    shapes = {"x": (4, 2, 2), "w": (1, 3 * gates, 2), "r": (1, 3 * gates, 3)}
    feeds = {name: random.random(shape, np.float32) - 0.5 for name, shape in shapes.items()}
    if is_nan:
        feeds["x"][2, 1, 0] = np.nan
    loaded = ir.from_proto(model)
    assert SidestepDefectsPass()(loaded).modified
    after = ir.to_proto(loaded)
    check(after)
    assert all(any(node.output) for node in after.graph.node)
    found = open_session(after, "onnxruntime").run(feeds)
    wanted = open_session(model, "reference").run(feeds)
    for name in kept:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("right", ["int64[K,P]", "int64[K]"])
def test_products_of_integers_are_not_fused(right: str) -> None:
    """Below opset 12 they have no Max, which stands between elsewhere."""
    text = f"""g (int64[N,K,M] x, {right} y) => (int64[] z) {{
        a = Transpose <perm = [0, 2, 1]> (x) z = MatMul (a, y) }}"""
    for dtype, is_fused in (("int64", False), ("float", True)):
        loaded = ir.from_proto(parse(text.replace("int64", dtype)))
        SidestepDefectsPass(["onnxruntime"])(loaded)
        assert ("Max" in operators(loaded)) is is_fused


DECIDED = """g (seq(float[N, M]) xs) => (seq(float[R]) ys) <bool go = {1}> {
    ys = SequenceMap (xs) <body = each (float[N, M] x) => (float[R] y)
            <int64 one = {1}, int64 zero = {0}> {
        shape = Shape (x) rank = Size (shape) flag = Equal (rank, one)
        v = If (flag) <then_branch = t () => (float[A, B] a) { a = ReduceSum (x) },
            else_branch = e () => (float[C, D] b) { b = ReduceMax (x) }>
        own = Shape (v) n = Gather (own, zero)
        first = Squeeze (v)
        y, rows = Loop (n, go, first) <body = step (int64 i, bool c, float s) =>
                (bool d, float t, float[K] r) {
            r = Gather (v, i) m = ReduceMax <keepdims = 0> (r) t = Sub (s, m) d = Identity (c) }>
    }> }"""


def test_a_condition_that_a_form_makes_a_constant() -> None:
    """Size of a shape is written as a Shape of it, which tells the branch: it is inlined then."""
    given = parse(DECIDED, 18)
    after = rewrite(given, strategy="expand", verify=False).model
    feeds = {"xs": [np.float32([[1, -2], [3, 4]])]}
    (found,) = open_session(after, "onnxruntime").run(feeds)["ys"]
    np.testing.assert_array_equal(found, np.float32(0))


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint16", "uint64"])
def test_where_of_types_without_a_kernel(dtype: str) -> None:
    text = f"""g (bool[N, 1] c, {dtype}[M] a, {dtype} b) => ({dtype}[N, M] r) {{
        r = Where (c, a, b) }}"""
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    assert not SidestepDefectsPass()(model).modified
    c = np.array([[True], [False]])
    info = None if dtype == "bool" else np.iinfo(dtype)
    a = np.array([True, False] if info is None else [info.min, info.max], dtype)
    b = np.array(1, dtype)
    found = run(ir.to_proto(model), {"c": c, "a": a, "b": b})
    np.testing.assert_array_equal(found, np.where(c, a, b), strict=True)


@pytest.mark.parametrize("shape", [(2, 3, 0), (0, 2, 3), (2, 3, 4)])
def test_a_scan_along_another_axis_of_what_has_no_known_rank(shape: tuple[int, ...]) -> None:
    text = """g (string[] x) => (string[A, B, C] r) {
        r = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
          body = s (string[K, L] e) => (string[K, L] o) { o = Identity (e) }> (x) }"""
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    x = np.full(shape, "a", object)
    np.testing.assert_array_equal(run(ir.to_proto(model), {"x": x}), x)


IN_A_BRANCH = {
    "a size that floats round": "y = Resize (e, , k)",
    "a window behind the end": "y = MaxPool <kernel_shape = [1, 2], strides = [1, 6], {}> (e)",
    "a window that begins at the end": """y = AveragePool <kernel_shape = [1, 2], strides = [1, 3],
        pads = [0, 0, 0, 1], {}> (e)""",
    "windows of one place": """y = LpPool <kernel_shape = [1, 1], strides = [1, 4],
        auto_pad = "NOTSET", {}> (e)""",
    "places of windows": "z, y = MaxPool <kernel_shape = [1, 1], strides = [1, 4], {}> (e)",
}
"""Nodes that read six places ``e``; inference and onnxruntime count differently what they make."""


@pytest.mark.parametrize("opset", [18, 22])
@pytest.mark.parametrize("name", IN_A_BRANCH)
def test_a_branch_yields_what_its_kernels_make(name: str, opset: int) -> None:
    made = IN_A_BRANCH[name].format("ceil_mode = 1")
    outside = f"""g (float[1, 1, 1, 6] e, bool c) => (float[A, B, C, D] r)
        <float[4] k = {{1.0, 1.0, 1.0, 0.8333333}}> {{ {made} r = Cast <to = 1> (y) }}"""
    inside = f"""g (float[1, 1, 1, 6] e, bool c) => (float[A, B, C, D] r)
        <float[4] k = {{1.0, 1.0, 1.0, 0.8333333}}> {{
            r = If (c) <then_branch = t () => (float[A, B, C, D] a) {{
                {made} a = Cast <to = 1> (y) }},
                else_branch = f () => (float[A, B, C, D] b) {{ b = Neg (e) }}> }}"""
    feeds = {"e": np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6), "c": np.array(True)}
    after = SidestepDefectsPass()(ir.from_proto(parse(inside, opset))).model
    found = run(ir.to_proto(after), feeds)
    np.testing.assert_array_equal(found, run(parse(outside, opset), feeds))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_copied_body_yields_what_its_kernels_make(count: int) -> None:
    model = parse(
        """g (float[N, 1, 1, 6] x) => (float[N, 1, 1, P] r)
        <int64 zero = {0}, bool yes = {1}, float[3] k = {1.0, 1.0, 0.8333333}> {
            s = Shape (x) n = Gather (s, zero)
            r = Loop (n, yes) <body = b (int64 i, bool c) => (bool d, float[1, 1, Q] y) {
                d = Identity (c) e = Gather (x, i) y = Resize (e, , k) }> }"""
    )
    feeds = {"x": np.random.default_rng(count).random((count, 1, 1, 6), np.float32)}
    expected = run(model, feeds)
    for strategy in ("auto", "fuse"):
        np.testing.assert_array_equal(
            run(rewrite(model, strategy=strategy).model, feeds), expected
        )


@pytest.mark.parametrize("kind", ["GRU", "GRU linear_before_reset = 1", "LSTM"])
def test_one_gate_of_one_unit_is_nan(kind: str) -> None:
    """It reaches in onnxruntime what it reaches by ONNX: rows are infinite, weights of two signs."""
    op_type, _, more = kind.partition(" ")
    gates, outputs = RECURRENT[op_type]
    yielded = ", ".join(f"float[?,?,?{',?' * (name == 'a')}] {name}" for name in outputs)
    attributes = ", ".join(["hidden_size = 3", *filter(None, [more])])
    model = parse(f"""g (float[T, B, 2] x, float[1, {3 * gates}, 2] w, float[1, {3 * gates}, 3] r)
        => ({yielded}) {{ {", ".join(outputs)} = {op_type} <{attributes}> (x, w, r) }}""")
    loaded = ir.from_proto(model)
    assert SidestepDefectsPass()(loaded).modified
    after, given = (
        open_session(m, n) for m, n in [(ir.to_proto(loaded), "onnxruntime"), (model, "reference")]
    )
    random = np.random.default_rng(0)
    x = random.random((3, 2, 2), np.float32)
    x[1, 0] = np.inf
    r = random.random((1, 3 * gates, 3), np.float32) - 0.5
    for row in range(3 * gates):
        w = random.random((1, 3 * gates, 2), np.float32) + 0.1
        w[0, row, 0] *= -1
        found, wanted = (one.run({"x": x, "w": w, "r": r}) for one in (after, given))
        for name in outputs:
            np.testing.assert_array_equal(
                np.isnan(found[name]), np.isnan(wanted[name]), f"{row} {name}"
            )
