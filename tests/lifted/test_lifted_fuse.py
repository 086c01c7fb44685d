"""The lifted suite under fusion: as right as expanded, and mostly without a loop.

By default a fixed tenth of the table; ``pytest -m full tests/lifted`` runs all of it and counts.
"""

from __future__ import annotations

import pytest

from tests.lifted.cases import case_names
from tests.lifted.report import judge_all
from tests.lifted.table import assert_right, table


@pytest.mark.parametrize(("name", "way", "strategy"), table("fuse", "auto"))
def test_every_sample_gives_what_it_gives_alone(name: str, way: str, strategy: str) -> None:
    assert_right(name, way, strategy)


@pytest.mark.full
@pytest.mark.parametrize(
    ("way", "cases", "operators"),
    [("typical", 1100, 160), ("first", 1000, 1), ("ragged", 700, 120)],
    ids=["typical", "first", "ragged"],
)
def test_most_cases_are_loop_free(way: str, cases: int, operators: int) -> None:
    outcomes = judge_all(case_names(way), way, "fuse", jobs=2)
    right = [outcome for outcome in outcomes if outcome.status == "right"]
    free = [outcome.op_type for outcome in right if outcome.loop_free]
    assert len(free) >= cases
    assert len(set(free)) >= operators
