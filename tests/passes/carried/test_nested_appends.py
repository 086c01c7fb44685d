"""Lists that two loops, one in the other, append to: anchors, pairs, pairs ``i < j``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, same

TEXT = """g (float[N,4] x, float[M,4] v, int64[N] k) => ({result}) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    one = Constant <value = int64 {{1}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    none = Slice (x, zero1, zero1)
    s0 = {begin}
    h = Shape (x)
    n = Gather <axis = 0> (h, zero)
    w = Shape (v)
    m = Gather <axis = 0> (w, zero)
    {name} = Loop (n, t, s0) <body = outer (int64 i, bool cond, {state} s)
        => (bool go, {state} s3) {{
        p = Add (i, one)
        left = Sub (n, p)
        size = Gather <axis = 0> (k, i)
        {rest}
        {before}
        s3 = Loop ({trips}, t, {first}) <body = inner (int64 j, bool on, {state} q)
            => (bool on2, {state} q2) {{
            a = Gather <axis = 0> (x, i)
            {element}
            q2 = {append}
            on2 = Identity (on)
        }}>
        go = Identity (cond)
    }}>
    {join}
}}"""
PAIRS = "b = Gather <axis = 0> (v, j)  e = Concat <axis = 0> (a, b)"
LATER = "at = Add (j, p)  b = Gather <axis = 0> (x, at)  e = Mul (a, b)"
NUMBERED = "f = Cast <to = 1> (j)  e = Add (a, f)"
STACK = "r = ConcatFromSequence <axis = 0, new_axis = 1> (l)"
ROWS = "float[R,C] r"


def graph(
    trips: str = "m", element: str = PAIRS, *, join: str = STACK, result: str = ROWS, **given: str
) -> str:
    """Return a graph whose inner Loop appends to the list of the outer one."""
    parts = {
        "begin": "SequenceEmpty ()",
        "state": "seq(float[E])",
        "append": "SequenceInsert (q, e)",
        "name": "l",
        "rest": "",
        "before": "",
        "first": "s",
    }
    return TEXT.format(
        trips=trips, element=element, join=join, result=result, **{**parts, **given}
    )


TENSOR = {
    "begin": "Identity (none)",
    "state": "float[Q,4]",
    "name": "r",
    "join": "",
    "append": "Concat <axis = 0> (q, e1)",
}
CASES = {
    "pairs": graph(),
    "pairs_later": graph("left", LATER),
    "as_often_as_a_number_says": graph("size", NUMBERED),
    "joined": graph(join="r = ConcatFromSequence <axis = 0> (l)", result="float[R] r"),
    "a_list": graph(join="r = Identity (l)", result="seq(float[E]) r"),
    "a_tensor": graph("size", f"{NUMBERED}  e1 = Unsqueeze (e, zero1)", **TENSOR),
}


FLAG = "a0 = Gather <axis = 0> (a, zero)  flag = Less (z0, a0)  "


def some(then: str, append: str = "SequenceInsert (q, e)") -> str:
    """Return an append in one branch of an If; ``then`` computes the row in it."""
    state = "float[Q,4]" if append.startswith("Concat") else "seq(float[E])"
    taken = f"yes () => ({state} u) {{ {then}  u = {append} }}"
    left = f"no () => ({state} o) {{ o = Identity (q) }}"
    return f"If (flag) < then_branch = {taken}, else_branch = {left} >"


def chosen(flag: str = FLAG, then: str = PAIRS, **given: str) -> str:
    """Return a graph whose inner Loop appends in some of its iterations."""
    text = graph(element=flag, **({"append": some(then)} | given))
    return text.replace("none =", "z0 = Constant <value = float {0.0}> ()  none =", 1)


CASES |= {
    "some_pairs": chosen(),
    "some_pairs_made_outside": chosen(FLAG + PAIRS, ""),
    "pairs_of_different_ones": chosen("same = Equal (i, j)  flag = Not (same)"),
    "as_often_as_a_number_says_under_a_condition": chosen(FLAG, NUMBERED, trips="size"),
    "some_rows_of_a_tensor": chosen(
        FLAG,
        **TENSOR
        | {"append": some(f"{NUMBERED}  e1 = Unsqueeze (e, zero1)", "Concat <axis = 0> (q, e1)")},
    ),
    "under_the_opposite": chosen(FLAG + PAIRS, "")
    .replace("then_branch", "other")
    .replace("else_branch", "then_branch")
    .replace("other = yes", "else_branch = yes")
    .replace("{0.0}", "{2.0}"),
}


def feeds(n: int) -> Mapping[str, np.ndarray]:
    """Make rows, further ones, and how often the inner Loop runs."""
    rng = np.random.default_rng(n)
    rows = [rng.standard_normal((size, 4)).astype(np.float32) for size in (n, 1 + n % 3)]
    return {"x": rows[0], "v": rows[1], "k": rng.integers(0, 4, n)}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_it_ends_without_a_loop(name: str) -> None:
    before = model(CASES[name], 18)
    result = rewrite(before, strategy="fuse")
    assert same(before, result.model, *map(feeds, LENGTHS)) >= 3
    assert not operators(result.model)["Loop"], result.report.decisions


@pytest.mark.parametrize("name", ["pairs", "as_often_as_a_number_says", "a_tensor"])
def test_a_target_without_control_flow_takes_it(name: str) -> None:
    before = model(CASES[name], 18)
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) >= 3


NEAR = {
    "the_length_is_read": graph(
        element="c = SequenceLength (q)  f = Cast <to = 1> (c)  e = Add (a, f)"
    ),
    "it_begins_with_another_list": graph(
        element=NUMBERED, before="o = SequenceAt (s, zero)  z = SequenceInsert (s, o)", first="z"
    )
    .replace("SequenceEmpty ()", "SequenceConstruct (n0)")
    .replace("s0 =", "n0 = Gather <axis = 0> (v, zero)  s0 =", 1),
    "elements_of_any_length": graph(
        "size",
        "j1 = Unsqueeze (j, zero1)  e = Slice (a, zero1, j1)",
        join="r = ConcatFromSequence <axis = 0> (l)",
        result="float[R] r",
    ),
    "the_condition_reads_the_length": chosen(
        "c = SequenceLength (q)  flag = Less (c, j)  " + PAIRS, ""
    ),
    "a_row_that_may_be_missing": chosen(
        "flag = Less (j, size)", "b = Gather <axis = 0> (x, j)  e = Mul (a, b)", trips="n"
    ),
    "a_row_that_only_some_have": chosen(
        "flag = Less (j, n)", "b = Gather <axis = 0> (x, j)  e = Mul (a, b)", trips="size"
    ),
    "put_in_front": graph(append="SequenceInsert (q, e, zero)"),
    "what_was_appended_is_read": graph(
        "left",
        "g = SequenceInsert (q, a)  y = SequenceAt (g, zero)  e = Mul (y, a)",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", NEAR)
def test_what_is_close_to_it_computes_what_it_did(name: str) -> None:
    before = model(NEAR[name], 18)
    result = rewrite(before, strategy="fuse")
    assert same(before, result.model, *map(feeds, LENGTHS)) >= 3


def test_a_row_that_is_missing_is_not_read_where_the_inner_loop_does_not_run() -> None:
    text = graph("size", NUMBERED).replace("h = Shape (x)", "h = Shape (k)")
    before = model(text.replace("int64[N] k", "int64[K] k"), 18)
    result = rewrite(before, strategy="fuse")
    many = ([2, 1], [2, 1, 0], [0, 3, 0, 0], [1, 0, 0])
    given = [{**feeds(2), "k": np.array(k, np.int64)} for k in many]
    assert same(before, result.model, *given) == len(given)
