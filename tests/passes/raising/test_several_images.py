"""Loops that append several images of any size to one list in each iteration, some by branches."""

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

IMAGE = "seq(float[?,?,?])"
SIZES = "sh = Shape (x) h = Gather (sh, one) w = Gather (sh, two) tall = Greater (h, w)"
TURNED = "f = Transpose <perm = [0, 2, 1]> (x)"
HALF = 'k = Constant <value_floats = [1.0, 0.5, 0.5]> () f = Resize <mode = "nearest"> (x,,k)'
SMALL = 'k = Constant <value_ints = [5, 4]> () f = Resize <axes = [1, 2], mode = "linear"> (x,,,k)'


def under(flag: str, then: str, other: str = "o = Identity (a)") -> str:
    """Return what a list ``a`` gains in one branch, and in the other one."""
    return (
        f"r = If ({flag}) <then_branch = yes () => ({IMAGE} d) {{ {then} }}, "
        f"else_branch = no () => ({IMAGE} o) {{ {other} }}>"
    )


BODIES = {
    "itself and its negative": "f = Neg (x) a = SequenceInsert (s, x) r = SequenceInsert (a, f)",
    "itself and turned": f"{TURNED} a = SequenceInsert (s, x) r = SequenceInsert (a, f)",
    "itself and half of it": f"{HALF} a = SequenceInsert (s, x) r = SequenceInsert (a, f)",
    "a thumbnail and itself": f"{SMALL} a = SequenceInsert (s, f) r = SequenceInsert (a, x)",
    "three": f"{TURNED} a = SequenceInsert (s, f) b = SequenceInsert (a, x) m = Neg (f) "
    "r = SequenceInsert (b, m)",
    "the second under a condition": f"{SIZES} {TURNED} a = SequenceInsert (s, x) "
    + under("tall", "d = SequenceInsert (a, f)"),
    "two under a condition": f"{SIZES} {TURNED} a = Identity (s) "
    + under("tall", "q = SequenceInsert (a, f) d = SequenceInsert (q, x)"),
    "two, or another one": f"{SIZES} {TURNED} a = Identity (s) "
    + under(
        "tall",
        "q = SequenceInsert (a, f) d = SequenceInsert (q, x)",
        "m = Neg (x) o = SequenceInsert (a, m)",
    ),
    "of two sizes that are known": f"{SMALL} l = Constant <value_ints = [2, 3]> () "
    'g = Resize <axes = [1, 2], mode = "nearest"> (x,,,l) a = SequenceInsert (s, f) '
    "r = SequenceInsert (a, g)",
}


def loop(body: str, begin: str = "SequenceEmpty <dtype = 1> ()") -> onnx.ModelProto:
    """Make a Loop that appends what it makes of each image to a list."""
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[3,H,W]) xs) => ({IMAGE} ys) {{
          yes = Constant <value = bool {{1}}> ()  one = Constant <value_int = 1> ()
          two = Constant <value_int = 2> ()  none = {begin}
          n = SequenceLength (xs)
          ys = Loop (n, yes, none) <body = each (int64 i, bool go, {IMAGE} s)
            => (bool on, {IMAGE} r) {{
              x = SequenceAt (xs, i)  {body}  on = Identity (yes) }}> }}""")


def drawn(count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, (count, 2))
    return [rng.random((3, *size)).astype(np.float32) for size in sizes]


TARGETS = [("portable", name) for name in BODIES] + [
    (target, name)
    for target in ("openvino", "onnxruntime-cuda")
    for name in ("itself and turned", "the second under a condition")
]


@pytest.mark.parametrize(("target", "name"), TARGETS)
def test_a_list_at_the_end_becomes_rows_and_sizes(target: rewriter.TargetName, name: str) -> None:
    model = loop(BODIES[name])
    after = rewriter.optimize(model, target=target, tensor_io=True)
    assert not loops_and_sequences(after)
    io = TensorIo.read(models.take(after).model)
    old, new = (backends.open_session(one, "onnxruntime") for one in (model, after))
    for seed, count in enumerate((0, 1, 5)):
        images = drawn(count, seed)
        wanted = old.run({"xs": images})["ys"]
        given = outputs_as_lists(io, new.run({"xs": images}))["ys"]
        assert len(given) == len(wanted)
        for one, other in zip(wanted, given, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_target_with_sequences_keeps_the_loop() -> None:
    """There the rows would become a sequence in a loop of their own."""
    (decision,) = rewriter.explain(loop(BODIES["itself and turned"])).decisions
    assert "not proven to have one shape" in str(decision)


MISSES = {
    "in front of the first": f"{TURNED} zero = Sub (one, one) a = SequenceInsert (s, x) "
    "r = SequenceInsert (a, f, zero)",
    "one that the list is read for": "l = SequenceLength (s) q = Cast <to = 1> (l) "
    "f = Mul (x, q) a = SequenceInsert (s, x) r = SequenceInsert (a, f)",
    "one of another rank": "q = Unsqueeze (x, k) k2 = Identity (k) a = SequenceInsert (s, x) "
    "r = SequenceInsert (a, q)".replace("q = Unsqueeze", "k = Constant <value_ints = [0]> () "
                                        "q = Unsqueeze"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSES)
def test_what_is_no_such_list_is_refused(name: str) -> None:
    with pytest.raises(rewriter.TargetError):
        rewriter.optimize(loop(MISSES[name]), target="portable", tensor_io=True)
