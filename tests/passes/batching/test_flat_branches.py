"""If inside of a body over samples that differ along several axes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.engines import plain_expansion
from tests.passes.batching.images import FlatCase, numbers, prove_flat, prove_nothing

TALL = (
    "s = Shape (x) i0 = Constant <value_int = 0> () i1 = Constant <value_int = 1> () "
    "h = Gather (s, i0) w = Gather (s, i1) tall = Greater (h, w) "
)
BRIGHT = (
    "m = ReduceMax <keepdims = 0> (x) limit = Constant <value_float = 240.0> () "
    "bright = Greater (m, limit) "
)


def either(condition: str, yes: str, no: str, declared: str = "float[p,q,3]") -> str:
    """Return an If that yields ``z``, of whose branches one yields ``a`` and one ``b``."""
    return (
        f"z = If ({condition}) <then_branch = yes () => ({declared} a) {{ {yes} }}, "
        f"else_branch = no () => ({declared} b) {{ {no} }}> "
    )


LINEAR = '<axes = [0, 1], mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel">'
CASES = [
    FlatCase("what is padded in both branches, its rows backwards", numbers("q", 3, 3, 1, 1)
             + numbers("k", 0, 1) + "p = Pad (x, q, , k) s = Shape (p) i0 = Constant <value_int = "
             "0> () i1 = Constant <value_int = 1> () h = Gather (s, i0) w = Gather (s, i1) "
             "tall = Greater (h, w) " + either("tall", "a = Identity (p)", "b = Identity (p)")
             + "r = Range (i0, h, i1) u = Sub (h, r) v = Sub (u, i1) y = Gather <axis = 0> (z, v)"),
    FlatCase("turned", TALL + either("tall", "a = Transpose <perm = [1, 0, 2]> (x)",
             "b = Identity (x)") + "y = Neg (z)"),
    FlatCase("turned in one rank less", TALL + either("tall", "a = Transpose <perm = [1, 0]> (x)",
             "b = Identity (x)", "float[p,q]") + "y = Neg (z)", "float[H,W]", "float[h,w]"),
    FlatCase("by the shorter side", TALL + "side = Constant <value_int = 12> () first = Constant "
             "<value_ints = [0]> () " + either("tall", "p = Mul (side, h) q = Div (p, w) "
             "q1 = Unsqueeze (q, first) s1 = Unsqueeze (side, first) a = Concat <axis = 0> "
             "(q1, s1)", "p = Mul (side, w) q = Div (p, h) q1 = Unsqueeze (q, first) "
             "s1 = Unsqueeze (side, first) b = Concat <axis = 0> (s1, q1)", "int64[2]")
             + f"y = Resize {LINEAR} (x,,,z)"),
    FlatCase("resized in a branch", TALL + either("tall", numbers("t", 9, 7)
             + f"a = Resize {LINEAR} (x,,,t)", numbers("t", 7, 9)
             + f"b = Resize {LINEAR} (x,,,t)") + "y = Neg (z)"),
    FlatCase("resized in a branch alone", BRIGHT + either("bright", numbers("t", 9, 7)
             + f"a = Resize {LINEAR} (x,,,t)", "b = Identity (x)") + "y = Neg (z)"),
    FlatCase("one size or any", BRIGHT + either("bright", numbers("t", 9, 7)
             + "a = CenterCropPad <axes = [0, 1]> (x, t)", "b = Relu (x)") + "y = Neg (z)",
             "uint8[H,W,3]".replace("uint8", "float")),
    FlatCase("of the same size", BRIGHT + either("bright", "a = Neg (x)", "b = Relu (x)")
             + "y = Sub (z, x)"),
    FlatCase("what may fail, of the same size", BRIGHT + either("bright", numbers("k", 0, -1)
             + "r = Gather <axis = 0> (x, k) n = ReduceMax (r) a = Sub (x, n)", "b = Relu (x)")
             + "y = Identity (z)", least=2),
    FlatCase("cropped in a branch", TALL + "one = Constant <value_ints = [1]> () last = Constant "
             "<value_ints = [-1]> () " + either("tall", numbers("k", 0)
             + "a = Slice (x, one, last, k)", numbers("k", 1) + "b = Slice (x, one, last, k)")
             + "y = Relu (z)", least=3),
    FlatCase("padded to a square", TALL + "d = Sub (h, w) e = Abs (d) first = Constant "
             "<value_ints = [0]> () e1 = Unsqueeze (e, first) " + numbers("z0", 0, 0, 0)
             + numbers("z1", 0, 0, 0, 0) + numbers("zz", 0) + either(
             "tall", "p = Concat <axis = 0> (z1, e1, zz) a = Pad (x, p)",
             "p = Concat <axis = 0> (z0, e1, zz, zz) b = Pad (x, p)") + "y = Identity (z)"),
    FlatCase("channels in front", TALL.replace("_int = 0", "_int = 2") + either("tall",
             "a = Transpose <perm = [0, 2, 1]> (x)", "b = Identity (x)", "float[3,p,q]")
             + "y = Relu (z)", "float[3,H,W]", "float[3,h,w]"),
    FlatCase("packed or not", TALL + numbers("k", 1) + either("tall",
             "a = ReduceMax <keepdims = 0> (x, k)", numbers("t", 4, 3) + "f = Constant "
             "<value_float = 2.0> () b = Expand (f, t)", "float[p,3]") + "y = Neg (z)",
             result="float[h,3]"),
    FlatCase("two results", TALL + "z, v = If (tall) <then_branch = yes () => (float[p,q,3] a, "
             "float[q] a2) { a = Transpose <perm = [1, 0, 2]> (x) c = Constant <value_ints = "
             "[0, 2]> () a2 = ReduceMax <keepdims = 0> (x, c) }, else_branch = no () => "
             "(float[p,q,3] b, float[q] b2) { b = Identity (x) c = Constant <value_ints = [1, 2]>"
             " () b2 = ReduceMax <keepdims = 0> (x, c) }> y = Neg (z) g = Relu (v)",
             outputs=("y",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.long
def test_images_that_take_one_of_two_branches(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 6))


@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


@pytest.mark.parametrize("flag", [False, True])
def test_a_branch_for_all_images(flag: bool) -> None:
    """The condition is one for all samples."""
    branches = either("flag", "a = Transpose <perm = [1, 0, 2]> (x)", numbers("t", 9)
                      + "b = CenterCropPad <axes = [0]> (x, t)")  # fmt: skip
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (seq(float[H,W,3]) xs, bool flag) => '
        "(seq(float[h,w,3]) ys) { ys = SequenceMap (xs) <body = one (float[H,W,3] x) => "
        f"(float[h,w,3] y) {{ {branches} y = Neg (z) }}> }}"
    )
    after = rewriter.optimize(model, strategy="fuse", tensor_io=True)
    assert not {"Loop", "SequenceMap"} & {node.op_type for node in after.graph.node}
    old = backends.open_session(plain_expansion(model), "onnxruntime")
    rng = np.random.default_rng(0)
    images = [rng.random((h, w, 3), np.float32) for h, w in [(1, 5), (7, 2), (12, 9)]]
    feeds = {"xs": images, "flag": np.array(flag)}
    new = backends.open_session(after, "onnxruntime")
    found = outputs_as_lists(TensorIo.read(models.take(after).model), new.run(feeds))
    for one, other in zip(old.run(feeds)["ys"], found["ys"], strict=True):
        np.testing.assert_array_equal(one, other)
