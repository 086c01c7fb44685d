"""What of a large table the default run keeps."""

from __future__ import annotations

import pytest

from tests.conftest import SHARE, kept_by_default


@pytest.mark.parametrize("form", ["f[{}-evaluator]", "f[{}]"])
def test_one_case_in_so_many(form: str) -> None:
    names = [form.format(number) for number in range(400)]
    kept = list(kept_by_default(names))
    assert len(names) / SHARE * 0.8 < len(kept) < len(names) / SHARE * 1.2
    assert kept == list(kept_by_default(names))


def test_each_named_case_with_one_number_of_samples() -> None:
    cases = [f"f[axis {number}" for number in range(100)]
    kept = list(kept_by_default([f"{case}-{count}]" for case in cases for count in (0, 1, 3)]))
    assert {name.rpartition("-")[0] for name in kept} == set(cases)
    assert len(kept) < 2 * len(cases)
