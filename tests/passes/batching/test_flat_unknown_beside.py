"""Crops of one image whose channels have a size that nothing tells, the same for all crops."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter

RESIZED = """grown = Unsqueeze (crop, o)  dims = Shape (grown)  head = Slice (dims, o, two)
    sizes = Concat <axis = 0> (head, wanted)
    large = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (grown, , , sizes)
    y = Squeeze (large, o)"""
FILLED = """channels = Shape <start = 0, end = 1> (crop)
    none = ConstantOfShape <value = float[1] {0.5}> (channels)
    means = ReduceMean <keepdims = 0, axes = [1, 2]> (crop)  y = Add (none, means)"""
NUMBERS = """channels = Shape <start = 0, end = 1> (crop)  number = Cast <to = 1> (channels)
    sums = ReduceSum <keepdims = 0> (crop, both)  y = Div (sums, number)"""
BODIES = {"resized": RESIZED, "beside what is filled": FILLED, "divided by the number": NUMBERS}


def text(body: str, result: str) -> str:
    return f"""<ir_version: 9, opset_import: ["": 17]>
    g (float[C,H,W] image, int64[N,4] boxes) => (float[{result}] ys) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        n = Shape <start = 0, end = 1> (boxes)  count = Squeeze (n)
        ys = Loop (count, t) <body = step (int64 i, bool more) => (bool on, float[] y) {{
            on = Identity (more)  o = Constant <value = int64[1] {{0}}> ()
            two = Constant <value = int64[1] {{2}}> ()  four = Constant <value = int64[1] {{4}}> ()
            both = Constant <value = int64[2] {{1, 2}}> ()
            wanted = Constant <value = int64[2] {{6, 5}}> ()
            box = Gather <axis = 0> (boxes, i)
            first = Slice (box, o, two)  last = Slice (box, two, four)
            crop = Slice (image, first, last, both)
            {body}
        }}>
    }}"""


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", BODIES)
def test_crops_keep_their_channels(name: str, channels: int) -> None:
    given = onnx.parser.parse_model(text(BODIES[name], "N,C,h,w" if name == "resized" else "N,C"))
    after = rewriter.optimize(given, target="portable")
    assert not {"Loop", "If"} & {node.op_type for node in after.graph.node}
    rng = np.random.default_rng(channels)
    for count in (1, 2, 7):
        first = rng.integers(0, 9, (count, 2))
        boxes = np.concatenate([first, first + rng.integers(1, 9, (count, 2))], 1)
        feeds = {
            "image": rng.standard_normal((channels, 12, 15)).astype(np.float32),
            "boxes": boxes,
        }
        wanted, found = rewriter.run(given, feeds)["ys"], rewriter.run(after, feeds)["ys"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
