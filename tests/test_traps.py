"""What the foundations get wrong and seqmap steps around; a failure here means one was mended."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator as OnnxEvaluator
from onnx_ir.passes.common import ShapeInferencePass

from tests.versions import is_at_least

MENDED = is_at_least("onnxruntime", "1.32")
"""Whether the installed onnxruntime is one that mended what 1.31 got wrong."""

A, B = np.float32([1, 2]), np.float32([3])
HEADER = '<ir_version: 10, opset_import: ["": 22, "local": 1]>'


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEADER}\n{text}")


def onnx_reference(text: str, **feeds: Any) -> list[Any]:
    return OnnxEvaluator(parse(text)).run(None, feeds)


def session(text: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        parse(text).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def ort(text: str, **feeds: Any) -> list[Any]:
    return session(text).run(None, feeds)


ADD = """g (seq(float[N]) s, {inputs}) => (seq(float[N]) r) {{
    r = SequenceMap <body = b (float[N] x{names}) => (float[N] y) {{ {body} }}> (s{values}) }}"""
INSERT = """g (seq(float[N]) s, float[N] t, int64 i) => (seq(float[N]) r)
    { r = SequenceInsert(s, t, i) }"""


class TestOnnxReferenceSequences:
    def test_map_cannot_capture(self):
        text = ADD.format(inputs="float[1] k", names="", values="", body="y = Add(x, k)")
        with pytest.raises(RuntimeError, match="Unable to find input 'k'"):
            onnx_reference(text, s=[A], k=B)

    def test_map_of_two_more_sequences(self):
        text = ADD.format(
            inputs="seq(float[N]) p, seq(float[N]) q",
            names=", float[N] u, float[N] v",
            values=", p, q",
            body="w = Add(x, u) y = Add(w, v)",
        )
        with pytest.raises(Exception, match="'list'"):
            onnx_reference(text, s=[A], p=[A], q=[A])

    def test_map_of_a_sequence_and_a_tensor(self):
        text = ADD.format(
            inputs="seq(float[N]) p, float[1] q",
            names=", float[N] u, float[N] v",
            values=", p, q",
            body="w = Add(x, u) y = Add(w, v)",
        )
        with pytest.raises(Exception, match="'list'"):
            onnx_reference(text, s=[A], p=[A], q=B)

    def test_map_of_nothing(self):
        text = ADD.format(inputs="float[1] k", names="", values="", body="y = Neg(x)")
        with pytest.raises(TypeError):
            onnx_reference(text, s=[], k=B)

    def test_map_cuts_to_the_shorter(self):
        text = ADD.format(
            inputs="seq(float[N]) p", names=", float[N] u", values=", p", body="y = Add(x, u)"
        )
        (r,) = onnx_reference(text, s=[A, B], p=[A])
        assert len(r) == 1

    def test_insert_at_the_back_lands_in_front(self):
        (r,) = onnx_reference(INSERT, s=[A, A], t=B, i=np.int64([2])[0])
        assert [len(x) for x in r] == [1, 2, 2]

    def test_insert_outside_wraps(self):
        (r,) = onnx_reference(INSERT, s=[A, A], t=B, i=np.int64([5])[0])
        assert [len(x) for x in r] == [2, 1, 2]

    def test_insert_into_nothing_divides_by_zero(self):
        with pytest.raises(ZeroDivisionError):
            onnx_reference(INSERT, s=[], t=B, i=np.array(0))

    def test_optional_is_a_list(self):
        text = "g (float[N] x) => (float[N] y) { o = Optional(x) y = OptionalGetElement(o) }"
        (y,) = onnx_reference(text, x=A)
        assert isinstance(y, list)


LOOP = """g (int64 m, bool t, float[] x) => (float[] y) {{
    y = Loop ({m}) <body = l (int64 i, bool c) => (bool d, float[] o)
        {{ d = Identity(c) o = Neg(x) }}> }}"""
SCAN = """g (float[T, S] x) => (float[] y) {{
    y = Scan <num_scan_inputs = 1 {attributes}, body = l (float[S] a) => (float[S] b)
        {{ b = Neg(a) }}> (x) }}"""


class TestOnnxReferenceLoops:
    def test_scan_outputs_are_not_stacked(self):
        feeds = {"m": np.array(2), "t": np.array(True)}
        (y,) = onnx_reference(LOOP.format(m="m, t"), **feeds, x=np.float32([[1, 2]]))
        assert y.shape == (2, 2)  # not (2, 1, 2)
        (y,) = onnx_reference(LOOP.format(m="m, t"), **feeds, x=np.array(1, np.float32))
        assert y.shape == (2, 1)  # not (2,)

    def test_an_omitted_condition_is_false(self):
        with pytest.raises(ValueError, match="at least one array"):
            onnx_reference(LOOP.format(m='m, ""'), m=np.array(2), t=np.array(True), x=A)

    def test_no_steps(self):
        with pytest.raises(ValueError, match="at least one array"):
            onnx_reference(LOOP.format(m="m, t"), m=np.array(0), t=np.array(True), x=A)

    @pytest.mark.parametrize(
        "attributes",
        [
            ", scan_input_axes = [1]",
            ", scan_output_axes = [1]",
            ", scan_input_directions = [1]",
            ", scan_output_directions = [1]",
        ],
    )
    def test_scan_knows_no_axes_and_directions(self, attributes):
        with pytest.raises(RuntimeError, match="Scan is not implemented for other"):
            onnx_reference(SCAN.format(attributes=attributes), x=np.ones((2, 2), np.float32))

    def test_scan_of_no_steps(self):
        with pytest.raises(RuntimeError, match="zero scan-input length"):
            onnx_reference(SCAN.format(attributes=""), x=np.ones((0, 2), np.float32))


FUNCTION = """g (float[2] x) => (float[2] y) {{ y = {call}(x) }}
<domain: "local", opset_import: ["": 22, "local": 1]> {functions}"""


class TestOnnxReferenceRest:
    def test_a_result_left_out_becomes_an_input_left_out(self):
        text = """g (float[T, 1, 1] x, float[1, 4, 1] w, float[1, 4, 1] r, float[1] top)
            => (float[] y) { "", h = LSTM <hidden_size = 1>(x, w, r) y = Clip(x, "", top) }"""
        x = np.float32([[[-9]], [[9]]])
        w = np.ones((1, 4, 1), np.float32)
        (y,) = onnx_reference(text, x=x, w=w, r=w, top=np.float32([2]))
        assert y.min() > -9  # the LSTM's first output became the lower bound

    @pytest.mark.parametrize(
        ("call", "functions"),
        [
            (
                "local.f",
                "f (x) => (y) { y = local.h(x) }"
                '<domain: "local", opset_import: ["": 22]> h (x) => (y) { y = Neg(x) }',
            ),
            ("local.f", "f <k: int = 1>(x) => (y) { y = Cast<to = @k>(x) }"),
            ("local.f", "f <a>(x) => (y) { y = Elu<alpha = @a>(x) }"),
            ("local.f", "f (x, z) => (y) { y = Clip(x, z) }"),
            ("local.f", "f (x) => (y) { y = Gelu(x) }"),
        ],
        ids=["order", "default", "attribute-left-out", "input-left-out", "depends-on-types"],
    )
    def test_functions(self, call, functions):
        text = FUNCTION.format(call=call, functions=functions)
        ort(text, x=A)
        with pytest.raises(Exception):  # noqa: B017 - of a kind for each
            onnx_reference(text, x=A)

    def test_overloads_are_one_function(self):
        functions = """f (x) => (y) { y = Neg(x) }
            <domain: "local", opset_import: ["": 22], overload: "b"> f (x) => (y) { y = Abs(x) }"""
        (y,) = onnx_reference(FUNCTION.format(call="local.f", functions=functions), x=A)
        assert y.tolist() == [1, 2]

    def test_strings_of_a_constant_do_not_compare(self):
        text = (
            'g (string[N] x) => (bool[N] y) { s = Constant<value_string = "a">() y = Equal(x, s) }'
        )
        with pytest.raises(RuntimeError, match="Input type mismatch"):
            onnx_reference(text, x=np.array(["a"], object))


class TestOnnxruntimeMaps:
    """onnxruntime loads no map whose body holds a function of several nodes, or such a map."""

    def refused(self, text: str) -> None:
        onnx.checker.check_model(parse(text), full_check=True)
        with pytest.raises(Exception, match="must be topologically sorted"):
            session(text)

    def test_center_crop_pad(self):
        self.refused("""g (seq(float[H, W]) s, int64[2] k) => (seq(float[P, Q]) r) {
            r = SequenceMap <body = b (float[H, W] x, int64[2] n) => (float[P, Q] y)
                { y = CenterCropPad(x, n) }> (s, k) }""")

    def test_hard_swish(self):
        self.refused("""g (seq(float[N]) s) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[N] y) { y = HardSwish(x) }> (s) }""")

    def test_model_local_function(self):
        self.refused("""g (seq(float[N]) s) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[N] y) { y = local.f(x) }> (s) }
            <domain: "local", opset_import: ["": 22]> f (x) => (y) { z = Neg(x) y = Abs(z) }""")

    def test_map_in_a_map(self):
        self.refused("""g (seq(float[N]) s, seq(float[N]) q) => (seq(float[M]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[M] y) {
                w = SequenceMap <body = n (float[N] z) => (float[N] v) { v = Add(x, z) }> (q)
                y = ConcatFromSequence<axis = 0>(w) }> (s) }""")


SPLIT = """g ({type}[N, M] x) => (seq({type}[1, M]) s) {{ s = SplitToSequence(x) }}"""
SHAPES = """g (seq(float[2, 3]) s, int64 i) => (int64[R] n) {{
    {hide} x = SequenceAt({s}, i) n = Shape(x) }}"""
OTHER_RANK = "c = Constant<value = float[1, 1, 1, 1, 1, 1, 1, 1] {0}>()"
HIDE = f"{OTHER_RANK} l = SequenceInsert(s, c) h = SequenceErase(l)"


class TestOnnxruntimeSequences:
    def test_declared_element_types_leak(self):
        (n,) = ort(
            SHAPES.format(hide="", s="s"),
            s=[np.zeros((2, 3), np.float32), np.zeros((5, 7), np.float32)],
            i=np.array(1),
        )
        assert n.tolist() == [2, 3]  # of a tensor of (5, 7)

    @pytest.mark.parametrize("shape", [(5, 7), (4, 5, 6), (4,)])
    def test_an_element_of_another_rank_hides_them(self, shape):
        (n,) = ort(
            SHAPES.format(hide=HIDE, s="h"),
            s=[np.zeros((2, 3), np.float32), np.zeros(shape, np.float32)],
            i=np.array(1),
        )
        assert tuple(n) == shape

    def test_an_identity_does_not(self):
        (n,) = ort(
            SHAPES.format(hide="h = Identity(s)", s="h"),
            s=[np.zeros((5, 7), np.float32)],
            i=np.array(0),
        )
        assert n.tolist() == [2, 3]

    def test_elements_of_another_rank_than_declared_run(self):
        (r,) = ort(
            """g (seq(float[2, 3]) s) => (seq(float[2, 3]) r) {
                r = SequenceMap <body = b (float[2, 3] x) => (float[2, 3] y) { y = Neg(x) }> (s)
            }""",
            s=[np.zeros((4, 5, 6), np.float32)],
        )
        assert r[0].shape == (4, 5, 6)

    @pytest.mark.parametrize(
        "type_", ["uint8", "int8", "int16", "uint16", "uint32", "uint64", "bfloat16"]
    )
    def test_split_lacks_types(self, type_):
        with pytest.raises(Exception, match="SplitToSequence"):
            session(SPLIT.format(type=type_))

    @pytest.mark.parametrize("type_", ["float", "double", "int32", "int64", "bool", "string"])
    def test_split_has_types(self, type_):
        session(SPLIT.format(type=type_))

    def test_split_heeds_keepdims_beside_a_scalar(self):
        text = """g (float[N] x, int64 n) => (seq(float[]) s)
            { s = SplitToSequence<keepdims = 0>(x, n) }"""
        (s,) = ort(text, x=A, n=np.array(1))
        assert [x.shape for x in s] == [(), ()]  # the specification ignores keepdims here
        with pytest.raises(Exception, match="SplitToSequence"):
            ort(text, x=A, n=np.array(2))

    def test_stacking_what_does_not_stack(self):
        (y,) = ort(
            """g (seq(float[N, M]) s) => (float[P, Q, R] y)
                { y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }""",
            s=[np.zeros((0, 3), np.float32), np.ones((2, 3), np.float32)],
        )
        assert y.shape == (2, 2, 3)

    def test_joining_nothing(self):
        with pytest.raises(Exception, match="Must have 1 or more inputs"):
            ort(
                "g (seq(float[N]) s) => (float[M] y) { y = ConcatFromSequence<axis = 0>(s) }", s=[]
            )

    def test_complex_sequences(self):
        with pytest.raises(Exception, match="not currently registered or supported"):
            ort(
                """g (complex64[N] x) => (int64 n) {
                    s = SequenceConstruct(x, x) n = SequenceLength(s) }""",
                x=np.complex64([1j]),
            )


class TestOnnxruntimeLoops:
    def test_scan_output_of_unknown_rank_and_no_steps(self):
        text = """g (int64 m, seq(float[]) s) => (float[] y) {
            y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, float[] o)
                { d = Identity(c) o = SequenceAt(s, i) }> }"""
        s = [np.zeros((2, 3), np.float32)]
        assert ort(text, m=np.array(1), s=s)[0].shape == (1, 2, 3)
        assert ort(text, m=np.array(0), s=s)[0].shape == (0,)

    def test_strings_are_moved_out_of_captured_values(self):
        text = """g (int64 m, string[2] w) => (string[N,2] y) {
            y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, string[2] o)
                { d = Identity(c) o = IDENTITY }> }"""
        feeds = {"m": np.array(2), "w": np.array(["a", "b"], object)}
        (y,) = ort(text.replace("IDENTITY", "Identity(w)"), **feeds)
        assert y.tolist() == [["a", "b"], ["", ""]]
        (y,) = ort(text.replace("IDENTITY", "Where(c, w, w)"), **feeds)
        assert y.tolist() == [["a", "b"], ["a", "b"]]

    def test_an_omitted_condition_heeds_the_body(self):
        (y,) = ort(
            """g (int64 m) => (int64[N] y) {
                y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, int64 o)
                    { d = Constant<value = bool {0}>() o = Identity(i) }> }""",
            m=np.array(3),
        )
        assert y.tolist() == [0]  # the specification ignores the body's condition here

    def test_scan_of_no_steps(self):
        with pytest.raises(Exception, match="Scan"):
            ort(SCAN.format(attributes=""), x=np.zeros((0, 2), np.float32))

    @pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean"])
    def test_reduction_of_nothing_along_a_negative_axis(self, operator):
        text = """g (float[B, N, M] x) => (float[B, K, M] y) {{
            k = Constant<value_ints = [{axis}]>() y = {operator}<keepdims = 1>(x, k) }}"""
        x = np.zeros((0, 5, 3), np.float32)
        assert ort(text.format(operator=operator, axis=1), x=x)[0].shape == (0, 1, 3)
        wrong = ort(text.format(operator=operator, axis=-2), x=x)[0].shape
        assert wrong == ((0, 1, 3) if MENDED else (0, 5, 3))


class TestOnnxruntimeOperators:
    @pytest.mark.parametrize("keepdims", [0, 1])
    def test_reduction_of_nothing_along_the_last_and_the_first_axis(self, keepdims):
        (y,) = ort(
            f"""g (float[B, N] x) => (float[] y) {{
                k = Constant<value_ints = [-1, 0]>()
                y = ReduceSum<keepdims = {keepdims}>(x, k) }}""",
            x=np.zeros((0, 7), np.float32),
        )
        wrong, right = ((1, 7), (1, 1)) if keepdims else ((7,), ())
        assert y.shape == (right if MENDED else wrong)

    def test_pad_of_some_axes_between_transposes(self):
        text = """g (float[A, B, C] x) => (float[D, E, F] y) {
            p = Constant<value_ints = [1, 0]>() k = Constant<value_ints = [2]>()
            z = Constant<value_float = 0.0>() t = Transpose<perm = [0, 2, 1]>(x)
            u = Pad(t, p, z, k) y = Transpose<perm = [0, 2, 1]>(u) }"""
        with pytest.raises(Exception, match="out of data bounds"):
            ort(text, x=np.zeros((2, 3, 4), np.float32))

    def test_rows_of_strings(self):
        (y,) = ort(
            "g (string[A, B] x, int64[N] i) => (string[N, B] y) { y = Gather<axis = 0>(x, i) }",
            x=np.array([["a", "b"], ["c", "d"]], object),
            i=np.array([1, 0]),
        )
        assert y.tolist() == [["c", ""], ["a", ""]]

    def test_product_of_a_transpose_and_a_shared_matrix_without_samples(self):
        text = """g (float[B, 3, 2] x, float[3, 4] w) => (float[B, 2, 4] y) {
            t = Transpose<perm = [0, 2, 1]>(x) p = MatMul(t, w) y = Neg(p) }"""
        w = np.ones((3, 4), np.float32)
        assert ort(text, x=np.ones((1, 3, 2), np.float32), w=w)[0].shape == (1, 2, 4)
        x = np.ones((0, 3, 2), np.float32)
        if MENDED:
            assert ort(text, x=x, w=w)[0].shape == (0, 2, 4)
            return
        with pytest.raises(Exception, match="cannot broadcast"):
            ort(text, x=x, w=w)

    def test_expand_to_a_constant_0(self):
        (y,) = ort(
            """g (float[A] x) => (float[C, D] y) {
                k = Constant<value_ints = [1]>() s = Constant<value_ints = [0]>()
                u = Unsqueeze(x, k) e = Expand(u, s) y = Neg(e) }""",
            x=np.zeros(5, np.float32),
        )
        assert y.shape == (5, 1)  # (5, 0) is right

    def test_clip_of_a_relu_of_doubles(self):
        text = """g (double[N] x) => (double[N] y) {
            r = Relu(x) lo = Constant<value = double {0.5}>() hi = Constant<value = double {2}>()
            y = Clip(r, lo, hi) }"""
        with pytest.raises(Exception, match="FuseReluClip"):
            session(text)

    def test_resize_to_sizes_of_unknown_number(self):
        text = """g (float[A, B, C, D] x, int64[N] s) => (float[A, B, E, F] y)
            { y = Resize<mode = "linear">(x, , , s) }"""
        with pytest.raises(Exception, match="must be same as rank"):
            ort(text, x=np.zeros((1, 1, 2, 2), np.float32), s=np.array([1, 1, 4, 4]))


def test_onnx_ir_types_sequences_as_tensors():
    model = ir.from_proto(
        parse("""g (float[4] x, int64 i) => (float[1] y)
            { s = SplitToSequence(x) y = SequenceAt(s, i) }""")
    )
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    ShapeInferencePass()(model)
    assert isinstance(model.graph.node(0).outputs[0].type, ir.TensorType)
    with pytest.raises(onnx.shape_inference.InferenceError, match="unsupported type"):
        onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_onnxruntime_takes_away_the_axis_of_a_split_by_a_scalar():
    """ONNX ignores keepdims where sizes are given; so does onnxruntime, where they are a vector."""
    text = """g (float[N, 2] x) => (seq(float) s) {{
        n = Constant <value = {sizes}> () s = SplitToSequence <keepdims = 0> (x, n) }}"""
    x = np.ones((2, 2), np.float32)
    by = {"scalar": "int64 {1}", "vector": "int64[2] {1, 1}"}
    found = {k: ort(text.format(sizes=v), x=x)[0][0].shape for k, v in by.items()}
    assert found == {"scalar": (2,), "vector": (1, 2)}
    assert onnx_reference(text.format(sizes=by["scalar"]), x=x)[0][0].shape == (1, 2)


def test_onnxruntime_makes_a_slice_of_a_gather_by_a_range():
    """A row that is not there is then no error."""
    text = """g (float[N] x, int64 n) => (float[M] y) {
        i = Range (zero, n, one) y = Gather (x, i) }""".replace(
        "{", "<int64 zero = {0}, int64 one = {1}> {", 1
    )
    x = np.float32([1, 2])
    assert ort(text, x=x, n=np.array(5))[0].tolist() == [1, 2]
    apart = (
        text.replace("Range (zero, n, one)", "Range (one, n, one)")
        .replace("y =", "j = Sub (i, one) y =")
        .replace("(x, i)", "(x, j)")
    )
    with pytest.raises(Exception, match="indices element out of data bounds"):
        ort(apart, x=x, n=np.array(6))
