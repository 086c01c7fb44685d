"""What the evaluator refuses, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from passes.errors import RewriteError
from rewriter.evaluator.reference import EvaluationError, ReferenceEvaluator
from tests.rewriter.evaluator.evaluating import (
    A,
    B,
    C,
    i64,
    parse,
)

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
    "gather-nd": (
        "g (float[2,2] x, int64[1,2] i) => (float[1] y) { y = GatherND(x, i) }",
        {"x": np.ones((2, 2), np.float32), "i": i64([[1, 2]])},
        "GatherND 'y': an index is outside of axes of [2, 2]",
    ),
    "gather-nd-batches": (
        "g (float[2,2] x, int64[1,1] i) => (float[1] y) { y = GatherND <batch_dims = 1> (x, i) }",
        {"x": np.ones((2, 2), np.float32), "i": i64([[1]])},
        "GatherND 'y': data and indices differ in their batch axes",
    ),
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
    **{
        f"scan-state-{steps}-{name}": (
            f"""g (float[N] s, float[T] x) => (float[M] u, float[T] y) {{
                u, y = Scan <num_scan_inputs = 1, body = b (float[{given}] p, float e) =>
                    (float[{next}] t, float f) {{ t = Add (p, e) f = Neg (e) }}> (s, x) }}""",
            {"s": A, "x": np.ones(steps, np.float32)},
            f"Scan 'u': state '{name}' has shape (2,), and the body declares 3 for axis 0",
        )
        for steps in (0, 2)
        for name, given, next in (("p", "3", "N"), ("t", "N", "3"))
    },
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


DAMAGES = {
    "an input that nothing computes": ("r = Neg (gone)", "RuntimeError: Unable to find input"),
    "an output that nothing computes": ("q = Neg (x)", "RuntimeError: Unable to find output"),
    "a domain of no version": ("r = odd.Neg (x)", "RuntimeError: Domain 'odd'"),
    "too few inputs": ("r = Add (x)", "TypeError: "),
    "an attribute of a wrong type": ("r = Concat <axis = 0.5> (x, x)", "TypeError: "),
    "shapes that do not fit": ("t = Unsqueeze (x, x) r = Neg (t)", "TypeError: "),
}


@pytest.mark.parametrize(("body", "message"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_model_is_an_error_in_one_line(body: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        ReferenceEvaluator(parse(f"g (float[2] x) => (float[] r) {{ {body} }}")).run(
            None, {"x": A}
        )
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_weights_of_no_type_are_an_error_in_one_line() -> None:
    model = parse("g (float[2] x) => (float[2] r) <float[2] w = {1, 2}> { r = Add (x, w) }")
    model.graph.initializer[0].data_type = 0
    with pytest.raises(EvaluationError, match="UNDEFINED"):
        ReferenceEvaluator(model)
