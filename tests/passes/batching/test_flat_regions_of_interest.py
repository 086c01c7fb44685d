"""RoiAlign in images of any size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.errors import BackendError
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from tests.passes.batching.images import (
    FlatCase,
    loops_and_sequences,
    prove_flat,
    prove_nothing,
    reached,
)

SHARED = (
    "b = Constant <value = float[3,4] {0.2, 1.1, 5.0, 4.5, -3.0, -2.0, 30.0, 31.5, 4.0, 4.0, 3.0, "
    "2.5}> () i = Constant <value_ints = [0, 0, 0]> () "
)
"""The same regions for all images: a plain one, one that reaches out, one turned around."""
OWN = SHARED + ("all = ReduceMean <keepdims = 0> (x) c = Add (b, all) ")
"""As many regions in each image."""
FOUND = (
    "k = Constant <value_float = 2.2> () m = ReduceMax <keepdims = 0> (x, a01) g = Greater (m, k) "
    "nz = NonZero (g) nf = Cast <to = 1> (nz) two = Constant <value_float = 2.7> () "
    "far = Add (nf, two) yx = Concat <axis = 0> (nf, far) order = Constant <value_ints = "
    "[1, 0, 3, 2]> () xy = Gather <axis = 0> (yx, order) c = Transpose <perm = [1, 0]> (xy) "
    "n = Shape <end = 1> (c) i = ConstantOfShape <value = int64[1] {0}> (n) "
)
"""Any number of regions in each image: at its bright pixels."""
AXES = "a01 = Constant <value_ints = [0, 1]> () "
ALIKE = {"element": "float[1,3,H,W]", "low": -3.0, "high": 3.0, "most": 9, "tolerance": 1e-6}
KINDS = (
    "sampling_ratio = 2",
    "spatial_scale = 0.5",
    'mode = "max"',
    'mode = "max", sampling_ratio = 2',
    'coordinate_transformation_mode = "output_half_pixel", spatial_scale = 0.7',
)


def case(name: str, nodes: str, result: str = "float[n,3,2,3]", *, stacked: bool = False
         ) -> FlatCase:  # fmt: skip
    """Make a case."""
    return FlatCase(name, nodes, result=result, stacked=stacked, **ALIKE)


def aligned(attributes: str, regions: str = "c") -> str:
    """Return a RoiAlign as text."""
    return f"y = RoiAlign <output_height = 2, output_width = 3, {attributes}> (x, {regions}, i)"


CASES = [
    *(
        case(f"{kind} of the same".replace('"', ""), SHARED + aligned(kind, "b"),
             "float[3,3,2,3]", stacked=True)
        for kind in KINDS
    ),
    *(
        case(f"{kind} of each".replace('"', ""), OWN + aligned(kind), "float[3,3,2,3]",
             stacked=True)
        for kind in KINDS
    ),
    *(
        case(f"{kind} of any number".replace('"', ""), AXES + FOUND + aligned(kind))
        for kind in KINDS
    ),
    FlatCase("of one height", SHARED + aligned("sampling_ratio = 2", "b"),
             result="float[3,3,2,3]", stacked=True, **{**ALIKE, "element": "float[1,3,7,W]"}),
]  # fmt: skip


@pytest.mark.parametrize("one", CASES, ids=str)
def test_regions_of_images(one: FlatCase) -> None:
    prove_flat(one)


@pytest.mark.parametrize("one", CASES[::4], ids=str)
def test_regions_of_no_image(one: FlatCase) -> None:
    prove_nothing(one)


LISTS = """<ir_version: 9, opset_import: ["" : 18]>
    g (seq(float[1,2,H,W]) xs, seq(float[n,4]) bs, seq(int64[n]) ks) => (seq(float[n,2,2,2]) ys) {
      ys = SequenceMap (xs, bs, ks) <body = one (float[1,2,H,W] x, float[n,4] b, int64[n] k) =>
        (float[n,2,2,2] y) { y = RoiAlign <output_height = 2, output_width = 2> (x, b, k) }> }"""


def test_lists_of_regions() -> None:
    model = onnx.parser.parse_model(LISTS)
    after = rewriter.optimize(model, strategy="fuse", target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    rng = np.random.default_rng(0)
    feeds = {
        "xs": [rng.random((1, 2, *s)).astype(np.float32) for s in ((3, 4), (1, 1), (5, 2))],
        "bs": [rng.uniform(-1, 6, (n, 4)).astype(np.float32) for n in (2, 0, 3)],
        "ks": [np.zeros(n, np.int64) for n in (2, 0, 3)],
    }
    wanted = backends.open_session(model, "onnxruntime").run(feeds)["ys"]
    io = TensorIo.read(models.take(after).model)
    given = outputs_as_lists(io, backends.open_session(after, "onnxruntime").run(feeds))["ys"]
    for one, other in zip(wanted, given, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    with pytest.raises(BackendError):
        backends.open_session(after).run(feeds | {"ks": [np.ones(n, np.int64) for n in (2, 0, 3)]})


def test_several_images_in_each_sample_stay() -> None:
    one = FlatCase("", SHARED + aligned("sampling_ratio = 2", "b"), result="float[3,3,2,3]",
                   stacked=True, **{**ALIKE, "element": "float[2,3,H,W]"})  # fmt: skip
    with pytest.raises(rewriter.TargetError, match="one image of float"):
        reached(one)


def test_a_region_of_an_image_without_pixels_is_an_error() -> None:
    """It would read a neighbour."""
    images = [np.ones((1, 3, *size), np.float32) for size in ((2, 3), (0, 4), (3, 1))]
    with pytest.raises(BackendError):
        backends.open_session(reached(CASES[0])).run({"xs": images})
