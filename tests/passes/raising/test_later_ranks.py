"""Loops whose ranks are known only once the maps in front of them are fused."""

from __future__ import annotations

import numpy as np

from tests.passes.loops import model, read, same

TEXT = """g (float[N,4] x, float[3,4] c) => (float[A,B] r) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    one1 = Constant <value = int64[1] {1}> ()
    three = Constant <value = int64 {3}> ()
    none = SequenceEmpty <dtype = 1> ()
    more = SequenceEmpty <dtype = 1> ()
    p0 = Transpose <perm = [1, 0]> (c)
    near0 = MatMul (x, p0)
    a0 = ArgMax <axis = 1, keepdims = 0> (near0)
    rows = Loop (three, t, none) <body = first (int64 i, bool u, seq(float[?]) s)
            => (bool go, seq(float[?]) s2) {
        go = Identity (u)
        own = Equal (a0, i)
        flag = Cast <to = 1> (own)
        wide = Unsqueeze (flag, one1)
        taken = Mul (x, wide)
        sum = ReduceSum <keepdims = 0> (taken, zero1)
        s2 = SequenceInsert (s, sum)
    }>
    c1 = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
    p1 = Transpose <perm = [1, 0]> (c1)
    near1 = MatMul (x, p1)
    a1 = ArgMax <axis = 1, keepdims = 0> (near1)
    shape = Shape (c1)
    many = Gather <axis = 0> (shape, zero)
    rows1 = Loop (many, t, more) <body = second (int64 j, bool v, seq(float[?]) q)
            => (bool on, seq(float[?]) q2) {
        on = Identity (v)
        own1 = Equal (a1, j)
        flag1 = Cast <to = 1> (own1)
        wide1 = Unsqueeze (flag1, one1)
        taken1 = Mul (x, wide1)
        sum1 = ReduceSum <keepdims = 0> (taken1, zero1)
        q2 = SequenceInsert (q, sum1)
    }>
    r = ConcatFromSequence <axis = 0, new_axis = 1> (rows1)
}"""


def test_a_rank_that_a_loop_in_front_tells() -> None:
    """Nodes stand between the two: what they yield has no rank while the first is a loop."""
    before = model(TEXT)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    rng = np.random.default_rng(0)
    many = [
        {
            "x": rng.standard_normal((n, 4)).astype(np.float32),
            "c": rng.standard_normal((3, 4)).astype(np.float32),
        }
        for n in (0, 1, 2, 7)
    ]
    assert same(before, found.model, *many) == len(many)
