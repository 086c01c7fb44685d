"""Regions that a Resize cuts out of images: by ONNX, also where a region has the image's size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter import backends

# Away from ties, which the evaluator and onnxruntime round in two ways.
REGIONS = np.array(
    [
        [0.01, 0, 0.98, 0.97],
        [0.21, 0.13, 0.84, 0.93],
        [-0.3, 0.53, 0.52, 1.4],
        [0.9, 0.8, 0.15, 0],
    ],
    np.float32,
)


def regions(mode: str) -> onnx.ModelProto:
    """Return a loop that cuts a region of 3 x 4 for each row of a table."""
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
    g (float[1,1,H,W] image, float[N,4] table) => (float[N,1,1,3,4] out)
    <int64[2] size = {{3, 4}}, int64[1] first = {{0}}, bool on = {{1}}> {{
      rows = Shape <end = 1> (table) n = Squeeze (rows, first)
      out = Loop (n, on) <body = one (int64 i, bool go) => (bool still, float[1,1,3,4] y) {{
        still = Identity (go) roi = Gather (table, i)
        y = Resize <mode = "{mode}", axes = [2, 3], extrapolation_value = 7.0,
          coordinate_transformation_mode = "tf_crop_and_resize"> (image, roi, , size) }}> }}""")


@pytest.mark.sampled
@pytest.mark.parametrize("dims", [(3, 4), (3, 7), (5, 4), (6, 5)])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_regions_are_cut_as_onnx_says(mode: str, dims: tuple[int, int]) -> None:
    given = regions(mode)
    after = rewriter.optimize(given, target="portable")
    image = np.random.default_rng(0).integers(0, 99, (1, 1, *dims)).astype(np.float32)
    feeds = {"image": image, "table": REGIONS}
    wanted, found = (backends.run(one, feeds, "reference")["out"] for one in (given, after))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
