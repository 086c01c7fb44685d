"""Operators of which every sample yields as many rows as its values ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.backends import run
from rewriter.target_table import TargetName
from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged, reasons_of


def numbers(*samples: Any, dtype: Any = np.int64) -> Operand:
    return mapped(*(np.array(sample, dtype) for sample in samples))


def drawn(*shape: int, seed: int = 0) -> Operand:
    return mapped(*(np.random.default_rng(seed + k).random(shape, np.float32) for k in range(3)))


def one(operand: Operand) -> np.ndarray[Any, Any]:
    return operand.samples[0]


BOXES, SCORES = drawn(2, 8, 4), drawn(2, 3, 8, seed=5)
COUNT, OVERLAP, LEAST = (constant(x) for x in (np.array([3]), np.float32(0.3), np.float32(0.6)))


def suppress(name: str, inputs: str = "b, s, m, o, t", **changed: Operand) -> RaggedCase:
    operands = {"b": BOXES, "s": SCORES, "m": COUNT, "o": OVERLAP, "t": LEAST, **changed}
    used = {n: x for n, x in operands.items() if n in inputs.replace(" ", "").split(",")}
    attributes = "<center_point_box = 1>" if "centres" in name else ""
    text = f"y = NonMaxSuppression{attributes}({inputs})"
    return RaggedCase(f"NonMaxSuppression {name}", text, used)


ROW = constant(np.array([0]))
DETECTED = {
    "b": ragged(4, lengths=(7, 0, 4), low=0, high=1),
    "s": ragged(lengths=(7, 0, 4), low=0, high=1, seed=4),
    "a": ROW,
    "c": constant(np.array([0, 1])),
    "m": COUNT,
    "o": OVERLAP,
    "t": constant(np.float32(0.3)),
}


def detect(name: str, settings: str, **changed: Operand) -> RaggedCase:
    """Suppress boxes ``b`` by scores ``s`` that differ in number."""
    used = ["b", "s", "a", "c", *settings.split(", ")]
    operands = {k: v for k, v in {**DETECTED, **changed}.items() if k in used}
    attributes = "<center_point_box = 1>" if "centres" in name else ""
    text = "u = Unsqueeze(b, a) w = Unsqueeze(s, c)"
    nodes = f"{text} y = NonMaxSuppression{attributes}(u, w, {settings})"
    return RaggedCase(f"NonMaxSuppression of packed boxes {name}", nodes, operands)


X = mapped((4, 3))
FLAGS = numbers([1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0], dtype=np.bool_)
MANY = numbers([1, 0, 1, 0, 1, 1, 0], [0] * 7, [1] * 7, dtype=np.bool_)


def compress(name: str, attributes: str = "", **operands: Operand) -> RaggedCase:
    text = f"y = Compress{attributes}({', '.join(operands)})"
    return RaggedCase(f"Compress {name}", text, operands)


def count(name: str, start: Operand, limit: Operand, delta: Operand) -> RaggedCase:
    given = {"a": start, "b": limit, "c": delta}
    return RaggedCase(f"Range {name}", "y = Range(a, b, c)", given)


def find(
    name: str, then: str, outputs: tuple[str, ...] = ("y",), **operands: Operand
) -> RaggedCase:
    return RaggedCase(f"NonZero {name}", f"y = NonZero(x) {then}", operands, outputs)


def distinct(name: str, attributes: str, **operands: Operand) -> RaggedCase:
    nodes = f"y, i, j, c = Unique{attributes}({', '.join(operands)})"
    return RaggedCase(f"Unique {name}", nodes, operands, ("y", "i", "j", "c"))


REPEATED = numbers([3, 1, 3, -2], [0, 0, 0, 0], [5, 1, 5, 1])
REPEATED_ROWS = numbers([[1, 0, 1], [1, 0, 1]], [[2, 1, 2], [0, 1, 0]], [[0, 0, 0]] * 2)
FULL = ragged(3, dtype=np.int64, low=-1.9, high=1.9, lengths=(2, 1, 3))
WORDS = Operand("ragged", tuple(np.array(w, object) for w in (["b", "a", "b"], [], ["c", "b"])))
ROWS = ragged(3)
SHORT = numbers([1], [0], [1], dtype=np.bool_)
SPARSE = numbers([[1, 0], [2, 3]], [[0, 0], [0, 0]], [[0, 4], [0, 0]], dtype=np.float32)
HOLES = ragged(dtype=np.int64, low=-1.9, high=1.9)
HOLES_OF_ROWS = ragged(3, dtype=np.int64, low=-1.9, high=1.9, seed=3)
BOUNDS = {"a": constant(np.array([1])), "b": constant(np.array([2]))}
READ = {"x": FLAGS, "a": constant(np.array([0]))}
SHARED = shared(one(X))
ZERO, ONE, MINUS = (constant(np.array(n)) for n in (0, 1, -1))
FLOATS = [constant(np.array(n, np.float32)) for n in (0, 0.3)]
CASES = [
    suppress("of two images"),
    suppress("of one image", b=drawn(1, 8, 4), s=drawn(1, 3, 8, seed=5)),
    suppress("of centres"),
    suppress("with limits by default", "b, s, m"),
    suppress("with run-time limits", m=shared(np.array(2)), t=shared(np.float32(0.7))),
    suppress("of shared boxes", b=shared(one(BOXES))),
    suppress("of shared scores", s=shared(one(SCORES)), b=drawn(2, 8, 4, seed=9)),
    suppress("of scores of which some pass", t=constant(np.float32(0.95))),
    detect("", "m, o, t"),
    detect("without a threshold", "m, o"),
    detect("of every box", "m"),
    detect("of negative scores", "m, o", s=ragged(lengths=(7, 0, 4), low=-3, high=-1)),
    detect("of centres", "m, o, t"),
    RaggedCase(
        "NonMaxSuppression of classes",
        "u = Unsqueeze(b, a) q = Transpose(s) w = Unsqueeze(q, a)"
        " y = NonMaxSuppression(u, w, m, o, t)",
        {**DETECTED, "s": ragged(3, lengths=(7, 0, 4), low=0, high=1), "a": ROW},
    ),
    RaggedCase(
        "NonMaxSuppression after a filter, and the boxes",
        "f = Greater(s, l) b1 = Compress<axis = 0>(b, f) s1 = Compress<axis = 0>(s, f)"
        " u = Unsqueeze(b1, a) w = Unsqueeze(s1, c) p = NonMaxSuppression(u, w, m, o, t)"
        " i = Gather<axis = 1>(p, n) y = Gather(b1, i)",
        {**DETECTED, "l": constant(np.float32(0.2)), "n": constant(np.array(2))},
    ),
    RaggedCase(
        "Compress twice by one condition",
        "k = Compress<axis = 0>(x, c) n = Neg(x) l = Compress<axis = 0>(n, c) y = Add(k, l)",
        {"x": X, "c": FLAGS},
    ),
    compress("of rows", "<axis = 0>", x=X, c=FLAGS),
    compress("of rows from behind", "<axis = -2>", x=X, c=FLAGS),
    compress("of some rows", "<axis = 0>", x=X, c=numbers([1, 0], [0, 0], [1, 1], dtype=np.bool_)),
    compress("flattened", x=X, c=MANY),
    compress("of a vector", "<axis = -1>", x=mapped((4,)), c=FLAGS),
    compress("of shared rows", "<axis = 0>", x=shared(one(X)), c=FLAGS),
    compress("by more conditions than rows", "<axis = 0>", x=X, c=MANY),
    count("to a limit", ZERO, numbers(3, 0, 5), ONE),
    count("from a start", numbers(3, -2, 7), constant(np.array(5)), shared(np.array(2))),
    count("backwards", numbers(3, -2, 7), ZERO, MINUS),
    count("by steps", ZERO, constant(np.array(9)), numbers(2, -1, 4)),
    count("of int32", *(numbers(*n, dtype=np.int32) for n in ([0, 1, 9], [4, 1, 0], [1, 2, -2]))),
    count("of floats", FLOATS[0], numbers(1, -1, 2.1, dtype=np.float32), FLOATS[1]),
    compress(
        "of a matrix, flattened", x=X, c=numbers([1, 0] * 5, [1] * 10, [0] * 10, dtype=np.bool_)
    ),
    compress("of packed rows", "<axis = 0>", x=ROWS, c=ragged(dtype=np.bool_)),
    compress("of packed rows by one condition", "<axis = 0>", x=ROWS, c=shared(one(FLAGS)[:2])),
    compress("of packed rows by long conditions", "<axis = 0>", x=ROWS, c=FLAGS),
    compress("of packed rows by short conditions", "<axis = -2>", x=ROWS, c=SHORT),
    compress("of packed vectors", x=ragged(), c=ragged(dtype=np.bool_)),
    compress("of packed rows, flattened", x=ROWS, c=MANY),
    find("of flags", "", x=FLAGS),
    find("of rows", "", x=SPARSE),
    find("of images", "", x=mapped((2, 3, 2), dtype=np.bool_)),
    find("of packed numbers", "", x=HOLES),
    find("of packed rows", "", x=HOLES_OF_ROWS),
    find("of packed images", "", x=ragged(2, 3, dtype=np.bool_)),
    find("as rows", "z = Transpose(y)", ("z",), x=SPARSE),
    find("as a vector", "z = Squeeze(y, a)", ("z",), x=FLAGS, a=constant(np.array([0]))),
    find("reshaped", "z = Reshape(y, a)", ("z",), x=HOLES, a=constant(np.array([-1]))),
    find("of one axis", "z = Gather(y, a)", ("z",), x=SPARSE, a=constant(np.array(1))),
    find("and how many", "s = Shape(y) z = Slice(s, a, b)", ("z",), x=SPARSE, **BOUNDS),
    find("to read", "i = Transpose(y) z = GatherND(x, i)", ("z",), x=SPARSE),
    find("to read packed rows", "i = Transpose(y) z = GatherND(x, i)", ("z",), x=HOLES_OF_ROWS),
    find("to read rows", "i = Squeeze(y, a) z = Gather(d, i)", ("z",), **READ, d=X),
    find("to read shared rows", "i = Squeeze(y, a) z = Gather(d, i)", ("z",), **READ, d=SHARED),
    find(
        "to read rows by",
        "i = Transpose(y) z = Gather(d, i)",
        ("z",),
        x=HOLES,
        d=ragged(4, seed=7),
    ),
    find("and their sum", "i = Transpose(y) z = ReduceSum<keepdims = 0>(i, a)", ("z",), **READ),
    *(
        distinct(f"{name}, {order}", f"<{attributes}sorted = {k}>", x=x)
        for k, order in enumerate(("by occurrence", "sorted"))
        for name, attributes, x in (
            ("of numbers", "", REPEATED),
            ("of a matrix", "", REPEATED_ROWS),
            ("of rows", "axis = 0, ", REPEATED_ROWS),
            ("of columns", "axis = -1, ", REPEATED_ROWS),
            ("of packed numbers", "", HOLES),
            ("of packed matrices", "", FULL),
            ("of packed rows", "axis = 0, ", ragged(2, dtype=np.int64, low=-1.9, high=1.9)),
            ("of bytes", "", numbers([1, -1, 1], [1, 1, 1], [0, 1, 1], dtype=np.int8)),
            ("of words", "", WORDS),
        )
    ),
    distinct("by default", "", x=REPEATED),
    RaggedCase(
        "Unique of packed columns",
        "t = Transpose(x) y, i, j, c = Unique<axis = 1>(t)",
        {"x": ragged(2, dtype=np.int64, low=-1.9, high=1.9)},
        ("y", "i", "j", "c"),
    ),
    RaggedCase("Unique values", "y = Unique(x)", {"x": REPEATED}),
    RaggedCase("Unique counts", 'y, "", "", c = Unique(x)', {"x": HOLES}, ("y", "c")),
    RaggedCase(
        "Unique, and the values again",
        'u, "", j = Unique(x) y = Gather(u, j) s = ReduceSum<keepdims = 0>(u, a)',
        {"x": REPEATED, "a": constant(np.array([0]))},
        ("y", "s"),
    ),
    RaggedCase(
        "Range that is read",
        "r = Range(a, n, d) y = Mul(r, d)",
        {"a": ZERO, "n": numbers(3, 0, 5), "d": constant(np.array(2))},
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.parametrize(
    ("case", "code"),
    [
        (compress("of columns", "<axis = 1>", x=mapped((3, 4)), c=FLAGS), "data-dependent-shape"),
        (distinct("of floats", "", x=X), "no-rule"),
        (find("of a number", "", x=mapped(())), "no-rule"),
        (suppress("with mapped limits", m=numbers([1], [3], [2])), "batched-operand"),
    ],
    ids=str,
)
def test_rule_declines(case: RaggedCase, code: str) -> None:
    assert (case.name.split()[0], code) in reasons_of(case)


def test_branches_may_yield_packed_samples() -> None:
    nodes = """y = If(c) <then_branch = t () => (float[] a) { a = Compress(x, f) },
                         else_branch = e () => (float[] b) { n = Neg(x) b = Compress(n, f) }>"""
    operands = {"x": mapped((4,)), "f": FLAGS, "c": shared(np.array(True))}
    for batch in (0, 1, 3):
        prove_ragged(RaggedCase("Compress in branches", nodes, operands), batch)


COUNTED = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(T) a, seq(T) b, seq(T) c) => (seq(T[]) y) {
    y = SequenceMap (a, b, c) <body = f (T p, T q, T r) => (T[] o) { o = Range (p, q, r) }> }"""
SPANS = [
    (0, 4, 1),
    (1, 9, 3),
    (9, 0, -2),
    (5, 5, 2),
    (4, 0, 3),
    (0, 4, -3),
    (0, 9, 3),
    (-7, -1, 4),
]


def counted(text: str, target: TargetName, spans: Sequence[Sequence[int]], dtype: str) -> set[str]:
    """Compare the counted numbers; return the operators that count them."""
    found = rewriter.rewrite(onnx.parser.parse_model(text), target=target, tensor_io=True)
    columns = np.array(spans, dtype).T
    results = run(found.model, dict(zip(("a", "b", "c"), columns, strict=False)))
    expected = [np.arange(*span, dtype=dtype) for span in spans]
    np.testing.assert_array_equal(results["y"], np.concatenate(expected))
    assert results["y.lengths"].tolist() == [len(one) for one in expected]
    return set(found.report.after.by_type)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("target", ["onnxruntime", "onnxruntime-webgpu-int64"])
def test_a_device_without_doubles_counts_steps_in_whole_numbers(
    dtype: str, target: TargetName
) -> None:
    used = counted(COUNTED.replace("T", dtype), target, SPANS, dtype)
    assert "Loop" not in used
    assert ("Ceil" in used) == (target == "onnxruntime")


def test_steps_of_one_are_not_divided() -> None:
    text = COUNTED.replace(", seq(T) c", "").replace(", b, c", ", b").replace(", T r", "")
    text = text.replace("{ o =", "{ r = Constant <value = int64 {1}> () o =").replace("T", "int64")
    used = counted(text, "onnxruntime", [(3, 1), (0, 2), (-2, 1)], "int64")
    assert not {"Div", "Ceil", "Loop"} & used
