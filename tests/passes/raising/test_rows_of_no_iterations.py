"""A loop reads rows that another Loop collects: of no iterations they have no open dimension."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.loops import model, rows, same

COLLECTS = """g (float[N,D] x, float[D] b, float least) => (OUTPUTS) {
  zero = Constant <value = int64 {0}> () yes = Constant <value = bool {1}> ()
  dims = Shape (x) n = Gather (dims, zero)
  r = Loop (n, yes) <body = one (int64 i, bool c) => (bool d, float[D] t) {
    e = Gather (x, i) t = Tanh (e) m = ReduceMax <keepdims = 0> (t) d = Greater (m, least) }>
  sizes = Shape (r) k = Gather (sizes, zero)
"""
READERS = {
    "a Loop": (
        "float[?,?] y",
        """y = Loop (k, yes) <body = two (int64 i, bool c) => (bool d, float[?] o) {
             d = Identity (c) e = Gather (r, i) o = Add (e, b) }>""",
    ),
    "a Loop behind other operators": (
        "float[?,?] y",
        """h = Neg (r) q = Transpose <perm = [1, 0]> (h)
           y = Loop (k, yes) <body = two (int64 i, bool c) => (bool d, float[?] o) {
             d = Identity (c) e = Gather <axis = 1> (q, i) o = Add (e, b) }>""",
    ),
    "a Scan": (
        "float[?,?] y",
        """some = Greater (k, zero)
           y = If (some) <then_branch = t () => (float[?,?] s) {
             s = Scan <num_scan_inputs = 1, body = two (float[D] e) => (float[D] o) {
               o = Add (e, b) }> (r) },
           else_branch = f () => (float[?,?] h) { h = Identity (r) }>""",
    ),
    "a map": (
        "float[?,?] y",
        """s = SplitToSequence <axis = 0, keepdims = 0> (r)
           o = SequenceMap (s) <body = two (float[?] e) => (float[?] o) { o = Add (e, b) }>
           some = Greater (k, zero)
           y = If (some) <then_branch = t () => (float[?,?] j) {
             j = ConcatFromSequence <axis = 0, new_axis = 1> (o) },
           else_branch = f () => (float[?,?] h) { h = Identity (r) }>""",
    ),
    "a sum": (
        "float[?] y",
        """y = Loop (k, yes, b) <body = two (int64 i, bool c, float[?] s) => (bool d, float[?] o) {
             d = Identity (c) e = Gather (r, i) o = Add (s, e) }>""",
    ),
    "a sum of products": (
        "float[?] y, float[?,?] z",
        """y, z = Loop (k, yes, b) <body = two (int64 i, bool c, float[?] s)
             => (bool d, float[?] o, float[?] m) {
             d = Identity (c) e = Gather (r, i) m = Mul (e, b) o = Add (s, m) }>""",
    ),
    "a sum of what a second Loop collects": (
        "float[?] y, float[?,?] z, float[?] v",
        """y, z = Loop (k, yes, b) <body = two (int64 i, bool c, float[?] s)
             => (bool d, float[?] o, float[?] m) {
             d = Identity (c) e = Gather (r, i) m = Mul (e, b) o = Add (s, m) }>
           v = Loop (k, yes, b) <body = three (int64 i, bool c, float[?] s)
             => (bool d, float[?] o) {
             d = Identity (c) e = Gather (z, i) o = Add (s, e) }>""",
    ),
    "a largest one": (
        "float[?] y",
        """y = Loop (k, yes, b) <body = two (int64 i, bool c, float[?] s) => (bool d, float[?] o) {
             d = Identity (c) e = Gather (r, i) o = Max (s, e) }>""",
    ),
    "two Loops in a row": (
        "float[?,?] y, float[?,?] z",
        """y = Loop (k, yes) <body = two (int64 i, bool c) => (bool d, float[?] o) {
             d = Identity (c) e = Gather (r, i) o = Add (e, b) }>
           z = Loop (k, yes) <body = three (int64 i, bool c) => (bool d, float[?] p) {
             d = Identity (c) e = Gather (y, i) p = Mul (b, e) }>""",
    ),
    "a last one": (
        "float[?] y, float[?,?] z",
        """y, z = Loop (k, yes, b) <body = two (int64 i, bool c, float[?] s)
             => (bool d, float[?] o, float[?] m) {
             d = Identity (c) e = Gather (r, i) o = Add (b, e) m = Sub (b, s) }>""",
    ),
}


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize("reader", READERS)
def test_nothing_fails_where_no_iteration_ran(reader: str, strategy: str) -> None:
    outputs, text = READERS[reader]
    before = model(COLLECTS.replace("OUTPUTS", outputs) + text + "}", 18)
    feeds = [
        {"x": rows(n, 3), "b": rows(3, seed=1), "least": np.float32(least)}
        for n, least in ((0, -9), (1, -9), (4, -9), (4, 0.5), (70, -9))
    ]
    after = rewrite(before, strategy=strategy).model
    assert same(before, after, *feeds) == len(feeds)


def test_rows_of_known_size_need_no_branch() -> None:
    outputs, text = READERS["a Loop"]
    known = (COLLECTS + text).replace("D] ", "3] ").replace("OUTPUTS", outputs)
    after = rewrite(model(known + "}", 18), strategy="fuse").model
    assert [n.op_type for n in after.graph.node if n.op_type in ("If", "Loop")] == ["Loop"]


CUT = """g (float[N,M] x, int64[B,2] at, int64[2] size) => (float[?,?,?] y) {
  zero = Constant <value = int64 {0}> () yes = Constant <value = bool {1}> ()
  axes = Constant <value = int64[2] {0, 1}> ()
  dims = Shape (at) n = Gather (dims, zero)
  y = Loop (n, yes) <body = one (int64 i, bool c) => (bool d, float[DIMS] o) {
    d = Identity (c) s = Gather (at, i) e = Add (s, size) LINES }> }"""
OF_ONE_AXIS = """first = Constant <value = int64[1] {0}> () b = Gather (s, first)
  f = Gather (e, first) o = Slice (x, b, f, first)"""


@pytest.mark.parametrize("declared", ["2,3", "2,?", "?,3", "?,?"])
@pytest.mark.parametrize(
    "lines", ["o = Slice (x, s, e, axes)", OF_ONE_AXIS], ids=["both axes", "the first axis"]
)
def test_cuts_have_the_declared_size(lines: str, declared: str) -> None:
    before = model(CUT.replace("DIMS", declared).replace("LINES", lines), 18)
    after = rewrite(before, strategy="fuse").model
    assert not any(node.op_type == "Loop" for node in after.graph.node)
    places = [[], [[1, 0]], [[0, 0], [2, 1], [1, 1]]]
    feeds = [
        {"x": rows(5, 3), "at": np.array(at, np.int64).reshape(-1, 2), "size": np.array([2, 3])}
        for at in places
    ]
    feeds[2]["x"] = rows(5, 4)
    assert same(before, after, *feeds[:2], open_rows=True) == 2
    if "Slice (x, s, e, axes)" in lines:
        assert same(before, after, feeds[2]) == 1
