"""Loops whose ranks are known only once the maps in front of them are fused."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes import FuseSequenceMapPass
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


def test_many_loops_each_of_which_tells_the_next() -> None:
    """However many stand in a row all go, and the pass finds nothing to do afterwards."""
    found = ir.from_proto(model(_in_a_row(20)))
    passes = FuseSequenceMapPass(loops=True)
    assert passes(found).modified
    assert not [node for node in found.graph.all_nodes() if node.op_type == "Loop"]
    assert not passes(found).modified


def test_a_loop_behind_one_that_stays() -> None:
    """What stays tells the ranks of nothing; all that stay are read, and only once more."""
    found = ir.from_proto(model(_in_a_row(5, stays=2)))
    passes = FuseSequenceMapPass(loops=True)
    assert passes(found).modified
    names = [node.outputs[0].name for node in found.graph.all_nodes() if node.op_type == "Loop"]
    assert names == ["rows2", "rows3", "rows4"]
    assert not passes(found).modified


def _in_a_row(count: int, stays: int = -1) -> str:
    """Return a model of Loops, each behind the rank that the one in front of it tells.

    Args:
        count: How many there are.
        stays: Which of them is a recurrence.
    """
    text = """g (float[N,4] x, float[3,4] c0) => (float[A,B] r) {
        t = Constant <value = bool {1}> ()
        zero1 = Constant <value = int64[1] {0}> ()
        one1 = Constant <value = int64[1] {1}> ()
        three = Constant <value = int64 {3}> ()
        none = SequenceEmpty <dtype = 1> ()
        rest = Constant <value = float[4] {0, 0, 0, 0}> ()
    """
    for at in range(count):
        past = f"sum{at} = Tanh (add{at})" if at == stays else f"sum{at} = Identity (own{at})"
        text += f"""
        p{at} = Transpose <perm = [1, 0]> (c{at})
        near{at} = MatMul (x, p{at})
        a{at} = ArgMax <axis = 1, keepdims = 0> (near{at})
        rows{at}, h{at} = Loop (three, t, none, rest) <body = b{at} (int64 i{at}, bool u{at},
                seq(float[?]) s{at}, float[4] l{at})
                => (bool go{at}, seq(float[?]) s2{at}, float[4] m{at}) {{
            go{at} = Identity (u{at})
            is{at} = Equal (a{at}, i{at})
            flag{at} = Cast <to = 1> (is{at})
            wide{at} = Unsqueeze (flag{at}, one1)
            taken{at} = Mul (x, wide{at})
            own{at} = ReduceSum <keepdims = 0> (taken{at}, zero1)
            add{at} = Add (own{at}, l{at})
            {past}
            m{at} = Identity (sum{at})
            s2{at} = SequenceInsert (s{at}, sum{at})
        }}>
        c{at + 1} = ConcatFromSequence <axis = 0, new_axis = 1> (rows{at})
        """
    return text + f"r = Identity (c{count}) }}"
