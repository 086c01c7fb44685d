"""Loops and Scans that are maps, in every form that exporters write."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import BackendError, open_session
from rewriter.proof.compare import compare
from tests.passes.loops import kept, model, prove, read, rows, same

COUNTS = (0, 1, 2, 5)
SCALARS = """
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    two = Constant <value = int64 {2}> ()
    three = Constant <value = int64 {3}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    one1 = Constant <value = int64[1] {1}> ()
    three1 = Constant <value = int64[1] {3}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
"""


def scanned(body: str, *, trips: str = "n", first: str = "t", go: str = "Identity (t)") -> str:
    """Return a graph whose Loop collects ``y`` from the rows of ``x``."""
    return f"""g (float[N,4] x) => (float[M,4] ys) {{ {SCALARS}
        ys = Loop ({trips}, {first}) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
            {body}
            go = {go}
        }}>
    }}"""


def counts(*sizes: int, **more: np.ndarray) -> list[dict[str, np.ndarray]]:
    return [{"x": rows(n, 4), **more} for n in sizes or COUNTS]


READS = {
    "gather": "e = Gather <axis = 0> (x, i)  y = Tanh (e)",
    "gather_of_one": """
        p = Unsqueeze (i, zero1)  e = Gather <axis = 0> (x, p)  s = Squeeze (e, zero1)
        y = Tanh (s)""",
    "slice_of_one": """
        p = Unsqueeze (i, zero1)  q = Add (p, one1)  e = Slice (x, p, q, zero1)
        s = Squeeze (e, zero1)  y = Tanh (s)""",
    "slice_without_axes": """
        p = Reshape (i, one1)  q = Add (p, one1)  e = Slice (x, p, q)
        s = Squeeze (e, zero1)  y = Tanh (s)""",
    "backwards": """
        last = Sub (n, one)  j = Sub (last, i)  e = Gather <axis = 0> (x, j)  y = Tanh (e)""",
    "twice": """
        e = Gather <axis = 0> (x, i)  f = Gather <axis = 0> (x, i)  y = Mul (e, f)""",
    "first_row_too": """
        e = Gather <axis = 0> (x, i)  f = Gather <axis = 0> (x, zero)  y = Sub (e, f)""",
    "the_whole_too": """
        e = Gather <axis = 0> (x, i)  f = ReduceMax <axes = [0], keepdims = 0> (x)
        y = Sub (e, f)""",
    "the_number_too": """
        e = Gather <axis = 0> (x, i)  f = Cast <to = 1> (i)  y = Mul (e, f)""",
    "a_changed_tensor": "w = Neg (x)  e = Gather <axis = 0> (w, i)  y = Tanh (e)",
    "remainder": "j = Mod (i, two)  e = Gather <axis = 0> (x, j)  y = Tanh (e)",
    "the_row_itself": "y = Gather <axis = 0> (x, i)",
}


@pytest.mark.parametrize("name", READS)
def test_reads_by_the_iteration_number(name: str) -> None:
    sizes = (0, 2, 5) if name == "remainder" else COUNTS
    prove(scanned(READS[name]), *counts(*sizes))


VECTORS = {
    "a slice": "q = Add (i, one1)  e = Slice (x, i, q, zero1)  s = Squeeze (e, zero1)  y = Tanh (s)",
    "a slice of what is no tensor around": """
        q = Add (i, one1)  r = Neg (x)  e = Slice (r, i, q, zero1)  s = Squeeze (e, zero1)
        y = Tanh (s)""",
    "joined": """
        j = Concat <axis = 0> (i, i, i, i)  f = Cast <to = 1> (j)  p = Squeeze (i, zero1)
        e = Gather <axis = 0> (x, p)  y = Mul (e, f)""",
}


@pytest.mark.parametrize("name", VECTORS)
def test_an_iteration_number_that_is_declared_as_a_vector(name: str) -> None:
    """TensorFlow's exporter declares it so for CropAndResize, and onnxruntime yields it so."""
    text = scanned(VECTORS[name]).replace("int64 i,", "int64[1] i,")
    before = model(text)
    after = read(before)
    for feeds in counts(1, 3):
        expected = open_session(before).run(feeds)
        assert compare(expected, open_session(after.model).run(feeds)).equal


def test_a_read_of_all_rows_is_the_tensor_itself() -> None:
    found = prove(scanned("e = Gather <axis = 0> (x, i)  y = Tanh (e)"), *counts())
    assert set(found.operators) == {"Constant", "Tanh"}


TRIPS = {
    "one_less": ("m = Sub (n, one)", "m", (1, 2, 5)),
    "constant": ("m = Identity (three)", "m", (3, 5)),
    "cast_to_int32_and_back": ("k = Cast <to = 6> (n)  m = Cast <to = 7> (k)", "m", COUNTS),
    "least_of_two": ("m = Min (n, three)", "m", COUNTS),
    "least_of_a_list": (
        "u = Unsqueeze (n, zero1)  l = Concat <axis = 0> (u, three1)"
        "  m = ReduceMin <keepdims = 0> (l)",
        "m",
        COUNTS,
    ),
    "negative": ("m = Sub (zero, n)", "m", COUNTS),
    "slice_of_the_shape": ("l = Slice (shape, zero1, one1)  m = Squeeze (l)", "m", COUNTS),
    "size_of_a_column": (
        "l = Gather <axis = 1> (x, zero)  m = Size (l)",
        "m",
        COUNTS,
    ),
}


@pytest.mark.parametrize("name", TRIPS)
def test_trip_counts(name: str) -> None:
    lines, trips, sizes = TRIPS[name]
    body = "e = Gather <axis = 0> (x, i)  y = Tanh (e)"
    text = scanned(body, trips=trips).replace("ys = Loop", f"{lines}\n        ys = Loop")
    prove(text, *counts(*sizes))


def test_a_trip_count_that_is_an_input() -> None:
    text = f"""g (float[N,4] x, int64 m) => (float[M,4] ys) {{ {SCALARS}
        ys = Loop (m, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
            e = Gather <axis = 0> (x, i)
            y = Tanh (e)
            go = Identity (c)
        }}>
    }}"""
    prove(text, *({"x": rows(5, 4), "m": np.array(m)} for m in (-3, 0, 1, 4, 5)))


@pytest.mark.parametrize("position", ["i", "Sub (i, one)", "Add (i, two)"])
def test_more_trips_than_rows_are_an_error(position: str) -> None:
    """What the Loop reads is not there; nor may the fused form leave it out."""
    text = f"""g (float[N,4] x, int64 m) => (float[M,4] ys) {{ {SCALARS}
        ys = Loop (m, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
            j = {position if "(" in position else f"Identity ({position})"}
            e = Gather <axis = 0> (x, j)
            y = Tanh (e)
            go = Identity (c)
        }}>
    }}"""
    fused = open_session(prove(text, {"x": rows(5, 4), "m": np.array(3)}).model)
    with pytest.raises(BackendError, match=r"out of data bounds|ReshapeHelper"):
        fused.run({"x": rows(5, 4), "m": np.array(7)})


def test_a_first_condition_that_is_an_input() -> None:
    text = f"""g (float[N,4] x, bool f) => (float[M,4] ys, int64 k) {{ {SCALARS}
        k, ys = Loop (n, f, one) <body = step (int64 i, bool c, int64 j)
            => (bool go, int64 j2, float[4] y) {{
            e = Gather <axis = 0> (x, i)
            y = Tanh (e)
            j2 = Add (j, two)
            go = Identity (c)
        }}>
    }}"""
    prove(text, *({"x": rows(n, 4), "f": np.array(f)} for n in COUNTS for f in (True, False)))


CONDITIONS = {
    "constant_outside": ("t", "Identity (t)"),
    "constant_inside": ("t", "Constant <value = bool {1}> ()"),
    "cast_constant": ("t", "Cast <to = 9> (one)"),
    "handed_on": ("t", "Identity (c)"),
    "always_true_comparison": ("t", "LessOrEqual (zero, i)"),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_that_are_always_true(name: str) -> None:
    first, go = CONDITIONS[name]
    body = "e = Gather <axis = 0> (x, i)  y = Tanh (e)"
    prove(scanned(body, first=first, go=go), *counts())


def until(less: str, *, start: str = "zero", step: str = "one", first: str = "t") -> str:
    """Return a graph whose Loop ends by a condition on a carried counter ``k``."""
    return f"""g (float[N,4] x) => (float[M,4] ys, int64 last) {{ {SCALARS}
        f = {first if "(" in first else f"Identity ({first})"}
        last, ys = Loop (, f, {start}) <body = step (int64 i, bool c, int64 k)
            => (bool go, int64 k2, float[4] y) {{
            e = Gather <axis = 0> (x, i)
            w = Cast <to = 1> (k)
            y = Mul (e, w)
            k2 = Add (k, {step})
            go = {less}
        }}>
    }}"""


def until_not(ends: str, **options: str) -> str:
    """Return a graph whose Loop ends where a comparison holds."""
    return until("Not (q)", **options).replace("go = Not", f"q = {ends}\n            go = Not")


ENDS = {
    "less": (until("Less (k2, n)"), (1, 2, 5)),
    "less_or_equal": (until("LessOrEqual (k2, n)", start="one"), (1, 2, 5)),
    "greater": (until("Greater (n, k2)"), (1, 2, 5)),
    "greater_or_equal": (until("GreaterOrEqual (n, k2)", start="one"), (1, 2, 5)),
    "not_greater_or_equal": (until_not("GreaterOrEqual (k2, n)"), (1, 2, 5)),
    "not_greater": (until_not("Greater (k2, n)", start="one"), (1, 2, 5)),
    "not_less_or_equal": (until_not("LessOrEqual (n, k2)"), (1, 2, 5)),
    "not_less": (until_not("Less (n, k2)", start="one"), (1, 2, 5)),
    "tested_before": (until("Less (k2, n)", first="Less (zero, n)"), COUNTS),
    "tested_before_otherwise": (until("Less (k2, n)", first="Greater (n, zero)"), COUNTS),
    "another_test_before": (until("Less (k2, n)", first="Less (two, n)"), COUNTS),
    "from_two": (until("Less (k2, n)", start="two", first="Less (two, n)"), COUNTS),
    "steps_of_two_to_a_constant": (until("Less (k2, three)", step="two"), (2, 5)),
    "steps_of_two_to_an_odd_end": (
        until("Less (k2, five)", step="two").replace("f =", "five = Add (two, three)\n f =", 1),
        (3, 5),
    ),
    "the_iteration_number": (until("Less (i, three)"), (4, 5)),
}


@pytest.mark.parametrize("name", ENDS)
def test_loops_that_end_by_a_counter(name: str) -> None:
    text, sizes = ENDS[name]
    prove(text, *counts(*sizes))


def test_a_trip_count_beside_a_counter() -> None:
    text = until("Less (k2, n)").replace("Loop (,", "Loop (three,")
    prove(text, *counts(1, 2, 3, 5))


def windows(trips: str, start: str, size: str, dims: str = "N,4") -> str:
    return f"""g (float[{dims}] x) => (float[M,3,4] ys) {{ {SCALARS}
        {trips}
        ys = Loop (m, t) <body = step (int64 i, bool c) => (bool go, float[3,4] y) {{
            {start}
            q = Add (p, {size})
            e = Slice (x, p, q, zero1)
            y = Tanh (e)
            go = Identity (t)
        }}>
    }}"""


def test_windows_that_overlap_are_one_gather() -> None:
    text = windows("m = Sub (n, two)", "p = Unsqueeze (i, zero1)", "three1")
    found = prove(text, *counts(3, 5, 8))
    assert found.operators["Gather"] == 1


def test_windows_that_stride() -> None:
    text = windows(
        "m = Identity (three)", "j = Mul (i, two)  p = Unsqueeze (j, zero1)", "three1", "7,4"
    )
    prove(text, *counts(7))


def test_slices_side_by_side_are_a_reshape() -> None:
    text = windows(
        "m = Identity (three)", "j = Mul (i, three)  p = Unsqueeze (j, zero1)", "three1", "9,4"
    )
    found = prove(text, *counts(9))
    assert not found.operators["Gather"] - 1


def test_windows_that_may_be_cut_short_keep_their_lengths() -> None:
    """The last windows are shorter: their rows are packed and summed one sample at a time."""
    text = f"""g (float[N,4] x) => (float[M,4] ys) {{ {SCALARS}
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
            p = Unsqueeze (i, zero1)
            q = Add (p, three1)
            e = Slice (x, p, q, zero1)
            y = ReduceSum <keepdims = 0> (e, zero1)
            go = Identity (t)
        }}>
    }}"""
    prove(text, *counts())


def test_a_read_along_another_axis() -> None:
    text = f"""g (float[3,N] x) => (float[M,3] ys) {{ {SCALARS}
        k = Gather <axis = 0> (shape, one)
        ys = Loop (k, t) <body = step (int64 i, bool c) => (bool go, float[3] y) {{
            e = Gather <axis = 1> (x, i)
            y = Tanh (e)
            go = Identity (t)
        }}>
    }}"""
    prove(text, *({"x": rows(3, n)} for n in COUNTS))


def test_a_second_tensor_with_more_rows() -> None:
    text = scanned("""
        e = Gather <axis = 0> (x, i)  f = Gather <axis = 0> (z, i)  y = Mul (e, f)
    """).replace("x)", "x, float[K,4] z)", 1)
    prove(text, *({"x": rows(n, 4), "z": rows(n + 2, 4, seed=1)} for n in COUNTS))


def appended(body: str, outside: str, outputs: str, inputs: str = "float[N,4] x") -> str:
    return f"""g ({inputs}) => ({outputs}) {{ {SCALARS}
        none = SequenceEmpty <dtype = 1> ()
        r = Loop (n, t, none) <body = step (int64 i, bool c, seq(float[]) s)
            => (bool go, seq(float[]) s2) {{
            e = Gather <axis = 0> (x, i)
            {body}
            go = Identity (t)
        }}>
        {outside}
    }}"""


def test_rows_in_turn_of_what_all_iterations_share() -> None:
    """The tensor has eight rows; the first ones are read."""
    text = scanned("""v = Exp (w)  e = Gather <axis = 0> (x, i)  q = Gather <axis = 0> (v, i)
            y = Add (e, q)""").replace("(float[N,4] x)", "(float[N,4] x, float[8,4] w)")
    prove(text, *counts(0, 3, 8, w=rows(8, 4, seed=1)))


ROWS = "y = Tanh (e)  s2 = SequenceInsert (s, y)"
APPENDED = {
    "sequence": (ROWS, "ys = Identity (r)", "seq(float[]) ys", COUNTS),
    "at_the_end_by_number": (
        "y = Tanh (e)  s2 = SequenceInsert (s, y, i)",
        "ys = Identity (r)",
        "seq(float[]) ys",
        COUNTS,
    ),
    "stacked": (
        ROWS,
        "ys = ConcatFromSequence <axis = 0, new_axis = 1> (r)",
        "float[M,4] ys",
        (1, 2, 5),
    ),
    "stacked_behind": (
        ROWS,
        "ys = ConcatFromSequence <axis = -1, new_axis = 1> (r)",
        "float[4,M] ys",
        (1, 2, 5),
    ),
    "concatenated": (ROWS, "ys = ConcatFromSequence <axis = 0> (r)", "float[M] ys", (1, 2, 5)),
    "both": (
        ROWS,
        "ys = ConcatFromSequence <axis = 0> (r)  k = SequenceLength (r)",
        "float[M] ys, int64 k",
        (1, 2, 5),
    ),
}


@pytest.mark.parametrize("name", APPENDED)
def test_appended_sequences(name: str) -> None:
    body, outside, outputs, sizes = APPENDED[name]
    prove(appended(body, outside, outputs), *counts(*sizes))


def test_two_sequences_of_one_value_and_a_scan_output() -> None:
    text = f"""g (float[N,4] x) => (seq(float[]) a, seq(float[]) b, float[M,4] ys) {{ {SCALARS}
        none = SequenceEmpty <dtype = 1> ()
        a, b, ys = Loop (n, t, none, none)
            <body = step (int64 i, bool c, seq(float[]) s, seq(float[]) u)
            => (bool go, seq(float[]) s2, seq(float[]) u2, float[4] y) {{
            e = Gather <axis = 0> (x, i)
            y = Tanh (e)
            s2 = SequenceInsert (s, y)
            u2 = SequenceInsert (u, y)
            go = Identity (t)
        }}>
    }}"""
    prove(text, *counts())


def test_a_sequence_that_feeds_the_next_loop() -> None:
    second = """
        l = SequenceLength (r)
        ys = Loop (l, t) <body = next (int64 j, bool d) => (bool ho, float[4] z) {
            f = SequenceAt (r, j)
            z = Exp (f)
            ho = Identity (t)
        }>"""
    found = prove(appended(ROWS, second, "float[M,4] ys"), *counts())
    assert found.operators["SplitToSequence"] == 0 or found.loops == 0


ROWS_OF_ONE = f"""g (float[N,4] x) => (float[N,1,4] z, float[N,4] w) {{ {SCALARS}
    rows = SplitToSequence <axis = 0, keepdims = KEEPS> (x, one)
    m = SequenceLength (rows) none = SequenceEmpty <dtype = 1> ()
    ys = Loop (m, t, none) <body = step (int64 i, bool c, seq(float[P,Q]) s)
        => (bool go, seq(float[P,Q]) more) {{
        e = SequenceAt (rows, i) y = Tanh (e) more = SequenceInsert (s, y) go = Identity (t)
    }}>
    z = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
    w = ConcatFromSequence <axis = 0> (ys)
}}"""


def test_slices_of_size_one_are_equal_and_keep_their_axis() -> None:
    found = prove(ROWS_OF_ONE.replace("KEEPS", "1"), *counts(1, 2, 5))
    assert not found.codes


def test_slices_of_size_one_of_which_onnxruntime_takes_the_axis_away() -> None:
    """ONNX says that it stays: the attribute is for a SplitToSequence without sizes."""
    found = kept(ROWS_OF_ONE.replace("KEEPS", "0"))
    assert found.codes == ["unknown-rank"]


def test_elements_of_a_promised_sequence() -> None:
    text = """g (seq(float[4]) xs) => (seq(float[4]) ys) {
        t = Constant <value = bool {1}> ()
        none = SequenceEmpty <dtype = 1> ()
        n = SequenceLength (xs)
        ys = Loop (n, t, none) <body = step (int64 i, bool c, seq(float[4]) s)
            => (bool go, seq(float[4]) s2) {
            e = SequenceAt (xs, i)
            y = Relu (e)
            s2 = SequenceInsert (s, y)
            go = Identity (t)
        }>
    }"""
    feeds = [{"xs": [rows(4, seed=i) for i in range(n)]} for n in COUNTS]
    prove(text, *feeds, uniform=frozenset({"xs"}))
    ragged = [{"xs": [rows(i) for i in range(n)]} for n in COUNTS]
    assert same(model(text), read(model(text)).model, *feeds, *ragged) > 4


def test_no_rows_of_as_many_columns_as_the_loop_declares() -> None:
    """The sequence says nothing of them, and the body of the Loop does."""
    text = """g (seq(float[N,K]) xs) => (float[B,3,K] ys) {
        t = Constant <value = bool {1}> ()
        n = SequenceLength (xs)
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[3,K] y) {
            e = SequenceAt (xs, i)
            y = Exp (e)
            go = Identity (t)
        }>
    }"""
    feeds = [{"xs": [rows(3, 4, seed=i) for i in range(n)]} for n in COUNTS]
    prove(text, *feeds, uniform=frozenset({"xs"}))


def test_two_promised_sequences_of_different_length() -> None:
    text = """g (seq(float[4]) xs, seq(float[4]) zs) => (float[M,4] ys) {
        t = Constant <value = bool {1}> ()
        zero1 = Constant <value = int64[1] {0}> ()
        n = SequenceLength (xs)
        m = SequenceLength (zs)
        n1 = Unsqueeze (n, zero1)
        m1 = Unsqueeze (m, zero1)
        both = Concat <axis = 0> (n1, m1)
        k = ReduceMin <keepdims = 0> (both)
        ys = Loop (k, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {
            e = SequenceAt (xs, i)
            f = SequenceAt (zs, i)
            y = Mul (e, f)
            go = Identity (t)
        }>
    }"""
    feeds = [
        {"xs": [rows(4, seed=i) for i in range(a)], "zs": [rows(4, seed=9 + i) for i in range(b)]}
        for a, b in ((0, 1), (0, 3), (3, 1), (3, 3), (3, 6), (2, 3))
    ]
    prove(text, *feeds, uniform=frozenset({"xs", "zs"}))


def test_a_value_that_is_the_same_in_every_iteration_is_repeated() -> None:
    text = scanned("y = Gather <axis = 0> (x, zero)")
    prove(text, *counts(1, 2, 5))


def test_a_loop_without_trips_never_reads_what_is_not_there() -> None:
    """Row 0 is read in the body only: without rows the Loop never reads it."""
    prove(scanned("y = Gather <axis = 0> (x, zero)"), *counts(0))


def test_final_values() -> None:
    text = f"""g (float[N,4] x, int64 a) => (int64 k, float[N,4] same, int32 h) {{ {SCALARS}
        h0 = Constant <value = int32 {{7}}> ()
        h1 = Constant <value = int32 {{-2}}> ()
        k, same, h = Loop (n, t, a, x, h0)
            <body = step (int64 i, bool c, int64 j, float[N,4] v, int32 g)
            => (bool go, int64 j2, float[N,4] v2, int32 g2) {{
            j2 = Add (j, three)
            v2 = Identity (v)
            g2 = Add (g, h1)
            go = Identity (t)
        }}>
    }}"""
    prove(text, *counts(*COUNTS, a=np.array(-5)))


def test_an_inner_loop_is_fused_before_the_outer_one() -> None:
    text = f"""g (float[N,4] x) => (float[M,4] ys) {{ {SCALARS}
        four = Add (one, three)
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
            e = Gather <axis = 0> (x, i)
            y = Loop (four, t) <body = inner (int64 j, bool d) => (bool ho, float z) {{
                f = Gather <axis = 0> (e, j)
                z = Exp (f)
                ho = Identity (t)
            }}>
            go = Identity (t)
        }}>
    }}"""
    prove(text, *counts())


def test_a_loop_in_a_branch() -> None:
    text = f"""g (float[N,4] x, bool p) => (float[M,4] ys) {{ {SCALARS}
        ys = If (p) <then_branch = a () => (float[M,4] u) {{
            u = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
                e = Gather <axis = 0> (x, i)
                y = Tanh (e)
                go = Identity (t)
            }}>
        }}, else_branch = b () => (float[M,4] v) {{ v = Identity (x) }}>
    }}"""
    feeds = [{"x": rows(n, 4), "p": np.array(p)} for n in COUNTS for p in (True, False)]
    prove(text, *feeds)


def test_weights_inside_of_the_body_become_weights_of_the_model() -> None:
    text = """g (float[N,4] x) => (float[M,2] ys) {
        t = Constant <value = bool {1}> ()
        zero = Constant <value = int64 {0}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[2] y)
            <float[4,2] w = {1,2,3,4,5,6,7,8}> {
            e = Gather <axis = 0> (x, i)
            y = MatMul (e, w)
            go = Identity (t)
        }>
    }"""
    found = prove(text, *counts())
    assert [one.name for one in found.model.graph.initializer] == ["w"]


def scan(attributes: str, outputs: str, *, state: bool = True) -> str:
    inner, outer = ("float[4] h, ", "float[4] h2, ") if state else ("", "")
    copied = "h2 = Identity (h)\n v = Mul (p, h)" if state else "v = Tanh (p)"
    return f"""g (float[4,N] x, float[N,4] z, float[4] b) => ({outputs}) {{
        {"r, " if state else ""}ys = Scan <body = step ({inner}float[4] p, float[4] q)
            => ({outer}float[4] y) {{
            {copied}
            y = Sub (v, q)
        }}, num_scan_inputs = 2{attributes}> ({"b, " if state else ""}x, z)
    }}"""


SCANS = {
    "axes": (scan(", scan_input_axes = [1, 0]", "float[4] r, float[M,4] ys"), "r"),
    "negative_axes": (scan(", scan_input_axes = [-1, -2]", "float[4] r, float[M,4] ys"), "r"),
    "without_state": (scan(", scan_input_axes = [1, 0]", "float[M,4] ys", state=False), ""),
    "backwards": (
        scan(
            ", scan_input_axes = [1, 0], scan_input_directions = [1, 1]",
            "float[M,4] ys",
            state=False,
        ),
        "",
    ),
    "against_each_other": (
        scan(
            ", scan_input_axes = [1, 0], scan_input_directions = [1, 0], "
            "scan_output_directions = [1]",
            "float[4] r, float[M,4] ys",
        ),
        "r",
    ),
    "output_axis": (
        scan(", scan_input_axes = [1, 0], scan_output_axes = [1]", "float[4] r, float[4,M] ys"),
        "r",
    ),
    "last_output_axis_backwards": (
        scan(
            ", scan_input_axes = [1, 0], scan_output_axes = [-1], scan_output_directions = [1]",
            "float[4] r, float[4,M] ys",
        ),
        "r",
    ),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans(name: str) -> None:
    feeds = [{"x": rows(4, n), "z": rows(n, 4, seed=1), "b": rows(4, seed=2)} for n in (1, 2, 5)]
    prove(SCANS[name][0], *feeds)


def test_rows_of_a_scan_that_are_read_for_their_shape_alone() -> None:
    text = """g (float[N,M] x) => (float[N,M] ys) {
        ys = Scan <num_scan_inputs = 1, body = step (float[M] p) => (float[M] y) {
            half = Constant <value_float = 0.5> ()
            s = Shape (p)
            y = Expand (half, s)
        }> (x)
    }"""
    prove(text, *({"x": rows(n, 3)} for n in (1, 2, 5)))


@pytest.mark.parametrize("opset", [11, 12, 13, 14, 15, 16, 17, 18])
def test_the_opset_of_the_model_is_kept(opset: int) -> None:
    unsqueeze = "Unsqueeze <axes = [0]> (i)" if opset < 13 else "Unsqueeze (i, zero1)"
    text = f"""g (float[N,4] x, float[4,4] w) => (float[M,4] ys, float[M] zs) {{ {SCALARS}
        ys, zs = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y, float z) {{
            p = {unsqueeze}
            q = Add (p, one1)
            e = Slice (x, p, q, zero1)
            f = MatMul (e, w)
            y = Reshape (f, four1)
            four1 = Constant <value = int64[1] {{4}}> ()
            g = Gather <axis = 0> (x, i)
            z = ReduceMax <axes = [0], keepdims = 0> (g)
            go = Identity (t)
        }}>
    }}""".replace(
        "y = Reshape (f, four1)\n            four1 = Constant <value = int64[1] {4}> ()",
        "four1 = Constant <value = int64[1] {4}> ()\n            y = Reshape (f, four1)",
    )
    if opset >= 18:
        text = text.replace(
            "ReduceMax <axes = [0], keepdims = 0> (g)", "ReduceMax <keepdims = 0> (g, zero1)"
        )
    prove(text, *({"x": rows(n, 4), "w": rows(4, 4)} for n in COUNTS), opset=opset)


def test_a_shared_symbol_of_two_inputs_proves_nothing() -> None:
    """Both first dimensions are called ``N``, and differ."""
    text = """g (float[N,4] x, float[N,4] z) => (float[M,4] ys) {
        t = Constant <value = bool {1}> ()
        zero = Constant <value = int64 {0}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {
            e = Gather <axis = 0> (x, i)
            f = Gather <axis = 0> (z, i)
            y = Mul (e, f)
            go = Identity (t)
        }>
    }"""
    feeds = [{"x": rows(n, 4), "z": rows(n + 2, 4, seed=1)} for n in COUNTS]
    prove(text, *feeds)
    prove(text, *feeds, trust_types=True)


FUNCTION = """
<domain: "own", opset_import: ["" : 17]>
double <factor> (v) => (w) { f = Constant <value_float: float = @factor> ()  w = Mul (v, f) }
"""


@pytest.mark.parametrize("keeps", [False, True])
def test_functions_of_the_body_are_opened(keeps: bool) -> None:
    after = "u = Add (y, s)  z = Tanh (u)" if keeps else "z = Identity (s)"
    text = f"""g (float[N,4] x, float[4] b) => (float[M,4] ys) {{ {SCALARS}
        r, ys = Loop (n, t, b) <body = step (int64 i, bool c, float[4] s)
            => (bool go, float[4] z, float[4] out) {{
            e = Gather <axis = 0> (x, i)
            y = own.double <factor: float = 2.5> (e)
            {after}
            out = Add (y, s)
            go = Identity (t)
        }}>
    }}"""
    head = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]>'
    before = onnx.parser.parse_model(f"{head} {text} {FUNCTION}")
    found = read(before)
    assert found.loops == keeps
    assert same(before, found.model, *counts(*COUNTS, b=rows(4))) == len(COUNTS)
