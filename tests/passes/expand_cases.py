"""Maps wherever they may stand and whatever they may read, for the tests of the expansion."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tests.passes.expansion import rows

__all__ = ["CASES", "HEADER", "RAGGED", "SHAPES", "Case", "sequence"]

HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with maps.

    Attributes:
        name: Id of the test.
        text: The model without its header; ``xs`` and the like are its inputs.
        feeds: Sets of inputs.
        form: The form of the last map's decision.
        codes: The codes of all decisions.
        second_opinion: Whether ONNX's own expansion works for it.
    """

    name: str
    text: str
    feeds: tuple[dict[str, Any], ...]
    form: str
    codes: tuple[str, ...] = ()
    second_opinion: bool = True


RAGGED = ("ragged",)
SHAPES = [(2,), (3,), (0,)]


def sequence(*shapes: tuple[int, ...], **others: Any) -> dict[str, Any]:
    return {"xs": rows(*shapes), **others}


CASES = [
    Case(
        "one shape",
        """g (seq(float[2]) xs) => (seq(float[2]) ys) {
             ys = SequenceMap (xs) <body = b (float[2] x) => (float[2] y) { y = Neg (x) }> }""",
        (sequence((2,), (2,)), sequence((2,)), sequence()),
        "Loop with scan output",
    ),
    Case(
        "ragged in the first axis",
        """g (seq(float[N,2]) xs) => (seq(float[N,2]) ys) {
             ys = SequenceMap (xs) <body = b (float[N,2] x) => (float[N,2] y) { y = Neg (x) }> }""",
        (sequence((3, 2), (1, 2), (0, 2)), sequence((4, 2)), sequence()),
        "Loop with blocks",
        RAGGED,
    ),
    Case(
        "ragged in the last axis",
        """g (seq(float[2,N]) xs) => (seq(float[2,N]) ys) {
             ys = SequenceMap (xs) <body = b (float[2,N] x) => (float[2,N] y) { y = Neg (x) }> }""",
        (sequence((2, 3), (2, 1), (2, 0)), sequence((2, 4)), sequence()),
        "Loop with blocks",
        RAGGED,
    ),
    Case(
        "ragged in two axes",
        """g (seq(float[N,M]) xs) => (seq(float[N,M]) ys) {
             ys = SequenceMap (xs) <body = b (float[N,M] x) => (float[N,M] y) { y = Neg (x) }> }""",
        (sequence((2, 3), (4, 1), (0, 5)), sequence((2, 4)), sequence()),
        "Loop with insertion",
        RAGGED,
    ),
    Case(
        "unknown rank",
        """g (seq(float[]) xs) => (seq(float[]) ys) {
             ys = SequenceMap (xs) <body = b (float[] x) => (float[] y) { y = Neg (x) }> }""",
        (sequence((2, 3), (4,), ()), sequence((2, 4)), sequence()),
        "Loop with insertion",
        ("unknown-rank",),
    ),
    Case(
        "scalars",
        """g (seq(float) xs) => (seq(float) ys) {
             ys = SequenceMap (xs) <body = b (float x) => (float y) { y = Neg (x) }> }""",
        (sequence((), ()), sequence(()), sequence()),
        "Loop with scan output",
    ),
    Case(
        "scalars out of ragged elements",
        """g (seq(float[N]) xs) => (seq(float) ys) {
             ys = SequenceMap (xs) <body = b (float[N] x) => (float y) {
               y = ReduceSum <keepdims = 0> (x) }> }""",
        (sequence(*SHAPES), sequence((2,)), sequence()),
        "Loop with scan output",
    ),
    Case(
        "body without types",
        """g (seq(float[N]) xs) => (seq(float[N]) ys) {
             ys = SequenceMap (xs) <body = b (x) => (y) { y = Neg (x) }> }""",
        (sequence(*SHAPES), sequence()),
        "Loop with blocks",
        RAGGED,
    ),
    Case(
        "three forms in one map",
        """g (seq(float[N,M]) xs) => (seq(float) a, seq(float[N]) b, seq(float[N,M]) c) {
             a, b, c = SequenceMap (xs) <body = f (float[N,M] x) => (float p, float[N] q, float[N,M] r) {
               axes = Constant <value_ints = [1]> ()
               p = ReduceSum <keepdims = 0> (x)
               q = ReduceSum <keepdims = 0> (x, axes)
               r = Neg (x) }> }""",
        (sequence((2, 3), (4, 1), (0, 5)), sequence((2, 2)), sequence()),
        "Loop with blocks and insertion and scan output",
        ("ragged", "ragged"),
    ),
    Case(
        "one shape of symbols, beside blocks",
        """g (seq(float[M,4]) xs, float[N] c) => (seq(float[N]) a, seq(float[M,4]) b) {
             a, b = SequenceMap (xs) <body = f (float[M,4] x) => (float[N] y, float[M,4] z) {
               s = ReduceSum <keepdims = 0> (x)
               y = Add (s, c)
               z = Neg (x) }> }""",
        (
            sequence((2, 4), (3, 4), c=rows((5,))[0]),
            sequence((2, 4), c=rows((0,))[0]),
            sequence(c=rows((5,))[0]),
        ),
        "Loop with blocks and scan output",
        RAGGED,
    ),
    Case(
        "ragged beside a symbol of one number",
        """g (seq(float[M]) xs, float[N] c) => (seq(float[M,N]) ys) {
             axes = Constant <value_ints = [1]> ()
             ys = SequenceMap (xs) <body = f (float[M] x) => (float[M,N] y) {
               column = Unsqueeze (x, axes)
               row = Neg (c)
               wide = Shape (row)
               long = Shape (x)
               shape = Concat <axis = 0> (long, wide)
               y = Expand (column, shape) }> }""",
        (
            sequence((2,), (3,), (1,), c=rows((5,))[0]),
            sequence((2,), c=rows((3,))[0]),
            sequence(c=rows((5,))[0]),
        ),
        "Loop with blocks",
        RAGGED,
    ),
    Case(
        "further sequences and tensors in any order",
        """g (seq(float[N]) xs, float t, seq(int64) is, seq(float[2,2]) ms, int64[2] axes)
           => (seq(float) a, seq(float[2,2]) b) {
             a, b = SequenceMap (xs, t, is, axes, ms) <
               body = f (float[N] x, float s, int64 i, int64[2] k, float[2,2] m)
                      => (float p, float[2,2] q) {
                 moved = Sub (x, s)
                 total = ReduceSum <keepdims = 0> (moved)
                 f = Cast <to = 1> (i)
                 p = Mul (total, f)
                 reduced = ReduceSum <keepdims = 1> (m, k)
                 q = Sub (m, reduced) }> }""",
        (
            sequence(
                *SHAPES,
                t=rows(())[0],
                **{"is": rows((), (), (), dtype="int64")},
                ms=rows((2, 2), (2, 2), (2, 2)),
                axes=np.array([0, 1]),
            ),
            sequence(t=rows(())[0], **{"is": []}, ms=[], axes=np.array([0, 1])),
        ),
        "Loop with scan output",
        ("surplus-ignored",),
    ),
    Case(
        "one sequence twice",
        """g (seq(float[N]) xs) => (seq(float[N]) ys) {
             ys = SequenceMap (xs, xs) <body = f (float[N] x, float[N] z) => (float[N] y) {
               y = Add (x, z) }> }""",
        (sequence(*SHAPES), sequence()),
        "Loop with blocks",
        RAGGED,
    ),
    Case(
        "captured at several depths",
        """g (seq(float[N]) xs, float s, bool c) => (seq(float[N]) ys) <float[1] w = {3}> {
             t = Add (s, s)
             ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) {
               u = Mul (x, t)
               y = If (c) <
                 then_branch = p () => (float[N] v) { a = Add (u, w) v = Add (a, s) },
                 else_branch = q () => (float[N] v2) { v2 = Sub (x, t) }> }> }""",
        (
            sequence(*SHAPES, s=rows(())[0], c=np.array(True)),
            sequence(*SHAPES, s=rows(())[0], c=np.array(False)),
            sequence(s=rows(())[0], c=np.array(False)),
        ),
        "Loop with blocks",
        RAGGED,
    ),
    Case(
        "a sequence captured",
        """g (seq(float[N]) xs, seq(float[N]) others) => (seq(float[N]) ys) {
             ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) {
               zero = Constant <value_int = 0> ()
               first = SequenceAt (others, zero)
               y = Concat <axis = 0> (x, first) }> }""",
        (sequence(*SHAPES, others=rows((1,), (2,))), sequence(others=[])),
        "Loop with blocks",
        RAGGED,
    ),
    Case(
        "map in a branch",
        """g (seq(float[N]) xs, bool c) => (seq(float[N]) ys) {
             ys = If (c) <
               then_branch = p () => (seq(float[N]) a) {
                 a = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) { y = Neg (x) }> },
               else_branch = q () => (seq(float[N]) b) {
                 b = SequenceMap (xs) <body = h (float[N] x) => (float[N] y) { y = Abs (x) }> }> }""",
        (
            sequence(*SHAPES, c=np.array(True)),
            sequence(*SHAPES, c=np.array(False)),
            sequence(c=np.array(True)),
        ),
        "Loop with blocks",
        ("ragged", "ragged"),
    ),
    Case(
        "map in a Loop",
        """g (seq(float[N]) xs, int64 n) => (seq(float[N]) ys) {
             yes = Constant <value = bool {1}> ()
             ys = Loop (n, yes, xs) <body = l (int64 i, bool c, seq(float[N]) state)
                 => (bool go, seq(float[N]) next) {
               go = Identity (c)
               step = Cast <to = 1> (i)
               next = SequenceMap (state) <body = f (float[N] x) => (float[N] y) {
                 y = Sub (x, step) }> }> }""",
        (
            sequence(*SHAPES, n=np.array(3)),
            sequence(*SHAPES, n=np.array(0)),
            sequence(n=np.array(2)),
        ),
        "Loop with blocks",
        RAGGED,
        second_opinion=False,
    ),
    Case(
        "map in a Scan",
        """g (float[3,4,2] t) => (float[3,2] out) {
             out = Scan <num_scan_inputs = 1, body = s (float[4,2] e) => (float[2] r) {
               parts = SplitToSequence <axis = 0, keepdims = 0> (e)
               negated = SequenceMap (parts) <body = f (float[2] x) => (float[2] y) { y = Neg (x) }>
               all = ConcatFromSequence <axis = 0, new_axis = 1> (negated)
               axes = Constant <value_ints = [0]> ()
               r = ReduceMax <keepdims = 0> (all, axes) }> (t) }""",
        ({"t": rows((3, 4, 2))[0]},),
        "Loop with scan output",
        second_opinion=False,
    ),
    Case(
        "map in a map",
        """g (seq(int64[N,3]) xs) => (seq(int64[N,3]) ys) {
             ys = SequenceMap (xs) <body = b (int64[N,3] x) => (int64[N,3] w) {
               r = SplitToSequence <axis = 0, keepdims = 0> (x)
               s = SequenceMap (r) <body = c (int64[3] y) => (int64[3] z) {
                 total = ReduceSum <keepdims = 0> (x)
                 z = Add (y, total) }>
               w = ConcatFromSequence <axis = 0, new_axis = 1> (s) }> }""",
        (
            {"xs": rows((2, 3), (3, 3), (1, 3), dtype=np.int64)},
            {"xs": []},
        ),
        "Loop with blocks",
        RAGGED,
        second_opinion=False,
    ),
    Case(
        "three maps, one in the other",
        """g (seq(int32[2,2,2]) xs) => (seq(int32[2,2,2]) ys) {
             ys = SequenceMap (xs) <body = b (int32[2,2,2] x) => (int32[2,2,2] v) {
               r = SplitToSequence <axis = 0, keepdims = 0> (x)
               s = SequenceMap (r) <body = c (int32[2,2] y) => (int32[2,2] w) {
                 p = SplitToSequence <axis = 1, keepdims = 0> (y)
                 q = SequenceMap (p) <body = d (int32[2] z) => (int32[2] u) { u = Neg (z) }>
                 w = ConcatFromSequence <axis = -1, new_axis = 1> (q) }>
               v = ConcatFromSequence <axis = 0, new_axis = 1> (s) }> }""",
        ({"xs": rows((2, 2, 2), (2, 2, 2), dtype=np.int32)}, {"xs": []}),
        "Loop with scan output",
        second_opinion=False,
    ),
    Case(
        "map after map",
        """g (seq(float[N]) xs) => (seq(float[N]) zs) {
             ys = SequenceMap (xs) <body = b (float[N] x) => (float[N] y) { y = Neg (x) }>
             zs = SequenceMap (xs, ys) <body = c (float[N] x, float[N] y) => (float[N] z) {
               z = Sub (x, y) }> }""",
        (sequence(*SHAPES), sequence()),
        "Loop with blocks",
        ("ragged", "ragged"),
    ),
    Case(
        "a map that nothing reads",
        """g (seq(float[2]) xs) => (seq(float[2]) ys) {
             ys = SequenceMap (xs) <body = b (float[2] x) => (float[2] y) { y = Neg (x) }>
             zs = SequenceMap (xs) <body = c (float[2] x) => (float[2] z) { z = Abs (x) }> }""",
        (sequence((2,), (2,)), sequence()),
        "removed, no output of it is read",
    ),
    Case(
        "an output that nothing reads",
        """g (seq(float[2]) xs) => (seq(float[2]) ys) {
             unread, ys = SequenceMap (xs) <body = b (float[2] x) => (float[2] a, float[2] y) {
               a = Abs (x) y = Neg (x) }> }""",
        (sequence((2,), (2,)), sequence()),
        "Loop with scan output",
    ),
]
