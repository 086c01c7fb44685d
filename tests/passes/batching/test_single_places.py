"""A Slice of one place whose axis is removed at once is read by one Gather, and fails alike."""

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


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("place", [5, -1, -6, 9, 2**40])
def test_no_place_is_an_error_as_it_was(name: str, place: int) -> None:
    before = model(graph(name))
    for one in (before, read(before).model):
        session = open_session(one)
        with pytest.raises(BackendError):
            session.run(given(name, 0, place, 1))


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
