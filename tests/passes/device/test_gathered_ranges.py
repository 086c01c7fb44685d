"""Ranges that a Gather reads: the results stay, and nothing is copied for them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.device.gathered_ranges import GatheredRangesPass
from rewriter.model_files.protos import from_proto
from rewriter.placement.placing import place
from rewriter.target_table import find_target

TEXT = """<ir_version: 9, opset_import: ["" : 18]> g (float[N, 2] x, float[W] w) => (float[M, 2] y)
<int64 zero = {0}, int64 one = {1}> { n = Size (w)  r = Range (zero, n, one)  y = Gather (x, r) }"""
LEFT = {
    "read twice": TEXT.replace("y = Gather (x, r)", "z = Gather (x, r)  y = Gather (z, r)"),
    "data": TEXT.replace("y = Gather (x, r)", "z = Gather (r, zero)  y = CastLike (x, z)"),
    "an old opset": TEXT.replace('"" : 18', '"" : 11').replace("ir_version: 9", "ir_version: 6"),
}


def test_a_gathered_range_is_no_slice() -> None:
    given = onnx.parser.parse_model(TEXT)
    model = from_proto(given)
    assert GatheredRangesPass()(model).modified
    assert not GatheredRangesPass()(model).modified
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    target = find_target("onnxruntime-cuda")
    before, after = place(from_proto(given), target), place(model, target)
    assert before is not None and after is not None
    assert (before.copies, after.copies) == (4, 0)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for count in (0, 1, 3):
        feeds = {"x": x, "w": np.ones(count, np.float32)}
        np.testing.assert_array_equal(rewriter.run(model, feeds)["y"], x[:count])


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_what_stays(text: str) -> None:
    assert not GatheredRangesPass()(from_proto(onnx.parser.parse_model(text))).modified
