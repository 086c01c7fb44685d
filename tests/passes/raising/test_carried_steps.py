"""Counters that grow by a number which the Loop carries, as TensorFlow writes ``tf.range``."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.carried.carried import LENGTHS
from tests.passes.loops import model, prove, read, same

TEXT = """g (float[N,4] x, int32 by, float[4] b) => (float[4] r) {
    zero = Constant <value = int64 {0}> ()  none = Constant <value = int32 {0}> ()
    one = Constant <value = int32 {1}> ()  two = Constant <value = int32 {2}> ()
    shape = Shape (x)  n0 = Gather <axis = 0> (shape, zero)  n = Cast <to = 6> (n0)
    more = Less (none, n)
    last, r, end, step, rows = Loop (, more, none, b, n, STEP, x) <body = b
        (int64 trip, bool cond, int32 i, float[4] s, int32 stop, int32 delta, float[M,4] y)
        => (bool go, int32 i2, float[4] s2, int32 stop2, int32 delta2, float[M2,4] y2) {
        e = Gather <axis = 0> (y, i)  s2 = Add (s, e)
        i2 = Add (i, delta)  go = Less (i2, stop)
        stop2 = Identity (stop)  y2 = Identity (y)  delta2 = NEXT
    }>
}"""


def _feeds(*by: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    b = rng.standard_normal(4).astype(np.float32)
    return [
        {"x": rng.standard_normal((n, 4)).astype(np.float32), "b": b, "by": np.int32(step)}
        for n in LENGTHS
        for step in by
    ]


@pytest.mark.parametrize("step", ["one", "two"])
def test_a_counter_grows_by_a_number_that_is_handed_on(step: str) -> None:
    prove(TEXT.replace("STEP", step).replace("NEXT", "Identity (delta)"), *_feeds(1))


@pytest.mark.parametrize(
    ("step", "following"),
    [("by", "Identity (delta)"), ("one", "Add (delta, delta)")],
    ids=["known when it runs", "another in each iteration"],
)
def test_a_counter_that_grows_by_what_is_not_known_stays(step: str, following: str) -> None:
    before = model(TEXT.replace("STEP", step).replace("NEXT", following))
    found = read(before)
    assert found.loops == 1
    assert found.codes == ["early-exit"]
    many = _feeds(1, 2, 3)
    assert same(before, found.model, *many) == len(many)
