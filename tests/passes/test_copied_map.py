"""A Loop of a known few iterations runs by copies of its body where its rows would need a Loop."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest

import rewriter
from passes.decisions import Verdict
from tests.passes.loops import model, same


@dataclasses.dataclass(frozen=True)
class End:
    """How a Loop over experts hands on what an expert yields."""

    initial: str
    taken: str
    given: str
    nodes: str
    output: str = "y"
    behind: str = ""


ENDS = {
    "a carried sum": End(
        "zeros",
        "float[T, 4] s",
        "float[T, 4] t",
        't = ScatterND <reduction = "add"> (s, at, o)',
    ),
    "a list": End(
        "empty",
        "seq(float[R, 4]) s",
        "seq(float[R, 4]) t",
        "t = SequenceInsert (s, o)",
        "q",
        "y = ConcatFromSequence <axis = 0> (q)",
    ),
    "a sum of means": End(
        "zero",
        "float s",
        "float t",
        "u = ReduceSum <keepdims = 0> (o) t = Add (s, u)",
        "q",
        "y = Unsqueeze (q, axes)",
    ),
    "rows collected": End(
        "zero",
        "float s",
        "float t, float[4] u",
        "t = Identity (s) u = ReduceSum <keepdims = 0> (o, none)",
        "q, y",
    ),
}


def experts(count: int, steps: int, end: End) -> onnx.ModelProto:
    """Return a Loop of a constant number of iterations, each for the rows of one expert."""
    numbers = ", ".join(str((7 * i % 11 - 5) / 8) for i in range(max(count, 1) * 16))
    work = " ".join(
        f"e{i} = Exp (h{i}) f{i} = Neg (e{i}) g{i} = Tanh (f{i}) h{i + 1} = Add (g{i}, h{i})"
        for i in range(steps)
    )
    return model(
        f"""g (float[T, 4] x, int64[T] k) => (float[A, B] y)
    <float[{max(count, 1)}, 4, 4] w = {{{numbers}}}> {{
        n = Constant <value_int = {count}> () go = Constant <value = bool {{1}}> ()
        d = Shape (x) zeros = ConstantOfShape (d) empty = SequenceEmpty ()
        zero = Constant <value_float = 0.0> () axes = Constant <value_ints = [0, 1]> ()
        {end.output} = Loop (n, go, {end.initial}) <
            body = b (int64 i, bool c, {end.taken}) => (bool z, {end.given}) {{
                z = Identity (c) one = Constant <value_ints = [1]> ()
                none = Constant <value_ints = [0]> ()
                hit = Equal (k, i) p = NonZero (hit) r = Squeeze (p, none) v = Gather (x, r)
                m = Gather (w, i) h0 = MatMul (v, m) {work} o = Relu (h{steps})
                at = Unsqueeze (r, one) {end.nodes} }}>
        {end.behind} }}""",
        opset=18,
    )


def fed(count: int, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, 4)).astype(np.float32)
    return {"x": x, "k": rng.integers(0, max(count, 1), rows)}


@pytest.mark.sampled
@pytest.mark.parametrize("rows", [0, 1, 5, 40, 3000])
@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("name", ENDS)
def test_a_known_few_iterations_leave_no_loop(name: str, count: int, rows: int) -> None:
    before = experts(count, 3, ENDS[name])
    result = rewriter.rewrite(before)
    assert result.report.after.loops == 0
    assert "If" not in result.report.after.operators
    assert same(before, result.model, fed(count, rows)) == 1


@pytest.mark.parametrize("name", ["a carried sum", "a list"])
def test_copies_of_a_part_are_fewer_nodes_than_of_the_whole(name: str) -> None:
    (decision,) = rewriter.rewrite(experts(7, 3, ENDS[name])).report.decisions
    assert decision.verdict == Verdict.UNROLLED
    assert decision.form == {
        "a carried sum": "7 copies, 133 nodes",
        "a list": "7 copies, 126 nodes",
    }.get(name)


@pytest.mark.parametrize(
    ("count", "steps"),
    [(9, 3), (7, 12)],
    ids=["too many iterations", "too many nodes"],
)
@pytest.mark.parametrize("name", ["a carried sum", "a list"])
def test_many_copies_are_not_written(name: str, count: int, steps: int) -> None:
    before = experts(count, steps, ENDS[name])
    result = rewriter.rewrite(before)
    assert result.report.decisions[0].verdict == Verdict.FUSED
    assert result.report.after.loops > 0
    feeds = [fed(count, rows) for rows in (0, 5, 40, 3000)]
    assert same(before, result.model, *feeds) == len(feeds)


def test_no_iterations_leave_what_was_carried() -> None:
    before = experts(0, 3, ENDS["a carried sum"])
    result = rewriter.rewrite(before)
    assert result.report.after.loops == 0
    assert same(before, result.model, fed(0, 0), fed(0, 5)) == 2


@pytest.mark.parametrize("options", [{"strategy": "fuse"}, {"target": "portable"}])
def test_where_no_loop_is_wanted_the_rows_are_batched(options: dict[str, str]) -> None:
    before = experts(7, 3, ENDS["a carried sum"])
    result = rewriter.rewrite(before, **options)
    assert result.report.decisions[0].verdict == Verdict.FUSED
    assert result.report.after.loops == 0
    assert same(before, result.model, fed(7, 40)) == 1
