"""Loops that write images of any size to rows of one tensor: DETR's ``b[i, :, :h, :w] = x``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from rewriter import backends
from rewriter.errors import BackendError
from tests.passes.batching.images import loops_and_sequences

Array = np.ndarray[Any, Any]

PLACES = """
    s = Shape (x)  h1 = Gather (s, a1)  w1 = Gather (s, a2)  h = Squeeze (h1, a0)
    w = Squeeze (w1, a0)  one_more = Concat <axis = 0> (s, a1)
    cs = Range (zero, three, one)  ys = Range (zero, h, one)  xs2 = Range (zero, w, one)
    c4 = Reshape (cs, to_c)  y4 = Reshape (ys, to_y)  x4 = Reshape (xs2, to_x)
    top = Add (y4, {top})  left = Add (x4, {left})
    i4 = Reshape (i, to_x)  ei = Expand (i4, one_more)  ec = Expand (c4, one_more)
    ey = Expand (top, one_more)  ex = Expand (left, one_more)
    p = Concat <axis = -1> (ei, ec, ey, ex)"""


def model(write: str, top: str = "zero", left: str = "zero") -> onnx.ModelProto:
    """Return a loop over a list of images, with a write to a row of the tensor that it carries."""
    places = PLACES.format(top=top, left=left)
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
    g (seq(float[3, H, W]) images, int64 height, int64 width) => (float[N, 3, P, Q] batch)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 three = {{3}}, int64[1] a0 = {{0}},
     int64[1] a1 = {{1}}, int64[1] a2 = {{2}}, int64[4] to_c = {{-1, 1, 1, 1}},
     int64[4] to_y = {{1, -1, 1, 1}}, int64[4] to_x = {{1, 1, -1, 1}}, bool yes = {{1}}> {{
      n = SequenceLength (images)  n1 = Unsqueeze (n, a0)  t1 = Unsqueeze (three, a0)
      p1 = Unsqueeze (height, a0)  q1 = Unsqueeze (width, a0)
      dims = Concat <axis = 0> (n1, t1, p1, q1)  canvas = ConstantOfShape (dims)
      batch = Loop (n, yes, canvas) <body = one_image (int64 i, bool go, float[N, 3, P, Q] before)
                                            => (bool on, float[N, 3, P, Q] behind) {{
        on = Identity (go)  x = SequenceAt (images, i)  row = Gather (before, i)
        {places}
        {write} }}>
    }}""")


CASES = {
    "in the corner": model("behind = ScatterND (before, p, x)"),
    "below and to the right": model("behind = ScatterND (before, p, x)", top="one", left="three"),
    "twice": model(
        "once = ScatterND (before, p, x)  m = Neg (x)  behind = ScatterND (once, p, m)"
    ),
    "added": model('behind = ScatterND <reduction = "add"> (before, p, x)'),
}


def images(count: int, most: int, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, (count, 2))
    return [rng.random((3, h, w)).astype(np.float32) for h, w in sizes]


@pytest.mark.parametrize("name", CASES)
def test_images_are_written_to_rows_of_their_own(name: str) -> None:
    after = rewriter.optimize(CASES[name], target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    given = backends.open_session(CASES[name], "onnxruntime")
    made = backends.open_session(after, "onnxruntime")
    for seed, count in enumerate((0, 1, 2, 7)):
        feeds = {"images": images(count, 9, seed), "height": np.array(11), "width": np.array(13)}
        wanted, found = given.run(feeds)["batch"], made.run(feeds)["batch"]
        np.testing.assert_array_equal(found, wanted)


def test_an_image_that_does_not_fit_into_its_row_is_an_error() -> None:
    after = rewriter.optimize(CASES["in the corner"], target="portable", tensor_io=True)
    session = backends.open_session(after, "onnxruntime")
    wide = np.zeros((3, 2, 14), np.float32)
    feeds = {"images": [wide, *images(2, 9)], "height": np.array(11), "width": np.array(13)}
    with pytest.raises(BackendError):
        session.run(feeds)
