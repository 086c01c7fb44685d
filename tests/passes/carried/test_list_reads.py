"""Lists that are read while they grow: ``seen.append(a); torch.stack(seen)``, ``seen[-1]``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from passes.decisions import Verdict
from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, read, same

TEXT = """g (float[N,4] x, float[4] b, float[2,4] c) => ({result} r, float[M,4] all) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    last = Constant <value = int64 {{-1}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    none = SequenceEmpty <dtype = 1> ()
    one = SequenceConstruct (b)
    several = SequenceConstruct (b, b)
    wide = SequenceConstruct (c)
    known, ys = Loop (n, t, {begin}) <body = step (int64 i, bool cond, seq({element}) seen)
            => (bool go, seq({element}) seen2, {row} y) {{
        e = Gather <axis = 0> (x, i)
        {nodes}
        go = Identity (cond)
    }}>
    r = Identity (ys)
    {behind}
}}"""
STACKED = "all = ConcatFromSequence <axis = 0, new_axis = 1> (known)"
ROWS = "all = ConcatFromSequence <axis = 0> (known)"
APPEND = "a = Tanh (e)  seen2 = SequenceInsert (seen, a)"
PIECE = """a = Tanh (e)  u = Unsqueeze (a, zero1)  p = Concat <axis = 0> (u, u)
        seen2 = SequenceInsert (seen, p)"""
STACK = "h = ConcatFromSequence <axis = 0, new_axis = 1> ({})"
JOIN = "h = ConcatFromSequence <axis = {}> ({})"
GREATEST = "y = ReduceMax <axes = [{}], keepdims = 0> ({})"
CASES = {
    "stacked_behind": (
        "none",
        f"{APPEND}  {STACK.format('seen2')}  {GREATEST.format(0, 'h')}",
        STACKED,
    ),
    "stacked_behind_others": (
        "several",
        f"{APPEND}  {STACK.format('seen2')}  y = ReduceMean <axes = [0], keepdims = 0> (h)",
        STACKED,
    ),
    "stacked_in_front": (
        "one",
        f"{STACK.format('seen')}  {APPEND}  {GREATEST.format(0, 'h')}",
        STACKED,
    ),
    "stacked_on_both_sides": (
        "one",
        f"{STACK.format('seen')}  {APPEND}  h2 = ConcatFromSequence <axis = 0, new_axis = 1> (seen2)"
        f"  g = ReduceMean <axes = [0], keepdims = 0> (h2)  m = ReduceMax <axes = [0], keepdims = 0> (h)"
        "  y = Sub (g, m)",
        STACKED,
    ),
    "joined_and_not_read": (
        "several",
        f"{APPEND}  {STACK.format('seen2')}  y = Neg (e)",
        STACKED,
    ),
    "attention": (
        "none",
        f"{APPEND}  {STACK.format('seen2')}  s = MatMul (h, e)  p = Softmax <axis = 0> (s)"
        "  y = MatMul (p, h)",
        STACKED,
    ),
    "pieces": ("none", f"{PIECE}  {JOIN.format(0, 'seen2')}  {GREATEST.format(0, 'h')}", ROWS),
    "pieces_in_front": (
        "wide",
        f"{JOIN.format(0, 'seen')}  {PIECE}  {GREATEST.format(0, 'h')}",
        ROWS,
    ),
    "the_last_one": ("one", f"l = SequenceAt (seen, last)  {APPEND}  y = Sub (a, l)", STACKED),
    "the_last_one_by_its_number": (
        "one",
        f"l = SequenceAt (seen, i)  {APPEND}  y = Sub (a, l)",
        STACKED,
    ),
    "a_sum_of_the_last_one": (
        "one",
        "l = SequenceAt (seen, last)  a = Add (l, e)  seen2 = SequenceInsert (seen, a)  y = Neg (l)",
        STACKED,
    ),
    "the_last_one_and_all": (
        "one",
        f"l = SequenceAt (seen, last)  {APPEND}  {STACK.format('seen2')}"
        f"  m = ReduceMax <axes = [0], keepdims = 0> (h)  y = Sub (m, l)",
        STACKED,
    ),
}
OTHER_AXES = {
    "stacked_along_another_axis": (
        "none",
        f"{APPEND}  h = ConcatFromSequence <axis = 1, new_axis = 1> (seen2)  {GREATEST.format(1, 'h')}",
        STACKED,
    ),
    "pieces_side_by_side": (
        "wide",
        f"{PIECE}  {JOIN.format(1, 'seen2')}  {GREATEST.format('0, 1', 'h')}",
        ROWS,
    ),
}
NEAR = {
    "another_each_time": (
        "one",
        f"{APPEND}  two = Constant <value = int64 {{2}}> ()  at = Div (i, two)"
        "  l = SequenceAt (seen, at)  y = Sub (a, l)",
        STACKED,
    ),
    "what_depends_on_all": (
        "one",
        f"{STACK.format('seen')}  m = ReduceMax <axes = [0], keepdims = 0> (h)  a = Sub (e, m)"
        "  seen2 = SequenceInsert (seen, a)  y = Neg (a)",
        STACKED,
    ),
    "in_front_of_the_others": (
        "one",
        f"a = Tanh (e)  seen2 = SequenceInsert (seen, a, zero)  {STACK.format('seen2')}"
        f"  {GREATEST.format(0, 'h')}",
        STACKED,
    ),
    "a_recurrence": (
        "one",
        "l = SequenceAt (seen, last)  q = Mul (l, e)  a = Sin (q)  seen2 = SequenceInsert (seen, a)"
        "  y = Neg (l)",
        STACKED,
    ),
}


def text(name: str, cases: Mapping[str, tuple[str, str, str]]) -> str:
    begin, nodes, behind = cases[name]
    row = "float" if "side_by_side" in name else "float[4]"
    return TEXT.format(
        begin=begin,
        nodes=nodes,
        behind=behind,
        row=row,
        result="float[K]" if row == "float" else "float[K,4]",
        element="float[2,4]" if "pieces" in name else "float[4]",
    )


def feeds(n: int) -> Mapping[str, np.ndarray]:
    """Make the rows of a number of iterations."""
    rng = np.random.default_rng(n)
    shapes = {"x": (n, 4), "b": (4,), "c": (2, 4)}
    return {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}


@pytest.mark.parametrize("options", [{"strategy": "fuse"}, {}, {"exact": True}], ids=str)
@pytest.mark.parametrize("name", [*CASES, *OTHER_AXES])
def test_a_list_that_is_read_while_it_grows(name: str, options: Mapping[str, object]) -> None:
    before = model(text(name, CASES | OTHER_AXES))
    made = rewrite(before, **options)
    verdicts = {d.verdict for d in made.report.decisions}
    assert verdicts == {Verdict.FUSED} or "strategy" not in options
    many = [feeds(n) for n in LENGTHS]
    assert same(before, made.model, *many) >= len(many) - 1  # nothing is joined of no elements


@pytest.mark.parametrize("name", CASES)
def test_a_list_that_is_read_while_it_grows_is_portable(name: str) -> None:
    before = model(text(name, CASES))
    made = rewrite(before, target="portable").model
    assert not operators(made)["Loop"]
    assert same(before, made, *(feeds(n) for n in LENGTHS)) >= len(LENGTHS) - 1


@pytest.mark.parametrize("name", NEAR)
def test_what_is_close_stays_a_loop(name: str) -> None:
    before = model(text(name, NEAR))
    found = read(before)
    assert found.loops == 1
    assert all(d.verdict is not Verdict.FUSED for d in found.decisions)
    many = [feeds(n) for n in LENGTHS]
    assert same(before, found.model, *many) >= len(many) - 1
