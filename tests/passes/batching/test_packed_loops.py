"""Loops of samples that differ in length, in trip count, or in when they end."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_nodes, subgraphs, walk_nodes
from passes.graph.names import make_names_unique
from rewriter import rewrite
from rewriter.proof.compare import compare
from tests.passes.batching.harness import Operand, constant, mapped, run_model, shared
from tests.passes.batching.ragged import (
    RaggedCase,
    fused,
    prove_ragged,
    ragged,
    reasons_of,
    wanted,
)
from tests.passes.expansion import run

LEVELS = 2  # A loop of blocks of steps.
X, Z = ragged(2), ragged(2, seed=1)
OTHER = ragged(2, lengths=(1, 4, 2), seed=2)
ZERO = constant(np.array([0.5, -1], np.float32))
FIRST = {"zero": constant(np.array(0)), "t": constant(np.array(True))}
LENGTH = "h = Shape(x) n = Gather(h, zero)"


def _counts(*numbers: int) -> Operand:
    return mapped(*(np.array(n) for n in numbers))


def _loop(nodes: str, *, states: str = "z", count: str = "n", go: str = "t") -> str:
    """Return a Loop whose body reads ``i``, ``c``, ``s`` and yields ``c2``, ``s2`` and ``o``."""
    return (
        f"e, y = Loop({count}, {go}, {states}) <body = b (int64 i, bool c, float[2] s) => "
        f"(bool c2, float[2] s2, float[2] o) {{ {nodes} }}>"
    )


def _case(name: str, nodes: str, outputs: tuple[str, ...] = ("e", "y"), **more: Any) -> RaggedCase:
    operands = {"x": X, "z": ZERO, **FIRST, **more}
    used = {k: v for k, v in operands.items() if k == "x" or k in nodes.replace("(", " ( ")}
    return RaggedCase(name, nodes, used, outputs)


ROW = "c2 = Identity(c) r = Gather(x, i) s2 = Add(s, r) o = Mul(s2, s2)"
COUNTED = "c2 = Identity(c) f = Cast<to = 1>(i) s2 = Add(s, f) o = Mul(s2, m)"
PACKED = (
    "e = Loop(n, t, x) <body = b (int64 i, bool c, float[N,2] s) => (bool c2, float[N,2] s2) "
    "{ c2 = Identity(c) s2 = Add(s, x) }>"
)

STEPS = "c2 = Identity(c) f = Cast<to = 1>(i) s2 = Add(s, f) o = Identity(s2)"

KNOWN = [
    _case("rows by their number", f"{LENGTH} {_loop(ROW)}"),
    _case("states of samples", f"{LENGTH} {_loop(ROW)}", z=mapped((2,))),
    _case("without a condition", f"{LENGTH} {_loop(ROW, go='')}"),
    _case(
        "what follows reads as many rows",
        f"{LENGTH} {_loop(ROW)} v = Add(y, x)",
        ("e", "v"),
    ),
    _case(
        "length by the first of all dimensions",
        f"h = Shape(x) k = Slice(h, first, last) n = Gather(k, zero) {_loop(ROW)} v = Add(y, x)",
        ("e", "v"),
        first=constant(np.array([0])),
        last=constant(np.array([2])),
    ),
    _case(
        "length by a slice of the shape",
        f"h = Shape(x) k = Slice(h, first, second) n = Squeeze(k) {_loop(ROW)} v = Add(y, x)",
        ("e", "v"),
        first=constant(np.array([0])),
        second=constant(np.array([1])),
    ),
    _case(
        "rows by a slice",
        f"{LENGTH} "
        + _loop(
            "c2 = Identity(c) k = Unsqueeze(i, first) l = Add(k, one) q = Slice(x, k, l, first) "
            "r = ReduceSum<keepdims = 0>(q, first) s2 = Add(s, r) o = Identity(r)"
        ),
        first=constant(np.array([0])),
        one=constant(np.array([1])),
    ),
    _case(
        "from the last row",
        f"{LENGTH} "
        + _loop(
            "c2 = Identity(c) k = Neg(i) l = Sub(k, one) r = Gather(x, l) "
            "s2 = Add(s, r) o = Identity(r)"
        ),
        one=constant(np.array(1)),
    ),
    _case("counts of samples", _loop(COUNTED), n=_counts(2, 0, 3), m=mapped((2,))),
    _case("as many steps as numbers", f"n = Size(x) {_loop(STEPS)}"),
    _case("one below no steps", _loop(COUNTED), n=_counts(2, -4, 3), m=mapped((2,))),
    _case(
        "more steps than a block has",
        _loop("c2 = Identity(c) f = Cast<to = 1>(i) s2 = Add(s, f) o = Mul(s2, m)"),
        n=_counts(70, 130, 64),
        m=mapped((2,)),
    ),
    _case("no step of any sample", _loop(COUNTED), ("e",), n=_counts(0, 0, 0), m=mapped((2,))),
    _case(
        "counts of one element",
        _loop(COUNTED),
        n=mapped(*(np.array([n]) for n in (2, 0, 3))),
        m=mapped((2,)),
    ),
    _case(
        "a condition that is false for one",
        _loop(COUNTED, go="g"),
        n=_counts(2, 5, 1),
        m=mapped((2,)),
        g=mapped(*(np.array(f) for f in (True, False, True))),
    ),
    _case(
        "a condition that is false at run time",
        _loop(COUNTED, go="g"),
        ("e",),
        n=_counts(2, 5, 1),
        m=mapped((2,)),
        g=shared(np.array(False)),
    ),
    _case(
        "all rows in every step",
        _loop(
            "c2 = Identity(c) d = Sub(x, s) q = Abs(d) r = ReduceSum<keepdims = 0>(q, first) "
            "s2 = Add(s, r) o = Identity(r)"
        ),
        n=_counts(3, 1, 2),
        first=constant(np.array([0])),
    ),
    _case(
        "columns of all rows, divided",
        _loop(
            "c2 = Identity(c) k = Gather<axis = 1>(w, first) l = Div(twelve, k) "
            "m = ReduceSum<keepdims = 0>(l) r = Cast<to = 1>(m) s2 = Add(s, r) o = Identity(s2)"
        ),
        n=_counts(2, 0, 1),
        w=Operand("ragged", tuple(np.array(v) for v in ([[1, 2]], [[0, 0]], [[3, 4], [6, 1]]))),
        twelve=constant(np.array(12)),
        first=constant(np.array(0)),
    ),
    _case(
        "rows of other lengths",
        f"{LENGTH} "
        + _loop("c2 = Identity(c) r = Gather(w, zero) s2 = Add(s, r) o = Identity(s2)"),
        w=OTHER,
    ),
    _case(
        "a number that is one for all samples",
        f"{LENGTH} "
        "k, y = Loop(n, t, zero) <body = b (int64 i, bool c, int64 s) => "
        "(bool c2, int64 s2, float[2] o) { c2 = Identity(c) r = Gather(x, s) s2 = Add(s, one) "
        "o = Identity(r) }>",
        ("k", "y"),
        one=constant(np.array(1)),
    ),
    _case(
        "what fails for who is done",
        _loop(
            "c2 = Identity(c) d = Sub(n, i) k = Div(twelve, d) f = Cast<to = 1>(k) "
            "s2 = Add(s, f) o = Identity(s2)"
        ),
        n=_counts(2, 0, 3),
        twelve=constant(np.array(12)),
    ),
    _case("packed states", PACKED, ("e",), n=_counts(2, 4, 1)),
    _case("packed states, no steps for one", PACKED, ("e",), n=_counts(2, 1, 0)),
    _case(
        "packed states beside rows by number",
        f"{LENGTH} "
        "e = Loop(n, t, x) <body = b (int64 i, bool c, float[N,2] s) => "
        "(bool c2, float[N,2] s2) { c2 = Identity(c) r = Gather(s, i) s2 = Add(s, r) }>",
        ("e",),
    ),
    _case(
        "an If of each sample in the steps",
        f"{LENGTH} "
        + _loop(
            "c2 = Identity(c) r = Gather(x, i) g = ReduceSum<keepdims = 0>(r) "
            "p = Greater(g, nought) s2 = If(p) <then_branch = b1 () => (float[2] b2) "
            "{ b2 = Gather(x, i) }, else_branch = b3 () => (float[2] b4) { b4 = Sub(s, r) }> "
            "o = Identity(s2)"
        ),
        nought=constant(np.float32(0)),
    ),
    _case(
        "a loop of each sample in the steps",
        f"{LENGTH} "
        + _loop(
            "c2 = Identity(c) r = Gather(x, i) s3, w = Loop(n, t, s) <body = b1 (int64 j, bool d, "
            "float[2] u) => (bool d2, float[2] u2, float[2] w2) { d2 = Identity(d) "
            "q = Gather(x, j) u2 = Add(u, q) w2 = Mul(u2, r) }> "
            "v = ReduceSum<keepdims = 0>(w, first) s2 = Add(s, v) o = Mul(s2, r)"
        ),
        first=constant(np.array([0])),
    ),
]

HALVED = (
    "h = Mul(s, half) q = ReduceSum<keepdims = 0>(h) c2 = Greater(q, one) "
    "s2 = Identity(h) o = Neg(h)"
)
HALF = {"half": constant(np.float32(0.5)), "one": constant(np.float32(1))}
LARGE = mapped(*(np.array(v, np.float32) for v in ([1, 2], [40, 9], [3, 8])))
FLAGS = mapped(*(np.array(f) for f in (True, False, True)))

ENDING = [
    _case("ends by itself", _loop(HALVED, count=""), z=LARGE, **HALF),
    _case("ends by itself, or by a count", _loop(HALVED), z=LARGE, n=_counts(3, 1, 0), **HALF),
    _case(
        "ends by itself, or by one count", _loop(HALVED), z=LARGE, n=shared(np.array(3)), **HALF
    ),
    _case(
        "ends after more steps than a block has",
        _loop("c2 = Less(i, last) f = Cast<to = 1>(i) s2 = Add(s, f) o = Neg(s2)", count=""),
        last=_counts(70, 2, 127),
    ),
    _case("not all begin", _loop(HALVED, count="", go="g"), z=LARGE, g=FLAGS, **HALF),
    _case("last states alone", _loop(HALVED, count=""), ("e",), z=LARGE, **HALF),
    _case("steps alone", _loop(HALVED, count=""), ("y",), z=LARGE, **HALF),
    _case(
        "a condition of one element",
        _loop(HALVED.replace("<keepdims = 0>", ""), count=""),
        z=LARGE,
        **HALF,
    ),
    _case(
        "one end for all beside counts of samples",
        _loop("c2 = Less(i, bound) f = Cast<to = 1>(i) s2 = Add(s, f) o = Mul(s2, m)"),
        n=_counts(2, 0, 5),
        m=mapped((2,)),
        bound=shared(np.array(2)),
    ),
    _case(
        "rows until one is positive",
        f"{LENGTH} "
        + _loop(
            "r = Gather(x, i) g = ReduceMax<keepdims = 0>(r) c2 = Less(g, nought) "
            "s2 = Add(s, r) o = Identity(r)"
        ),
        nought=constant(np.float32(0)),
    ),
    _case(
        "packed states and captures",
        "e = Loop(, t, x) <body = b (int64 i, bool c, float[N,2] s) => (bool c2, float[N,2] s2) "
        "{ s2 = Add(s, w) q = Mul(s2, s2) g = ReduceSum<keepdims = 0>(q) c2 = Less(g, big) }>",
        ("e",),
        w=Z,
        big=mapped(*(np.float32(v) for v in (30, -1, 300))),
    ),
    _case(
        "what fails for who is done",
        _loop(
            "d = Sub(last, i) k = Div(twelve, d) c2 = Greater(d, one) f = Cast<to = 1>(k) "
            "s2 = Add(s, f) o = Identity(s2)",
            count="",
        ),
        last=_counts(2, 1, 4),
        twelve=constant(np.array(12)),
        one=constant(np.array(1)),
    ),
]

TOGETHER = [
    _case("packed states", PACKED, ("e",), n=shared(np.array(3))),
    _case("no steps", PACKED, ("e",), n=shared(np.array(0))),
    _case(
        "captured rows",
        _loop("c2 = Identity(c) r = ReduceSum<keepdims = 0>(x, k) s2 = Add(s, r) o = Neg(s2)"),
        ("e", "y"),
        n=shared(np.array(3)),
        k=constant(np.array([0])),
    ),
]


NO_STEPS = """<ir_version: 10, opset_import: ["" : 18]>
g (float[B,P,Q] x, int64 n) => (float[B,R,S] y) <bool t = {1}, int64[1] zero = {0}> {
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  ys = SequenceMap (xs) <body = b (s) => (r) {
    w = ReduceSum <keepdims = 0> (s, zero)
    e, r = Loop (n, t, w) <body = steps (int64 i, bool c, float[2] u) =>
        (bool d, float[2] v, float[2] o) {
      d = Identity (c)
      v = Add (u, w)
      o = Neg (v) }> }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}"""


def test_without_steps_declared_dimensions_are_those_of_the_body() -> None:
    model = ir.from_proto(onnx.parser.parse_model(NO_STEPS))
    FuseSequenceMapPass()(model)
    ExpandSequenceMapPass()(model)
    make_names_unique(model)
    feeds = {"x": np.ones((4, 3, 2), np.float32), "n": np.array(0)}
    (got,) = run_model(ir.to_proto(model), feeds)
    assert got.shape == (4, 0, 2)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_steps_of_samples(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, inside=LEVELS * case.nodes.count("Loop("))


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", ENDING, ids=str)
def test_samples_that_end_by_themselves(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, inside=LEVELS)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", TOGETHER, ids=str)
def test_steps_that_all_samples_have(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, inside=1)


@pytest.mark.parametrize(
    ("row", "is_copied"),
    [("r = Gather(x, i)", False), ("q = Exp(x) r = Gather(q, i)", True)],
    ids=["by its number", "of what is computed of all"],
)
def test_rows_are_copied_in_each_step_only_where_all_are_read(row: str, is_copied: bool) -> None:
    case = _case("", f"{LENGTH} {_loop(ROW.replace('r = Gather(x, i)', row))}")
    model, _ = fused(case, wanted(case, 3))
    steps = [graph for node in all_nodes(model) for _, graph in subgraphs(node)]
    assert all(any(n.op_type == "CumSum" for n in walk_nodes(g)) == is_copied for g in steps)


def test_a_loop_in_a_branch_makes_as_many_rows_as_it_counts() -> None:
    """One that reads the rows, too, has more nodes."""
    sizes = [_nodes_in_a_branch(body) for body in (STEPS, ROW)]
    assert sizes == sorted(sizes)


def _nodes_in_a_branch(body: str) -> int:
    branch = f"{LENGTH} {_loop(body)} a = Add(y, x)"
    text = (
        f"v = If(b) <then_branch = yes () => (float[N,2] a) {{ {branch} }}, "
        "else_branch = no () => (float[N,2] w) { w = Neg(x) }>"
    )
    flags = mapped(*(np.array(f) for f in (True, False, True)))
    case = _case("in a branch", text, ("v",), b=flags)
    prove_ragged(case, 3, inside=LEVELS)
    model, _ = fused(case, wanted(case, 3))
    return len(list(all_nodes(model)))


DECLINED = [
    _case(
        "a condition that runtimes may or may not read",
        _loop(HALVED, go=""),
        z=LARGE,
        n=_counts(3, 2, 1),
        **HALF,
    ),
    _case(
        "states that grow",
        PACKED.replace("Add(s, x)", "Concat<axis = 0>(s, x)"),
        ("e",),
        n=_counts(2, 1, 3),
    ),
    _case(
        "steps of different length",
        PACKED.replace("e =", "e, y =").replace(
            "float[N,2] s2) {", "float[N,2] s2, float[N,2] o) { o = Neg(s)"
        ),
        ("y",),
        n=_counts(1, 1, 1),
        x=ragged(2, lengths=(2, 2, 2)),
    ),
]


@pytest.mark.parametrize("case", DECLINED, ids=str)
def test_declines(case: RaggedCase) -> None:
    assert "Loop" in [op for op, _ in reasons_of(case)]


LAST_AXIS = """<ir_version: 10, opset_import: ["" : 18]>
g (float[T,2] x, int64[B] n) => (float[P,Q] y) <int64 two = {2}> {
  xs = SplitToSequence <axis = 0> (x, n)
  ys = SequenceMap (xs) <body = b (s) => (r) {
    e = Loop (two, , s) <body = steps (int64 i, bool c, float[N,2] u) => (bool d, float[N,2] v) {
      d = Identity (c)
      v = Mul (u, s) }>
    r = Neg (e) }>
  y = ConcatFromSequence <axis = -1> (ys)
}"""


def test_states_of_unknown_rank_are_joined_along_their_last_axis() -> None:
    """Inference tells no rank of what a Loop carries."""
    model = ir.from_proto(onnx.parser.parse_model(LAST_AXIS))
    FuseSequenceMapPass()(model)
    ExpandSequenceMapPass()(model)
    make_names_unique(model)
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    (got,) = run_model(ir.to_proto(model), {"x": rows, "n": np.array([3, 3])})
    np.testing.assert_array_equal(got, -(np.concatenate([rows[:3], rows[3:]], axis=1) ** 3))


GROWS = """<ir_version: 8, opset_import: ["" : 18]>
g (seq(float[?,3]) xs, float[3,0] none, float[3] b) => (seq(float[]) ys) {
  yes = Constant <value = bool {1}> () zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64[1] {1}> ()
  ys = SequenceMap (xs) <body = m (float[?,?] x) => (float[?,?] y) {
    h = Shape (x) n = Gather (h, zero)
    y, z = Loop (n, yes, none, b) <body = steps (int64 i, bool c, float[3,?] s, float[3] p)
      => (bool d, float[3,?] t, float[3] v) {
      d = Identity (c) e = Gather (x, i) r = Mul (e, p) v = Tanh (r)
      u = Unsqueeze (r, one) t = Concat <axis = 1> (s, u) }> }>
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize("lengths", [(0, 2), (2, 0), (1, 2), (2, 2), (0, 0)], ids=str)
def test_samples_of_unequal_length_may_carry_what_grows(
    lengths: tuple[int, ...], strategy: str
) -> None:
    """Those that are done have as many columns as they had steps: they are no one tensor."""
    before = onnx.parser.parse_model(GROWS)
    feeds = {
        "xs": [np.arange(1, 3 * n + 1, dtype=np.float32).reshape(n, 3) for n in lengths],
        "none": np.empty((3, 0), np.float32),
        "b": np.ones(3, np.float32),
    }
    expected = run(before, feeds, "reference")
    difference = compare(expected, run(rewrite(before, strategy=strategy).model, feeds))
    assert difference.equal, difference.message
