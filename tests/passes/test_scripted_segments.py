"""Segments of a tensor as scripted code cuts and views them."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import BackendError, open_session
from rewriter.pipeline import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import model, same

TEXT = """g (float[T,6] x, int64[B] lengths) => (float[R,6] y) {{
  zero = Constant <value_int = 0> ()
  axes = Constant <value_ints = [0]> ()
  shape = Shape (lengths)
  trips = Gather (shape, zero)
  go = Constant <value = bool {{1}}> ()
  w = Constant <value = float[2,3] {{1, 2, 3, 4, 5, 6}}> ()
  none = SequenceEmpty <dtype = 1> ()
  end, all = Loop (trips, go, zero, none) <
      body = b (int64 i, bool on, int64 from, seq(float[p,6]) acc)
      => (bool further, int64 to, seq(float[q,6]) more) {{
    n = Gather (lengths, i)
    to = Add (from, n)
    first = Unsqueeze (from, axes)
    last = Unsqueeze (to, axes)
    e = Slice (x, first, last, axes)
    size = Unsqueeze (n, axes)
    {body}
    more = SequenceInsert (acc, r)
    further = Identity (on)
  }}>
  y = ConcatFromSequence <axis = 0> (all)
}}"""
BODIES = {
    "view_of_heads": """tail = Constant <value_ints = [2, 3]> ()
        s = Concat <axis = 0> (size, tail) v = Reshape (e, s) h = Mul (v, w)
        flat = Constant <value_ints = [6]> () o = Concat <axis = 0> (size, flat)
        r = Reshape (h, o)""",
    "view_as_it_is": """tail = Constant <value_ints = [6]> ()
        s = Concat <axis = 0> (size, tail) r = Reshape (e, s)""",
    "chunk": """ex = Shape (e) at = Constant <value_ints = [-1]> () wide = Gather (ex, at)
        two = Constant <value_ints = [2]> () half = Div (wide, two)
        a = Slice (e, axes, half, at) c = Slice (e, half, wide, at)
        r = Concat <axis = 1> (c, a)""",
    "slice_of_weights": """one = Constant <value_ints = [1]> () k = Slice (w, axes, one)
        k2 = Concat <axis = 1> (k, k) r = Mul (e, k2)""",
}


def feed(*lengths: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(sum(lengths))
    rows = rng.standard_normal((max(sum(lengths), 1), 6)).astype(np.float32)
    return {"x": rows, "lengths": np.array(lengths)}


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
@pytest.mark.parametrize("name", BODIES)
def test_segments_end_without_a_loop(name: str, target: str) -> None:
    before = model(TEXT.format(body=BODIES[name]))
    result = rewrite(before, target=target)
    assert "Loop" not in operators(result.model)
    feeds = [feed(3, 1, 4), feed(2), feed(*[2] * 20), feed(0, 3, 0), feed(0)]
    assert same(before, result.model, *feeds) == len(feeds)


SKIP = """axis = Unsqueeze (zero, axes)  step = Unsqueeze (one, axes)
    e = Slice (x, first, last, axis, step)
    short = Less (n, two)
    more = If (short) <
      then_branch = yes () => (seq(float[]) v) {{ v = Identity (acc) }},
      else_branch = no () => (seq(float[a]) w2) {{
        m = ReduceMean <axes = [0], keepdims = 0> (e)
        w2 = SequenceInsert (acc, m) }}>
    further = Identity (on)"""


@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
def test_short_segments_that_are_skipped_end_without_a_loop(target: str) -> None:
    """The mean of none may fail; the axes of the Slice are a constant that gained one."""
    head, _, rest = TEXT.partition("e = Slice")
    text = (head + SKIP + rest[rest.index("\n  }}>") :]).replace("seq(float[p,6])", "seq(float[])")
    text = text.replace("{{", "{").replace("}}", "}").replace("seq(float[q,6])", "seq(float[])")
    text = text.replace(
        "go =", "one = Constant <value_int = 1> () two = Constant <value_int = 2> () go ="
    )
    before = model(text.replace("<axis = 0> (all)", "<axis = 0, new_axis = 1> (all)"))
    result = rewrite(before, target=target)
    (decision,) = result.report.decisions
    assert decision.verdict == "fused"
    assert decision.few == 0 or target == "onnxruntime"
    # Few of them run in the Loop as given where an If may ask: no copies hold such a list.
    assert operators(result.model)["Loop"] == (decision.few > 0)
    feeds = [feed(3, 1, 4), feed(2), feed(*[2] * 20), feed(0, 3, 0)]
    assert same(before, result.model, *feeds) == len(feeds)


@pytest.mark.parametrize("name", ["view_of_heads", "view_as_it_is"])
def test_a_segment_that_is_shorter_than_its_view_is_an_error(name: str) -> None:
    result = rewrite(model(TEXT.format(body=BODIES[name])), target="portable")
    short = {**feed(3, 4, 2), "lengths": np.array([3, 4, 5])}
    with pytest.raises(BackendError, match="Reshape"):
        open_session(result.model).run(short)
