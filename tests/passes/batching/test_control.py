"""If, Loop, Scan and sequences inside of a body."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest

from rewriter.backends import run
from rewriter.pipeline import rewrite
from rewriter.proof.validation import validate
from tests.passes.batching.harness import Case, fused_model, mapped, prove, shared

_LOOP = """
  n = Constant<value_int=3>() t = Constant<value=bool {1}>()
  y, z = Loop(n, t, %s) <body = b (int64 i, bool c, float[2] s) => (bool c2, float[2] s2, float[2] step) {
    c2 = Identity(c) s2 = Add(s, %s) step = Mul(s, s2) }>
"""
_SCAN = """
  y, z = Scan(%s) <num_scan_inputs=1%s, body = b (float[3] s, float[3] e) =>
    (float[3] s2, float[3] step) { s2 = Add(s, e) step = Mul(s2, %s) }>
"""

CASES = [
    Case(
        "if on a shared condition",
        "y = If(c) <then_branch = t () => (float[3] a) { a = Neg(x) }, "
        "else_branch = e () => (float[3] b) { b = Relu(x) }>",
        {"x": mapped((3,)), "c": shared(np.array(True))},
    ),
    Case(
        "if with one shared result",
        "y = If(c) <then_branch = t () => (float[3] a) { a = Neg(w) }, "
        "else_branch = e () => (float[3] b) { b = Relu(x) }>",
        {"x": mapped((3,)), "c": shared(np.array(True)), "w": shared(np.ones(3, np.float32))},
    ),
    Case(
        "if on a condition per sample",
        "y = If(c) <then_branch = t () => (float[3] a) { a = Neg(x) }, "
        "else_branch = e () => (float[3] b) { b = Relu(x) }>",
        {"x": mapped((3,)), "c": mapped(np.array(True), np.array(False), np.array(True))},
    ),
    Case(
        "if on a condition per sample of shape [1]",
        "y = If(c) <then_branch = t () => (float a) { a = Neg(x) }, "
        "else_branch = e () => (float b) { b = Relu(x) }>",
        {"x": mapped(()), "c": mapped(np.array([True]), np.array([False]), np.array([True]))},
    ),
    Case(
        "loop from a stacked state",
        _LOOP % ("x", "x"),
        {"x": mapped((2,))},
        outputs=("y", "z"),
        inside=1,
    ),
    Case(
        "loop whose steps another node reads",
        _LOOP % ("x", "x") + " v = Neg(z)",
        {"x": mapped((2,))},
        outputs=("y", "v"),
        inside=1,
    ),
    Case(
        "loop whose state becomes stacked",
        _LOOP % ("w", "x"),
        {"x": mapped((2,)), "w": shared(np.ones(2, np.float32))},
        outputs=("y", "z"),
        inside=1,
    ),
    Case(
        "loop that never runs",
        (_LOOP % ("x", "x")).replace("value_int=3", "value_int=0"),
        {"x": mapped((2,))},
        outputs=("y", "z"),
        inside=1,
    ),
    Case(
        "loop that collects a sequence",
        """ n = Constant<value_int=3>() t = Constant<value=bool {1}>() e = SequenceEmpty<dtype=1>()
        q = Loop(n, t, e) <body = b (int64 i, bool c, seq(float[2]) s) => (bool c2, seq(float[2]) s2) {
        c2 = Identity(c) f = Cast<to=1>(i) v = Add(x, f) s2 = SequenceInsert(s, v) }>
        y = ConcatFromSequence<axis=0>(q) k = SequenceLength(q) z = Cast<to=1>(k)""",
        {"x": mapped((2,))},
        outputs=("y", "z"),
        inside=1,
    ),
    Case(
        "scan",
        _SCAN % ("w, x", "", "v"),
        {
            "x": mapped((4, 3)),
            "w": shared(np.ones(3, np.float32)),
            "v": mapped((3,), seed=1),
        },
        outputs=("y", "z"),
        inside=1,
    ),
    Case(
        "scan along the last axis, backwards, from a stacked state",
        _SCAN
        % (
            "w, x",
            ", scan_input_axes=[-1], scan_output_axes=[1], scan_input_directions=[1]",
            "w",
        ),
        {"x": mapped((3, 4)), "w": mapped((3,), seed=2)},
        outputs=("y", "z"),
        inside=1,
    ),
    Case(
        "sequence of stacked elements",
        """q = SequenceConstruct(x, w) i = Constant<value_int=1>() a = SequenceAt(q, i)
        p = SequenceInsert(q, a, i) r = SequenceErase(p, i)
        y = ConcatFromSequence<axis=0, new_axis=1>(r) z = ConcatFromSequence<axis=-1>(q)""",
        {"x": mapped((3,)), "w": shared(np.ones(3, np.float32))},
        outputs=("y", "z"),
    ),
    Case(
        "split inside of a body",
        """q = SplitToSequence<axis=0, keepdims=0>(x) i = Constant<value_int=-1>()
        y = SequenceAt(q, i)""",
        {"x": mapped((4, 3))},
    ),
    Case(
        "nested map",
        """q = SplitToSequence<axis=0, keepdims=0>(x)
        m = SequenceMap(q) <body = b (float[] e) => (float[] f) { f = Mul(e, w) }>
        y = ConcatFromSequence<axis=0, new_axis=1>(m)""",
        {"x": mapped((4, 3)), "w": mapped((3,), seed=3)},
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


@pytest.mark.parametrize("is_declared", [False, True])
@pytest.mark.parametrize(("axis", "shape"), [(0, (0, 2)), (-2, (0, 2)), (1, (2, 0)), (-1, (2, 0))])
def test_a_scan_of_no_steps_for_no_samples_does_not_run(
    axis: int, shape: tuple[int, int], is_declared: bool
) -> None:
    """It fails on onnxruntime, and the map ran nothing."""
    sizes = ",".join(map(str, shape)) if is_declared else "R,S"
    text = f"""<ir_version: 9, opset_import: ["" : 18]>
    g (float[B,2] t, float[{sizes}] w) => (seq(float[2]) ys, seq(float[T,2]) zs) {{
      xs = SplitToSequence <axis = 0, keepdims = 0> (t)
      ys, zs = SequenceMap (xs) <body = b (float[2] x) => (float[2] y, float[T,2] z) {{
        y, z = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}], body =
          s (float[2] h, float[2] e) => (float[2] k, float[2] o) {{
            k = Add (h, e) o = Neg (k) }}> (x, w) }}> }}"""
    after = rewrite(onnx.parser.parse_model(text), strategy="fuse").model
    assert isinstance(after, onnx.ModelProto)
    assert is_declared or "Scan" in {node.op_type for node in after.graph.node}
    none = {"t": np.ones((0, 2), np.float32), "w": np.ones(shape, np.float32)}
    assert run(after, none) == {"ys": [], "zs": []}
    some = {"t": np.ones((2, 2), np.float32), "w": np.ones((2, 2), np.float32)}
    assert is_declared or {len(value) for value in run(after, some).values()} == {2}


def test_a_state_that_is_declared_a_scalar_and_is_none_stays_per_sample() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (seq(float[]) xs) => (seq(float[]) ys) {
      ys = SequenceMap (xs) <body = b (float[] x) => (float[] y) {
        n = Constant <value = int64 {2}> () t = Constant <value = bool {1}> ()
        w = Sin (x) p = Relu (x) q = Greater (x, p) r = Where (q, x, p)
        y = Loop (n, t, r) <body = l (int64 i, bool c, float s) => (bool d, float o) {
          d = Identity (c) o = Mul (s, w) }> }> }"""
    given = onnx.parser.parse_model(text)
    assert validate(given, rewrite(given, strategy="fuse").model).ok


@pytest.mark.parametrize("first", ["k", "k1"])
def test_a_state_whose_rank_a_step_changes_stays_per_sample(first: str) -> None:
    """Its body declares the rank that it has at first, as spox does; onnxruntime runs that."""
    text = f"""<ir_version: 8, opset_import: ["" : 16]>
    g (float[N] d) => (float[N, R] y) <int64 trips = {{3}}, bool t = {{1}}, float k = {{2}},
      float[1] k1 = {{2}}> {{
      s = Shape (d) zero = Constant <value_int = 0> () n = Gather (s, zero)
      y = Loop (n, t) <body = b (int64[1] i, bool c) => (bool c2, o) {{
        c2 = Identity (c) v = Gather (d, i)
        o = Loop (trips, t, {first}) <body = l (int64[1] j, bool e, float a) => (bool f, r) {{
          f = Identity (e) m = Mul (a, v) u = Sin (m) w = Greater (v, k) r = Where (w, u, a) }}>
      }}> }}"""
    given = onnx.parser.parse_model(text)
    after = rewrite(given, strategy="fuse").model
    feeds = {"d": np.array([1, 3, 4], np.float32)}
    (expected,), (got,) = (run(model, feeds).values() for model in (given, after))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("symbolic", [False, True])
def test_rows_that_are_there_need_no_spare_row(symbolic: bool) -> None:
    case = Case(
        "",
        """last, y = Scan <num_scan_inputs = 1, body = s (a, r) => (b, o) {
            b = Add (a, r) o = Tanh (b) }> (x, w)""",
        {"x": mapped((3,)), "w": shared(np.ones((4, 3), np.float32))},
        symbolic=symbolic,
    )
    prove(dataclasses.replace(case, inside=1), 0)
    proto, _ = fused_model(case)
    zeros = [node for node in proto.graph.node if node.op_type == "ConstantOfShape"]
    assert len(zeros) == 1 + symbolic


def test_a_sequence_is_handed_on_as_it_is() -> None:
    """Identity takes sequences from opset 14 on only."""
    text = """<ir_version: 7, opset_import: ["" : 13]>
    g (float[N,2] x) => (float[N,2] y)
      <int64 n = {3}, bool t = {1}, int64 front = {0}> {
      y = Scan <num_scan_inputs = 1, body = s (float[2] e) => (float[2] o) {
        none = SequenceEmpty <dtype = 1> ()
        q, last = Loop (n, t, none, e) <body = b (int64 i, bool c, seq(float[2]) s, float[2] r)
          => (bool d, seq(float[2]) u, float[2] v) {
          d = Identity (c) f = Sin (r) g = Add (e, f) v = Tanh (g)
          u = SequenceInsert (s, v, front) }>
        o = Neg (last) }> (x) }"""
    given = onnx.parser.parse_model(text)
    new = rewrite(given, strategy="fuse").model
    assert not any(node.op_type == "Scan" for node in new.graph.node)
    assert validate(given, new).ok
