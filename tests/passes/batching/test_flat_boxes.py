"""Boxes that each sample cuts out of one image, or out of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.engines import plain_expansion
from tests.passes.batching.images import loops_and_sequences

BOTH = """
  a = Slice (box, lo, mid) b = Slice (box, mid, hi)
  y = Slice (image, a, b, hw)"""
ONE_BY_ONE = """
  y0 = Slice (box, lo, one) x0 = Slice (box, one, mid) y1 = Slice (box, mid, three)
  x1 = Slice (box, three, hi) z = Slice (image, y0, y1, h) y = Slice (z, x0, x1, w)"""
TENSORFLOW = """
  y0 = Slice (box, lo, one) x0 = Slice (box, one, mid) y1 = Slice (box, mid, three)
  x1 = Slice (box, three, hi) dh = Sub (y1, y0) dw = Sub (x1, x0)
  batch = Unsqueeze (image, lo) begin = Concat <axis = 0> (lo, lo, y0, x0)
  size = Concat <axis = 0> (one, three, dh, dw)
  minus = Constant <value_ints = [-1]> () is_open = Equal (minus, size)
  flags = Cast <to = 7> (is_open) far = Constant <value_ints = [2147483647]> ()
  beyond = Mul (far, flags) most = Add (size, beyond) end = Add (begin, most)
  part = Slice (batch, begin, end) y = Squeeze (part, lo)"""
"""All axes, by begin and size, of which one may be -1: as ``tf.slice`` is exported."""
RESIZED = """
  to = Constant <value_ints = [6, 5]> ()
  r = Resize <axes = [1, 2], mode = "linear"> (y, , , to)"""
CONSTANTS = """
  lo = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
  mid = Constant <value_ints = [2]> () three = Constant <value_ints = [3]> ()
  hi = Constant <value_ints = [4]> () hw = Constant <value_ints = [1, 2]> ()
  h = Constant <value_ints = [1]> () w = Constant <value_ints = [2]> ()"""


@dataclasses.dataclass(frozen=True)
class BoxCase:
    """A body that cuts a box ``[y0, x0, y1, x1]`` out of an image ``[3, H, W]``.

    Attributes:
        cuts: The nodes that make ``y``, the box.
        shares: Whether all samples cut one image.
        ends: The nodes behind them, which make ``r``.
    """

    cuts: str
    shares: bool
    ends: str = RESIZED

    @property
    def model(self) -> onnx.ModelProto:
        body = f"{CONSTANTS} {self.cuts} {self.ends}"
        lists = "boxes = SplitToSequence <axis = 0, keepdims = 0> (table)"
        image, given, taken = "float[3,H,W] image", "boxes", "int64[4] box"
        if not self.shares:
            image = "float[B,3,H,W] all"
            lists += " images = SplitToSequence <axis = 0, keepdims = 0> (all)"
            given, taken = "boxes, images", "int64[4] box, float[3,H,W] image"
        return onnx.parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : 18]> g ({image}, int64[B,4] table) '
            f"=> (float[B,p,q,s] out) {{ {lists} "
            f"cut = SequenceMap ({given}) <body = one ({taken}) => (float[p,q,s] r) "
            f"{{ {body} }}> out = ConcatFromSequence <axis = 0, new_axis = 1> (cut) }}"
        )

    def feeds(self, rng: np.random.Generator, count: int) -> dict[str, Any]:
        height, width = rng.integers(4, 20, 2)
        corners = rng.integers(0, [height - 1, width - 1], (count, 2))
        sizes = rng.integers(1, 9, (count, 2))
        table = np.concatenate([corners, corners + sizes], axis=1)
        shape = (3, height, width) if self.shares else (count, 3, height, width)
        image = rng.random(shape, np.float32)
        return {"image" if self.shares else "all": image, "table": table}


ALL = """
  to = Constant <value_ints = [6, 5]> () c = Shape <end = 1> (y) all_to = Concat <axis = 0> (c, to)
  r = Resize <mode = "linear"> (y, , , all_to)"""
SUMMED = "k = Constant <value_ints = [1, 2]> () r = ReduceMax (y, k)"
CASES = {
    f"{cuts}, {'one image' if shares else 'an image each'}, {end}": BoxCase(text, shares, ends)
    for cuts, text in [("both axes", BOTH), ("one axis after the other", ONE_BY_ONE)]
    for shares in (True, False)
    for end, ends in [("resized", RESIZED), ("all axes resized", ALL), ("reduced", SUMMED)]
} | {
    f"as TensorFlow slices, {'one image' if shares else 'an image each'}, {end}": BoxCase(
        TENSORFLOW, shares, ends
    )
    for shares in (True, False)
    for end, ends in [("resized", RESIZED), ("reduced", SUMMED)]
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_boxes(case: BoxCase) -> None:
    after = rewriter.optimize(case.model, target="portable")
    assert not loops_and_sequences(after)
    old = backends.open_session(plain_expansion(case.model), "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    rng = np.random.default_rng(0)
    for count in (1, 2, 7):
        feeds = case.feeds(rng, count)
        np.testing.assert_array_equal(new.run(feeds)["out"], old.run(feeds)["out"])
    assert len(new.run(case.feeds(rng, 0))["out"]) == 0


TABLE = "SplitToSequence <axis = 0, keepdims = 0>"
EXPANDED = """
  one = Constant <value_ints = [1]> () minus = Constant <value_ints = [-1]> ()
  own = Shape (image) ones = Constant <value_ints = [1, 1]> () all = Concat <axis = 0> (ones, own)
  is_kept = Equal (all, minus) shape = Where (is_kept, one, all)
  e = Expand (image, shape) kept = Shape <start = 0, end = 2> (e)
  to = Concat <axis = 0> (kept, size) """
RESIZES = {
    "to sizes of its own": ("float[B,3,6,5]", "int64[B,2]", "y = Resize <axes = [1, 2], "
                            'mode = "linear"> (image, , , size)', (2, 9)),
    "by scales of its own": ("float[B,6,5]", "float[B,2]", 'y = Resize <mode = "linear"> '
                             "(image, , size)", (0.5, 2.5)),
    "expanded, of unknown size": ("float[B,h,w]", "int64[B,2]", EXPANDED + 'y = Resize <mode = '
                                  '"linear"> (e, , , to)', (2, 9)),
    "the last axis stays, of unknown size": (
        "float[B,h,w]", "int64[B,1]", "w = Shape <start = 1> (image) to = Concat <axis = 0> "
        '(size, w) y = Resize <mode = "linear"> (image, , , to)', (2, 9)),
    "channels stay": (
        "float[B,1,3,h,w]", "int64[B,1]", "k = Shape <end = 2> (image) w = Shape <start = 3> (image)"
        " o = Constant <value_ints = [1]> () v = Add (w, o) "
        'to = Concat <axis = 0> (k, size, v) y = Resize <mode = "cubic"> (image, , , to)', (2, 9)),
}  # fmt: skip


def resized(name: str) -> onnx.ModelProto:
    image, table, nodes, _ = RESIZES[name]
    kind, dims = image.rstrip("]").split("[")
    element = f"{kind}[{dims.removeprefix('B,')}]"
    size = table.replace("B,", "")
    split = f"images = {TABLE} (all)"
    given = "sizes, images", f"{size} size, {element} image"
    taken = f"{image} all"
    rank = element.count(",") + (3 if EXPANDED in nodes else 1)
    result = f"{kind}[{','.join('pqrs'[:rank])}]"
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({taken}, {table} table) => '
        f"(seq({result}) out) {{ sizes = {TABLE} (table) {split} "
        f"out = SequenceMap ({given[0]}) <body = one ({given[1]}) => ({result} y) {{ {nodes} }}> }}"
    )


def test_an_axis_that_stays_is_read_as_it_lies() -> None:
    model = resized("the last axis stays, of unknown size")
    assert len(rewriter.optimize(model, target="iree", tensor_io=True).graph.node) < 170


@pytest.mark.parametrize("name", RESIZES)
def test_each_sample_to_a_size_of_its_own(name: str) -> None:
    image, table, _, (low, high) = RESIZES[name]
    kind, dims = image.rstrip("]").split("[")
    size, model = table.replace("B,", ""), resized(name)
    after = rewriter.optimize(model, target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    io = TensorIo.read(models.take(after).model)
    old = backends.open_session(plain_expansion(model), "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    rng = np.random.default_rng(0)
    for count in (1, 4):
        shape = [{"B": count, "h": 6, "w": 5}.get(d) or int(d) for d in dims.split(",")]
        numbers = rng.uniform(low, high, (count, int(table[-2])))
        feeds = {
            "all": rng.uniform(0, 255, shape).astype({"float": np.float32}.get(kind, kind)),
            "table": numbers.astype(np.int64 if size.startswith("int") else np.float32),
        }
        found = outputs_as_lists(io, new.run(feeds))["out"]
        for one, other in zip(old.run(feeds)["out"], found, strict=True):
            np.testing.assert_array_equal(one, other)


REGIONS = """<ir_version: 9, opset_import: ["" : 18]>
g (float[b,H,W,3] images, float[n,4] boxes, int64[n] owners) => (float[n,7,9,3] out) {
  count = Shape <start = 0, end = 1> (boxes) first = Constant <value_ints = [0]> ()
  trips = Squeeze (count, first) true = Constant <value = bool {1}> ()
  out = Loop (trips, true) <body = each (int64 i, bool go) => (bool on, float[7,9,3] y) {
    owner = Gather (owners, i) image = Gather (images, owner) box = Gather (boxes, i)
    zero = Constant <value_ints = [0]> () two = Constant <value_ints = [2]> ()
    four = Constant <value_ints = [4]> () one = Unsqueeze (image, zero)
    x = Transpose <perm = [0, 3, 1, 2]> (one)
    from = Constant <value_floats = [0.0, 0.0]> () to = Constant <value_floats = [1.0, 1.0]> ()
    begin = Slice (box, zero, two) end = Slice (box, two, four)
    roi = Concat <axis = 0> (from, begin, to, end)
    kept = Shape <start = 0, end = 2> (x) size = Constant <value_ints = [7, 9]> ()
    sizes = Concat <axis = 0> (kept, size)
    r = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize",
      extrapolation_value = 0.5> (x, roi, , sizes)
    t = Transpose <perm = [0, 2, 3, 1]> (r) y = Squeeze (t, zero) on = Identity (true) }> }"""


def test_regions_of_interest() -> None:
    """As TensorFlow's exporter writes ``crop_and_resize``: a Loop over boxes of a few images."""
    model = onnx.parser.parse_model(REGIONS)
    after = rewriter.optimize(model, target="portable")
    assert not loops_and_sequences(after)
    old = backends.open_session(model, "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    rng = np.random.default_rng(0)
    for count in (0, 1, 6):
        feeds = {
            "images": rng.random((2, *rng.integers(5, 30, 2), 3), np.float32),
            "boxes": rng.uniform(-0.1, 1.1, (count, 4)).astype(np.float32),
            "owners": rng.integers(0, 2, count),
        }
        np.testing.assert_array_equal(new.run(feeds)["out"], old.run(feeds)["out"])
