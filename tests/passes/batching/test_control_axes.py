"""Loops that carry samples which differ in length along another axis than the first."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[{dims}]) xs, int64 n) => (seq(float[?,?]) ys) <bool go = {{1}}, float[1] one = {{1}},
    float[1,1] zeros = {{0}}> {{
  ys = SequenceMap (xs, n) <body = each (float[{dims}] x, int64 m) => (float[?,?] y) {{
    {before}
    last = Loop (m, go, begin) <body = step (int64 i, bool c, float[?,?] s) =>
        (bool d, float[?,?] t) {{ d = Identity (c) u = Add (s, one) t = Mul (u, {inside}) }}>
    {behind} }}> }}"""
BEFORE = {
    "spread": ("N", "begin = Add (x, zeros)"),
    "joined": ("N", "r = Add (x, zeros) begin = Concat <axis = 0> (r, r, r)"),
    "turned": ("N,3", "begin = Transpose <perm = [1, 0]> (x)"),
}
BEHIND = {
    "yielded": "y = Identity (last)",
    "joined with what it began with": "y = Concat <axis = 0> (last, begin)",
    "multiplied": "y = PRelu (last, begin)",
}


@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize("inside", ["u", "begin"])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("before", BEFORE)
def test_what_a_loop_carries_keeps_its_axis(
    before: str, behind: str, inside: str, trips: int
) -> None:
    dims, nodes = BEFORE[before]
    text = TEXT.format(dims=dims, before=nodes, behind=BEHIND[behind], inside=inside)
    model = onnx.parser.parse_model(text)
    after = rewriter.optimize(model, strategy="fuse", verify=False)
    rng = np.random.default_rng(0)
    shapes = [[int(d) if d.isdigit() else n for d in dims.split(",")] for n in (2, 0, 5, 1)]
    feeds = {
        "xs": [rng.standard_normal(shape).astype(np.float32) for shape in shapes],
        "n": np.array(trips),
    }
    wanted = rewriter.run(rewriter.optimize(model, strategy="expand", verify=False), feeds)["ys"]
    for one, other in zip(wanted, rewriter.run(after, feeds)["ys"], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)
