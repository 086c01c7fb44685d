from __future__ import annotations

import pytest

from rewriter.reporting.number_columns import number_columns


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "12,000"], True),
        (["0.0e+00", "", "not finite"], True),
        (["refused", "0.2x"], True),
        (["equal", "equal"], False),
        (["144 B", "2"], False),
        (["3.11.7", "Linux"], False),
        (["", ""], False),
    ],
)
def test_a_column_of_numbers(cells: list[str], *, expected: bool) -> None:
    rows = [("title", "1"), *((cell, "x") for cell in cells)]
    assert number_columns(rows) == [expected, False]
