"""Loops that append images of any size to a list, in some iterations or by one of two branches."""

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

NONE = "else_branch = other () => (seq(float[?,?,?]) b) { b = Identity (s) }"
CONDITIONS = {
    "by size": "sh = Shape (x) h = Gather (sh, one) w = Gather (sh, two) c = Greater (h, w)",
    "by brightness": "m = ReduceMean <keepdims = 0> (x) half = Constant <value_float = 0.5> () "
    "c = Greater (m, half)",
    "none": "h = Size (x) z = Constant <value_int = 0> () c = Less (h, z)",
    "all": "h = Size (x) z = Constant <value_int = 0> () c = GreaterOrEqual (h, z)",
}
ELEMENTS = {
    "as they are": "e = Identity (x)",
    "changed": "e = Neg (x)",
    "every other row": "a = Constant <value_ints = [0]> () f = Constant <value_ints = "
    "[9223372036854775807]> () k = Unsqueeze (one, a) t = Unsqueeze (two, a) "
    "e = Slice (x, a, f, k, t)",
}
APPENDED = "then_branch = some () => (seq(float[?,?,?]) d) {{ {0} d = SequenceInsert (s, e) }}"
OTHERS = (
    "else_branch = other () => (seq(float[?,?,?]) b) { o = Transpose <perm = [0, 2, 1]> (x) "
    "b = SequenceInsert (s, o) }"
)


def loop(condition: str, element: str, other: str = NONE) -> onnx.ModelProto:
    """Make a Loop that looks at each image and appends it, or does not."""
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[3,H,W]) xs) => (seq(float[?,?,?]) ys) {{
          yes = Constant <value = bool {{1}}> ()  one = Constant <value_int = 1> ()
          two = Constant <value_int = 2> ()  none = SequenceEmpty <dtype = 1> ()
          n = SequenceLength (xs)
          ys = Loop (n, yes, none) <body = each (int64 i, bool go, seq(float[?,?,?]) s)
            => (bool on, seq(float[?,?,?]) r) {{
              x = SequenceAt (xs, i)  {CONDITIONS[condition]}
              r = If (c) <{APPENDED.format(ELEMENTS[element])}, {other}>
              on = Identity (yes) }}> }}""")


CASES = {
    **{f"{c}, {e}": (c, e, NONE) for c in CONDITIONS for e in ELEMENTS},
    "one of two": ("by size", "changed", OTHERS),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled
def test_a_target_without_sequences_gets_rows_and_sizes(name: str) -> None:
    model = loop(*CASES[name])
    after = rewriter.optimize(model, target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    io = TensorIo.read(models.take(after).model)
    old, new = (backends.open_session(one, "onnxruntime") for one in (model, after))
    for seed, count in enumerate((0, 1, 5)):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 6, (count, 2))
        images = [rng.random((3, *size)).astype(np.float32) for size in sizes]
        wanted = old.run({"xs": images})["ys"]
        given = outputs_as_lists(io, new.run({"xs": images}))["ys"]
        assert len(given) == len(wanted)
        for one, other in zip(wanted, given, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_target_with_sequences_keeps_the_loop() -> None:
    """There the rows would become a sequence in a loop of their own."""
    model = loop("by size", "changed")
    (decision,) = rewriter.explain(model).decisions
    assert "not proven to have one shape" in str(decision)
