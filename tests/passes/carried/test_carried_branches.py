"""What a loop carries under a condition, where the branch could fail for other iterations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.carried.carried import LENGTHS, loop_over_slices
from tests.passes.loops import model, read, same

INPUTS = "float[T,4] x, int64[N] lengths, float[M] score, float[4] first, float z"


def loop(state: str, begin: str, body: str, result: str = "", behind: str = "") -> str:
    """Return a graph whose Loop carries ``s``; ``many`` says whether the slice has many rows."""
    return loop_over_slices(
        INPUTS,
        state,
        begin,
        f"many = Greater (size, two)\n            {body}",
        constants="two = Constant <value = int64 {2}> ()",
        result=result,
        behind=behind or "r = Identity (all)",
    )


def taken(then: str, state: str, *, turned: bool = False) -> str:
    """Compute ``v`` where the slice has several rows, and hand on ``s`` elsewhere."""
    one, other = ("else", "then") if turned else ("then", "else")
    flag = "few = Not (many)" if turned else "few = Identity (many)"
    return f"""{flag}
            s2 = If (few) <
                {one}_branch = one () => ({state} v) {{ {then} }},
                {other}_branch = other () => ({state} w) {{ w = Identity (s) }}>"""


def either(then: str, other: str, state: str) -> str:
    """Compute ``v`` in one branch and ``w`` in the other."""
    return f"""few = Identity (many)
            s2 = If (few) <
                then_branch = one () => ({state} v) {{ {then} }},
                else_branch = other () => ({state} w) {{ {other} }}>"""


MEAN = "m = ReduceMean <axes = [0], keepdims = 0> (e)"
TOP = "m = ReduceMax <axes = [0, 1], keepdims = 0> (e)"
CASES = {
    "sum_of_means": loop(
        "float[4]", "Identity (first)", taken(f"{MEAN}  v = Add (s, m)", "float[4]")
    ),
    "difference_of_means": loop(
        "float[4]", "Identity (first)", taken(f"{MEAN}  v = Sub (s, m)", "float[4]")
    ),
    "greatest_of_some": loop("float", "Identity (z)", taken(f"{TOP}  v = Max (s, m)", "float")),
    "product_in_the_other_branch": loop(
        "float", "Identity (z)", taken(f"{TOP}  v = Mul (s, m)", "float", turned=True)
    ),
    "count": loop("int64", "Identity (two)", taken("v = Add (s, one)", "int64")),
    "rows_of_some": loop(
        "float[R,4]",
        "Slice (x, zero1, one1)",
        taken(f"{MEAN}  q = Unsqueeze (m, zero1)  v = Concat <axis = 0> (s, q)", "float[R,4]"),
        "float[Q,4]",
    ),
}
CASES |= {
    "rows_of_either": loop(
        "float[R,4]",
        "Slice (x, zero1, one1)",
        either(
            f"{MEAN}  q = Unsqueeze (m, zero1)  v = Concat <axis = 0> (s, q)",
            "f1 = Unsqueeze (first, zero1)  w = Concat <axis = 0> (s, f1)",
            "float[R,4]",
        ),
        "float[Q,4]",
    ),
    "columns_of_either_in_front": loop(
        "float[4,R]",
        "Unsqueeze (first, one1)",
        either(
            f"{MEAN}  q = Unsqueeze (m, one1)  v = Concat <axis = 1> (q, s)",
            "f1 = Unsqueeze (first, one1)  w = Concat <axis = 1> (f1, s)",
            "float[4,R]",
        ),
        "float[4,Q]",
    ),
    "sum_or_difference": loop(
        "float",
        "Identity (z)",
        "p = ReduceSum <keepdims = 0> (e) "
        + either("v = Add (s, p)", "h = Mul (p, z) w = Sub (s, h)", "float"),
    ),
    "sum_or_anew": loop(
        "float", "Identity (z)", either("v = Add (s, z)", "w = Identity (z)", "float")
    ),
    "mean_or_two": loop(
        "float[4]",
        "Identity (first)",
        either(
            f"{MEAN}  v = Add (s, m)",
            "c = Constant <value = float {2}> () a1 = Add (s, c) w = Add (a1, first)",
            "float[4]",
        ),
    ),
    "greatest_of_either": loop(
        "float", "Identity (z)", either(f"{TOP}  v = Max (s, m)", "w = Max (z, s)", "float")
    ),
    "count_up_or_down": loop(
        "int64", "Identity (two)", either("v = Add (s, one)", "w = Sub (s, two)", "int64")
    ),
    "sums_by_where": loop(
        "float",
        "Identity (z)",
        "p = ReduceSum <keepdims = 0> (e) a1 = Add (s, p) b1 = Sub (s, z) s2 = Where (many, a1, b1)",
    ),
}
CASES |= {
    f"{kind}_of_some_flags" + "_turned" * turned: loop(
        "bool",
        "Less (z, z)" if kind == "Or" else "Equal (z, z)",
        "p = ReduceSum <keepdims = 0> (e)  f = Less (p, z)  "
        + taken(f"v = {kind} (s, f)", "bool", turned=turned),
    )
    for kind in ("And", "Or", "Xor")
    for turned in (False, True)
}
LINES = {
    "sum_or_product": either("v = Add (s, z)", "w = Mul (s, z)", "float"),
    "from_the_other_side": either("v = Add (s, z)", "w = Sub (z, s)", "float"),
}
STAY = {
    "sum_or_square": either("v = Add (s, z)", "w = Mul (s, s)", "float"),
    "sum_or_quotient": either("v = Add (s, z)", "w = Div (z, s)", "float"),
    "by_the_state": "low = Less (s, z) a1 = Add (s, z) b1 = Sub (s, z) s2 = Where (low, a1, b1)",
}
SUM = "m = ReduceSum <keepdims = 0> (e, zero1)"
LISTS = {
    "all": "m = ReduceSum <keepdims = 0> (e, zero1)  s2 = SequenceInsert (s, m)",
    "in_front": "m = ReduceSum <keepdims = 0> (e, zero1)  s2 = SequenceInsert (s, m, zero)",
    "some": taken(
        "m = ReduceSum <keepdims = 0> (e, zero1)  v = SequenceInsert (s, m)", "seq(float[4])"
    ),
    "means": taken(f"{MEAN}  v = SequenceInsert (s, m)", "seq(float[4])"),
    "either": either(
        f"{MEAN}  v = SequenceInsert (s, m)", "w = SequenceInsert (s, first)", "seq(float[4])"
    ),
    "either_in_front": either(
        "v = SequenceInsert (s, first, zero)",
        f"{SUM}  h = Neg (m)  w = SequenceInsert (s, h, zero)",
        "seq(float[4])",
    ),
    "one of three": either(
        f"{MEAN}  v = SequenceInsert (s, m)",
        f"""{SUM}  top = ReduceMax <keepdims = 0> (m)  is_high = Greater (top, z)
                w = If (is_high) <
                    then_branch = high () => (seq(float[4]) v1) {{
                        h = Neg (m)  v1 = SequenceInsert (s, h) }},
                    else_branch = low () => (seq(float[4]) w1) {{
                        w1 = SequenceInsert (s, first) }}>""",
        "seq(float[4])",
    ),
    "one of three, in front": either(
        f"""{MEAN}  top = ReduceMax <keepdims = 0> (m)  is_high = Greater (top, z)
                v = If (is_high) <
                    then_branch = high () => (seq(float[4]) v1) {{
                        v1 = SequenceInsert (s, first, zero) }},
                    else_branch = low () => (seq(float[4]) w1) {{
                        w1 = SequenceInsert (s, m, zero) }}>""",
        f"{SUM}  w = SequenceInsert (s, m, zero)",
        "seq(float[4])",
    ),
}
APART = {
    "at both ends": either(
        "v = SequenceInsert (s, first)", "w = SequenceInsert (s, first, zero)", "seq(float[?])"
    ),
    "of two shapes": either(
        "v = SequenceInsert (s, first)", "w = SequenceInsert (s, score)", "seq(float[?])"
    ),
    "two in one branch, one in front": either(
        "u = SequenceInsert (s, first)  v = SequenceInsert (u, first, zero)",
        "w = SequenceInsert (s, first)",
        "seq(float[?])",
    ),
    "one of three, of them one in front": either(
        "v = SequenceInsert (s, first)",
        """w = If (many) <
                then_branch = high () => (seq(float[4]) v1) { v1 = SequenceInsert (s, first) },
                else_branch = low () => (seq(float[4]) w1) {
                    w1 = SequenceInsert (s, first, zero) }>""",
        "seq(float[?])",
    ),
}
BEHIND = "r = ConcatFromSequence <axis = 0, new_axis = 1> (all)"


def feeds(length: int, least: int = 0) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations."""
    rng = np.random.default_rng(length)
    lengths = rng.integers(least, 6, length)
    return {
        "x": rng.standard_normal((int(lengths.sum()) + 1, 4)).astype(np.float32),
        "lengths": lengths,
        "score": rng.standard_normal(length).astype(np.float32),
        "first": rng.standard_normal(4).astype(np.float32),
        "z": np.array(0.5, np.float32),
    }


@pytest.mark.parametrize("name", CASES)
def test_a_branch_that_could_fail_elsewhere_runs_where_it_is_taken(name: str) -> None:
    before = model(CASES[name])
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]


@pytest.mark.parametrize("name", LINES)
def test_branches_that_multiply_and_add_are_one_recurrence(name: str) -> None:
    before = model(loop("float", "Identity (z)", LINES[name]))
    found = read(before)
    assert [d.verdict for d in found.decisions] == [Verdict.FUSED]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", STAY)
def test_branches_that_are_no_total_together_stay(name: str) -> None:
    before = model(loop("float", "Identity (z)", STAY[name]))
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 1
    assert "recurrence" in found.codes


@pytest.mark.parametrize("begin", ["first", "first, first"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_starts_with_elements(name: str, begin: str) -> None:
    text = loop("seq(float[4])", f"SequenceConstruct ({begin})", LISTS[name], "float[Q,4]", BEHIND)
    before = model(text)
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_branches_that_add_otherwise_stay(body: str) -> None:
    behind = "l = SequenceLength (all)  r = Reshape (l, one1)"
    before = model(loop("seq(float[?])", "SequenceEmpty ()", body, "int64[1]", behind))
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_list_whose_first_element_may_have_another_shape_stays() -> None:
    text = loop("seq(float[?])", "SequenceConstruct (score)", LISTS["all"], "seq(float[?])")
    before = model(text)
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


SCORED = "p = Gather <axis = 0> (score, i)  v = Add (s, p)"


@pytest.mark.parametrize("is_read_anyway", [True, False])
def test_a_row_that_every_iteration_reads_may_be_read_in_a_branch(is_read_anyway: bool) -> None:
    """Of fewer scores than slices one that a branch reads is read where the branch is taken."""
    outside = (
        "other = Gather <axis = 0> (score, i)  half = Greater (other, z)" if is_read_anyway else ""
    )
    text = loop("float", "Identity (z)", f"{outside}  {taken(SCORED, 'float')}")
    before = model(text)
    found = read(before)
    assert found.loops == 0, found.details
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    short = {
        **feeds(7),
        "score": feeds(7)["score"][:3],
        "lengths": np.array([5, 4, 3, 1, 1, 0, 2]),
    }
    fed = {**short, "x": np.ones((17, 4), np.float32)}
    assert same(before, found.model, fed) == (not is_read_anyway)
