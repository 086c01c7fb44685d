"""Where samples are padded to the longest whatever that takes, the report says how much it is."""

from __future__ import annotations

import json

import onnx
import pytest

from rewriter.pipeline import explain
from rewriter.reporting.render import to_markdown, to_text

PRODUCTS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[T,12] x, int64[B] lengths) => (float[T2,12] y) {
  t = Constant <value = bool {1}> ()
  zero = Constant <value = int64 {0}> ()
  zero1 = Constant <value = int64[1] {0}> ()
  none = Constant <value = float[0,12] {}> ()
  shape = Shape (lengths)
  n = Gather (shape, zero)
  last, y = Loop (n, t, zero, none) <body = b (int64 i, bool on, int64 from, float[Y,12] s)
      => (bool go, int64 to, float[Z,12] s2) {
    size = Gather (lengths, i)
    to = Add (from, size)
    a = Unsqueeze (from, zero1)
    o = Unsqueeze (to, zero1)
    e = Slice (x, a, o, zero1)
    k = Transpose <perm = [1, 0]> (e)
    p = MatMul (e, k)
    w = Softmax (p)
    r = MatMul (w, e)
    s2 = Concat <axis = 0> (s, r)
    go = Identity (on)
  }>
}"""
BOUND = "(number of samples x the longest) / (all lengths together)"


@pytest.mark.parametrize(("target", "is_told"), [("portable", True), ("onnxruntime", False)])
def test_the_bound_stands_in_every_format(target: str, is_told: bool) -> None:
    report = explain(onnx.parser.parse_model(PRODUCTS), target=target)
    record = report.to_dict()
    texts = {
        "json": json.dumps(record),
        "text": to_text(record, verbose=True),
        "markdown": to_markdown(record),
        "html": report.to_html(),
    }
    assert {form: BOUND in text for form, text in texts.items()} == dict.fromkeys(texts, is_told)
    assert ("48 bytes" in texts["json"]) == is_told
