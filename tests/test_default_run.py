"""What of a large table the default run keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.conftest import SHARE, every_third, kept_by_default, pytest_collection_modifyitems


@pytest.mark.parametrize("form", ["f[{}-evaluator]", "f[{}]"])
def test_one_case_in_so_many(form: str) -> None:
    names = [form.format(number) for number in range(4000)]
    kept = list(kept_by_default(names))
    assert len(names) / SHARE * 0.8 < len(kept) < len(names) / SHARE * 1.2
    assert kept == list(kept_by_default(names))


def test_each_named_case_with_one_number_of_samples() -> None:
    cases = [f"f[axis {number}" for number in range(100)]
    kept = list(kept_by_default([f"{case}-{count}]" for case in cases for count in (0, 1, 3)]))
    assert {name.rpartition("-")[0] for name in kept} == set(cases)
    assert len(kept) < 2 * len(cases)


class _Case:
    """A case of a table as pytest collects it."""

    def __init__(self, number: int, markers: Sequence[str]) -> None:
        self.nodeid = f"tests/test_a.py::test_b[case {number}]"
        self.markers = list(markers)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker.name)


@pytest.mark.parametrize(("markers", "is_whole"), [(["quick"], True), ([], False)])
def test_a_quick_table_runs_whole(markers: list[str], is_whole: bool) -> None:
    cases: list[Any] = [_Case(number, markers) for number in range(40)]
    pytest_collection_modifyitems(cases)
    assert all("full" not in case.markers for case in cases) is is_whole


@pytest.mark.parametrize(
    ("count", "markers", "left_out"),
    [
        (7, ["sampled"], {"long": 4}),
        (1, ["sampled"], {}),
        (7, [], {}),
        (40, ["sampled"], {"full": 37}),
    ],
)
def test_of_a_sampled_table_the_long_tests_have_the_rest(
    count: int, markers: list[str], left_out: dict[str, int]
) -> None:
    cases: list[Any] = [_Case(number, markers) for number in range(count)]
    pytest_collection_modifyitems(cases)
    marked = [mark for case in cases for mark in case.markers if mark not in markers]
    assert {mark: marked.count(mark) for mark in marked} == left_out


def test_which_third_follows_from_the_names() -> None:
    names = [f"f[{number}]" for number in range(8)]
    assert len(every_third(names)) == 3
    assert every_third(names) == every_third(names[::-1])
