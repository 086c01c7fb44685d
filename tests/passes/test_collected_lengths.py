"""Loops that collect lengths: what differs along its first axis alone is packed behind them."""

from __future__ import annotations

import dataclasses
from unittest import mock

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from benchmarks.forms import forced
from passes.fusing.cost import Cost
from passes.fusing.fused_body import FusedBody
from passes.graph.graphs import subgraphs, walk_nodes
from passes.typing import Typings
from rewriter.backends import open_session
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare
from tests.passes.expansion import rows

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[H, W]) xs) => ({result}) {{
    ys = SequenceMap (xs) <body = b (float[H, W] x) => ({output}) {{ {body} }}>
    {joined}
}}"""


@dataclasses.dataclass(frozen=True)
class Body:
    """A body over samples that differ along both axes.

    Attributes:
        text: Its nodes.
        dims: The dimensions of its output, ``y``.
        batched: Operators that no loop holds afterwards.
        is_joined: Whether outputs can be joined along their first axis.
    """

    text: str
    dims: str
    batched: frozenset[str]
    is_joined: bool = True


def body(text: str, dims: str, batched: str, *, is_joined: bool = True) -> Body:
    return Body(text, dims, frozenset(batched.split()), is_joined)


REDUCED = """
    last = Constant <value_ints = [1]> ()
    mean = ReduceMean <keepdims = 1> (x, last)
    most = ReduceMax <keepdims = 1> (x, last)
    wide = Concat <axis = 1> (mean, most, mean)"""

BODIES = {
    "rows": body(
        REDUCED
        + """ relu = Relu (wide) soft = Softmax <axis = 1> (relu) e = Exp (soft)
        y = Sqrt (e)""",
        "K, 3",
        "Concat Relu Softmax Exp Sqrt",
    ),
    "along the axis of different lengths": body(
        REDUCED
        + """ a = Sigmoid (wide) b = Softmax <axis = 0> (a) c = Exp (b) e = Neg (c)
        f = Abs (e) g = Sqrt (f) h = Tanh (g) d = Relu (h)
        first = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (d, first)""",
        "3",
        "Concat Sigmoid Softmax Exp Neg Abs Sqrt Tanh Relu ReduceSum",
    ),
    "two of one length meet": body(
        REDUCED + " a = Relu (mean) b = Neg (most) c = Add (a, b) d = Exp (c) y = Abs (d)",
        "K, 1",
        "Relu Neg Exp Abs",
    ),
    "the data makes the length": body(
        """n = NonZero (x) t = Transpose (n) f = Cast <to = 1> (t) a = Sqrt (f) b = Exp (a)
        c = Add (a, b) d = Relu (c) e = Neg (d) y = Abs (e)""",
        "K, 2",
        "Sqrt Exp Relu Neg Abs",
    ),
    "the data makes two lengths that meet": body(
        """half = Constant <value_float = 0.5> () zero = Constant <value_int = 0> ()
        axis = Constant <value_ints = [1]> ()
        p = Greater (x, half) n = NonZero (p) m = NonZero (x)
        a = Gather <axis = 0> (n, zero) b = Gather <axis = 0> (m, zero)
        c = Unsqueeze (a, axis) f = Cast <to = 1> (c) g = Sqrt (f) h = Exp (g) i = Neg (h)
        j = Relu (i) k = Exp (j) d = Cast <to = 1> (b) e = Sqrt (d) y = Add (k, e)""",
        "K, L",
        "Exp Neg Relu",
        is_joined=False,
    ),
    "a vector": body(
        """flat = Constant <value_ints = [-1]> () v = Reshape (x, flat)
        a = Relu (v) b = Exp (a) c = Neg (b) d = Abs (c) y = Sqrt (d)""",
        "K",
        "Relu Exp Neg Abs Sqrt",
    ),
    "passed on as it was collected": body(
        """first = Constant <value_ints = [0]> () v = ReduceSum (x, first)
        same = Constant <value_ints = [0, -1]> () y = Reshape (v, same)""",
        "L, K",
        "Reshape",
        is_joined=False,
    ),
    "read in a later loop": body(
        REDUCED
        + """ relu = Relu (wide) a = Exp (relu) b = Neg (a) c = Abs (b) d = Sqrt (c)
        first = Constant <value_ints = [0]> () s = ReduceSum <keepdims = 1> (d, first)
        n = NonZero (d) m = Transpose (n) k = Cast <to = 1> (m) o = Sqrt (k)
        two = Constant <value_ints = [0, 1]> () t = ReduceSum (s, two)
        y = Mul (o, t)""",
        "K, 2",
        "Concat Relu Exp Neg Abs",
    ),
}

SHAPES = {
    "none": [],
    "one": [(4, 3)],
    "several": [(2, 3), (1, 5), (4, 1)],
    "with empty ones": [(0, 3), (2, 2), (0, 1), (1, 1)],
}


def _in_loops(model: onnx.ModelProto) -> set[str]:
    graph = ir.from_proto(model).graph
    loops = [node for node in graph if node.op_type == "Loop"]
    return {n.op_type for loop in loops for _, g in subgraphs(loop) for n in walk_nodes(g)}


def _without_a_guard(model: onnx.ModelProto) -> onnx.ModelProto:
    with forced("without a guard"):
        after = rewrite(model).model
    assert isinstance(after, onnx.ModelProto)
    return after


def _by_nodes_in_loops(body: FusedBody, _: Typings) -> Cost:
    return Cost(0.0, body.nodes_in_loops)


CASES = [
    (name, kind, shapes)
    for name, case in BODIES.items()
    for kind in ("sequence", "joined")
    for shapes in SHAPES
    if kind == "sequence" or (case.is_joined and SHAPES[shapes])
]


@pytest.mark.parametrize(("name", "kind", "shapes"), CASES)
def test_what_follows_is_packed(name: str, kind: str, shapes: str) -> None:
    case = BODIES[name]
    joined = "zs = ConcatFromSequence <axis = 0> (ys)" if kind == "joined" else ""
    result = "float zs" if joined else f"seq(float[{case.dims}]) ys"
    output = f"float[{case.dims}] y"
    text = TEXT.format(result=result, output=output, body=case.text, joined=joined)
    model = onnx.parser.parse_model(text)
    with mock.patch("passes.fusing.partly_fused.cost_of_body", _by_nodes_in_loops):
        after = _without_a_guard(model)
    assert not case.batched & _in_loops(after)
    feed = {"xs": rows(*SHAPES[shapes])}
    difference = compare(open_session(model, "reference").run(feed), open_session(after).run(feed))
    assert difference.equal, difference.message


def test_few_nodes_do_not_pay_for_what_a_loop_collects_beside_its_result() -> None:
    text = TEXT.format(
        result="seq(float[1]) ys",
        output="float[1] y",
        body=REDUCED
        + """ first = Constant <value_ints = [0]> ()
        s = ReduceSum <keepdims = 0> (wide, first) zero = Constant <value_ints = [0]> ()
        y = ReduceMax <keepdims = 1> (s, zero)""",
        joined="",
    )
    after = _without_a_guard(onnx.parser.parse_model(text))
    assert {"Concat", "ReduceSum"} <= _in_loops(after)


def test_a_sum_is_cheaper_in_the_loop_than_what_it_sums_is_to_collect() -> None:
    text = TEXT.format(
        result="seq(float) ys",
        output="float y",
        body="u = Unique (x) y = ReduceSum <keepdims = 0> (u)",
        joined="",
    )
    after = _without_a_guard(onnx.parser.parse_model(text))
    assert {"Unique", "ReduceSum"} <= _in_loops(after)


def test_the_lengths_that_a_loop_collects_are_a_result() -> None:
    text = """<ir_version: 10, opset_import: ["" : 23]>
    g (seq(float[N]) xs, seq(float[A, B]) zs, seq(bool) ps)
        => (seq(float[L]) ys, seq(int64) ns, seq(float[C, D]) ws) {
        ys, ns, ws = SequenceMap (xs, zs, ps) <body = b (float[N] x, float[A, B] z, bool p)
            => (float[L] y, int64 n, float[C, D] w) {
            amounts = Constant <value_ints = [0, 1]> () last = Constant <value_ints = [-1]> ()
            y = Pad (x, amounts) n = Size (y)
            w = If (p) <then_branch = t () => (float[C, D] v) { v = Identity (z) },
                else_branch = e () => (float[C, D] u) { u = Gather <axis = 0> (z, last) }> }>
    }"""
    model = onnx.parser.parse_model(text)
    after = rewrite(model).model
    feed = {
        "xs": [np.ones(n, np.float32) for n in (2, 4, 1)],
        "zs": rows((1, 2), (2, 4), (1, 3)),
        "ps": [np.array(flag) for flag in (True, False, True)],
    }
    difference = compare(open_session(model, "reference").run(feed), open_session(after).run(feed))
    assert difference.equal, difference.message
