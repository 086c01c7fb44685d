"""The evaluator against the specification's words, and onnxruntime where that is right."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

from passes.errors import RewriteError
from rewriter.backends import open_session
from rewriter.evaluator.reference import EvaluationError, ReferenceEvaluator


def parse(text: str, opset: int = 22) -> onnx.ModelProto:
    local = ', "local": 1' if "local" in text else ""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}{local}]>\n{text}')


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i64(value: Any) -> np.ndarray:
    return np.array(value, np.int64)


def assert_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(actual, list)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
        return
    assert isinstance(actual, np.ndarray)
    assert actual.shape == expected.shape
    if expected.dtype.kind not in "OU":
        assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, its feeds, its outputs, and why onnxruntime is not asked (empty: it is)."""

    text: str
    feeds: dict[str, Any]
    expected: list[Any]
    ort: str = ""


A, B, C = f32(1, 2), f32(3), f32(4, 5, 6)
NO_BODY_CALL = "refuses functions in a body"

CASES = {
    # SequenceMap
    "map": Case(
        """g (seq(float[N]) s) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[N] y) { y = Neg(x) }> (s) }""",
        {"s": [A, B]},
        [[-A, -B]],
    ),
    "map-empty": Case(
        """g (seq(float[N]) s, float[N] t) => (seq(float[N]) r, seq(float[N]) q) {
            r, q = SequenceMap <body = b (float[N] x, float[N] z) => (float[N] y, float[N] w)
                { y = Add(x, z) w = Neg(x) }> (s, t) }""",
        {"s": [], "t": A},
        [[], []],
    ),
    "map-captures": Case(
        """g (seq(float[N]) s, float[1] k) => (seq(float[N]) r) {
            c = Neg(k)
            r = SequenceMap <body = b (float[N] x) => (float[N] y) { y = Add(x, c) }> (s) }""",
        {"s": [A, B], "k": f32(1)},
        [[A - 1, B - 1]],
    ),
    "map-captures-in-if": Case(
        """g (seq(float[N]) s, float[1] k, bool p) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[N] y) {
                y = If (p) <then_branch = t () => (float[N] u) { u = Add(x, k) },
                            else_branch = e () => (float[N] v) { v = Identity(k) }> }> (s) }""",
        {"s": [A, B], "k": f32(1), "p": np.array(True)},
        [[A + 1, B + 1]],
    ),
    "map-captures-in-loop": Case(
        """g (seq(float[N]) s, float[1] k, int64 m) => (seq(float[N]) r) {
            t = Constant<value = bool {1}>()
            r = SequenceMap <body = b (float[N] x) => (float[N] y) {
                y = Loop (m, t, x) <body = l (int64 i, bool c, float[N] h) => (bool d, float[N] o)
                    { d = Identity(c) o = Add(h, k) }> }> (s) }""",
        {"s": [A, B], "k": f32(1), "m": i64(3)},
        [[A + 3, B + 3]],
    ),
    "map-in-map": Case(
        """g (seq(float[N]) s, seq(float[M]) q, float[1] k) => (seq(float) r) {
            r = SequenceMap <body = b (float[N] x) => (float y) {
                w = SequenceMap <body = n (float[M] z) => (float v) {
                    p = ReduceSum<keepdims = 0>(x) o = ReduceSum<keepdims = 0>(z)
                    f = Mul(p, o) e = ReduceSum<keepdims = 0>(k) v = Add(f, e) }> (q)
                j = ConcatFromSequence<axis = 0, new_axis = 1>(w)
                y = ReduceSum<keepdims = 0>(j) }> (s) }""",
        {"s": [A, B], "q": [A, C], "k": f32(1)},
        [[np.array(56, np.float32), np.array(56, np.float32)]],
        "refuses a map in a map",
    ),
    "map-in-loop-captures-iteration": Case(
        """g (seq(float[N]) s, int64 m) => (seq(float[N]) r) {
            t = Constant<value = bool {1}>()
            r = Loop (m, t, s) <body = l (int64 i, bool c, seq(float[N]) h)
                    => (bool d, seq(float[N]) o) {
                d = Identity(c) a = Cast<to = 1>(i)
                o = SequenceMap <body = b (float[N] x) => (float[N] y) { y = Add(x, a) }> (h) }> }
        """,
        {"s": [A, B], "m": i64(3)},
        [[A + 3, B + 3]],
    ),
    "map-sequence-and-tensor": Case(
        """g (seq(float[N]) s, float[1] k, seq(float[N]) q) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x, float[1] t, float[N] z) => (float[N] y)
                { a = Mul(x, t) y = Add(a, z) }> (s, k, q) }""",
        {"s": [A, B], "k": f32(10), "q": [A, B]},
        [[11 * A, 11 * B]],
    ),
    "map-two-more-sequences": Case(
        """g (seq(float[N]) s, seq(float[N]) p, seq(float[N]) q) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x, float[N] y, float[N] z) => (float[N] w)
                { a = Sub(x, y) w = Sub(a, z) }> (s, p, q) }""",
        {"s": [A, B], "p": [A, B], "q": [A, B]},
        [[-A, -B]],
    ),
    "map-longer-sequence": Case(
        """g (seq(float[N]) s, seq(float[N]) q) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x, float[N] z) => (float[N] y)
                { y = Add(x, z) }> (s, q) }""",
        {"s": [A], "q": [A, B]},
        [[2 * A]],
    ),
    "map-tensor-of-the-same-length-is-shared": Case(
        """g (seq(float[N]) s, float[2] t) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x, float[2] z) => (float[N] y)
                { y = Add(x, z) }> (s, t) }""",
        {"s": [B, B], "t": A},
        [[B + A, B + A]],
    ),
    "map-output-is-input": Case(
        """g (seq(float[N]) s, float[1] k) => (seq(float[N]) r, seq(float[N]) q) {
            r, q = SequenceMap <body = b (float[N] x) => (float[N] x, float[N] y)
                { y = Add(x, k) }> (s) }""",
        {"s": [A, B], "k": f32(1)},
        [[A, B], [A + 1, B + 1]],
    ),
    "map-output-is-captured": Case(
        """g (seq(float[N]) s, float[1] k) => (seq(float[1]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[1] k) { y = Neg(x) }> (s) }""",
        {"s": [A, B], "k": f32(1)},
        [[f32(1), f32(1)]],
        "refuses a captured value as an output",
    ),
    "map-output-twice": Case(
        """g (seq(float[N]) s) => (seq(float[N]) r, seq(float[N]) q) {
            r, q = SequenceMap <body = b (float[N] x) => (float[N] y, float[N] y)
                { y = Neg(x) }> (s) }""",
        {"s": [A]},
        [[-A], [-A]],
        "refuses one value twice",
    ),
    "map-in-function-captures": Case(
        """g (seq(float[N]) s, float[1] k) => (seq(float[N]) r) { r = local.f (s, k) }
        <domain: "local", opset_import: ["": 22]> f (s, k) => (r) {
            c = Neg(k)
            r = SequenceMap <body = b (x) => (y) { y = Sub(x, c) }> (s) }""",
        {"s": [A, B], "k": f32(1)},
        [[A + 1, B + 1]],
    ),
    "map-calls-function-with-a-map": Case(
        """g (seq(float[N]) s, float[1] k) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[N] y) { y = local.f (x, k) }> (s) }
        <domain: "local", opset_import: ["": 22]> f (x, k) => (y) {
            p = SequenceConstruct(x, x)
            q = SequenceMap <body = b (z) => (w) { w = Add(z, k) }> (p)
            y = ConcatFromSequence<axis = 0>(q) }""",
        {"s": [A, B], "k": f32(1)},
        [[f32(2, 3, 2, 3), f32(4, 4)]],
        NO_BODY_CALL,
    ),
    "map-of-function-operators": Case(
        """g (seq(float[N]) s) => (seq(float[N]) r) {
            r = SequenceMap <body = b (float[N] x) => (float[N] y) {
                h = HardSwish(x) y = Gelu(h) }> (s) }""",
        {"s": [f32(-4), f32(-5, -3)]},
        [[f32(-0.0), f32(-0.0, -0.0)]],
        "refuses function operators in a body",
    ),
    # SequenceAt
    **{
        f"at-{dtype}-{position}": Case(
            f"""g (seq(float[N]) s, {dtype} i) => (float[N] y) {{ y = SequenceAt(s, i) }}""",
            {"s": [A, B, C], "i": np.array(position, dtype)},
            [[A, B, C][position]],
        )
        for dtype in ("int32", "int64")
        for position in (-3, -1, 0, 2)
    },
    # SequenceInsert
    **{
        f"insert-{dtype}-{position}": Case(
            f"""g (seq(float[N]) s, float[N] t, {dtype} i) => (seq(float[N]) y)
                {{ y = SequenceInsert(s, t, i) }}""",
            {"s": [A, B], "t": C, "i": np.array(position, dtype)},
            [expected],
        )
        for dtype in ("int32", "int64")
        for position, expected in {
            -2: [C, A, B], -1: [A, C, B], 0: [C, A, B], 1: [A, C, B], 2: [A, B, C],
        }.items()
    },
    "insert-at-the-back": Case(
        """g (seq(float[N]) s, float[N] t) => (seq(float[N]) y) { y = SequenceInsert(s, t) }""",
        {"s": [A, B], "t": C},
        [[A, B, C]],
    ),
    "insert-leaves-its-input": Case(
        """g (seq(float[N]) s, float[N] t) => (seq(float[N]) y, int64 n)
            { y = SequenceInsert(s, t) n = SequenceLength(s) }""",
        {"s": [A, B], "t": C},
        [[A, B, C], i64(2)],
    ),
    "insert-into-empty": Case(
        """g (float[N] t) => (seq(float[N]) y)
            { s = SequenceEmpty() y = SequenceInsert(s, t) }""",
        {"t": C},
        [[C]],
    ),
    "insert-into-empty-at-0": Case(
        """g (float[N] t, int64 i) => (seq(float[N]) y)
            { s = SequenceEmpty() y = SequenceInsert(s, t, i) }""",
        {"t": C, "i": i64(0)},
        [[C]],
    ),
    # SequenceErase
    "erase-the-last": Case(
        """g (seq(float[N]) s) => (seq(float[N]) y) { y = SequenceErase(s) }""",
        {"s": [A, B, C]},
        [[A, B]],
    ),
    **{
        f"erase-{position}": Case(
            """g (seq(float[N]) s, int64 i) => (seq(float[N]) y) { y = SequenceErase(s, i) }""",
            {"s": [A, B, C], "i": i64(position)},
            [expected],
        )
        for position, expected in {-3: [B, C], -1: [A, B], 0: [B, C], 2: [A, B]}.items()
    },
    # ConcatFromSequence
    **{
        f"concat-axis-{axis}": Case(
            f"""g (seq(float[N, M]) s) => (float[] y)
                {{ y = ConcatFromSequence<axis = {axis}>(s) }}""",
            {"s": [f32([1, 2]), f32([3, 4])]},
            [expected],
        )
        for axis, expected in {
            -2: f32([1, 2], [3, 4]), -1: f32([1, 2, 3, 4]),
            0: f32([1, 2], [3, 4]), 1: f32([1, 2, 3, 4]),
        }.items()
    },
    "concat-ragged": Case(
        """g (seq(float[N]) s) => (float[M] y) { y = ConcatFromSequence<axis = 0>(s) }""",
        {"s": [A, B, C]},
        [f32(1, 2, 3, 4, 5, 6)],
    ),
    **{
        f"stack-axis-{axis}": Case(
            f"""g (seq(float[N]) s) => (float[] y)
                {{ y = ConcatFromSequence<axis = {axis}, new_axis = 1>(s) }}""",
            {"s": [f32(1, 2, 3), f32(4, 5, 6)]},
            [expected],
        )
        for axis, expected in {
            -2: f32([1, 2, 3], [4, 5, 6]), -1: f32([1, 4], [2, 5], [3, 6]),
            0: f32([1, 2, 3], [4, 5, 6]), 1: f32([1, 4], [2, 5], [3, 6]),
        }.items()
    },
    "stack-scalars": Case(
        """g (seq(float) s) => (float[N] y)
            { y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }""",
        {"s": [f32(1)[0, ...], f32(2)[0, ...]]},
        [f32(1, 2)],
    ),
    # SplitToSequence
    **{
        f"split-{name}": Case(
            f"""g (float[N, M] x) => (seq(float[]) y)
                {{ {before} y = SplitToSequence<{attributes}>({inputs}) }}""",
            {"x": np.arange(10, dtype=np.float32).reshape(2, 5)},
            [expected],
        )
        for name, before, attributes, inputs, expected in (
            ("omitted-keepdims", "", "axis = 0, keepdims = 1", "x",
             [f32([0, 1, 2, 3, 4]), f32([5, 6, 7, 8, 9])]),
            ("omitted-default", "", "axis = 0", "x",
             [f32([0, 1, 2, 3, 4]), f32([5, 6, 7, 8, 9])]),
            ("omitted-no-keepdims", "", "axis = 0, keepdims = 0", "x",
             [f32(0, 1, 2, 3, 4), f32(5, 6, 7, 8, 9)]),
            ("omitted-negative-axis", "", "axis = -1, keepdims = 0", "x",
             [f32(0, 5), f32(1, 6), f32(2, 7), f32(3, 8), f32(4, 9)]),
            ("scalar-uneven", "n = Constant<value = int64 {2}>()", "axis = 1", "x, n",
             [f32([0, 1], [5, 6]), f32([2, 3], [7, 8]), f32([4], [9])]),
            ("scalar-even", "n = Constant<value = int32 {1}>()", "axis = -2", "x, n",
             [f32([0, 1, 2, 3, 4]), f32([5, 6, 7, 8, 9])]),
            ("scalar-too-long", "n = Constant<value = int64 {7}>()", "axis = 1", "x, n",
             [f32([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])]),
            ("lengths", "n = Constant<value = int64[3] {1, 0, 4}>()", "axis = -1", "x, n",
             [f32([0], [5]), np.empty((2, 0), np.float32), f32([1, 2, 3, 4], [6, 7, 8, 9])]),
            ("one-length", "n = Constant<value = int64[1] {5}>()", "axis = 1", "x, n",
             [f32([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])]),
            ("keepdims-ignored", "n = Constant<value = int64[2] {1, 1}>()",
             "axis = 0, keepdims = 0", "x, n", [f32([0, 1, 2, 3, 4]), f32([5, 6, 7, 8, 9])]),
        )
    },
    "split-keepdims-ignored-beside-a-scalar": Case(
        """g (float[N] x, int64 n) => (seq(float[]) y)
            { y = SplitToSequence<keepdims = 0>(x, n) }""",
        {"x": A, "n": i64(1)},
        [[f32(1), f32(2)]],
        "squeezes",
    ),
    "split-to-scalars": Case(
        """g (float[N] x) => (seq(float) y) { y = SplitToSequence<keepdims = 0>(x) }""",
        {"x": A},
        [[f32(1)[0, ...], f32(2)[0, ...]]],
    ),
    "split-of-nothing": Case(
        """g (float[N, 3] x) => (seq(float[3]) y) { y = SplitToSequence<keepdims = 0>(x) }""",
        {"x": np.empty((0, 3), np.float32)},
        [[]],
    ),
    # Loop
    "loop-without-cond": Case(
        """g (int64 m) => (int64[N] y) {
            y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, int64 o)
                { d = Identity(c) o = Identity(i) }> }""",
        {"m": i64(3)},
        [i64([0, 1, 2])],
    ),
    "loop-without-cond-ignores-the-body's": Case(
        """g (int64 m) => (int64[N] y) {
            y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, int64 o)
                { d = Constant<value = bool {0}>() o = Identity(i) }> }""",
        {"m": i64(3)},
        [i64([0, 1, 2])],
        "ends when the body says so",
    ),
    "loop-without-m": Case(
        """g (bool t, int64 k) => (int64 h, int64[N] y) {
            z = Constant<value = int64 {0}>()
            h, y = Loop ("", t, z) <body = l (int64 i, bool c, int64 a)
                    => (bool d, int64 b, int64 o)
                { b = Add(a, k) d = Less(i, k) o = Identity(i) }> }""",
        {"t": np.array(True), "k": i64(2)},
        [i64(6), i64([0, 1, 2])],
    ),
    "loop-cond-false": Case(
        """g (int64 m, bool t, float[N] x) => (float[N] h, int64[M] y) {
            h, y = Loop (m, t, x) <body = l (int64 i, bool c, float[N] a)
                    => (bool d, float[N] b, int64 o)
                { b = Neg(a) d = Identity(c) o = Identity(i) }> }""",
        {"m": i64(3), "t": np.array(False), "x": A},
        [A, np.empty(0, np.int64)],
    ),
    "loop-ends-by-the-body": Case(
        """g (int64 m, bool t) => (int64[M] y) {
            y = Loop (m, t) <body = l (int64 i, bool c) => (bool d, int64 o)
                { k = Constant<value_int = 1>() d = Less(i, k) o = Identity(i) }> }""",
        {"m": i64(5), "t": np.array(True)},
        [i64([0, 1])],
    ),
    **{
        f"loop-stacks-rank-{x.ndim}": Case(
            """g (int64 m, float[] x) => (float[] y) {
                t = Constant<value = bool {1}>()
                y = Loop (m, t) <body = l (int64 i, bool c) => (bool d, float[] o)
                    { d = Identity(c) a = Cast<to = 1>(i) o = Add(x, a) }> }""",
            {"m": i64(2), "x": x},
            [np.stack([x, x + 1])],
        )
        for x in (f32(1)[0, ...], A, f32([1, 2], [3, 4]), f32([[1, 2, 3]]))
    },
    "loop-carries-a-sequence": Case(
        """g (int64 m, float[N] x) => (seq(float[N]) y) {
            t = Constant<value = bool {1}>() e = SequenceEmpty()
            y = Loop (m, t, e) <body = l (int64 i, bool c, seq(float[N]) a)
                    => (bool d, seq(float[N]) b)
                { d = Identity(c) k = Cast<to = 1>(i) n = Mul(x, k) b = SequenceInsert(a, n) }> }
        """,
        {"m": i64(2), "x": A},
        [[0 * A, A]],
    ),
    "loop-carries-an-optional": Case(
        """g (int64 m, float[N] x) => (float[N] y) {
            t = Constant<value = bool {1}>() e = Optional(x)
            o = Loop (m, t, e) <body = l (int64 i, bool c, optional(float[N]) a)
                    => (bool d, optional(float[N]) b)
                { d = Identity(c) v = OptionalGetElement(a) n = Neg(v) b = Optional(n) }>
            y = OptionalGetElement(o) }""",
        {"m": i64(3), "x": A},
        [-A],
    ),
    "loop-passes-an-absent-optional": Case(
        """g (int64 m, bool t) => (bool y) {
            e = Optional<type = float[N]>()
            o = Loop (m, t, e) <body = l (int64 i, bool c, optional(float[N]) a)
                    => (bool d, optional(float[N]) b) { d = Identity(c) b = Identity(a) }>
            y = OptionalHasElement(o) }""",
        {"m": i64(3), "t": np.array(True)},
        [np.array(False)],
    ),
    "loop-swaps-its-states": Case(
        """g (int64 m, bool t, float[N] p, float[M] q) => (float[] a, float[] b) {
            a, b = Loop (m, t, p, q) <body = l (int64 i, bool c, float[] x, float[] y)
                    => (bool d, float[] y, float[] x) { d = Identity(c) }> }""",
        {"m": i64(3), "t": np.array(True), "p": A, "q": B},
        [B, A],
    ),
    "if-reads-a-name-of-its-own": Case(
        """g (bool p) => (float[1] y, float[1] z) {
            y = If (p) <then_branch = t () => (float[1] u) <float[1] w = {7}> { u = Neg(w) },
                        else_branch = e () => (float[1] v) { v = Constant<value_floats = [1.]>() }>
            z = Constant<value_floats = [2.]>() }""",
        {"p": np.array(True)},
        [f32(-7), f32(2)],
    ),
    "if-gives-an-absent-optional": Case(
        """g (bool p, float[N] x) => (bool y) {
            o = If (p) <then_branch = t () => (optional(float[N]) u)
                            { u = Optional<type = float[N]>() },
                        else_branch = e () => (optional(float[N]) v) { v = Optional(x) }>
            y = OptionalHasElement(o) }""",
        {"p": np.array(True), "x": A},
        [np.array(False)],
    ),
    "optional-of-a-tensor-is-the-tensor": Case(
        """g (float[N] x) => (float[N] y) { o = Optional(x) y = OptionalGetElement(o) }""",
        {"x": A},
        [A],
    ),
    "optional-of-a-sequence-is-the-sequence": Case(
        """g (seq(float[N]) s) => (int64 n) {
            o = Optional(s) q = OptionalGetElement(o) n = SequenceLength(q) }""",
        {"s": [A, B, C]},
        [i64(3)],
    ),
    # Scan
    "scan": Case(
        """g (float[2] h, float[T, 2] x) => (float[2] k, float[T, 2] y) {
            k, y = Scan <num_scan_inputs = 1, body = l (float[2] a, float[2] e)
                    => (float[2] b, float[2] o) { b = Add(a, e) o = Neg(b) }> (h, x) }""",
        {"h": f32(0, 1), "x": f32([1, 2], [3, 4])},
        [f32(4, 7), f32([-1, -3], [-4, -7])],
    ),
    "scan-no-state-two-inputs-two-outputs": Case(
        """g (float[T] x, float[T] z) => (float[T] y, float[T] w) {
            y, w = Scan <num_scan_inputs = 2, body = l (float a, float b) => (float c, float d)
                { c = Add(a, b) d = Mul(a, b) }> (x, z) }""",
        {"x": f32(1, 2), "z": f32(3, 4)},
        [f32(4, 6), f32(3, 8)],
    ),
    "scan-captures": Case(
        """g (float[T] x, float[1] k) => (float[T, 1] y) {
            y = Scan <num_scan_inputs = 1, body = l (float a) => (float[1] c)
                { c = Add(a, k) }> (x) }""",
        {"x": f32(1, 2), "k": f32(3)},
        [f32([4], [5])],
    ),
    "scan-backward-in": Case(
        """g (float[T] x) => (float h, float[T] y) {
            z = Constant<value_float = 0.>()
            h, y = Scan <num_scan_inputs = 1, scan_input_directions = [1],
                body = l (float a, float e) => (float b, float o)
                { k = Constant<value_float = 10.>() m = Mul(a, k) b = Add(m, e) o = Identity(b) }
                > (z, x) }""",
        {"x": f32(1, 2, 3)},
        [np.array(321, np.float32), f32(3, 32, 321)],
    ),
    "scan-backward-out": Case(
        """g (float[T] x) => (float[T] y) {
            y = Scan <num_scan_inputs = 1, scan_output_directions = [1],
                body = l (float e) => (float o) { o = Neg(e) }> (x) }""",
        {"x": f32(1, 2, 3)},
        [f32(-3, -2, -1)],
    ),
    **{
        f"scan-axis-{into}-to-{out}": Case(
            f"""g (float[2, T, 3] x) => (float[] y) {{
                y = Scan <num_scan_inputs = 1, scan_input_axes = [{into}],
                    scan_output_axes = [{out}],
                    body = l (float[2, 3] e) => (float[2, 3] o) {{ o = Neg(e) }}> (x) }}""",
            {"x": np.arange(24, dtype=np.float32).reshape(2, 4, 3)},
            [-np.moveaxis(np.arange(24, dtype=np.float32).reshape(2, 4, 3), 1, out)],
        )
        for into in (1, -2)
        for out in (0, 1, 2, -1, -3)
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_specified(case):
    outputs = ReferenceEvaluator(parse(case.text)).run(None, case.feeds)
    assert_same(outputs, case.expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_onnxruntime(case):
    try:
        assert_same(run_onnxruntime(parse(case.text), case.feeds), case.expected)
    except (Exception, AssertionError):
        if not case.ort:
            raise
    else:
        assert not case.ort, f"onnxruntime no longer {case.ort}"


# What a Loop gives without any step: no rows, the known dimensions, 0 for the unknown ones.
# Then what onnxruntime gives where that is something else.
LOOP = """g (int64 m, {input}) => (float[] y) {{
    t = Constant<value = bool {{1}}>()
    {before} y = Loop (m, t) <body = l (int64 i, bool c) => (bool d, {output} o)
        {{ d = Identity(c) {body} }}> }}"""
STATE = """g (int64 m, float[2, 4] x) => (float[] h, {output} y) {{
    t = Constant<value = bool {{1}}>()
    h, y = Loop (m, t, x) <body = l (int64 i, bool c, float[] a) => (bool d, float[] b, {output} o)
        {{ d = Identity(c) b = Neg(a) o = Cast<to = 10>(a) }}> }}"""
X = np.ones((3, 4), np.float32)
NO_STEPS = {
    "declared": (
        LOOP.format(input="float[A, B] x", before="", output="float[2, 4]", body="o = Neg(x)"),
        {"x": X}, (0, 2, 4), None,
    ),
    "declared-in-part": (
        LOOP.format(input="float[A, B] x", before="", output="float[N, 4]", body="o = Neg(x)"),
        {"x": X}, (0, 0, 4), None,
    ),
    "inferred": (
        LOOP.format(input="float[N, 4] x", before="", output="float[]", body="o = Neg(x)"),
        {"x": X}, (0, 0, 4), None,
    ),
    "inferred-scalar": (
        LOOP.format(input="float[N, 4] x", before="", output="float[]",
                    body="o = ReduceSum<keepdims = 0>(x)"),
        {"x": X}, (0,), None,
    ),
    "values-of-the-enclosing-graph-unknown": (
        LOOP.format(input="float[N] x", before="k = Constant<value_ints = [2, 3]>()",
                    output="float[]", body="o = ConstantOfShape(k)"),
        {"x": A}, (0, 0, 0), (0, 2, 3),
    ),
    "inferred-from-a-sequence": (
        LOOP.format(input="seq(float[2, N]) s", before="", output="float[]",
                    body="o = SequenceAt(s, i)"),
        {"s": []}, (0, 2, 0), None,
    ),
    "rank-of-the-elements-at-hand": (
        LOOP.format(input="seq(float[]) s", before="", output="float[]",
                    body="o = SequenceAt(s, i)"),
        {"s": [X]}, (0, 0, 0), (0,),
    ),
    "rank-of-the-state": (STATE.format(output="float16[]"), {"x": X[:2]}, (0, 0, 0), (0,)),
    "in-a-function": (
        """g (int64 m, float[3, 4] x) => (float[] y) { y = local.f (m, x) }
        <domain: "local", opset_import: ["": 22]> f (m, x) => (y) {
            y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, o)
                { d = Identity(c) k = Shape(x) o = Expand(x, k) }> }""",
        {"x": X}, (0, 3, 4), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "feeds", "shape", "ort"), NO_STEPS.values(), ids=NO_STEPS)
def test_loop_without_steps(text, feeds, shape, ort):
    feeds = {"m": i64(0), **feeds}
    *_, y = ReferenceEvaluator(parse(text)).run(None, feeds)
    assert y.shape == shape
    assert y.dtype == (np.float16 if "float16" in text else np.float32)
    *_, other = run_onnxruntime(parse(text), feeds)
    assert other.dtype == y.dtype
    assert other.shape == (ort or shape)


@pytest.mark.parametrize(("axis", "shape"), [(0, (0, 2)), (1, (2, 0)), (-1, (2, 0))])
def test_scan_without_steps(axis, shape):
    text = f"""g (float[3] h, float[2, T] x) => (float[3] k, int64[] y) {{
        k, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [{axis}],
            body = l (float[3] a, float[] e) => (float[3] b, int64[] o)
                {{ b = Neg(a) o = Cast<to = 7>(e) }}> (h, x) }}"""
    model = parse(text)
    model.graph.node[0].attribute[3].g.output[1].ClearField("type")
    feeds = {"h": C, "x": np.empty((2, 0), np.float32)}
    k, y = ReferenceEvaluator(model).run(None, feeds)
    assert_same(k, C)
    assert_same(y, np.empty(shape, np.int64))


MAP = "g (seq(float[N]) s, {more}) => (seq(float[N]) y) {{ y = SequenceMap {map} }}"
SPLIT = """g (float[N, M] x) => (seq(float[]) y) {{
    n = Constant<value = {n}>() y = SplitToSequence<axis = {axis}>(x, n) }}"""
SCAN = """g (float[T] x, float[S] z) => (float[] y) {{
    y = Scan <num_scan_inputs = 2, {attributes}
        body = l (float a, float b) => (float c) {{ c = Add(a, b) }}> (x, z) }}"""
GROWS = """g (int64 m) => ({output} y) {{
    t = Constant<value = bool {{1}}>()
    y = Loop (m, t) <body = l (int64 i, bool c) => (bool d, {output} o)
        {{ d = Identity(c) k = Range({range}) {o} }}> }}"""
ERRORS = {
    **{
        f"gather-elements-at-{index}": (
            "g (float[2] x, int64[1] i) => (float[1] y) { y = GatherElements(x, i) }",
            {"x": A, "i": i64([index])},
            "GatherElements 'y': an index is outside of -2 to 1",
        )
        for index in (2, -3)
    },
    **{
        f"at-{position}": (
            "g (seq(float[N]) s, int64 i) => (float[N] y) { y = SequenceAt(s, i) }",
            {"s": [A, B], "i": i64(position)},
            f"SequenceAt 'y': position {position} is outside of -2 to 1",
        )
        for position in (-3, 2)
    },
    "expand-to-less": (
        "g (float[2] x, int64[1] s) => (float[N] y) { y = Expand(x, s) }",
        {"x": A, "s": i64([3])},
        "Expand 'y': shape (2,) does not expand to [3]",
    ),
    "at-of-nothing": (
        "g (seq(float[N]) s, int64 i) => (float[N] y) { y = SequenceAt(s, i) }",
        {"s": [], "i": i64(0)},
        "SequenceAt 'y': the sequence is empty",
    ),
    "at-two-positions": (
        "g (seq(float[N]) s, int64[2] i) => (float[N] y) { y = SequenceAt(s, i) }",
        {"s": [A, B], "i": i64([0, 1])},
        "SequenceAt 'y': the position is int64 of shape (2,), not one integer",
    ),
    "at-of-a-tensor": (
        "g (float[N] s, int64 i) => (float y) { y = SequenceAt(s, i) }",
        {"s": A, "i": i64(0)},
        "SequenceAt 'y': a sequence is needed, not a ndarray",
    ),
    **{
        f"insert-{position}": (
            "g (seq(float[N]) s, float[N] t, int64 i) => (seq(float[N]) y)"
            "{ y = SequenceInsert(s, t, i) }",
            {"s": [A, B], "t": C, "i": i64(position)},
            f"SequenceInsert 'y': position {position} is outside of -2 to 2",
        )
        for position in (-3, 3)
    },
    **{
        f"erase-{position}": (
            "g (seq(float[N]) s, int64 i) => (seq(float[N]) y) { y = SequenceErase(s, i) }",
            {"s": [A, B], "i": i64(position)},
            f"SequenceErase 'y': position {position} is outside of -2 to 1",
        )
        for position in (-3, 2)
    },
    "erase-of-nothing": (
        "g (seq(float[N]) s) => (seq(float[N]) y) { y = SequenceErase(s) }",
        {"s": []},
        "SequenceErase 'y': the sequence is empty",
    ),
    "concat-of-nothing": (
        "g (seq(float[N]) s) => (float[N] y) { y = ConcatFromSequence<axis = 0>(s) }",
        {"s": []},
        "ConcatFromSequence 'y': the sequence is empty, so the result has no shape",
    ),
    "concat-axis": (
        "g (seq(float[N]) s) => (float[N] y) { y = ConcatFromSequence<axis = 1>(s) }",
        {"s": [A, B]},
        "ConcatFromSequence 'y': axis 1 is out of bounds for array of dimension 1",
    ),
    "stack-ragged": (
        "g (seq(float[N]) s) => (float[] y) { y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }",
        {"s": [A, B]},
        "ConcatFromSequence 'y': all input arrays must have the same shape",
    ),
    "split-sum": (
        SPLIT.format(n="int64[2] {1, 3}", axis=1),
        {"x": np.ones((2, 5), np.float32)},
        "SplitToSequence 'y': the lengths [1, 3] do not divide an axis of 5",
    ),
    "split-negative-length": (
        SPLIT.format(n="int64[2] {-1, 6}", axis=1),
        {"x": np.ones((2, 5), np.float32)},
        "SplitToSequence 'y': the lengths [-1, 6] do not divide an axis of 5",
    ),
    "split-by-zero": (
        SPLIT.format(n="int64 {0}", axis=1),
        {"x": np.ones((2, 5), np.float32)},
        "SplitToSequence 'y': split is 0, not a positive number",
    ),
    "split-axis": (
        SPLIT.format(n="int64 {1}", axis=-3),
        {"x": np.ones((2, 5), np.float32)},
        "SplitToSequence 'y': axis -3 is outside of -2 to 1",
    ),
    "map-shorter-sequence": (
        MAP.format(
            more="seq(float[N]) q",
            map="<body = b (float[N] x, float[N] z) => (float[N] w) { w = Add(x, z) }> (s, q)",
        ),
        {"s": [A, B], "q": [A]},
        "SequenceMap 'y': input 1 holds 1 tensors, the first input 2",
    ),
    "map-of-a-tensor": (
        MAP.format(more="float[N] q", map="<body = b (float[N] x) => (float[N] w)"
                   "{ w = Neg(x) }> (q)"),
        {"s": [], "q": A},
        "SequenceMap 'y': a sequence is needed, not a ndarray",
    ),
    "map-body-of-other-inputs": (
        MAP.format(more="float[N] q", map="<body = b (float[N] x) => (float[N] w)"
                   "{ w = Neg(x) }> (s, q)"),
        {"s": [], "q": A},
        "SequenceMap 'y': the body has 1 inputs, the map 2",
    ),
    "map-body-gives-a-sequence": (
        MAP.format(more="float[N] q", map="<body = b (float[N] x) => (seq(float[N]) w)"
                   "{ w = SequenceConstruct(x) }> (s)"),
        {"s": [A], "q": A},
        "SequenceMap 'y': the body's output 'w' is not a tensor",
    ),
    "loop-grows": (
        GROWS.format(output="int64[]", range="i, n, u",
                     o="o = Identity(k)").replace("k = R", "n = Constant<value_int = 2>() "
                                                  "u = Constant<value_int = 1>() k = R"),
        {"m": i64(2)},
        "Loop 'y': a scan output changes from step to step: shapes [(1,), (2,)], "
        "element types ['int64']",
    ),
    "loop-scan-output-of-a-sequence": (
        """g (int64 m) => (seq(int64) y) {
            y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, seq(int64) o)
                { d = Identity(c) o = SequenceConstruct(i) }> }""",
        {"m": i64(2)},
        "Loop 'y': a scan output is a sequence or an optional, not a tensor",
    ),
    "loop-body-of-other-inputs": (
        """g (int64 m, float[N] x) => (float[N] y) {
            y = Loop (m, "", x) <body = l (int64 i, bool c) => (bool d, float[N] o)
                { d = Identity(c) o = Neg(x) }> }""",
        {"m": i64(2), "x": A},
        "Loop 'y': the body has 2 inputs, 3 are needed: "
        "the iteration, the condition and the carried values",
    ),
    "loop-condition": (
        """g (bool[2] c, int64 m) => (int64[] y) {
            y = Loop (m, c) <body = l (int64 i, bool b) => (bool d, int64 o)
                { d = Identity(b) o = Identity(i) }> }""",
        {"c": np.array([True, False]), "m": i64(1)},
        "Loop 'y': the condition has shape (2,), not one element",
    ),
    "loop-without-an-end": (
        """g () => (int64[] y) {
            y = Loop ("", "") <body = l (int64 i, bool c) => (bool d, int64 o)
                { d = Identity(c) o = Identity(i) }> }""",
        {},
        "Loop 'y': it never ends: give M or cond",
    ),
    "loop-without-steps-or-types": (
        """g (int64 m, seq(float[N]) s) => (float[] y) { y = local.f (m, s) }
        <domain: "local", opset_import: ["": 22]> f (m, s) => (y) {
            y = Loop (m, "") <body = l (i, c) => (d, o)
                { d = Identity(c) o = SequenceAt(s, i) }> }""",
        {"m": i64(0), "s": []},
        "Loop 'y': no steps, and a scan output has no type: declare it in the body",
    ),
    "if-condition": (
        """g (bool[2] p) => (float[1] y) {
            y = If (p) <then_branch = t () => (float[1] u) { u = Constant<value_floats = [1.]>() },
                else_branch = e () => (float[1] v) { v = Constant<value_floats = [1.]>() }> }""",
        {"p": np.array([True, False])},
        "If 'y': the condition has shape (2,), not one element",
    ),
    "optional-without-value": (
        """g () => (float[N] y) {
            o = Optional<type = float[N]>() y = OptionalGetElement(o) }""",
        {},
        "OptionalGetElement 'y': the optional holds nothing",
    ),
    "scan-lengths": (
        SCAN.format(attributes=""),
        {"x": A, "z": C},
        "Scan 'y': the scan inputs have different lengths, [2, 3]",
    ),
    "scan-input-axis": (
        SCAN.format(attributes="scan_input_axes = [0, 1],"),
        {"x": A, "z": A},
        "Scan 'y': axis 1 is not one of a scan input of rank 1",
    ),
    "scan-output-axis": (
        SCAN.format(attributes="scan_output_axes = [1],"),
        {"x": A, "z": A},
        "Scan 'y': axis 1 is out of bounds for array of dimension 1",
    ),
    "scan-output-axis-without-steps": (
        SCAN.format(attributes="scan_output_axes = [1],"),
        {"x": A[:0], "z": A[:0]},
        "Scan 'y': axis 1 is not one of a scan output of rank 1",
    ),
    "scan-inputs": (
        """g (float[T] x) => (float[] y) {
            y = Scan <num_scan_inputs = 2,
                body = l (float a) => (float c) { c = Neg(a) }> (x) }""",
        {"x": A},
        "Scan 'y': 1 inputs do not fit num_scan_inputs=2 and a body of 1 inputs",
    ),
    "function-of-fewer-inputs": (
        """g (float[N] x) => (float[N] y) { y = local.f (x, x) }
        <domain: "local", opset_import: ["": 22]> f (x) => (y) { y = Neg(x) }""",
        {"x": A},
        "f 'y': the function has 1 inputs, the call 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "feeds", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(text, feeds, message):
    with pytest.raises(EvaluationError) as caught:
        ReferenceEvaluator(parse(text)).run(None, feeds)
    assert str(caught.value) == message
    assert isinstance(caught.value, RewriteError)


def test_an_error_names_a_named_node():
    model = parse(ERRORS["at-2"][0])
    model.graph.node[0].name = "/body/at"
    with pytest.raises(EvaluationError, match=r"^SequenceAt '/body/at': position"):
        ReferenceEvaluator(model).run(None, ERRORS["at-2"][1])


def test_scan_of_opset_8_is_refused():
    model = parse(SCAN.format(attributes=""), opset=8)
    with pytest.raises(EvaluationError, match="Scan 'y': the form of opset 8 is not known"):
        ReferenceEvaluator(model)


FUNCTION = "g (float[2] x) => (float[2] y) {{ y = local.{call}(x) }}\n{functions}"
HEAD = '<domain: "local", opset_import: ["": 22, "local": 1]{more}>'
PLAIN, OTHER = HEAD.format(more=""), HEAD.format(more=', overload: "b"')
FUNCTIONS = {
    "called-before-it-is-defined": (
        "f", f"{PLAIN} f (x) => (y) {{ y = local.h(x) }} {PLAIN} h (x) => (y) {{ y = Neg(x) }}",
        -A,
    ),
    "default-of-an-attribute": (
        "f", f"{PLAIN} f <k: int = 6>(x) => (y) {{ y = Cast<to = @k>(x) }}",
        A.astype(np.int32),
    ),
    "default-overridden": (
        "f <k = 7>", f"{PLAIN} f <k: int = 6>(x) => (y) {{ y = Cast<to = @k>(x) }}",
        i64([1, 2]),
    ),
    "attribute-left-out": (
        "f", f"{PLAIN} f <a>(x) => (y) {{ z = Neg(x) y = Elu<alpha = @a>(z) }}",
        np.expm1(-A),
    ),
    "attribute-handed-on-into-a-body": (
        "f <k = 7>",
        f"""{PLAIN} f <k>(x) => (y) {{ y = local.h<n = @k>(x) }}
        {PLAIN} h <n>(x) => (y) {{
            s = SequenceConstruct(x)
            r = SequenceMap <body = b (z) => (w) {{ w = Cast<to = @n>(z) }}> (s)
            y = ConcatFromSequence<axis = 0>(r) }}""",
        i64([1, 2]),
    ),
    "input-left-out": ("f", f"{PLAIN} f (x, z) => (y) {{ y = Clip(x, z) }}", A),
    "overload": (
        "f:b", f"{PLAIN} f (x) => (y) {{ y = Abs(x) }} {OTHER} f (x) => (y) {{ y = Neg(x) }}",
        -A,
    ),
    "named-like-an-operator": ("Pad", f"{PLAIN} Pad (x) => (y) {{ y = Neg(x) }}", -A),
    "holds-an-operator-that-depends-on-types": (
        "f", f"{PLAIN} f (x) => (y) {{ z = Neg(x) w = Abs(z) y = Gelu(w) }}",
        f32(0.8413447, 1.9544997),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "functions", "expected"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(call, functions, expected):
    model = parse(FUNCTION.format(call=call, functions=functions))
    (y,) = ReferenceEvaluator(model).run(None, {"x": A})
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_a_result_left_out_is_not_an_input_left_out():
    model = parse(
        """g (float[T, 1, 1] x, float[1, 4, 1] w, float[1, 4, 1] r, float[1] top) => (float[] y) {
            "", h = LSTM <hidden_size = 1>(x, w, r)
            y = Clip(x, "", top) }"""
    )
    x = f32([[-9]], [[9]])
    feeds = {"x": x, "w": f32([[1], [1], [1], [1]]), "r": f32([[1], [1], [1], [1]]), "top": f32(2)}
    assert_same(ReferenceEvaluator(model).run(None, feeds), [f32([[-9]], [[2]])])


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("axes", "shape"),
    [([0], (0, 3)), ([1], (2, 0)), ([-1], (2, 3)), ([0, 1], (2, 3)), (None, (2, 3))],
)
def test_means(axes: list[int] | None, shape: tuple[int, ...], keepdims: int, opset: int) -> None:
    attribute = f"axes = {axes}, " if axes and opset < 18 else ""
    given = "" if axes is None or opset < 18 else ", k"
    model = parse(
        f"""g (float[N, M] x) => (float[] y) {{
            k = Constant<value_ints = {axes or [0]}>()
            y = ReduceMean<{attribute}keepdims = {keepdims}>(x{given}) }}""",
        opset,
    )
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (actual,) = ReferenceEvaluator(model).run(None, {"x": x})
    (expected,) = open_session(model).run({"x": x}).values()
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [-3, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 3, 0), (2, 3, 4)])
def test_flatten_without_elements(shape, axis):
    model = parse(f"g (float[A,B,C] x) => (float[D,E] y) {{ y = Flatten<axis = {axis}>(x) }}")
    x = np.zeros(shape, np.float32)
    (actual,) = ReferenceEvaluator(model).run(None, {"x": x})
    (expected,) = open_session(model).run({"x": x}).values()
    assert actual.shape == expected.shape


@pytest.mark.parametrize(
    ("shape", "dims"), [((1, 2), (2, 3, 1)), ((), ()), ((), (2,)), ((2, 1), (0,)), ((0,), (3, 1))]
)
def test_strings_expand(shape, dims):
    model = parse("g (string[] x, int64[R] s) => (string[] y) { y = Expand(x, s) }")
    x = np.full(shape, "a")  # a type of numpy's own
    (found,) = ReferenceEvaluator(model).run(None, {"x": x, "s": np.array(dims, np.int64)})
    assert_same([found], [np.full(np.broadcast_shapes(shape, dims), "a", object)])


def test_strings_of_both_kinds_are_compared():
    model = parse(
        'g (string[N] x) => (bool[N] y) { s = Constant<value_string = "a">() y = Equal(x, s) }'
    )
    feeds = {"x": np.array(["a", "b"], object)}
    assert_same(ReferenceEvaluator(model).run(None, feeds), [np.array([True, False])])


TYPES = {
    **{name: np.dtype(name) for name in (
        "float16", "double", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64", "bool", "complex64", "complex128",
    )},
    "float": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "string": np.dtype(object),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_element_types(name):
    model = parse(
        f"""g ({name}[N] x, int64 m, int64 at) => ({name}[N] y, {name}[] z, {name} e) {{
            s = SplitToSequence<keepdims = 0>(x)
            r = SequenceMap <body = b ({name} a) => ({name} c) {{ c = Identity(a) }}> (s)
            y = ConcatFromSequence<axis = 0, new_axis = 1>(r)
            z = Loop (m, "") <body = l (int64 i, bool c) => (bool d, {name}[] o)
                {{ d = Identity(c) o = SequenceAt(r, i) }}>
            q = SequenceErase(r, at) u = SequenceInsert(q, e, at) e = SequenceAt(r, at) }}"""
    )
    model.graph.node[-1].name, model.graph.node[-2].name = "at", "insert"
    x = np.array(["a", "bc", "a"] if name == "string" else [1, 0, 1]).astype(TYPES[name])
    nodes = list(model.graph.node)
    nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for steps in (3, 0):
        y, z, e = ReferenceEvaluator(model).run(None, {"x": x, "m": i64(steps), "at": i64(1)})
        assert_same(y, x)
        assert_same(z, x[:steps])
        assert_same(e, x[1, ...])


@pytest.mark.parametrize("opset", [17, onnx.defs.onnx_opset_version()])
def test_opsets(opset):
    case = CASES["map-captures"]
    outputs = ReferenceEvaluator(parse(case.text, opset)).run(None, case.feeds)
    assert_same(outputs, case.expected)


def test_the_default_domain_has_two_names():
    model = parse(CASES["map-captures"].text)
    model.opset_import[0].domain = "ai.onnx"
    for node in model.graph.node:
        node.domain = "ai.onnx"
    outputs = ReferenceEvaluator(model).run(None, CASES["map-captures"].feeds)
    assert_same(outputs, CASES["map-captures"].expected)


def test_outputs_by_name_and_numbers_as_feeds():
    model = parse("g (float x) => (float y, float z) { y = Neg(x) z = Identity(x) }")
    outputs = ReferenceEvaluator(model).run(["z", "y"], {"x": np.float32(2)})
    assert_same(outputs, [np.array(2, np.float32), np.array(-2, np.float32)])


class TestModels:
    def test_of_any_kind(self, tmp_path):
        case = CASES["map-captures"]
        model = parse(case.text)
        before = model.SerializeToString()
        onnx.save(model, tmp_path / "m.onnx")
        (tmp_path / "m.onnxtxt").write_text(onnx.printer.to_text(model))
        for one in (
            model,
            ir.from_proto(model),
            tmp_path / "m.onnx",
            str(tmp_path / "m.onnx"),
            tmp_path / "m.onnxtxt",
        ):
            assert_same(ReferenceEvaluator(one).run(None, case.feeds), case.expected)
        assert model.SerializeToString() == before

    def test_of_graphsurgeon(self):
        import onnx_graphsurgeon as gs

        model = parse("g (float[N] x) => (float[N] y) { y = Neg(x) }")
        assert_same(ReferenceEvaluator(gs.import_onnx(model)).run(None, {"x": A}), [-A])

    @pytest.fixture
    def external(self, tmp_path):
        model = parse("g (float[N] x) => (float[N] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }")
        model.graph.initializer[0].raw_data = f32(1, 2, 3).tobytes()
        del model.graph.initializer[0].float_data[:]
        onnx.save(
            model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
            size_threshold=0,
        )  # fmt: skip
        return tmp_path / "m.onnx"

    def test_external_weights(self, external):
        for model in (external, ir.load(external)):
            assert_same(ReferenceEvaluator(model).run(None, {"x": C}), [f32(5, 7, 9)])

    def test_external_weights_not_read(self, external):
        model = onnx.load(external, load_external_data=False)
        with pytest.raises(EvaluationError, match="'w' lie in another file: give the path"):
            ReferenceEvaluator(model)

    def test_external_weights_missing(self, external):
        (external.parent / "w.bin").unlink()
        with pytest.raises(EvaluationError, match=r"the weights in .* cannot be read: "):
            ReferenceEvaluator(external)


HELD = {
    "SequenceMap", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
    "SequenceConstruct", "SequenceEmpty", "ConcatFromSequence", "SplitToSequence", "Loop", "Scan",
    "If", "Optional", "OptionalGetElement", "OptionalHasElement",
}  # fmt: skip


def operators(nodes: Any) -> set[str]:
    found = set()
    for node in nodes:
        found.add(node.op_type)
        for attribute in node.attribute:
            found |= operators(attribute.g.node)
    return found


def official_cases() -> list[Any]:
    """Return ONNX's own tests of what is replaced; its Scan of opset 8 is not."""
    with np.errstate(all="ignore"):
        cases = collect_testcases(None)
    return [c for c in cases if operators(c.model.graph.node) & HELD and c.name != "test_scan_sum"]


@pytest.mark.filterwarnings("ignore")
def test_official_node_tests():
    cases = official_cases()
    assert len(cases) > 50
    for case in cases:
        names = [value.name for value in case.model.graph.input]
        for inputs, outputs in case.data_sets:
            feeds = dict(zip(names, inputs, strict=True))
            assert_close(ReferenceEvaluator(case.model).run(None, feeds), outputs, case.name)


@pytest.mark.parametrize(
    "case",
    [c for c in load_model_tests(kind="simple") if "sequence_model" in c.name],
    ids=lambda case: case.name,
)
def test_official_sequence_models(case):
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"
    feeds = {
        value.name: onnx.numpy_helper.to_array(onnx.load_tensor(file))
        for i, value in enumerate(model.graph.input)
        if (file := data / f"input_{i}.pb").exists()
    }
    outputs = [
        onnx.numpy_helper.to_array(onnx.load_tensor(file)) for file in data.glob("output_*.pb")
    ]
    assert_close(ReferenceEvaluator(model).run(None, feeds), outputs, case.name)


def assert_close(actual: Any, expected: Any, name: str) -> None:
    if isinstance(expected, list | tuple):
        assert len(actual) == len(expected), name
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other, name)
        return
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype, name
    assert actual.shape == expected.shape, name
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-5, err_msg=name
    )


def run_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)
