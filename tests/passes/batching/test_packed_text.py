"""Rows of strings in packed samples, which are gathered so that onnxruntime copies whole rows.

And tokens, counted in samples of different length.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest

import rewriter
from tests.passes.batching.harness import Operand
from tests.passes.batching.ragged import RaggedCase, prove_declined, prove_ragged, ragged

BODIES = {
    "concat": "y = Concat <axis = 0> (x, x)",
    "slice": """a = Constant <value_ints = [0]> ()  b = Constant <value_ints = [1]> ()
        y = Slice (x, a, b, a)""",
    "gather": "a = Constant <value_ints = [0]> ()  y = Gather <axis = 0> (x, a)",
    "identity": "y = Identity (x)",
    "tile": "a = Constant <value_ints = [2, 1]> ()  y = Tile (x, a)",
}


@pytest.mark.parametrize("dims", ["N,3", "N"])
@pytest.mark.parametrize("body", BODIES)
def test_rows_of_strings(body: str, dims: str) -> None:
    width = dims.replace("N", "")
    text = BODIES[body] if width or body != "tile" else BODIES[body].replace("[2, 1]", "[2]")
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (string[R{width}] t, int64[B] l) => (string[K{width}] z) {{
        xs = SplitToSequence <axis = 0> (t, l)
        ys = SequenceMap (xs) <body = b (string[N{width}] x) => (string[P{width}] y) {{ {text} }}>
        z = ConcatFromSequence <axis = 0> (ys) }}""")
    after = rewriter.optimize(model, strategy="fuse")
    words = np.array([f"word {i}" for i in range(12)], object)
    feeds = {"t": words.reshape(4, 3) if width else words[:4], "l": np.int64([3, 1])}
    expected = rewriter.run(model, feeds, "reference")["z"]
    if body == "gather" and width:
        expected = feeds["t"][[0, 3]]
    found = rewriter.run(after, feeds)["z"]
    assert found.tolist() == expected.tolist()


GRAMS = (
    'mode = "TFIDF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, '
    "ngram_counts = [0, 3], ngram_indexes = [0, 1, 2, 3, 4], weights = [1.0, 2.0, 0.5, 3.0, 0.25]"
)
WORDS = Operand("ragged", tuple(np.array(w, object) for w in (["a", "bc"], [], ["", "d", "bc"])))
TOKENS = [
    RaggedCase(name, f"y = TfIdfVectorizer <{GRAMS}, {pool}> (x)", {"x": x})
    for name, pool, x in (
        (
            "numbers",
            "pool_int64s = [0, 1, 2, 0, 1, 1, 1]",
            ragged(dtype=np.int64, low=0, high=2.9),
        ),
        ("short ones", "pool_int64s = [7, 1, 2, 2, 1, 1, 1]", ragged(dtype=np.int32, low=0)),
        (
            "rows",
            "pool_int64s = [0, 1, 2, 0, 1, 1, 1]",
            ragged(3, dtype=np.int64, low=0, high=2.9, lengths=(2, 1, 3)),
        ),
        ("words", 'pool_strings = ["", "a", "d", "a", "bc", "", "d"]', WORDS),
    )
]


NORMALIZER = '<case_change_action = "UPPER", locale = "C">'
FULL = Operand("ragged", tuple(np.array(w, object) for w in (["a", "bC"], ["d"], ["", "d", "bc"])))
NORMALIZED = [
    RaggedCase("words", f"y = StringNormalizer {NORMALIZER} (x)", {"x": FULL}),
    RaggedCase(
        "a row of words",
        "a = Constant <value_ints = [0]> () r = Unsqueeze (x, a)"
        f"u = StringNormalizer {NORMALIZER} (r) y = Squeeze (u, a)",
        {"x": FULL},
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", NORMALIZED, ids=str)
def test_words_are_normalized(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


def test_words_that_are_dropped_stay_in_a_loop() -> None:
    text = 'y = StringNormalizer <stopwords = ["d"], locale = "C"> (x)'
    prove_declined(
        RaggedCase("dropped", text, {"x": FULL}), "StringNormalizer data-dependent-shape"
    )


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", TOKENS, ids=str)
def test_tokens_are_counted(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, lacks=("If", "Loop"))


def test_rows_of_tokens_that_differ_in_length_stay_in_a_loop() -> None:
    x = ragged(2, dtype=np.int64, low=0, high=2.9, lengths=(2, 1, 3))
    text = (
        f"t = Transpose (x) y = TfIdfVectorizer <{GRAMS}, pool_int64s = [0, 1, 2, 0, 1, 1, 1]> (t)"
    )
    prove_declined(RaggedCase("columns", text, {"x": x}), "TfIdfVectorizer ragged")


def test_tokens_are_counted_in_a_loop_where_one_sample_is_long() -> None:
    long = ragged(dtype=np.int64, low=0, high=2.9, lengths=(1, 400, 0))
    prove_ragged(dataclasses.replace(TOKENS[0], operands={"x": long}, loops=1), 3)
