"""Loops that put several images of a list together: neighbours in it, or some at given places."""

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


def resized(count: int) -> str:
    """Resize ``x0``, ``x1``, ... to one size."""
    return " ".join(
        f'r{k} = Resize <axes = [0, 1], mode = "linear"> (x{k},,,to)' for k in range(count)
    )


PLACES = "a0 = Mul (i, many) " + " ".join(f"a{k + 1} = Add (a{k}, one)" for k in range(3))
GIVEN = "own = Gather <axis = 0> (places, i) " + " ".join(
    f"n{k} = Constant <value_int = {k}> () a{k} = Gather <axis = 0> (own, n{k})" for k in range(4)
)
READS = " ".join(f"x{k} = SequenceAt (xs, a{k})" for k in range(4))
FOUR = (
    f"{resized(4)} top = Concat <axis = 1> (r0, r1) low = Concat <axis = 1> (r2, r3) "
    "r = Concat <axis = 0> (top, low)"
)
STRIP = (
    "hs = Shape <end = 1> (x0) w1 = Shape <start = 1, end = 2> (x1) size1 = Concat <axis = 0> (hs, w1) "
    'r1 = Resize <axes = [0, 1], mode = "nearest"> (x1,,,size1) r = Concat <axis = 1> (x0, r1)'
)
CANVAS = (
    "h0 = Shape <end = 1> (x0) h1 = Shape <end = 1> (x1) h = Max (h0, h1) "
    "c0 = CenterCropPad <axes = [0]> (x0, h) c1 = CenterCropPad <axes = [0]> (x1, h) "
    "r = Concat <axis = 1> (c0, c1)"
)
CASES = {
    "four neighbours": (PLACES, FOUR),
    "two neighbours, one as high as the other": (PLACES, STRIP),
    "two neighbours on one canvas": (PLACES, CANVAS),
    "four at given places": (GIVEN, FOUR),
    "two at given places on one canvas": (GIVEN, CANVAS),
}


def mosaics(places: str, nodes: str) -> onnx.ModelProto:
    """Make a Loop that puts four images of a list together, of as many places as there are."""
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[?,?,3]) xs, int64[N,4] places) => (seq(float[?,?,?]) ys) {{
          yes = Constant <value = bool {{1}}> ()  none = SequenceEmpty <dtype = 1> ()
          size = Shape <end = 1> (places)  n = Squeeze (size)
          ys = Loop (n, yes, none) <body = each (int64 i, bool go, seq(float[?,?,?]) s)
            => (bool on, seq(float[?,?,?]) t) {{
              many = Constant <value_int = 4> ()  one = Constant <value_int = 1> ()
              to = Constant <value_ints = [8, 6]> ()
              {places}  {READS}  {nodes}  t = SequenceInsert (s, r)  on = Identity (yes) }}> }}""")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled
def test_mosaics_need_no_loop(name: str) -> None:
    model = mosaics(*CASES[name])
    after = rewriter.optimize(model, target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    io = TensorIo.read(models.take(after).model)
    old, new = (backends.open_session(one, "onnxruntime") for one in (model, after))
    for seed, count in enumerate((0, 1, 3)):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 9, (4 * count, 2))
        images = [rng.random((*size, 3)).astype(np.float32) for size in sizes]
        feeds = {"xs": images, "places": rng.integers(0, max(4 * count, 1), (count, 4))}
        wanted = old.run(feeds)["ys"]
        given = outputs_as_lists(io, new.run(feeds))["ys"]
        assert len(given) == len(wanted)
        for one, other in zip(wanted, given, strict=True):
            np.testing.assert_array_equal(one, other)
