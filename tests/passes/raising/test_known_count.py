"""Loops of a known few iterations: batched, or copies of the body where those are faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from passes.decisions import Decision, Verdict
from rewriter.pipeline import rewrite
from tests.passes.loops import model, same
from tests.passes.reading.test_read_loops_bags import bags, feed


def of_count(count: int | str, reduction: str = "ReduceSum", opset: int = 18) -> onnx.ModelProto:
    return model(bags(reduction).replace("[B]", f"[{count}]"), opset)


def decided(before: onnx.ModelProto, **options: Any) -> tuple[Decision, onnx.ModelProto]:
    found = rewrite(before, **options)
    (decision,) = found.report.decisions
    return decision, found.model


@pytest.mark.sampled
@pytest.mark.quick
@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMean", "ReduceMax"])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_bags_are_copies_of_the_body(reduction: str, count: int) -> None:
    before = of_count(count, reduction)
    decision, after = decided(before)
    assert decision.verdict is Verdict.UNROLLED
    assert decision.form.startswith(f"{count} cop")
    assert not {"Loop", "If"} & {node.op_type for node in after.graph.node}
    ends = [[0, 1, 1, 6, 8][:count], [0, 0, 3, 3, 9][:count], list(range(count))]
    assert same(before, after, *(feed(9, places) for places in ends)) == len(ends)


def test_more_bags_are_batched() -> None:
    decision, _ = decided(of_count(40))
    assert decision.verdict is Verdict.FUSED


def test_bags_whose_copies_were_very_many_nodes_are_batched() -> None:
    chain = "".join(f"f{n + 1} = Tanh (f{n})  " for n in range(200))
    text = bags("ReduceSum").replace("found = Gather", "f0 = Gather")
    text = text.replace("rows = Identity (found)", f"{chain} rows = Identity (f200)")
    decision, _ = decided(model(text.replace("[B]", "[2]")))
    assert decision.verdict is Verdict.FUSED


@pytest.mark.parametrize(
    "options",
    [{"strategy": "fuse"}, {"target": "portable"}, {"target": "onnxruntime-cuda"}],
    ids=["fuse", "portable", "a device"],
)
def test_they_are_batched_where_that_is_asked(options: dict[str, object]) -> None:
    decision, _ = decided(of_count(2), **options)
    assert decision.verdict is Verdict.FUSED


def test_an_unknown_number_of_bags_is_batched() -> None:
    decision, _ = decided(of_count("B"))
    assert decision.verdict is Verdict.FUSED


def test_what_is_cheap_is_batched_for_any_number_of_iterations() -> None:
    text = """g (float[2,4] x) => (float[M,4] ys) {
        t = Constant <value = bool {1}> ()
        n = Constant <value = int64 {2}> ()
        ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {
            row = Gather <axis = 0> (x, i)
            y = Relu (row)
            go = Identity (c)
        }>
    }"""
    decision, _ = decided(model(text))
    assert decision.verdict is Verdict.FUSED


def test_a_known_few_in_a_body_are_batched_with_it() -> None:
    """A Loop that is left in a body would keep the Loop around it."""
    inner = bags("ReduceSum").replace("[B]", "[2]")
    body = inner.partition("{")[2].rpartition("}")[0].replace("ids", "some")
    decisions = rewrite(
        model(f"""g (int64[N,9] ids, int64[2] offsets, float[9,4] w) => (float[K,M,4] all_ys) {{
            on = Constant <value = bool {{1}}> ()
            first = Constant <value = int64 {{0}}> ()
            shape0 = Shape (ids)
            many = Gather <axis = 0> (shape0, first)
            all_ys = Loop (many, on) <body = each (int64 k, bool d) => (bool d2, float[M,4] ys) {{
                some = Gather <axis = 0> (ids, k)
                {body}
                d2 = Identity (d)
            }}>
        }}""")
    ).report.decisions
    assert {one.verdict for one in decisions} == {Verdict.FUSED}


@pytest.mark.quick
def test_what_is_batched_in_no_form_is_copies_of_the_body() -> None:
    text = """g (float[N,4] b, float[N,3] s) => (float[M,5] out) {
        t = Constant <value = bool {1}> ()  n = Constant <value = int64 {3}> ()
        z = Constant <value = float {0.5}> ()  first = Constant <value = int64[1] {0}> ()
        none = Constant <value = int64[2] {0, 5}> ()
        begin = ConstantOfShape (none)
        out = Loop (n, t, begin) <body = step (int64 i, bool c, float[P,5] a)
            => (bool go, float[Q,5] a2) {
            col = Gather <axis = 1> (s, i)  keep = Greater (col, z)
            picked = NonZero (keep)  at = Transpose <perm = [1, 0]> (picked)
            rows = GatherND (b, at)  points = GatherND (s, at)
            place = Unsqueeze (i, first)  of = Gather <axis = 1> (points, place)
            both = Concat <axis = 1> (rows, of)  a2 = Concat <axis = 0> (a, both)
            go = Identity (c)
        }>
    }"""
    before = model(text, 17)
    decision, after = decided(before)
    assert decision.verdict is Verdict.UNROLLED
    scores = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
    boxes = np.arange(16, dtype=np.float32).reshape(4, 4)
    fed = [{"b": boxes[:n], "s": scores[:n]} for n in (0, 1, 4)]
    assert same(before, after, *fed) == 3
