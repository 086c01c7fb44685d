"""Maps whose results hang on no sample, for targets without loops: as many copies as samples."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from tests.passes.batching.images import loops_and_sequences

BODIES = {
    "a constant": "y = Constant <value_floats = [1.0, 2.0]> ()",
    "a captured value": "y = Neg (c)",
    "a constant beside the sample": "z = Identity (x) y = Constant <value_floats = [1.0, 2.0]> ()",
    "a scalar": "y = Constant <value_float = 3.0> ()",
}


@pytest.mark.parametrize("padded", [(), ("xs",)], ids=["packed", "padded"])
@pytest.mark.parametrize("name", BODIES)
def test_results_that_hang_on_no_sample(name: str, padded: tuple[str, ...]) -> None:
    both = "z =" in BODIES[name]
    given = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (seq(float[N]) xs, float[2] c) => ({"seq(float[N]) zs, " * both}seq(float[]) ys) {{
          {"zs, " * both}ys = SequenceMap (xs) <body = b (float[N] x)
            => ({"float[N] z, " * both}float[] y) {{ {BODIES[name]} }}> }}""")
    after = rewriter.optimize(given, target="portable", tensor_io=True, padded=padded)
    assert not loops_and_sequences(after)
    io = TensorIo.read(models.take(after).model)
    old = backends.open_session(given, "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    for lengths in ([], [2], [3, 0, 1]):
        xs = [np.arange(n, dtype=np.float32) for n in lengths]
        feeds = {"xs": xs, "c": np.array([5, 6], np.float32)}
        wanted, found = old.run(feeds), outputs_as_lists(io, new.run(feeds))
        assert {key: len(value) for key, value in found.items()} == dict.fromkeys(
            wanted, len(lengths)
        )
        for key, values in wanted.items():
            for one, other in zip(values, found[key], strict=True):
                np.testing.assert_array_equal(one, other)
