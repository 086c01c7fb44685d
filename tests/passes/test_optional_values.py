"""Optional values: carried by a Loop, chosen in a map, handed in or absent."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter import TargetError, rewrite
from rewriter.backends import open_session
from rewriter.proof.compare import compare

ROWS = [np.full(2, n, np.float32) for n in (1, -2, 3)]
CARRIED = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float) xs, float b) => (float[?] y, bool has) {
  n = SequenceLength (xs) none = Optional <type = float[]> ()
  last, y = Loop (n, , none) <body = body (int64 i, bool c, optional(float) s)
    => (bool d, optional(float) t, float o) {
    d = Identity (c) e = SequenceAt (xs, i) two = Constant <value = int64 {2}> ()
    zero = Constant <value = int64 {0}> () k = Mod (i, two) f = Equal (k, zero)
    t = If (f) <then_branch = a () => (optional(float) p) { q = Floor (e) p = Optional (q) },
      else_branch = z () => (optional(float) r) { r = Identity (s) }>
    h = OptionalHasElement (s)
    o = If (h) <then_branch = g1 () => (float[] u) { u = OptionalGetElement (s) },
      else_branch = g2 () => (float[] v) { v = Identity (b) }> }>
  has = OptionalHasElement (last)
}"""
CHOSEN = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[2]) xs, float[2] b, optional(float[2]) w) => (seq(float[2]) ys) {
  ys = SequenceMap (xs) <body = body (float[2] x) => (float[?] y) {
    has = OptionalHasElement (w)
    one = If (has) <then_branch = t () => (optional(float[2]) p) { p = Optional (b) },
      else_branch = e () => (optional(float[2]) q) { q = Identity (w) }>
    h = OptionalHasElement (one)
    y = If (h) <then_branch = g () => (float[?] u) { u = OptionalGetElement (one) },
      else_branch = s () => (float[?] v) { v = Identity (x) }> }>
}"""


@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_carried_optional_value_stays_carried(count: int, strategy: str) -> None:
    feeds = {"xs": [row[0] for row in ROWS[:count]], "b": np.float32(0.5)}
    _same(CARRIED, feeds, strategy=strategy)


@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "tensorrt"])
@pytest.mark.parametrize("w", [None, ROWS[0]], ids=["absent", "given"])
def test_an_optional_value_has_no_shape_to_read(w: np.ndarray | None, target: str) -> None:
    _same(CHOSEN, {"xs": ROWS, "b": np.zeros(2, np.float32), "w": w}, target=target)


def _same(text: str, feeds: dict[str, object], **options: object) -> None:
    before = onnx.parser.parse_model(text)
    onnx.checker.check_model(before, full_check=True)
    try:
        after = rewrite(before, **options).model  # type: ignore[arg-type]
    except TargetError:
        return
    difference = compare(open_session(before).run(feeds), open_session(after).run(feeds))
    assert difference.equal, difference.message
