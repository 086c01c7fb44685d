"""What the operators of sequences, loops and maps yield, by the words of the specification."""

from __future__ import annotations

import numpy as np

from tests.rewriter.evaluator.evaluating import (
    A,
    B,
    C,
    Case,
    f32,
    i64,
)

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
    "scatter-of-no-numbers": Case(
        """g (float[K] d, int64[N] i, float[N] u) => (float[K] r) {
            r = ScatterElements <reduction = "max"> (d, i, u) }""",
        {"d": f32(np.nan, 1, 1), "i": i64([0, 1, 2]), "u": f32(2, np.nan, 3)},
        [f32(np.nan, np.nan, 3)],
        "it takes the number, whichever comes last",
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
    "loop-declares-numbers-of-one": Case(
        """g (float[2] x, int64 m, bool[1] p) => (float[2] y, int64[N,1] z) {
            y, z = Loop (m, p, x) <body = b (int64[1] i, bool[1] c, float[2] h)
                => (bool[1] d, float[2] o, int64[1] j) {
                a = Constant <value = int64[1] {0}>()
                n = Squeeze(i, a) f = Cast <to = 1> (n) o = Add(h, f)
                j = Identity(i) d = Identity(c) }> }""",
        {"x": A, "m": i64(3), "p": np.array([True])},
        [A + 3, i64([[0], [1], [2]])],
    ),
    "loop-declares-a-condition-of-one": Case(
        """g (float[2] x, int64 m, bool p) => (float[2] y, int64[N,1] z) {
            y, z = Loop (m, p, x) <body = b (int64[1] i, bool[1] c, float[2] h)
                => (bool[1] d, float[2] o, int64[1] j) {
                a = Constant <value = int64[1] {0}>()
                n = Squeeze(i, a) f = Cast <to = 1> (n) o = Add(h, f)
                j = Identity(i) d = Identity(c) }> }""",
        {"x": A, "m": i64(3), "p": np.array(True)},
        [A + 3, i64([[0], [1], [2]])],
        "refuses a condition of another rank than the body declares",
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
