"""Images of any size stay apart: a place outside of one of them reads or writes no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
from tests.passes.batching.apart import BAD, MARKER
from tests.passes.batching.images import loops_and_sequences

Array = np.ndarray[Any, Any]
SHAPES = [(2, 3, 3), (4, 5, 3), (3, 2, 3)]
FAR = 2**40


@dataclasses.dataclass(frozen=True)
class Case:
    """A body over an image ``x`` and its places ``i``.

    Attributes:
        nodes: The nodes; they compute ``y``.
        good: Places that are inside of each image.
        bad: Places; one is outside of the image of 4 x 5.
        rank: The rank of the result.
        alone: Whether the places fit no other image, so that there is none beside it.
    """

    nodes: str
    good: Sequence[int]
    bad: Sequence[Sequence[int]]
    rank: int = 3
    alone: bool = False

    @property
    def model(self) -> onnx.ModelProto:
        """A map of the body over images and the rows of a tensor."""
        count = len(self.good)
        result = f"float[{','.join('abc'[: self.rank])}]"
        return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[H,W,3]) xs, int64[B,{count}] ps) => (seq({result}) ys) {{
            ii = SplitToSequence <axis = 0, keepdims = 0> (ps)
            ys = SequenceMap (xs, ii) <body = one (float[H,W,3] x, int64[{count}] i) =>
                ({result} y) {{
                    z = Constant <value_ints = [0]> () o = Constant <value_ints = [1]> ()
                    t = Constant <value_ints = [2]> () seven = Constant <value_floats = [7.0]> ()
                    u = Unsqueeze (i, z) s = Shape (x) {self.nodes} }}> }}""")


POINTS = [[4, 0, 0], [0, 5, 0], [0, 0, 3], [-5, 0, 0], [0, -6, 0], [0, 0, -4]]
BOUNDS = [[3, 9], [-9, 2], [1, 2**62], [5, 7], [-(2**62), 1], [2, 1]]
CUT = "a = Gather (i, z) b = Gather (i, o) y = Slice (x, a, b, {})"
ELEMENTS = "at = Expand (i, s) y = GatherElements <axis = {}> (x, at)"
SCATTERED = "at = Expand (i, s) y = ScatterElements <axis = {}{}> (x, at, x)"
ADD = ', reduction = "add"'
CASES: dict[str, Case] = {
    "rows": Case("y = Gather (x, i)", [0, 1], [[0, 4], [0, -5], [3, FAR], [0, -FAR]]),
    "columns": Case("y = Gather <axis = 1> (x, i)", [0, 1], [[0, 5], [0, -6], [3, FAR]]),
    "one row": Case(
        "k = Squeeze (i) y = Gather <axis = 0> (x, k)", [1], [[4], [-5], [FAR]], rank=2
    ),
    "points": Case("y = GatherND (x, u)", [1, 1, 2], [*POINTS, [1, FAR, 0]], rank=1),
    "pixels": Case("y = GatherND (x, u)", [1, 1], [[4, 0], [0, 5], [-5, 0], [0, -6]], rank=2),
    "listed rows": Case("v = Unsqueeze (i, o) y = GatherND (x, v)", [1, 1], [[4, 0], [0, -5]]),
    "points are written": Case("y = ScatterND (x, u, seven)", [1, 1, 2], [*POINTS, [0, FAR, 0]]),
    "points are added": Case('y = ScatterND <reduction = "add"> (x, u, seven)', [1, 1, 2], POINTS),
    "elements by row": Case(ELEMENTS.format(0), [1], [[4], [-5], [FAR]]),
    "elements by column": Case(ELEMENTS.format(1), [1], [[5], [-6], [FAR]]),
    "elements by channel": Case(ELEMENTS.format(2), [1], [[3], [-4], [FAR]]),
    "elements are written by row": Case(SCATTERED.format(0, ""), [1], [[4], [-5], [FAR]]),
    "elements are written by column": Case(SCATTERED.format(1, ""), [1], [[5], [-6]]),
    "elements are added": Case(SCATTERED.format(1, ADD), [1], [[5], [-6]]),
    "elements are written by channel": Case(SCATTERED.format(2, ""), [1], [[3], [-4]]),
    "cut rows": Case(CUT.format("z"), [1, 2], BOUNDS),
    "cut columns": Case(CUT.format("o"), [1, 2], [[3, 9], [-9, 2], [1, 2**62], [6, 7], [2, 1]]),
    "largest": Case(
        "h = Constant <value_ints = [-1]> () r = Reshape (x, h) y, q = TopK <axis = 0> (r, i)",
        [3],
        [[61], [-1]],
        rank=1,
    ),
    "cropped or padded": Case(
        "y = CenterCropPad <axes = [0, 1]> (x, i)", [3, 2], [[9, 9], [0, 1], [-1, 2]]
    ),
    "repeated": Case("y = Tile (x, i)", [1, 2, 1], [[0, 1, 1], [-1, 1, 1]]),
    "first rows": Case("y, q = Split <axis = 0> (x, i)", [1, 3], [[1, 4], [-1, 5]], alone=True),
    "first columns": Case("y, q = Split <axis = 1> (x, i)", [1, 4], [[1, 5], [-1, 6]], alone=True),
    "turned lines": Case(
        "y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, i)",
        [1, 2, 3, 4, 4],
        [[5, 1, 1, 1, 1], [0, 1, 1, 1, 1], [-1, 1, 1, 1, 1], [-4, 1, 1, 1, 1]],
        alone=True,
    ),
}


def _outcome(session: Any, model: Any, feeds: dict[str, Any], at: int) -> Array | None:
    """Return one element of the result, None where the model fails."""
    try:
        found = session.run(feeds)
    except rewriter.RewriteError:
        return None
    lists = found if model is None else outputs_as_lists(TensorIo.read(model), found)
    return np.asarray(lists["ys"][at])


@pytest.mark.parametrize("name", CASES)
def test_a_place_outside_reaches_no_other_image(name: str) -> None:
    """Where the body alone fails, so does the map; else the result is that of the body alone."""
    case = CASES[name]
    after = rewriter.optimize(case.model, strategy="fuse", target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    old = backends.open_session(plain_expansion(case.model), "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    own = np.arange(60, dtype=np.float32).reshape(SHAPES[BAD])
    images = [np.full(SHAPES[0], MARKER, np.float32), own, np.full(SHAPES[2], np.nan, np.float32)]
    for places in (case.good, *case.bad):
        alone = {"xs": [own], "ps": np.array([places])}
        wanted = _outcome(old, None, alone, 0)
        together = {"xs": images, "ps": np.array([case.good, places, case.good])}
        feeds, at = (alone, 0) if case.alone else (together, BAD)
        found = _outcome(new, models.take(after).model, feeds, at)
        assert (wanted is None) == (found is None), f"{places}: only one of them fails"
        if wanted is not None and found is not None:
            np.testing.assert_array_equal(found, wanted, err_msg=str(places))
