"""Operators on strings and tokens."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import BATCHES, Case, decline_of, mapped, prove, words

ROW = words(["a.b", "C"], ["monday", "d"], ["x", "u.y.z"])
MATRIX = words([["a", "B", "c"]], [["-", "d", "e.f"]], [["g", "h", "i"]])
TOKENS = mapped(*(np.array(t, np.int64) for t in ([2, 3, 5, 4], [5, 6, 2, 2], [7, 8, 6, 7])))
ROWS = mapped(*(np.array([t, t[::-1]], np.int32) for t in ([2, 3, 5, 4], [5, 6, 2, 2], [7] * 4)))
WORDS = words(["the", "cat", "the"], ["a", "cat", "sat"], ["", "", "the"])

NORMALIZE = "y = StringNormalizer{}(x)"
UPPER = NORMALIZE.format('<case_change_action = "UPPER">')
POOL = "ngram_counts = [0, 4], ngram_indexes = [0, 1, 2, 3, 4, 5, 6]"
TF = (
    '<mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, '
    + POOL
    + ", pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]>"
)
TFIDF = (
    '<mode = "TFIDF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, '
    "ngram_counts = [0], ngram_indexes = [1, 0], weights = [2.0, 3.0], "
    'pool_strings = ["the", "cat"]>'
)

CASES = [
    Case("StringNormalizer as it is", NORMALIZE.format(""), {"x": ROW}),
    Case(
        "StringNormalizer keeps empty strings",
        NORMALIZE.format(""),
        {"x": words(["", "a"], ["", ""], ["b", ""])},
    ),
    Case("StringNormalizer to upper case", UPPER, {"x": ROW}, symbolic=True),
    Case(
        "StringNormalizer to lower case, rank 2",
        NORMALIZE.format('<case_change_action = "LOWER", is_case_sensitive = 1>'),
        {"x": MATRIX},
    ),
    Case("StringNormalizer, rank 2, symbolic", UPPER, {"x": MATRIX}, symbolic=True),
    Case(
        "StringSplit, numbers",
        'p, y = StringSplit<delimiter = ".">(x)',
        {"x": ROW},
        opset=20,
    ),
    Case(
        "StringSplit, numbers of rank 2",
        'p, y = StringSplit<delimiter = ".", maxsplit = 1>(x)',
        {"x": MATRIX},
        opset=21,
        symbolic=True,
    ),
    Case(
        "StringSplit, numbers of rank 0",
        "p, y = StringSplit(x)",
        {"x": mapped(*(np.array(t, object) for t in ("a b", "", "c")))},
        opset=20,
    ),
    Case("StringConcat", "y = StringConcat(x, x)", {"x": ROW}, opset=20),
    Case(
        "RegexFullMatch",
        'y = RegexFullMatch<pattern = "[a-z.]*">(x)',
        {"x": MATRIX},
        opset=20,
    ),
    Case("TfIdfVectorizer of tokens", f"y = TfIdfVectorizer{TF}(x)", {"x": TOKENS}),
    Case(
        "TfIdfVectorizer of tokens, symbolic",
        f"y = TfIdfVectorizer{TF}(x)",
        {"x": TOKENS},
        symbolic=True,
    ),
    Case("TfIdfVectorizer of rows", f"y = TfIdfVectorizer{TF}(x)", {"x": ROWS}),
    Case(
        "TfIdfVectorizer of rows, symbolic",
        f"y = TfIdfVectorizer{TF}(x)",
        {"x": ROWS},
        symbolic=True,
    ),
    Case("TfIdfVectorizer of strings", f"y = TfIdfVectorizer{TFIDF}(x)", {"x": WORDS}),
]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    Case("StringNormalizer at 10", NORMALIZE.format(""), {"x": ROW}, opset=10),
    Case("TfIdfVectorizer at 10", f"y = TfIdfVectorizer{TF}(x)", {"x": TOKENS}, opset=10),
    Case("TfIdfVectorizer of rows at 12", f"y = TfIdfVectorizer{TF}(x)", {"x": ROWS}, opset=12),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


DECLINES = [
    Case(
        "StringNormalizer that drops words",
        NORMALIZE.format('<stopwords = ["monday"]>'),
        {"x": ROW},
    ),
    Case("StringSplit, parts", "y, n = StringSplit(x)", {"x": ROW}, opset=20),
    Case("StringSplit, both", "y, n = StringSplit(x)", {"x": ROW}, ("y", "n"), opset=20),
    Case(
        "StringSplit, parts inside",
        "p, n = StringSplit(x) y = StringConcat(p, p)",
        {"x": ROW},
        opset=20,
    ),
]


@pytest.mark.parametrize("case", DECLINES, ids=str)
def test_rule_declines(case: Case) -> None:
    op_type = case.name.split()[0].rstrip(",")
    assert decline_of(case)[0] == (op_type, "data-dependent-shape")
