"""Lists of pieces of any sizes that are only joined behind the Loop end without it."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import BackendError, open_session
from rewriter.pipeline import rewrite
from tests.passes.loops import model, read

TEXT = """g (float[N,5,2] x, int64[N] n) => (float[?,?] y) {{
    t = Constant <value = bool {{1}}> ()
    count = Size (n)
    zero = Constant <value = int64[1] {{0}}> ()
    one = Constant <value = int64[1] {{1}}> ()
    far = Constant <value = int64[1] {{9}}> ()
    two = Constant <value = int64 {{2}}> ()
    first = Constant <value = float[1,2] {{7.0, 8.0}}> ()
    tall = Constant <value = float[2,1] {{7.0, 8.0}}> ()
    flat = Constant <value = float[0,2] {{}}> ()
    front = Constant <value = int64 {{0}}> ()
    empty = SequenceEmpty ()
    single = SequenceInsert (empty, first)
    begin = {begin}
    all = Loop (count, t, begin) <body = step (int64 i, bool c, seq(float[?,?]) s)
        => (bool d, seq(float[?,?]) s2) {{
        place = Unsqueeze (i, zero)
        k = Gather (n, place)
        m = Gather (n, i)
        row = Gather (x, i)
        l = Greater (m, two)
        {nodes}
        d = Identity (c)
    }}>
    {join}
}}"""
START, EMPTY = "SequenceConstruct (first)", "SequenceEmpty ()"
JOIN = "y = ConcatFromSequence <axis = 0> (all)"
CUT = "p = Slice (row, zero, k, zero)"
ALWAYS = f"{CUT}  s2 = SequenceInsert (s, p)"
IF = """s2 = If (l) <then_branch = yes () => (seq(float[?,?]) v) {{ {0}  v = SequenceInsert (s, p) }},
    else_branch = no () => (seq(float[?,?]) w) {{ {1} }}>"""
SOME = IF.format(CUT, "w = Identity (s)")
TURNED = """s2 = If (l) <then_branch = yes () => (seq(float[?,?]) v) { v = Identity (s) },
    else_branch = no () => (seq(float[?,?]) w) { p = Slice (row, zero, k, zero)
        w = SequenceInsert (s, p) }>"""
EITHER = IF.format(CUT, "q = Slice (row, zero, one, zero)  w = SequenceInsert (s, q)")
ONE = "p = Slice (row, zero, one, zero)  s2 = SequenceInsert (s, p)"
PAIR = "p = Gather (row, zero)  q = Neg (p)  u = SequenceInsert (s, p)  s2 = SequenceInsert (u, q)"
CASES = {
    "behind an inserted element": ("SequenceInsert (empty, first)", ALWAYS, JOIN),
    "behind two inserted ones": ("SequenceInsert (single, flat)", ALWAYS, JOIN),
    "some behind an inserted element": ("SequenceInsert (empty, first)", SOME, JOIN),
    "alike, behind a row of nothing": ("SequenceInsert (empty, flat)", ONE, JOIN),
    "alike, behind a row like them": ("SequenceInsert (empty, first)", ONE, JOIN),
    "alike, behind two": ("SequenceInsert (single, flat)", ONE, JOIN),
    "two alike, behind a row of nothing": ("SequenceInsert (empty, flat)", PAIR, JOIN),
    "alike in some, behind a row of nothing": (
        "SequenceInsert (empty, flat)",
        IF.format("p = Slice (row, zero, one, zero)", "w = Identity (s)"),
        JOIN,
    ),
    "alike in some, behind a row like them": (
        "SequenceInsert (empty, first)",
        IF.format("p = Slice (row, zero, one, zero)", "w = Identity (s)"),
        JOIN,
    ),
    "alike, read by place": (
        "SequenceInsert (single, first)",
        ONE,
        "y = SequenceAt (all, front)  y2 = ConcatFromSequence <axis = 0> (all)",
    ),
    "behind an element": (START, ALWAYS, JOIN),
    "behind two": ("SequenceConstruct (first, first)", ALWAYS, JOIN),
    "some behind an element": (START, SOME, JOIN),
    "others behind an element": (START, TURNED, JOIN),
    "some behind nothing": (EMPTY, SOME, JOIN),
    "either": (START, EITHER, JOIN),
    "one of three": (
        EMPTY,
        """b = Greater (two, m)
        s2 = If (l) <then_branch = yes () => (seq(float[?,?]) v) { p = Slice (row, zero, k, zero)
            v = SequenceInsert (s, p) },
        else_branch = no () => (seq(float[?,?]) w) {
            w = If (b) <then_branch = small () => (seq(float[?,?]) v3) {
                q = Slice (row, k, far, zero)  v3 = SequenceInsert (s, q) },
            else_branch = none () => (seq(float[?,?]) w3) { w3 = Identity (s) }> }>""",
        JOIN,
    ),
    "two in each iteration": (
        EMPTY,
        f"{CUT}  u = SequenceInsert (s, p)  q = Slice (row, k, far, zero)  s2 = SequenceInsert (u, q)",
        JOIN,
    ),
    "two in a branch, one in the other": (
        START,
        IF.format(
            f"{CUT}  u = SequenceInsert (s, p)".replace("(s, p)", "(s, p)"),
            "q = Slice (row, k, far, zero)  w = SequenceInsert (s, q)",
        ).replace("v = SequenceInsert (s, p)", "v = SequenceInsert (u, row)"),
        JOIN,
    ),
    "one more behind the loop": (
        EMPTY,
        SOME,
        "more = SequenceInsert (all, first)  y = ConcatFromSequence <axis = 0> (more)",
    ),
    "columns": (
        "SequenceConstruct (tall)",
        f"{CUT}  z = Transpose <perm = [1, 0]> (p)  s2 = SequenceInsert (s, z)",
        "y = ConcatFromSequence <axis = 1> (all)",
    ),
    "joined twice": (
        START,
        ALWAYS,
        "y = ConcatFromSequence <axis = 0> (all)  a = ConcatFromSequence <axis = 0> (all)  y2 = Relu (a)",
    ),
}


def graph(name: str) -> str:
    begin, nodes, join = CASES[name]
    return TEXT.format(begin=begin, nodes=nodes, join=join)


def feed(*numbers: int) -> dict[str, np.ndarray]:
    x = np.arange(len(numbers) * 10, dtype=np.float32).reshape(len(numbers), 5, 2)
    return {"x": x, "n": np.array(numbers, np.int64)}


@pytest.mark.parametrize("name", CASES)
def test_pieces_are_joined_without_the_loop(name: str) -> None:
    before = model(graph(name))
    found = read(before)
    assert found.loops == 0
    some = [(), (3,), (1, 4, 0), (2, 5, 3, 0), (0, 0)]
    for numbers in some:
        try:
            expected = open_session(before).run(feed(*numbers))
        except BackendError:  # nothing to join
            continue
        np.testing.assert_array_equal(
            open_session(found.model).run(feed(*numbers))["y"], expected["y"]
        )


def test_no_sequence_is_left() -> None:
    after = rewrite(model(graph("some behind an element")), target="portable").model
    assert not any("Sequence" in node.op_type for node in after.graph.node)


NEAR = {
    "behind an element at a place": ("SequenceInsert (single, first, front)", ALWAYS, JOIN),
    "read by place": (START, ALWAYS, "y = SequenceAt (all, two)"),
    "joined along two axes": (
        START,
        ALWAYS,
        "y = ConcatFromSequence <axis = 0> (all)  a = ConcatFromSequence <axis = 1> (all)  y2 = Relu (a)",
    ),
    "counted, too": (START, ALWAYS, f"{JOIN}  many = SequenceLength (all)"),
    "one more at a place": (
        START,
        ALWAYS,
        "o = Squeeze (one)  more = SequenceInsert (all, first, o)  y = ConcatFromSequence <axis = 0> (more)",
    ),
    "in front": (START, f"{CUT}  o = Squeeze (zero)  s2 = SequenceInsert (s, p, o)", JOIN),
    "a condition that reads the list": (
        START,
        "h = SequenceLength (s)  b = Less (h, two)  " + SOME.replace("If (l)", "If (b)"),
        JOIN,
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_other_lists_keep_the_loop(name: str) -> None:
    begin, nodes, join = NEAR[name]
    found = read(model(TEXT.format(begin=begin, nodes=nodes, join=join)))
    assert found.loops == 1


@pytest.mark.parametrize("nodes", [ALWAYS, ONE])
@pytest.mark.parametrize("begin", ["Identity (given)", "SequenceInsert (given, first)"])
def test_elements_that_nothing_tells_keep_the_loop(begin: str, nodes: str) -> None:
    text = TEXT.format(begin=begin, nodes=nodes, join=JOIN)
    before = model(text.replace("int64[N] n)", "int64[N] n, seq(float[?,2]) given)"))
    found = read(before)
    assert found.loops == 1
    some = feed(1, 4, 0) | {"given": [np.full((1, 2), 9, np.float32)]}
    expected = open_session(before).run(some)["y"]
    np.testing.assert_array_equal(open_session(found.model).run(some)["y"], expected)
