"""What the table of defects says of each row beside its form: each name stands there for a reason.

A form is put where a node stays, or where it may round, by a flag alone.
"""

from __future__ import annotations

import pytest

from passes.runtimes.table import DEFECTS

NAMES = {
    "stays": """
        inlined-loop-without-condition openvino-loop-from-nothing openvino-nothing-as-a-number
        openvino-what-an-if-yields
    """,
    "rounds": "einsum-of-nothing product-by-a-vector",
    "beside": """
        cast-back-and-captured clip-of-a-relu-of-doubles dequantized-and-captured
        dequantized-and-moved expand-to-nothing normalization-of-a-cast pad-of-some-axes
        product-of-a-transpose product-of-halves quantized-twice reshape-by-a-reshape
        size-of-a-shape transpose-by-a-vector
    """,
    "needs": """
        clip-of-a-relu-of-doubles dequantized-and-captured dequantized-and-moved
        normalization-of-a-cast product-of-a-transpose product-of-dequantized-weights
        product-of-halves quantized-twice reshape-by-a-reshape size-of-a-shape
        transpose-by-a-vector
    """,
}


@pytest.mark.parametrize("flag", NAMES)
def test_flags(flag: str) -> None:
    assert {row.name for row in DEFECTS if getattr(row, flag)} == set(NAMES[flag].split())


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in DEFECTS]
    assert len(set(names)) == len(names)
