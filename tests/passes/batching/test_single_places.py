"""A Slice of one place whose axis is removed behind it is read by one Gather, and fails alike."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import BackendError, open_session
from tests.passes.loops import model, read

TEXT = """g (float[N,{shape}] x, int64[N] n) => (float[N,?] rs) {{
    t = Constant <value = bool {{1}}> ()
    shape = Shape <start = 0, end = 1> (x)
    none = Squeeze (shape)
    rs = Loop (none, t) <body = step (int64 i, bool c) => (bool d, float[4] r) {{
        zero = Constant <value = int64[1] {{0}}> ()
        one = Constant <value = int64[1] {{1}}> ()
        along = Constant <value = int64[1] {{{axis}}}> ()
        k = Unsqueeze (i, zero)
        b = Gather (n, k)
        e = Add (b, one)
        row = Gather (x, i)
        cut = Slice (row, b, e, along)
        r = Squeeze (cut, along)
        d = Identity (c)
    }}>
}}"""
AXES = {"first axis": ("T,4", 0), "last axis": ("4,T", 1), "from the back": ("4,T", -1)}


def graph(name: str) -> str:
    shape, axis = AXES[name]
    return TEXT.format(shape=shape, axis=axis)


def given(name: str, *places: int) -> dict[str, np.ndarray]:
    shape = (5, 4) if AXES[name][0] == "T,4" else (4, 5)
    x = np.arange(len(places) * 20, dtype=np.float32).reshape(len(places), *shape)
    return {"x": x, "n": np.array(places, np.int64)}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("places", [(), (4,), (0, 3, 2), (-2, -5, 1)])
def test_it_reads_the_place(name: str, places: tuple[int, ...]) -> None:
    before = model(graph(name))
    found = read(before)
    assert found.loops == 0
    assert "If" not in {node.op_type for node in found.model.graph.node}
    feed = given(name, *places)
    expected, made = (open_session(one).run(feed) for one in (before, found.model))
    np.testing.assert_array_equal(made["rs"], expected["rs"])


@pytest.mark.sampled
@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("place", [5, -1, -6, 9, 2**40])
def test_no_place_is_an_error_as_it_was(name: str, place: int) -> None:
    before = model(graph(name))
    for one in (before, read(before).model):
        session = open_session(one)
        with pytest.raises(BackendError):
            session.run(given(name, 0, place, 1))


BETWEEN = """g (float[N,H,W] x, int32[B] n) => (float[B,?,?] rs) {{
    t = Constant <value = bool {{1}}> ()
    count = Size (n)
    rs = Loop (count, t) <body = step (int64 i, bool c) => (bool d, float[?,?] r) {{
        zero = Constant <value = int64[1] {{0}}> ()
        two = Constant <value = int64[1] {{2}}> ()
        half = Constant <value = float {{0.5}}> ()
        one = Constant <value = int32[1] {{1}}> ()
        k = Unsqueeze (i, zero)
        b = Gather (n, k)
        e = Add (b, one)
        front = Constant <value = int32[1] {{0}}> ()
        cut = Slice (x, b, e, front)
        {nodes}
        d = Identity (c)
    }}>
}}"""
KEEPING = {
    "turned": "t2 = Transpose <perm = [2, 0, 1]> (cut)  last = Sub (two, one64)  r = Squeeze (t2, last)",
    "scaled": "m = Mul (cut, half)  a = Relu (m)  r = Squeeze (a, zero)",
    "resized": """shape = Shape (cut)  own = Slice (shape, zero, one64)
        sides = Constant <value = int64[2] {3, 5}> ()
        sizes = Concat <axis = 0> (own, sides)
        big = Resize <mode = "nearest"> (cut, , , sizes)  r = Squeeze (big, zero)""",
    "by a scale of 1": """scales = Constant <value = float[3] {1.0, 2.0, 1.0}> ()
        big = Resize <mode = "nearest"> (cut, , scales)  r = Squeeze (big, zero)""",
    "by a scale that only a run tells": """many = Size (n)  number = Cast <to = 1> (many)
        nil = Sub (number, number)  same = Exp (nil)  ones = Unsqueeze (same, zero)
        sides = Constant <value = float[2] {2.0, 1.0}> ()
        scales = Concat <axis = 0> (ones, sides)
        big = Resize <mode = "nearest"> (cut, , scales)  r = Squeeze (big, zero)""",
    "reshaped": """sides = Constant <value = int64[2] {2, 3}> ()  q = Neg (cut)
        r = Reshape (q, sides)""",
    "read beside": "sum = ReduceSum <keepdims = 0> (cut, zero)  q = Squeeze (cut, zero)  r = Add (sum, q)",
}


def between(name: str) -> str:
    one = "one64 = Constant <value = int64[1] {1}> ()  "
    return BETWEEN.format(nodes=one + KEEPING[name])


@pytest.mark.parametrize("name", KEEPING)
def test_the_axis_is_followed_to_where_it_is_removed(name: str) -> None:
    before = model(between(name).replace("[N,H,W]", "[N,3,2]"))
    found = read(before)
    assert found.loops == 0
    x = np.arange(4 * 3 * 2, dtype=np.float32).reshape(4, 3, 2) - 9
    for places in ([2], [0, 3, 3], [-2, -4, 1]):
        feed = {"x": x, "n": np.array(places, np.int32)}
        expected, made = (open_session(one).run(feed) for one in (before, found.model))
        np.testing.assert_array_equal(made["rs"], expected["rs"])


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("place", [4, -1, -5, 2**30])
def test_no_place_is_an_error_behind_what_keeps_the_axis(name: str, place: int) -> None:
    before = model(between(name).replace("[N,H,W]", "[N,3,2]"))
    x = np.ones((4, 3, 2), np.float32)
    for one in (before, read(before).model):
        with pytest.raises(BackendError):
            open_session(one).run({"x": x, "n": np.array([0, place, 1], np.int32)})


ELSEWHERE = {
    "a target that leaves it open": """sides = Constant <value = int64[2] {-1, 3}> ()
        r = Reshape (cut, sides)""",
    "an axis of its size that is made": """ones = Constant <value = int64[3] {1, 3, 2}> ()
        big = Expand (cut, ones)  r = Squeeze (big, zero)""",
    "another one": "m = ReduceSum <keepdims = 0> (cut, zero)  r = Identity (m)",
}


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("places", [[0, 3], [0, 7, 2], [-1]])
def test_what_does_not_need_the_place_runs_without_it(name: str, places: list[int]) -> None:
    text = BETWEEN.format(nodes=ELSEWHERE[name]).replace("[N,H,W]", "[N,3,2]")
    before = model(text)
    feed = {"x": np.ones((4, 3, 2), np.float32), "n": np.array(places, np.int32)}
    outcomes = []
    for one in (before, read(before).model):
        try:
            outcomes.append(open_session(one).run(feed)["rs"].tolist())
        except BackendError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


FAR = (
    BETWEEN.replace("float[N,H,W] x, int32[B] n", "float[N,H,W] x, int32[B] n, int32[B] m")
    .replace(
        "e = Add (b, one)",
        "e = Gather (m, k)  far = Constant <value = int32[1] {{1000000000}}> ()",
    )
    .replace("Slice (x, b, e, front)", "Slice (x, b, e, front, far)")
)


@pytest.mark.parametrize("place", [0, 3, -1, -4, 4, -5])
@pytest.mark.parametrize("end", [0, 1, 3, 10**9, 2**31 - 1, -1, -9])
def test_the_first_place_of_many_far_from_each_other(place: int, end: int) -> None:
    before = model(FAR.format(nodes="q = Relu (cut)  r = Squeeze (q, zero)"))
    found = read(before)
    assert found.loops == 0
    x = np.arange(4 * 3 * 2, dtype=np.float32).reshape(4, 3, 2) - 9
    ends = np.array([10**9, end, 2], np.int32)
    feed = {"x": x, "n": np.array([2, place, 1], np.int32), "m": ends}
    outcomes = []
    for one in (before, found.model):
        try:
            outcomes.append(open_session(one).run(feed)["rs"].tolist())
        except BackendError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


GUARDED = TEXT.replace(
    "r = Squeeze (cut, along)",
    """some = Greater (b, zero)  flag = Squeeze (some)
        r = If (flag) <then_branch = one () => (float[4] u) {{ u = Squeeze (cut, along) }},
            else_branch = none () => (float[4] o) {{
                o = Constant <value = float[4] {{0,0,0,0}}> () }}>""",
)


@pytest.mark.parametrize("name", AXES)
def test_a_place_that_only_a_branch_reads_may_be_missing(name: str) -> None:
    shape, axis = AXES[name]
    before = model(GUARDED.format(shape=shape, axis=axis))
    feed = given(name, 3, -1, 4, -9)
    expected, made = (open_session(one).run(feed) for one in (before, read(before).model))
    np.testing.assert_array_equal(made["rs"], expected["rs"])


SHARED = """g (float[N,3] x, int64[1] p, float[B,3] z) => (float[M,3] ys) {
    t = Constant <value = bool {1}> ()  none = Constant <value = int64 {0}> ()
    s = Shape (z)  n = Gather (s, none)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool d, float[3] r) {
        zero = Constant <value = int64[1] {0}> ()  one = Constant <value = int64[1] {1}> ()
        e = Add (p, one)  cut = Slice (x, p, e, zero)  q = Squeeze (cut, zero)
        row = Gather (z, i)  r = Add (row, q)  d = Identity (c)
    }>
}"""


@pytest.mark.parametrize("place", [1, 99, -1])
@pytest.mark.parametrize("count", [0, 2])
def test_a_place_that_no_iteration_reads_may_be_missing(place: int, count: int) -> None:
    before = model(SHARED)
    after = read(before).model
    z = np.ones((count, 3), np.float32)
    feed = {"x": np.ones((4, 3), np.float32), "p": np.array([place]), "z": z}
    if place == 1 or not count:
        expected, made = (open_session(one).run(feed) for one in (before, after))
        np.testing.assert_array_equal(made["ys"], expected["ys"])
        return
    for one in (before, after):
        with pytest.raises(BackendError):
            open_session(one).run(feed)


@pytest.mark.parametrize("place", [3, 4, -5])
def test_a_known_place_that_is_missing_is_read_by_no_iteration(place: int) -> None:
    """A runtime that looks at shapes refuses the model as given."""
    text = SHARED.replace("float[N,3] x, int64[1] p", "float[4,3] x")
    before = model(text.replace(") {", f") <int64[1] p = {{{place}}}> {{", 1))
    feed = {"x": np.ones((4, 3), np.float32), "z": np.ones((0, 3), np.float32)}
    made = open_session(read(before).model, "reference").run(feed)
    assert made["ys"].shape == (0, 3)


CROSSED = """g (float[N,5,6] x, float[5,6] w, int64[N] p, int64[N] q) => (float[N,?] rs) {{
    t = Constant <value = bool {{1}}> ()
    count = Size (p)
    rs = Loop (count, t) <body = step (int64 i, bool c) => (bool d, float[?] r) {{
        zero = Constant <value = int64[1] {{0}}> ()
        one = Constant <value = int64[1] {{1}}> ()
        axes = Constant <value = int64[2] {{0, 1}}> ()
        sizes = Constant <value = int64[2] {{1, {width}}}> ()
        k = Unsqueeze (i, zero)
        of_p = Gather (p, k)
        of_q = Gather (q, k)
        row = Gather (x, i)
        b = Concat <axis = 0> (of_p, of_q)
        e = Add (b, sizes)
        cut = Slice ({data}, b, e, axes)
        {nodes}
        d = Identity (c)
    }}>
}}"""
BOTH = "v = Squeeze (cut, axes)  r = Unsqueeze (v, zero)"
FIRST = "v = Squeeze (cut, zero)  r = ReduceSum <keepdims = 1> (v, zero)"


@pytest.mark.sampled
@pytest.mark.parametrize("data", ["w", "row"])
@pytest.mark.parametrize(
    ("width", "nodes", "q"),
    [(1, BOTH, (0, 5, -2)), (2, FIRST, (0, 5, 3)), (1, FIRST, (2, 2, 0))],
    ids=["both", "a window beside", "one that stays"],
)
def test_places_of_two_axes_are_read(
    data: str, width: int, nodes: str, q: tuple[int, ...]
) -> None:
    before = model(CROSSED.format(data=data, width=width, nodes=nodes))
    found = read(before)
    assert found.loops == 0
    x = np.arange(90, dtype=np.float32).reshape(3, 5, 6)
    for count in (0, 1, 3):
        feed = {"x": x[:count], "w": x[0] - 7}
        feed |= {"p": np.array([4, 0, -2], np.int64)[:count], "q": np.array(q, np.int64)[:count]}
        expected, made = (open_session(one).run(feed) for one in (before, found.model))
        if count:
            np.testing.assert_array_equal(made["rs"], expected["rs"])


@pytest.mark.parametrize("data", ["w", "row"])
@pytest.mark.parametrize(("p", "q"), [(5, 0), (0, 6), (-1, 0), (0, -1), (-6, 0), (9, 9)])
def test_no_place_of_one_of_two_axes_is_an_error_as_it_was(data: str, p: int, q: int) -> None:
    before = model(CROSSED.format(data=data, width=1, nodes=BOTH))
    x = np.ones((2, 5, 6), np.float32)
    feed = {"x": x, "w": x[0], "p": np.array([1, p], np.int64), "q": np.array([1, q], np.int64)}
    for one in (before, read(before).model):
        with pytest.raises(BackendError):
            open_session(one).run(feed)
