"""Encoders of sentences, written as exporters write them: heads, positions and types of tokens.

Sentences ``[1, L, 8]`` have lengths of their own. The sizes are read off shapes and put together
again, with -1 for the heads; positions are the first L of a table; types of tokens are expanded.
"""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import backends
from tests.passes.batching.images import FlatCase, numbers, prove_flat, prove_nothing, reached

TABLE = (
    "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () "
    "all = Constant <value_int = 320> () many = Constant <value_int = 40> () "
    + numbers("z", 0) + numbers("o", 1) + numbers("m", -1) + numbers("two", 2) + numbers("four", 4)
    + numbers("eight", 8) + numbers("square", 8, 8) + numbers("rows", 40, 8) + numbers("line", 1, 40)
    + "count = Range (zero, all, one) float = Cast <to = 1> (count) wave = Sin (float) "
    "table = Reshape (wave, rows) w = Slice (table, z, eight, z) v = Neg (w) "
    "places = Range (zero, many, one) ids = Reshape (places, line) "
)  # fmt: skip
OWN = "n = Shape (x) n0 = Gather <axis = 0> (n, zero) n1 = Gather <axis = 0> (n, one) "
OWN += "i = Unsqueeze (n0, z) j = Unsqueeze (n1, z) "
SIZES = (
    "s = Shape (h) b0 = Gather <axis = 0> (s, zero) l0 = Gather <axis = 0> (s, one) "
    "b = Unsqueeze (b0, z) l = Unsqueeze (l0, z) "
)
POSITIONS = OWN + "p = Slice (ids, z, j, o) pe = Gather (table, p) h = Add (x, pe) "
ONE_FOR_ALL = OWN + (
    "alone = Slice (ids, z, o, o) p = Slice (alone, z, j, o) pe = Gather (table, p) h = Add (x, pe) "
)
TYPES = OWN + (
    "p = Slice (ids, z, j, o) blank = ConstantOfShape (line) none0 = Cast <to = 7> (blank) "
    "t = GatherElements <axis = 1> (none0, p) pair = Concat <axis = 0> (i, j) "
    "f0 = Shape (pair) ones = ConstantOfShape <value = int64[1] {1}> (f0) less = Neg (ones) "
    "same = Equal (pair, less) to = Where (same, ones, pair) u = Expand (t, to) "
    "te = Gather (table, u) pe = Gather (table, p) h0 = Add (x, te) h = Add (h0, pe) "
)
ATTENTION = (
    "q0 = MatMul (h, w) k0 = MatMul (h, v) c = Concat <axis = 0> (b, l, {heads}) "
    "q1 = Reshape (q0, c) k1 = Reshape (k0, c) v1 = Reshape (h, c) "
    "q = Transpose <perm = [0, 2, 1, 3]> (q1) k = Transpose <perm = [0, 2, 3, 1]> (k1) "
    "e = Transpose <perm = [0, 2, 1, 3]> (v1) scores = MatMul (q, k) soft = Softmax (scores) "
    "a0 = MatMul (soft, e) a1 = Transpose <perm = [0, 2, 1, 3]> (a0) "
    "d = Concat <axis = 0> (b, l, m) a = Reshape (a1, d) o0 = MatMul (a, w) y = Add (o0, h) "
)


def encoder(name: str, before: str, heads: str) -> FlatCase:
    """Make a layer of an encoder over sentences of any length."""
    nodes = TABLE + before + SIZES + ATTENTION.format(heads=heads)
    return FlatCase(name, nodes, "float[1,L,8]", "float[1,l,8]", tolerance=1e-5)


CASES = [
    encoder("heads that are open", "h = Neg (x) ", "m, four"),
    encoder("sizes of heads that are open", "h = Neg (x) ", "two, m"),
    encoder("the first places of a table", POSITIONS, "m, four"),
    encoder("types of tokens that are expanded", TYPES, "m, four"),
    encoder("a table of one place", ONE_FOR_ALL, "m, four"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sentences_of_any_length(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 3, 5))


@pytest.mark.parametrize("case", CASES[2:4], ids=str)
def test_a_sentence_that_is_longer_than_the_table_is_an_error(case: FlatCase) -> None:
    sentences = [np.ones((1, length, 8), np.float32) for length in (3, 41)]
    session = backends.open_session(reached(case), "onnxruntime")
    session.run({"xs": sentences[:1]})
    with pytest.raises(backends.BackendError, match="Mul"):
        session.run({"xs": sentences})


@pytest.mark.parametrize("case", CASES[2:], ids=str)
def test_no_sentence(case: FlatCase) -> None:
    prove_nothing(case)
