"""Each page of `docs/upstream` is true, and the form of its row, if it has one, is right."""

from __future__ import annotations

import pathlib
import re
import tomllib

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from passes.runtimes import Authored, SidestepDefectsPass
from passes.runtimes.table import DEFECTS
from rewriter.model_files.checking import check
from tests.passes.runtimes.upstream import PAGES, Page, run
from tests.versions import numbers

onnxruntime.set_default_logger_severity(4)
PROJECT = pathlib.Path(__file__).parents[3] / "pyproject.toml"
ROWS = {row.name: row for row in DEFECTS}


@pytest.mark.parametrize("name", PAGES)
def test_defect(name: str) -> None:
    """A failure here means that it was mended: the page, and its row, can say in which version."""
    page = PAGES[name]
    if page.is_older():
        pytest.skip(f"seen with {page.package} {page.since}")
    outcome = page.outcome()
    if not page.is_mended():
        assert page.found in outcome
        return
    said = dict(line.split(" ", 1) for line in outcome.splitlines())
    assert said["found"] == said["expected"]


def test_each_row_has_a_page_and_names_its_test() -> None:
    assert ROWS.keys() <= PAGES.keys()
    for name, row in ROWS.items():
        page = PAGES[name]
        assert row.pinned_by == f"tests/passes/runtimes/test_upstream.py::test_defect[{name}]"
        assert row.runtime == page.runtime
        assert (row.since, row.mended_in) == (page.since, page.mended_in)


@pytest.mark.parametrize(
    "page", [page for page in PAGES.values() if page.mended_in], ids=lambda page: page.name
)
def test_no_page_outlives_the_versions_that_are_allowed(page: Page) -> None:
    """A failure here means that the oldest version is mended: page and row can go."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    (oldest,) = {
        match[1]
        for needed in project["dependencies"] + extras["cpu"] + extras["test"]
        if (match := re.match(rf"{page.package}>=([\d.]+)", needed))
    }
    assert page.mended_in is not None
    assert numbers(oldest) < numbers(page.mended_in)


@pytest.mark.parametrize("name", ROWS)
def test_form(name: str) -> None:
    proto, feeds, expected = PAGES[name].model()
    model = ir.from_proto(proto)
    sidestep = SidestepDefectsPass([ROWS[name].runtime])
    assert sidestep(model).modified
    check(model)
    found = run(ir.to_proto(model), feeds, ROWS[name].runtime)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)
    assert not sidestep(model).modified


@pytest.mark.parametrize("name", ROWS)
def test_authors_nodes_stay(name: str) -> None:
    model = ir.from_proto(PAGES[name].model()[0])
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    runtimes = [ROWS[name].runtime]
    assert not SidestepDefectsPass(runtimes, authored=Authored(model))(model).modified
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("name", ROWS)
def test_other_runtimes_have_other_defects(name: str) -> None:
    model = ir.from_proto(PAGES[name].model()[0])
    assert not SidestepDefectsPass(["another"])(model).modified
