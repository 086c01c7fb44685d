"""Lists of images that are only stacked, for a target that takes rows and sizes for lists."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter import backends
from rewriter.errors import BackendError
from tests.passes.batching.images import loops_and_sequences

LOOP = """n = SequenceLength (xs) go = Constant <value = bool {{1}}> () e = SequenceEmpty <dtype = 1> ()
    ys = Loop (n, go, e) <body = b (int64 i, bool c, seq(float[?,?,3]) s)
      => (bool again, seq(float[?,?,3]) t) {{
        again = Identity (c) x = SequenceAt (xs, i) {} }}>"""
CASES = {
    "as they are": "",
    "two of each": LOOP.format("m = Neg (x) p = SequenceInsert (s, x) t = SequenceInsert (p, m)"),
    "some of them": LOOP.format(
        "m = ReduceMean <keepdims = 0> (x) z = Constant <value_float = 0.0> () g = Greater (m, z) "
        "t = If (g) <then_branch = yes () => (seq(float[?,?,3]) p) { p = SequenceInsert (s, x) }, "
        "else_branch = no () => (seq(float[?,?,3]) q) { q = Identity (s) }>"
    ),
}


def drawn(sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(sizes))
    return [rng.standard_normal((*size, 3)).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled
def test_images_of_one_size_are_stacked(name: str, axis: int) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[?,?,3]) xs) => (float[a,b,c,d] out) {{ {CASES[name]}
          out = ConcatFromSequence <axis = {axis}, new_axis = 1>
            ({"ys" if CASES[name] else "xs"}) }}""")
    after = rewriter.optimize(model, target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    old, new = (backends.open_session(one, "onnxruntime") for one in (model, after))
    for count in (1, 2, 5):
        images = drawn([(4, 5)] * count)
        feeds = {"xs": [abs(images[0]), *images[1:]]}
        np.testing.assert_array_equal(new.run(feeds)["out"], old.run(feeds)["out"])
    for sizes in ([(2, 6), (3, 4)], [(4, 5), (4, 5), (4, 6)]):
        with pytest.raises(BackendError):
            new.run({"xs": [abs(one) for one in drawn(sizes)]})
