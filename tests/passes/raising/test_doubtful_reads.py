"""Whole numbers cut out one by one, of a vector that may have fewer than there are iterations."""

from __future__ import annotations

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.loops import Feeds, kept, model, read, same

pytestmark = pytest.mark.quick

LABELS = """g (float[N,4] x, int64[M] labels, int64[O] offsets, float[4,4] wt) => ({types}) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    one1 = Constant <value = int64[1] {{1}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    none = SequenceEmpty <dtype = {dtype}> ()
    first = Constant <value = float[1,4] {{0.5, 0.1, 0.2, 0.3}}> ()
    {outputs} = Loop ({count}, t, {begin}) <body = step (int64 i, bool c, {states})
        => (bool go, {nexts}) {{
        go = Identity (c)
        i1 = Unsqueeze (i, zero1)
        i2 = Add (i1, one1)
        cut = Slice (labels, i1, i2, zero1)
        {body}
    }}>
    {behind}
}}"""
LIST = {
    "types": "int64[K] r",
    "dtype": 7,
    "outputs": "made",
    "count": "n",
    "begin": "none",
    "states": "seq(int64[L]) s",
    "nexts": "seq(int64[L]) s2",
    "behind": "r = ConcatFromSequence <axis = 0> (made)",
}
BODIES = {
    "alone": "v = Add (cut, cut)  s2 = SequenceInsert (s, v)",
    "beside offsets": """from = Slice (offsets, i1, i2, zero1)  i3 = Add (i2, one1)
        to = Slice (offsets, i2, i3, zero1)  part = Slice (x, from, to, zero1)
        whole = ReduceSum <keepdims = 0> (part)  k = Cast <to = 7> (whole)  v = Add (cut, k)
        s2 = SequenceInsert (s, v)""",
}


def _feeds(rows: int, labels: int) -> Feeds:
    rng = np.random.default_rng(rows + labels)
    return {
        "x": rng.standard_normal((rows, 4)).astype(np.float32),
        "labels": rng.integers(0, 9, labels),
        "offsets": np.arange(rows + 1),
        "wt": rng.standard_normal((4, 4)).astype(np.float32) / 8,
    }


GIVEN = [(1, 1), (3, 3), (7, 4), (7, 9), (64, 64), (2, 1)]


@pytest.mark.parametrize("name", BODIES)
def test_labels_may_be_fewer(name: str) -> None:
    text = LABELS.format(**LIST, body=BODIES[name])
    if name == "beside offsets":
        text = text.replace("n = Gather <axis = 0> (shape, zero)", _COUNTED)
    before = model(text)
    found = read(before)
    assert found.loops == 0, found.details
    assert same(before, found.model, *(_feeds(*size) for size in GIVEN)) == len(GIVEN)


_COUNTED = """many = Size (offsets)  one = Constant <value = int64 {1}> ()
    n = Sub (many, one)"""


def test_beside_a_recurrence() -> None:
    text = LABELS.format(
        types="float[1,4] r, int64[K,1] ys",
        dtype=7,
        outputs="r, ys",
        count="n",
        begin="first",
        states="float[1,4] s",
        nexts="float[1,4] s2, int64[1] y",
        body="""e = Gather <axis = 0> (x, i)  q = MatMul (e, wt)  u = Sigmoid (q)  v = Mul (u, e)
            h = MatMul (s, wt)  m = Add (h, v)  s2 = Cos (m)
            f = Cast <to = 1> (cut)  l = Exp (f)  d = ReduceSum (l, zero1)  y = Cast <to = 7> (d)""",
        behind="",
    )
    before = model(text)
    found = read(before)
    assert found.decisions[0].verdict is Verdict.FISSIONED, found.details
    assert same(before, found.model, *(_feeds(*size) for size in GIVEN)) == len(GIVEN)


def test_a_bound_that_may_be_missing_stays_what_is_said() -> None:
    body = "part = Slice (x, cut, i2, zero1)  v = Shape <start = 0, end = 1> (part)"
    text = LABELS.format(**LIST, body=f"{body}  s2 = SequenceInsert (s, v)")
    assert "it may read behind the end of a vector" in kept(text).details
