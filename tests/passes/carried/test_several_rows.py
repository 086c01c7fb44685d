"""Several rows that an iteration adds, under conditions within conditions."""

from __future__ import annotations

import pytest

from rewriter import rewrite
from tests.passes.carried.carried import COUNT, DIALECTS, LENGTHS, SCALARS, feeds, loop
from tests.passes.loops import model, read, same

TOP = "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)"
LOW = "h2 = ReduceMin <axes = [0], keepdims = 0> (e)  l2 = Less (h2, z)"


def one(name: str, start: str, row: str = "e") -> str:
    """Add a row to a tensor."""
    return f"{name}1 = Unsqueeze ({row}, zero1)  {name} = Concat <axis = 0> ({start}, {name}1)"


def taken(name: str, flag: str, then: str, other: str, state: str, yields: str) -> str:
    """Compute a value in one branch, and another one in the other."""
    v, w = yields.split()
    return f"""{name} = If ({flag}) <
                then_branch = yes{name} () => ({state} {v}) {{ {then} }},
                else_branch = no{name} () => ({state} {w}) {{ {other} }}>"""


ROWS = "float[R,4]"
NEG = "m = Neg (e)"
TWO = f"{NEG}  {one('pa', 's')}  {one('qa', 'pa', 'm')}"
LEFT = "left = Identity (s)"
INNER = taken("va", "l2", TWO, "w0 = Identity (s)", ROWS, "qa w0")
TENSORS = {
    "two_under_one": f"{TOP}  " + taken("s2", "l", TWO, LEFT, ROWS, "qa left"),
    "two_under_two": f"{TOP}  {LOW}  " + taken("s2", "l", INNER, LEFT, ROWS, "va left"),
    "one_before_and_one_behind": f"{TOP}  {one('a', 's')}  "
    + taken(
        "va",
        "l",
        one("pa", "a", "h3").replace("pa1", "h3 = Neg (e)  pa1", 1),
        "left = Identity (a)",
        ROWS,
        "pa left",
    )
    + f"  {one('s2', 'va')}",
    "other_rows_in_each": f"{TOP}  "
    + taken("s2", "l", TWO, one("left", "s", "b"), ROWS, "qa left"),
    "inside_of_the_other_branch": f"{TOP}  {LOW}  "
    + taken("s2", "l", LEFT, INNER, ROWS, "left va"),
}


@pytest.mark.parametrize("dialect", [one for one in DIALECTS if one != "scan"])
@pytest.mark.parametrize("name", TENSORS)
def test_rows_of_a_tensor(name: str, dialect: str) -> None:
    before = model(loop(dialect, ROWS, TENSORS[name], "start", result="float[Q,4]"))
    found = read(before)
    assert found.loops == 0, found.details
    given = [feeds(n) for n in LENGTHS]
    assert same(before, found.model, *given) == len(given)


def listed(body: str, begin: str = "SequenceEmpty ()") -> str:
    """Return a graph whose Loop adds to a sequence."""
    return f"""g (float[N,4] x, float[4] b, float z) => (float[Q,4] r) {{ {SCALARS} {COUNT}
        begin = {begin}
        all = Loop (n, t, begin) <body = step (int64 i, bool cond, seq(float[4]) s)
            => (bool go, seq(float[4]) s2) {{
            e = Gather <axis = 0> (x, i)
            {TOP}  {LOW}
            {body}
            go = Identity (cond)
        }}>
        r = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }}"""


LIST = "seq(float[4])"
BOTH = f"{NEG}  pa = SequenceInsert (s, e)  qa = SequenceInsert (pa, m)"
NESTED = taken("va", "l2", BOTH, "w0 = SequenceInsert (s, b)", LIST, "qa w0")
LISTS = {
    "two_under_one": taken("s2", "l", BOTH, LEFT, LIST, "qa left"),
    "two_in_one_branch": taken("s2", "l", BOTH, "left = SequenceInsert (s, b)", LIST, "qa left"),
    "two_under_two": taken("s2", "l", NESTED, LEFT, LIST, "va left"),
    "and_one_behind": taken("v1", "l", NESTED, LEFT, LIST, "va left")
    + "  s2 = SequenceInsert (v1, e)",
}


@pytest.mark.parametrize("name", LISTS)
def test_elements_of_a_list(name: str) -> None:
    before = model(listed(LISTS[name], "SequenceConstruct (b)"))
    after = rewrite(before).model
    assert read(before).loops == 0
    given = [{name: feeds(n)[name] for name in "xbz"} for n in LENGTHS]
    assert same(before, after, *given) == len(LENGTHS)


@pytest.mark.parametrize("name", LISTS)
def test_how_many_elements(name: str) -> None:
    text = listed(LISTS[name]).replace(
        "r = ConcatFromSequence <axis = 0, new_axis = 1> (all)",
        "l = SequenceLength (all)  r = Reshape (l, one1)",
    )
    before = model(text.replace("=> (float[Q,4] r)", "=> (int64[1] r)"))
    given = [{name: feeds(n)[name] for name in "xbz"} for n in LENGTHS]
    assert same(before, read(before).model, *given) == len(LENGTHS)


MISSES = {
    "a_condition_that_reads_them": "k1 = Shape (s)  k0 = Gather <axis = 0> (k1, zero)"
    "  l = Less (k0, i)  " + taken("s2", "l", TWO, LEFT, ROWS, "qa left"),
    "a_row_that_reads_them": f"{TOP}  a = ReduceSum <keepdims = 0> (s, zero1)  "
    + taken("s2", "l", f"{one('pa', 's')}  {one('qa', 'pa', 'a')}", LEFT, ROWS, "qa left"),
    "anew_in_one_branch": f"{TOP}  " + taken("s2", "l", TWO, "left = Neg (s)", ROWS, "qa left"),
    "in_front_in_one_branch": f"{TOP}  "
    + taken(
        "s2",
        "l",
        TWO,
        "b1 = Unsqueeze (b, zero1)  left = Concat <axis = 0> (b1, s)",
        ROWS,
        "qa left",
    ),
    "what_may_fail": f"{TOP}  j = Cast <to = 7> (h)  "
    + taken(
        "s2",
        "l",
        f"m = Gather <axis = 0> (w4, j)  {one('pa', 's')}  {one('qa', 'pa', 'm')}",
        LEFT,
        ROWS,
        "qa left",
    ).replace("w4", "start"),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_stays_a_loop(name: str) -> None:
    before = model(loop("counted", ROWS, MISSES[name], "start", result="float[Q,4]"))
    found = read(before)
    assert found.loops == 1
    given = [feeds(n) for n in LENGTHS]
    assert same(before, found.model, *given) >= 2
