"""Outputs that keep samples apart: judged by running samples together and alone, too."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.model_files import models
from rewriter.serving.apart import SampleKind, held_outputs

HEAD = '<ir_version: 9, opset_import: ["" : 18]> g (seq(float[N,3]) xs) => '
W = "w = Constant <value = float[3,3] {1., 2., 3., 4., 5., 6., 7., 8., 9.}> () "
NUMBERS = (
    "i0 = Constant <value = int64[1] {0}> () i1 = Constant <value = int64[1] {1}> () "
    "z = Constant <value = int64 {0}> () one = Constant <value = float {1.0}> () " + W
)
SUM = (
    "ys = SequenceMap (xs) <body = b (float[N,3] x) => (float[3] r) "
    "{ r = ReduceSum <keepdims = 0> (x, i0) }> "
)
ROWS = SUM + "t = ConcatFromSequence <axis = 0, new_axis = 1> (ys) "


def rows(nodes: str, result: str = "float[B,3] y") -> str:
    """Nodes that read ``t``, a row for each sample."""
    return f"{HEAD}({result}) {{ {NUMBERS}{ROWS}{nodes} }}"


def lists(nodes: str, result: str = "seq(float[M,3]) y") -> str:
    """Nodes that read ``xs``."""
    return f"{HEAD}({result}) {{ {NUMBERS}{nodes} }}"


APART = {
    "numbers of each": rows("y = Relu (t)"),
    "beside what all share": rows("a = Mul (t, one) y = Add (a, w0) ").replace(
        "a = Mul", "w0 = Gather (w, z) a = Mul"
    ),
    "products": rows("y = MatMul (t, w)"),
    "a Gemm": rows("y = Gemm <transB = 1> (t, w)"),
    "over what is behind": rows("y = Softmax <axis = -1> (t)"),
    "sums of each": rows("y = ReduceMean <keepdims = 0> (t, i1)", "float[B] y"),
    "two ways": rows("a = Neg (t) b = Add (a, t) y = Concat <axis = 1> (a, b)", "float[B,6] y"),
    "flattened": rows("u = Unsqueeze (t, i1) y = Flatten (u)"),
    "a column": rows("y = Gather <axis = 1> (t, z)", "float[B] y"),
    "another shape": rows("y = Unsqueeze (t, i1)", "float[B,1,3] y"),
    "through the first size": rows(
        "s = Constant <value = int64[3] {0, 3, 1}> () y = Reshape (t, s)", "float[B,3,1] y"
    ),
    "split again": rows(
        "l = SplitToSequence <axis = 0, keepdims = 0> (t) "
        "y = SequenceMap (l) <body = b (float[3] e) => (float[3] r) { r = Neg (e) }>",
        "seq(float[3]) y",
    ),
    "by a script's loop": lists(
        "n = SequenceLength (xs) go = Constant <value = bool {1}> () e = SequenceEmpty () "
        "y = Loop (n, go, e) <body = b (int64 i, bool c, seq(float[M,3]) s) => "
        "(bool d, seq(float[M,3]) q) { x = SequenceAt (xs, i) r = MatMul (x, w) "
        "q = SequenceInsert (s, r) d = Identity (c) }>"
    ),
    "a map of a map": lists(
        "m = SequenceMap (xs) <body = a (float[N,3] u) => (float[N,3] v) { v = Neg (u) }> "
        "y = SequenceMap (m, xs) <body = b (float[N,3] x, float[N,3] k) => (float[N,3] r) "
        "{ r = Sub (x, k) }>"
    ),
}
MIXED = {
    "over all samples": (rows("y = Softmax <axis = 0> (t)"), "'Softmax_.*' .* may mix samples"),
    "a sum of all": (
        rows("m = ReduceMean <keepdims = 1> (t, i0) y = Sub (t, m)"),
        "'ReduceMean_.*' .* may mix samples",
    ),
    "running sums": (rows("y = CumSum (t, z)"), "CumSum"),
    "several rows of each": (
        rows(
            "s = Constant <value = int64[3] {0, 3, 1}> () u = Reshape (t, s) "
            "y = Flatten <axis = 2> (u)",
            "float[M,1] y",
        ),
        "Flatten",
    ),
    "places among all images": (
        rows(
            "s = Constant <value = int64[3] {0, 1, 3}> () u = Reshape (t, s) "
            "v, y = MaxPool <kernel_shape = [2]> (u)",
            "int64[B,1,2] y",
        ),
        "MaxPool",
    ),
    "rows of a square": (rows("u = Transpose (t) y = MatMul (t, u)"), "Transpose"),
    "turned": (
        rows("f = Constant <value = int64[1] {-1}> () l = Constant <value = int64[1] {-9999}> () "
             "y = Slice (t, f, l, i0, f)"),
        "Slice",
    ),
    "the first sample": (
        lists("f = SequenceAt (xs, z) y = SequenceMap (xs, f) <body = b (float[N,3] x, "
              "float[M,3] k) => (float[N,3] r) { m = ReduceMax <keepdims = 0> (k) "
              "r = Sub (x, m) }>"),
        "SequenceAt",
    ),
    "another order": (
        lists("a = SequenceAt (xs, z) y = SequenceInsert (xs, a)"),
        "SequenceAt",
    ),
    "all rows joined": (
        lists("y = ConcatFromSequence <axis = 0> (xs)", "float[T,3] y"),
        "ConcatFromSequence",
    ),
    "how many there are": (
        lists("n = SequenceLength (xs) f = Cast <to = 1> (n) y = SequenceMap (xs, f) "
              "<body = b (float[N,3] x, float k) => (float[N,3] r) { r = Div (x, k) }>"),
        "SequenceLength",
    ),
    "its number": (
        lists("n = SequenceLength (xs) go = Constant <value = bool {1}> () e = SequenceEmpty () "
              "y = Loop (n, go, e) <body = b (int64 i, bool c, seq(float[M,3]) s) => "
              "(bool d, seq(float[M,3]) q) { x = SequenceAt (xs, i) f = Cast <to = 1> (i) "
              "r = Mul (x, f) q = SequenceInsert (s, r) d = Identity (c) }>"),
        "reads the number of a sample|may mix",
    ),
    "what the sample before left": (
        lists("n = SequenceLength (xs) go = Constant <value = bool {1}> () "
              "h, y = Loop (n, go, i0f) <body = b (int64 i, bool c, float[3] s) => "
              "(bool d, float[3] q, float[3] o) { x = SequenceAt (xs, i) "
              "k = ReduceSum <keepdims = 0> (x, i0) q = Add (s, k) o = Identity (q) "
              "d = Identity (c) }>", "float[B,3] y").replace(
            "h, y = Loop", "i0f = Constant <value = float[3] {0., 0., 0.}> () h, y = Loop"),
        "may mix|reads",
    ),
    "weights by position": (
        lists("l = SplitToSequence <axis = 0> (w) y = SequenceMap (xs, l) <body = b (float[N,3] x, "
              "float[1,3] k) => (float[N,3] r) { r = Mul (x, k) }>"),
        "not proven to belong to its samples",
    ),
    "a branch on all": (
        lists("n = SequenceLength (xs) two = Constant <value = int64 {2}> () m = Less (n, two) "
              "y = If (m) <then_branch = a () => (seq(float[N,3]) p) { p = Identity (xs) }, "
              "else_branch = b () => (seq(float[N,3]) q) { k = SequenceAt (xs, z) "
              "q = SequenceConstruct (k, k, k) }>"),
        "SequenceLength|If",
    ),
}  # fmt: skip


def is_alone_as_among_others(model: onnx.ModelProto) -> bool:
    """Whether each of three samples has alone what it has among the others."""
    rng = np.random.default_rng(0)
    samples = [rng.random((n, 3), np.float32) for n in (2, 1, 3)]
    whole = rewriter.run(model, {"xs": samples})["y"]
    alone = [rewriter.run(model, {"xs": [sample]})["y"] for sample in samples]
    if len(whole) != len(samples) or any(len(one) != 1 for one in alone):
        return False
    pairs = [(one[0], among) for one, among in zip(alone, whole, strict=True)]
    return all(a.shape == b.shape and np.allclose(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", APART)
def test_what_keeps_samples_apart(name: str) -> None:
    model = onnx.parser.parse_model(APART[name])
    assert is_alone_as_among_others(model)
    held = held_outputs(models.take(model).model)["y"]
    assert held.kind in (SampleKind.ROWS, SampleKind.ELEMENTS), held


@pytest.mark.parametrize("name", MIXED)
def test_what_mixes_samples(name: str) -> None:
    text, why = MIXED[name]
    model = onnx.parser.parse_model(text)
    assert not is_alone_as_among_others(model)
    held = held_outputs(models.take(model).model)["y"]
    assert held.kind is SampleKind.MIXED
    assert re.search(why, held.reason), held.reason
