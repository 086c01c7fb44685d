"""Bags: rows between two offsets, reduced one bag at a time."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Verdict
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from tests.passes.loops import kept, model, prove, read, rows, same

SCALARS = """
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    one1 = Constant <value = int64[1] {1}> ()
    two1 = Constant <value = int64[1] {2}> ()
    last1 = Constant <value = int64[1] {9223372036854775807}> ()
"""


def bags(reduction: str, weighted: bool = False) -> str:
    """Return EmbeddingBag as TorchScript's exporter writes it."""
    weigh = (
        """
        v = Slice (u, a, b, zero1)
        v1 = Unsqueeze (v, one1)
        rows = Mul (found, v1)"""
        if weighted
        else "rows = Identity (found)"
    )
    return f"""g (int64[T] ids, int64[B] offsets, float[9,4] w, float[T] u) => (float[M,4] ys) {{
        {SCALARS}
        count = Shape (ids)
        all = Concat <axis = 0> (offsets, count)
        ends = Slice (all, one1, last1, zero1, one1)
        shape = Shape (ends)
        n = Gather <axis = 0> (shape, zero)
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {{
            a0 = Gather <axis = 0> (all, i)
            b0 = Gather <axis = 0> (ends, i)
            a = Unsqueeze (a0, zero1)
            b = Unsqueeze (b0, zero1)
            mine = Slice (ids, a, b, zero1)
            found = Gather <axis = 0> (w, mine)
            {weigh}
            y = {reduction} <keepdims = 0> (rows, zero1)
            go = Cast <to = 9> (t)
        }}>
    }}"""


def feed(ids: int, offsets: list[int]) -> dict[str, Any]:
    rng = np.random.default_rng(ids)
    return {
        "ids": rng.integers(0, 9, ids),
        "offsets": np.array(offsets, np.int64),
        "w": rows(9, 4),
        "u": rows(ids, seed=1),
    }


EVEN = [feed(9, [0, 3, 6]), feed(6, [0, 1, 2, 3, 4, 5]), feed(4, [0])]
UNEVEN = [feed(9, [0, 1, 7]), feed(20, [0, 1, 2, 10, 19])]
EMPTY = [
    feed(9, [0, 0, 4, 4, 4, 9]),
    feed(5, [0, 5, 5]),
    feed(0, [0, 0]),
    feed(0, []),
    feed(3, []),
]
ODD = [feed(9, [2, 5]), feed(9, [6, 3, 8]), feed(9, [-4, 5, 8]), feed(9, [0, 30, 2, -20, 4])]


@pytest.mark.parametrize("opset", [17, 18])
def test_sums_of_bags(opset: int) -> None:
    found = prove(bags("ReduceSum"), *EVEN, *UNEVEN, *EMPTY, *ODD, opset=opset)
    assert found.operators["ScatterElements"]


@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_bags_of_one_length_are_stacked_at_run_time(reduction: str) -> None:
    """Of one length, of length 0, overlapping, beyond either end, and of a negative length."""
    alike = [[0, 2, 4], [1, 3, 5], [0, 0, 0], [6, 6], [4, 2, 0], [-2, 0, 2], [5, 7, 9], [8]]
    found = prove(bags(reduction), *(feed(n, o) for n in (6, 8) for o in alike), opset=18)
    assert found.operators["If"]
    assert "stacked if all slices are equally long" in found.decisions[0].form


def test_no_branch_where_none_may_be() -> None:
    before = model(bags("ReduceSum"))
    found = read(before, lacks=("If",))
    assert not found.operators["If"]
    assert same(before, found.model, *EVEN, *UNEVEN, *EMPTY, *ODD)


def test_bags_that_are_not_reduced_need_no_branch() -> None:
    text = bags("ReduceSum").replace("y = ReduceSum <keepdims = 0> (rows, zero1)", "{}")
    rest = "p = ReduceSum <keepdims = 0> (a, zero1)  f = Cast <to = 1> (p)  y = Expand (f, four)"
    before = text.replace("{}", rest).replace(
        "count = Shape (ids)", "count = Shape (ids)  four = Constant <value_ints = [4]> ()"
    )
    assert not prove(before, *EVEN, *UNEVEN).operators["If"]


def test_weights_of_another_input_stand_behind_a_guard() -> None:
    """Nothing proves that there are as many weights as ids, so a bag of them may be shorter."""
    found = prove(
        bags("ReduceSum", weighted=True), *EVEN, *UNEVEN, *EMPTY, *ODD, opset=18, loops=1
    )
    assert found.operators["If"]
    assert [d.verdict for d in found.decisions] == [Verdict.GUARDED]
    assert found.decisions[0].form == "batched if the tensors are equally long"


@pytest.mark.parametrize("number", [1, 3, 7, 12])
def test_weights_of_another_number(number: int) -> None:
    """A bag with one weight broadcasts; one with too few of them is an error."""
    before = model(bags("ReduceSum", weighted=True), opset=18)
    after = read(before, auto=True).model
    feeds = [{**f, "u": rows(number)} for f in (*EVEN, *UNEVEN, *EMPTY, *ODD)]
    assert same(before, after, *feeds)


def test_weights_that_come_from_the_ids() -> None:
    """Floats made of the ids are as many by proof."""
    inner = bags("ReduceSum", weighted=True).replace(
        "shape = Shape (ends)", "shape = Shape (ends)  made = Cast <to = 1> (ids)"
    )
    found = prove(
        inner.replace("Slice (u,", "Slice (made,"), *EVEN, *UNEVEN, *EMPTY, *ODD, opset=18
    )
    assert [d.verdict for d in found.decisions] == [Verdict.FUSED]


NOTHING = "none () => (float k) { k = Constant <value = float {0}> () }"
TWENTY = "none () => (float[20] k) { k = ConstantOfShape <value = float[1] {2}> (twenty) }"
WEIGHTS = "same () => (float[T] z) { z = Identity (u) }"
UNEQUAL = "e = Equal (many, weights)  d = Not (e)  asked = Cast <to = 9> (d)"


def chosen_weights(
    ask: str = UNEQUAL, then: str = NOTHING, other: str = WEIGHTS, inputs: str = "float[T] u"
) -> str:
    """Return bags with the weights that TorchScript's exporter chooses by their number."""
    choice = f"""many = Shape (ids)  weights = Shape (u)
        twenty = Constant <value = int64[1] {{20}}> ()
        {ask}
        chosen = If (asked) <then_branch = {then}, else_branch = {other}>
        count = Shape (ids)"""
    text = bags("ReduceSum", weighted=True).replace("count = Shape (ids)", choice)
    return text.replace("Slice (u,", "Slice (chosen,").replace("float[T] u", inputs)


@pytest.mark.parametrize(
    "text",
    [
        chosen_weights(),
        chosen_weights("asked = Equal (weights, many)", WEIGHTS, NOTHING),
        chosen_weights("p = Size (u)  q = Size (ids)  e = Equal (p, q)  asked = Not (e)"),
        chosen_weights(then=TWENTY),
        chosen_weights(other="same () => (float[T] z) { z0 = Identity (u)  z = Identity (z0) }"),
    ],
    ids=["exported", "without_not", "sizes", "other_weights", "twice_passed_on"],
)
def test_weights_chosen_by_their_number(text: str) -> None:
    """What the If asks is what the guard asks, so the fused body reads the weights themselves."""
    found = prove(text, *EVEN, *UNEVEN, *EMPTY, *ODD, opset=18, loops=1)
    assert [d.form for d in found.decisions] == ["batched if the tensors are equally long"]
    feeds = [{**f, "u": rows(n)} for f in (*EVEN, *UNEVEN, *EMPTY, *ODD) for n in (0, 1, 7)]
    assert same(model(text, opset=18), found.model, *feeds) >= (30 if TWENTY in text else 3)


@pytest.mark.parametrize(
    "text",
    [
        chosen_weights(then=WEIGHTS, other=NOTHING),
        chosen_weights("o = Shape (offsets)  e = Equal (o, weights)  asked = Not (e)"),
        chosen_weights("o = Shape (offsets)  e = Equal (o, many)  asked = Not (e)"),
        chosen_weights("asked = Less (many, weights)"),
        chosen_weights(other="twice () => (float[T] z) { z = Add (u, u) }"),
        chosen_weights(other="own () => (float[1] z) <float[1] z0 = {1}> { z = Identity (z0) }"),
        chosen_weights(inputs="float[T,1] u", other=WEIGHTS.replace("[T]", "[T,1]")),
        chosen_weights("", inputs="float[T] u, bool asked"),
    ],
    ids=[
        "swapped",
        "other_size",
        "other_sizes",
        "less",
        "changed",
        "initializer",
        "rank_2",
        "fed",
    ],
)
def test_weights_chosen_in_another_way(text: str) -> None:
    before = model(text, opset=18)
    found = read(before)
    names = {value.name for value in before.graph.input}
    one_each = rows(9, 1) if "float[T,1] u" in text else rows(9)
    assert found.loops == 1
    assert [d.verdict for d in found.decisions] == [Verdict.KEPT]
    more = {"u": one_each, **({"asked": np.array(True)} if "asked" in names else {})}
    same(before, found.model, *({**f, **more} for f in (*EVEN, *UNEVEN, *EMPTY, *ODD)))


def test_weights_chosen_by_a_number_that_is_known() -> None:
    """Floats made of the ids are as many by proof, so the If needs no guard."""
    made = "made = Cast <to = 1> (ids)  own = Shape (made)  e = Equal (own, many)  asked = Not (e)"
    text = chosen_weights(made, other=WEIGHTS.replace("(u)", "(made)"))
    found = prove(text, *EVEN, *UNEVEN, *EMPTY, *ODD, opset=18)
    assert [d.verdict for d in found.decisions] == [Verdict.FUSED]


def test_means_of_bags() -> None:
    prove(bags("ReduceMean"), *EVEN, *UNEVEN, *EMPTY, opset=18)


def test_maxima_of_bags() -> None:
    prove(bags("ReduceMax"), *EVEN, *UNEVEN, *EMPTY, opset=18)


def test_a_bag_of_an_infinity_stays_by_itself() -> None:
    odd = feed(9, [0, 1, 7])
    odd["w"][odd["ids"][0]] = np.inf
    odd["ids"][1:] = (odd["ids"][0] + 1) % 9
    prove(bags("ReduceSum"), odd)


def at_run_time(last: bool) -> str:
    """Return a sum of bags by PyTorch's default exporter; ``last``: all ends are offsets."""
    ends = (
        "bags = Sub (many, one)  all = Identity (offsets)"
        if last
        else "rows = Shape (ids)  bags = Identity (many)  all = Concat <axis = 0> (offsets, rows)"
    )
    return f"""g (int64[T] ids, int64[B] offsets, float[9,4] w, float[T] u) => (float[M,4] ys)
        <float[1,4] nought = {{0, 0, 0, 0}}> {{
        {SCALARS}
        x = Gather (w, ids)
        many = Size (offsets)
        {ends}
        empty = SequenceEmpty <dtype = 1> ()
        some = Less (zero, bags)
        r, last = Loop (, some, empty, zero) <body = step (int64 i, bool c, seq(float[]) s, int64 k)
            => (bool go, seq(float[]) s2, int64 k2) {{
            p = Reshape (k, one1)
            q = Add (p, one1)
            a = Slice (all, p, q)
            q2 = Add (p, two1)
            b = Slice (all, q, q2)
            none = Equal (a, b)
            y = If (none) <then_branch = p0 () => (float[1,4] z) {{ z = Identity (nought) }},
                else_branch = p1 () => (float[1,4] row) {{
                    mine = Slice (x, a, b)
                    row = ReduceSum (mine, zero1)
                }}>
            s2 = SequenceInsert (s, y)
            k2 = Add (k, one)
            go = Less (k2, bags)
        }}>
        ys = ConcatFromSequence <axis = 0> (r)
    }}"""


def test_offsets_at_run_time() -> None:
    some = [f for f in (*EVEN, *UNEVEN, *EMPTY, *ODD) if f["offsets"].size]
    found = prove(at_run_time(last=False), *some)
    assert "stacked if all slices are equally long" in found.decisions[0].form


def test_offsets_at_run_time_with_the_end_of_the_last_bag() -> None:
    prove(at_run_time(last=True), *(f for f in (*EVEN, *UNEVEN, *ODD) if f["offsets"].size > 1))


def test_an_offset_too_few() -> None:
    """The last bag reads behind the end of the offsets, where a Slice is empty."""
    wrong = at_run_time(last=True).replace("bags = Sub (many, one)", "bags = Identity (many)")
    assert "not-a-map" in kept(wrong).codes


def until(offsets: str, count: int, branch: bool) -> str:
    """Return EmbeddingBag as PyTorch's default exporter writes it."""
    reduce = """
            mine = Slice (x, a, b)
            y = ReduceSum <keepdims = 1> (mine, zero1)"""
    if branch:
        reduce = """
            none = Equal (a, b)
            y = If (none) <then_branch = p () => (float[1,4] z) { z = Identity (nought) },
                else_branch = q () => (float[1,4] row) {
                    mine = Slice (x, a, b)
                    row = ReduceSum <keepdims = 1> (mine, zero1)
                }>"""
    return f"""g (float[6,4] x{", int64[K] offsets" if not offsets else ""}) => (float[M,4] ys)
        <float[1,4] nought = {{0, 0, 0, 0}}> {{
        {SCALARS}
        {offsets}
        bags = Constant <value = int64 {{{count}}}> ()
        empty = SequenceEmpty <dtype = 1> ()
        last, r = Loop (, t, zero, empty) <body = step (int64 i, bool c, int64 k, seq(float[]) s)
            => (bool go, int64 k2, seq(float[]) s2) {{
            p = Reshape (k, one1)
            one2 = CastLike (one, p)
            q = Add (p, one2)
            a = Slice (offsets, p, q)
            two2 = Add (q, one2)
            b = Slice (offsets, q, two2)
            {reduce}
            s2 = SequenceInsert (s, y)
            k2 = Add (k, one)
            go = Less (k2, bags)
        }}>
        ys = ConcatFromSequence <axis = 0> (r)
    }}"""


@pytest.mark.parametrize("branch", [False, True], ids=["plain", "with_if"])
@pytest.mark.parametrize("offsets", [(0, 3, 6), (0, 2, 4, 6), (0, 6)])
def test_even_bags_of_constant_offsets(offsets: tuple[int, ...], branch: bool) -> None:
    numbers = ", ".join(map(str, offsets))
    constant = f"offsets = Constant <value = int64[{len(offsets)}] {{{numbers}}}> ()"
    found = prove(until(constant, len(offsets) - 1, branch), {"x": rows(6, 4)})
    assert not found.operators["ScatterElements"]


@pytest.mark.parametrize("branch", [False, True], ids=["plain", "with_if"])
@pytest.mark.parametrize("offsets", [(0, 1, 6), (0, 0, 2, 2, 6, 6)])
def test_uneven_bags_of_constant_offsets(offsets: tuple[int, ...], branch: bool) -> None:
    numbers = ", ".join(map(str, offsets))
    constant = f"offsets = Constant <value = int64[{len(offsets)}] {{{numbers}}}> ()"
    prove(until(constant, len(offsets) - 1, branch), {"x": rows(6, 4)})


def test_a_branch_for_the_bag_that_begins_somewhere() -> None:
    """It is not the branch for bags without ids, which has no meaning where all are equally long."""
    text = bags("ReduceSum").replace(
        "y = ReduceSum <keepdims = 0> (rows, zero1)",
        """asked = Equal (a0, zero)  total = ReduceSum <keepdims = 0> (rows, zero1)
            y = If (asked) <then_branch = first () => (float[4] p) { p = Neg (total) },
                else_branch = others () => (float[4] q) { q = Identity (total) }>""",
    )
    before = model(text, opset=18)
    found = read(before)
    assert [d.form for d in found.decisions] == [
        "stacked if all slices are equally long, else packed"
    ]
    assert same(before, found.model, *EVEN, *UNEVEN, *EMPTY) >= 8


RANGES = {
    "from 0": ("Range (zero, total, one)", 1),
    "from 0, of another tensor": ("Range (zero, beyond, one)", 1),
    "from 1": ("Range (one, beyond, one)", 2),
    "every other": ("Range (zero, beyond, two)", 2),
    "of int32": ("Range (zero32, total32, one32)", 2),
}
"""The places of ids that bags read, and how many Gathers read them: bags of one length always do."""


@pytest.mark.parametrize("name", RANGES)
def test_places_in_a_range_from_0_are_not_looked_up(name: str) -> None:
    counted, reads = RANGES[name]
    text = bags("ReduceSum").replace("mine = Slice (ids,", "at = Slice (numbers,")
    text = text.replace("found =", "mine = Gather <axis = 0> (ids, at)  found =")
    text = text.replace(
        "shape =",
        f"""total = Gather <axis = 0> (count, zero)  beyond = Min (total, five)
        zero32 = Cast <to = 6> (zero)  one32 = Cast <to = 6> (one)  total32 = Cast <to = 6> (total)
        numbers = {counted}  shape =""",
    )
    constants = """two = Constant <value = int64 {2}> ()  five = Constant <value = int64 {5}> ()
    t = """
    text = text.replace("t = ", constants, 1)
    many = [feed(7, [0, 3, 5]), feed(7, [2, 2, 9, 0]), feed(0, [0]), feed(3, [-2, 1])]
    found = prove(text, *many)
    nodes = list(ir.from_proto(found.model).graph.all_nodes())
    gathered = [operand(node, 0).producer() for node in nodes if node.op_type == "Gather"]
    assert sum(is_operator(node, "Range") for node in gathered) == reads, found.operators


def test_few_bags_with_weights_run_in_the_loop() -> None:
    """The question whether weights are as many as indices asks for the number of bags, too."""
    path = pathlib.Path(__file__).parents[3] / "models/exported/ts_embedding_bag_weights.onnx"
    (found,) = rewriter.explain(path).decisions
    assert 4 <= found.few <= 8


BEFORE = """g (float[N,4] x, int64[N] sizes) => (float[M,4] ys)
  <bool go = {1}, int64 zero = {0}, int64 one = {1}, int64[1] first = {0}> {
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    ys = Loop (n, go) <body = step (int64 i, bool c) => (bool d, float[4] y) {
        j = Sub (i, one)  j1 = Unsqueeze (j, first)  i1 = Unsqueeze (i, first)
        size = Slice (sizes, j1, i1, first)
        m = ReduceSum <keepdims = 1> (size, first)
        rows = Slice (x, first, m, first)
        y = ReduceSum <keepdims = 0> (rows, first)
        d = Identity (c)
    }>
}"""


def test_a_number_before_the_first_is_none() -> None:
    """Iteration 0 reads ``sizes[-1:0]``, which is empty, and not the last number."""
    before = model(BEFORE, 18)
    given = [{"x": rows(n, 4), "sizes": np.arange(1, n + 1)} for n in (0, 1, 3)]
    assert same(before, read(before).model, *given) == len(given)
