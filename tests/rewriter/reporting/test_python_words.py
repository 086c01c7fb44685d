from __future__ import annotations

import pytest

from rewriter.reporting.python_words import in_python

WORDS = {
    "a name": ("--uniform xs (tried: fused)", 'uniform=["xs"] (tried: fused)'),
    "names": ("--uniform a --uniform b.c:0, or x", 'uniform=["a", "b.c:0"], or x'),
    "no name": ("promise equal shapes with --uniform", "promise equal shapes with uniform"),
    "a shape": ("--input-shape x=N,8 with numbers", 'input_shapes={"x": ["N", 8]} with numbers'),
    "an unknown dimension": ("--input-shape x=3,?", 'input_shapes={"x": [3, None]}'),
    "shapes": ("--input-shape x=1 --input-shape y=2", 'input_shapes={"x": [1], "y": [2]}'),
    "several options": ("--tensor-io --uniform x (t", 'tensor_io=True, uniform=["x"] (t'),
    "a strategy": ("use --strategy fuse to", 'use strategy="fuse" to'),
    "one of two": ("use --strategy auto or fuse", 'use strategy="auto" or "fuse"'),
    "a switch": ("leave out --exact", "leave out exact=True"),
    "a number": ("--opset 18", "opset=18"),
    "no option": ("a -- b - c", "a -- b - c"),
}


@pytest.mark.parametrize(("text", "expected"), WORDS.values(), ids=WORDS)
def test_options_become_keyword_arguments(text: str, expected: str) -> None:
    assert in_python(text) == expected
