"""A Loop that never runs yields the declared sizes of a scan output; so does what replaces it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from tests.passes.batching.harness import run_model

PACKED = (
    "rows = Shape (x) n = Gather (counts, i) z = Constant <value_ints = [0]> () "
    "e = Unsqueeze (n, z) row = Slice (x, z, e, z) first = Slice (row, z, two, z) "
)
IMAGE = (
    "whole = Gather <axis = 0> (x, i) size = Gather <axis = 0> (counts, i) "
    "z = Constant <value_ints = [0, 0]> () k = Constant <value_ints = [0, 1]> () "
    "image = Slice (whole, z, size, k) first = Slice (image, z, two, k) "
)
BODIES = {
    "rows": (PACKED, "float[N, 3]", "int64[B]", "{2}", "[2, 3]", (2, 3)),
    "images": (IMAGE, "float[B, H, W, 3]", "int64[B, 2]", "{2, 2}", "[2, 2, 3]", (2, 2, 3)),
    "images of one declared side": (
        IMAGE, "float[B, H, W, 3]", "int64[B, 2]", "{2, 2}", "[2, w, 3]", (2, 0, 3),
    ),
}  # fmt: skip


def cropped(name: str) -> onnx.ModelProto:
    """Return a Loop that collects the first two rows, or rows and columns, of each sample."""
    body, element, counts, two, dims, _ = BODIES[name]
    size = f"int64[{two.count('2')}]"
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({element} x, {counts} counts) => '
        f"(float[B, {dims[1:]} out) <{size} two = {two}> {{ go = Constant <value = bool {{1}}> () "
        "all = Shape <end = 1> (counts) n = Squeeze (all) "
        f"out = Loop (n, go) <body = one (int64 i, bool c) => (bool again, float{dims} first) "
        f"{{ again = Identity (c) {body} }}> }}"
    )


@pytest.mark.parametrize("name", BODIES)
def test_no_sample_has_the_declared_sizes(name: str) -> None:
    given = cropped(name)
    made = rewriter.optimize(given, target="portable", tensor_io=True)
    of_images = "images" in name
    counts = np.full((3, 2) if of_images else 3, 4, np.int64)
    x = np.random.default_rng(0).random((3, 5, 6, 3) if of_images else (5, 3), np.float32)
    (wanted,) = run_model(given, {"x": x, "counts": counts})
    (got,) = run_model(made, {"x": x, "counts": counts})
    np.testing.assert_array_equal(got, wanted)
    (nothing,) = run_model(made, {"x": x[:0] if of_images else x, "counts": counts[:0]})
    assert nothing.shape == (0, *BODIES[name][-1])
