"""The checker sees everything but weights, and does not mind what it has no schema for."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import rewriter
from rewriter.errors import ModelError
from rewriter.model_files.checking import check

HEAD = '<ir_version: 10, opset_import: ["" : 17, "com.x" : 1]>\n'
EXTERNAL = '["location": "absent.bin", "offset": "0", "length": "16"]'

GOOD = {
    "plain": "g (float[N] x) => (float[N] y) { y = Relu (x) }",
    "custom domain": "g (float[N] x) => (float[N] y) { y = com.x.Own (x) }",
    "unknown rank": "g (float[] x) => (float[] y, float[] x2) { y = Relu (x)  x2 = Neg (x) }",
    "sequence": "g (seq(float[]) x) => (seq(float[]) y) { y = Identity (x) }",
    "external weights": f"g (float[4] x) => (float[4] y) <float[4] w = {EXTERNAL}> "
    "{ y = Add (x, w) }",
    "external weights as input": f"g (float[4] x, float[4] w) => (float[4] y) "
    f"<float[4] w = {EXTERNAL}> {{ y = Add (x, w) }}",
    "external shape": f"g (float[6] x) => (float[2,3] y) <int64[2] w = {EXTERNAL}> "
    "{ y = Reshape (x, w) }",
    "external weights in a body": f"""g (seq(float[4]) x) => (seq(float[4]) y)
        {{ y = SequenceMap (x) <body = b (float[4] e) => (float[4] z)
           <float[4] w = {EXTERNAL}> {{ z = Add (e, w) }}> }}""",
    "external constant": f"g (float[4] x) => (float[4] y) "
    f"{{ w = Constant <value = float[4] k {EXTERNAL}> ()  y = Add (x, w) }}",
    "external constant in a function": f"""g (float[4] x) => (float[4] y) {{ y = com.x.f (x) }}
        <domain: "com.x", opset_import: ["" : 17]> f (a) => (b)
        {{ w = Constant <value = float[4] k {EXTERNAL}> ()  b = Add (a, w) }}""",
}

BAD = {
    "unsorted": (
        "g (float[N] x) => (float[N] y) { y = Relu (z)  z = Neg (x) }",
        "Nodes in a graph must be topologically sorted",
    ),
    "body inputs": (
        """g (seq(float[N]) x, float[N] w) => (seq(float[N]) y)
        { y = SequenceMap (x, w) <body = b (float[N] a) => (float[N] z) { z = Relu (a) }> }""",
        "Graph has 1 inputs but 2 were provided",
    ),
    "no sequence": (
        """g (float[N] x) => (seq(float[N]) y)
        { y = SequenceMap (x) <body = b (float[N] a) => (float[N] z) { z = Relu (a) }> }""",
        "Input 0 expected to be a sequence type",
    ),
    "wrong type beside external weights": (
        f"g (float[4] x) => (float[4] y) <int64[4] w = {EXTERNAL}> {{ y = Add (x, w) }}",
        "inconsistent type",
    ),
    "a step without a number": (
        """g (float[1,8,1] x) => (float[A,B,C,D] y)
        { k = Constant <value = int64[0] {}> ()  y = STFT (x, k, , k) }""",
        "range_check",
    ),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_good_models_pass_and_stay_as_they_are(text, tmp_path):
    proto = onnx.parser.parse_model(HEAD + text)
    before = proto.SerializeToString()
    onnx.save(proto, tmp_path / "m.onnx")
    check(proto)
    check(ir.from_proto(proto))
    check(tmp_path / "m.onnx")
    assert proto.SerializeToString() == before


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_bad_models_are_refused_in_one_line(text, message):
    with pytest.raises(ModelError, match=message) as caught:
        check(onnx.parser.parse_model(HEAD + text))
    assert str(caught.value).startswith("onnx.checker refuses the model: ")
    assert "\n" not in str(caught.value)


def test_onnx_itself_still_refuses_what_is_stood_in_for():
    for name in ("unknown rank", "external weights", "external constant"):
        with pytest.raises(onnx.checker.ValidationError):
            onnx.checker.check_model(onnx.parser.parse_model(HEAD + GOOD[name]))


def test_what_was_wrong_before_names_the_model_as_given() -> None:
    given = onnx.parser.parse_model(
        HEAD
        + """g (float[2] h, float[3,2] x) => (float[3,2] y, float[3,2] z) {
            y, z = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] e)
                => (float[2] t, float[2] o) { t = Add (s, e)  o = Identity (t) }> (h, x) }"""
    )
    (warning,) = rewriter.rewrite(given).report.warnings
    assert "was not valid before" in warning
    assert "(op_type:Scan)" in warning


def test_an_error_of_inference_that_names_no_node_ends_no_rewrite() -> None:
    given = onnx.parser.parse_model(
        HEAD
        + """g (seq(float[N]) s, float[1,8,1] x) => (seq(float[M]) y, float[A,B,C,D] z) {
            k = Constant <value = int64[0] {}> ()  z = STFT (x, k, , k)
            y = SequenceMap (s) <body = b (float[N] e) => (float[M] o) { o = Neg (e) }> }"""
    )
    (warning,) = rewriter.rewrite(given).report.warnings
    assert "was not valid before" in warning
