"""Windows of a tensor that grow or shrink from iteration to iteration: ``x[:i + 1]``, ``x[i:]``."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.loops import model, read, same

FIRST = "v = Slice (x, zero1, behind, zero1)"
WINDOWS = {
    "mean_so_far": f"{FIRST}  y = ReduceMean <axes = [0], keepdims = 0> (v)",
    "greatest_so_far": f"{FIRST}  y = ReduceMax <axes = [0], keepdims = 0> (v)",
    "all_before": "v = Slice (x, zero1, i1, zero1)  y = ReduceSum <keepdims = 0> (v, zero1)",
    "sum_left": "v = Slice (x, i1, far, zero1)  y = ReduceSum <keepdims = 0> (v, zero1)",
    "least_left": "v = Slice (x, i1, far, zero1)  y = ReduceMin <axes = [0], keepdims = 0> (v)",
    "behind_the_first": "v = Slice (x, one1, behind, zero1)  y = ReduceSum <keepdims = 0> (v, zero1)",
    "weighed": f"""{FIRST}  w0 = Gather <axis = 1> (x, zero)  w1 = Slice (w0, zero1, behind, zero1)
        w = Unsqueeze (w1, zero1)  p = MatMul (w, v)  y = Squeeze (p, zero1)""",
}
LIMITED = "where these take much, they run in one loop"
ANYWHERE = {"lacks": frozenset({"Loop", "If", "Scan"})}


def text(body: str, rows: int | str = "N", width: int | str = 4) -> str:
    """Return a Loop over the rows of a tensor."""
    return f"""g (float[{rows},{width}] x) => (float[{rows},{width}] ys) {{
        t = Constant <value = bool {{1}}> ()
        zero = Constant <value = int64 {{0}}> ()
        zero1 = Constant <value = int64[1] {{0}}> ()
        one1 = Constant <value = int64[1] {{1}}> ()
        far = Constant <value = int64[1] {{9223372036854775807}}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[{width}] y) {{
            go = Identity (c)
            i1 = Unsqueeze (i, zero1)
            behind = Add (i1, one1)
            {body}
        }}>
    }}"""


def fed(rows: int, width: int = 4) -> dict[str, np.ndarray]:
    """Return random rows."""
    return {"x": np.random.default_rng(rows).standard_normal((rows, width)).astype(np.float32)}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_bounded(name: str) -> None:
    """A loop runs where windows take much; without one that is said."""
    before = model(text(WINDOWS[name]))
    lengths = [fed(rows) for rows in (0, 1, 2, 7, 64, 200)]
    found = read(before, auto=True)
    assert same(before, found.model, *lengths) >= len(lengths) - 1
    assert found.loops
    assert LIMITED in " ".join(note for one in found.decisions for note in one.notes)
    found = read(before, **ANYWHERE)
    assert same(before, found.model, *lengths) >= len(lengths) - 1
    assert not found.loops
    notes = " ".join(note for one in found.decisions for note in one.notes)
    assert "parts of one tensor that overlap, and nothing asks what that takes" in notes


def test_rows_of_unknown_width() -> None:
    """How many numbers a row has is asked beside the number of rows."""
    before = model(text(WINDOWS["mean_so_far"], width="D"))
    found = read(before, auto=True)
    assert LIMITED in " ".join(note for one in found.decisions for note in one.notes)
    given = [fed(rows, width) for rows, width in ((3, 0), (20, 1), (20, 500), (300, 1))]
    assert same(before, found.model, *given) == len(given)


@pytest.mark.parametrize(
    ("rows", "width", "strategy", "loops"),
    [(16, 4, "auto", 0), (512, 64, "auto", 1), (64, 64, "fuse", 0), (512, 64, "fuse", 0)],
)
def test_known_sizes_are_asked_before(rows: int, width: int, strategy: str, loops: int) -> None:
    """Where sizes are known nothing is asked at run time: the Loop stays, or it does not."""
    before = model(text(WINDOWS["greatest_so_far"], rows, width))
    result = rewrite(before, strategy=strategy)
    assert result.report.after.by_type.get("Loop", 0) == loops
    assert LIMITED not in " ".join(result.report.decisions[0].notes)
    if loops:
        reason = result.report.decisions[0].reasons[0]
        total = rows * (rows + 1) // 2 * width
        assert f"overlapping parts of one tensor take {total:,} numbers" in reason.detail


def test_windows_that_are_not_read() -> None:
    """Causal attention reads the tensor itself, and nothing is asked of its windows."""
    body = f"""{FIRST}  e = Gather <axis = 0> (x, i1)  vt = Transpose <perm = [1, 0]> (v)
        sc = MatMul (e, vt)  pr = Softmax <axis = -1> (sc)  q = MatMul (pr, v)
        y = Squeeze (q, zero1)"""
    before = model(text(body))
    found = read(before, auto=True)
    assert LIMITED not in " ".join(note for one in found.decisions for note in one.notes)
    assert same(before, found.model, fed(7), fed(64))


def test_windows_of_one_size_have_no_bound() -> None:
    """They take as many rows as there are iterations times their size."""
    body = """lo = Sub (i1, one1)  lo0 = Max (lo, zero1)  v = Slice (x, lo0, behind, zero1)
        y = ReduceMax <axes = [0], keepdims = 0> (v)"""
    before = model(text(body))
    found = read(before, auto=True)
    assert LIMITED not in " ".join(note for one in found.decisions for note in one.notes)
    assert same(before, found.model, fed(7), fed(64))


def test_very_many_windows_are_counted_when_the_model_runs() -> None:
    found = read(model(text(WINDOWS["mean_so_far"], 1_000_000)), auto=True)
    assert LIMITED in " ".join(note for one in found.decisions for note in one.notes)


@pytest.mark.parametrize("less", [0, 1])
def test_windows_whose_sums_are_written_are_bounded(less: int) -> None:
    """The Loop as given runs where windows take much, however its iterations are counted."""
    before = model(f"""g (float[N,4] x) => (float[M,4] ys) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        less = Constant <value = int64 {{{less}}}> ()  four1 = Constant <value = int64[1] {{4}}> ()
        zero1 = Constant <value = int64[1] {{0}}> ()  one1 = Constant <value = int64[1] {{1}}> ()
        shape = Shape (x)  rows = Gather <axis = 0> (shape, zero)  n = Sub (rows, less)
        n1 = Unsqueeze (n, zero1)  dims = Concat <axis = 0> (n1, four1)
        begin = ConstantOfShape (dims)
        ys = Loop (n, t, begin) <body = step (int64 i, bool c, float[M,4] w)
            => (bool go, float[M,4] w2) {{
            go = Identity (c)  i1 = Unsqueeze (i, zero1)  behind = Add (i1, one1)
            v = Slice (x, zero1, behind, zero1)
            y = ReduceMax <axes = [0]> (v)  at = Unsqueeze (i1, zero1)
            w2 = ScatterND (w, at, y)
        }}>
    }}""")
    found = read(before, auto=True)
    lengths = [fed(rows) for rows in (1, 2, 7, 64, 400)]
    assert same(before, found.model, *lengths) == len(lengths)
    assert LIMITED in " ".join(note for one in found.decisions for note in one.notes)
    assert found.loops


@pytest.mark.parametrize(("rows", "loops"), [(6, 0), (45, 0), (46, 1)])
def test_windows_of_what_every_sample_may_hold_have_no_bound(rows: int, loops: int) -> None:
    """A sample may have 450 numbers, and a row takes as long as 6: 45 rows of 4 are allowed."""
    before = model(f"""g (float[N] x, float[{rows},4] table) => (float[N,4] ys) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        zero1 = Constant <value = int64[1] {{0}}> ()
        shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
            go = Identity (c)  e = Gather <axis = 0> (x, i)  k = Cast <to = 7> (e)
            k1 = Unsqueeze (k, zero1)  v = Slice (table, zero1, k1, zero1)
            y = ReduceSum <keepdims = 0> (v, zero1)
        }}>
    }}""")
    found = read(before, auto=True)
    assert found.loops == loops
    notes = " ".join(note for one in found.decisions for note in one.notes)
    assert (LIMITED in notes) is (loops > 0)
    given = [{"x": np.arange(count, dtype=np.float32) % rows} for count in (0, 1, 7, 100)]
    table = fed(rows)["x"]
    assert same(before, found.model, *({**one, "table": table} for one in given)) == 4
