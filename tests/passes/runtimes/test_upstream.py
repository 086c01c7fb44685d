"""Each page of `docs/upstream` is true, and the form of its row, if it has one, is right."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from passes.runtimes import Authored, SidestepDefectsPass
from passes.runtimes.table import DEFECTS
from rewriter.checking import check
from tests.passes.runtimes.upstream import PAGES, run

onnxruntime.set_default_logger_severity(4)
ROWS = {row.name: row for row in DEFECTS}


@pytest.mark.parametrize("name", PAGES)
def test_defect(name: str) -> None:
    """A failure here means that it was mended: the page can go, and the row if there is one."""
    page = PAGES[name]
    if page.is_older():
        pytest.skip(f"seen with {page.package} {page.version}")
    assert page.found in page.outcome()


def test_each_row_has_a_page_and_names_its_test() -> None:
    assert ROWS.keys() <= PAGES.keys()
    for name, row in ROWS.items():
        assert row.pinned_by == f"tests/passes/runtimes/test_upstream.py::test_defect[{name}]"


@pytest.mark.parametrize("name", ROWS)
def test_form(name: str) -> None:
    proto, feeds, expected = PAGES[name].model()
    model = ir.from_proto(proto)
    sidestep = SidestepDefectsPass()
    assert sidestep(model).modified
    check(model)
    found = run(ir.to_proto(model), feeds)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)
    assert not sidestep(model).modified


@pytest.mark.parametrize("name", ROWS)
def test_authors_nodes_stay(name: str) -> None:
    model = ir.from_proto(PAGES[name].model()[0])
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    assert not SidestepDefectsPass(authored=Authored(model))(model).modified
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("name", ROWS)
def test_other_runtimes_have_other_defects(name: str) -> None:
    model = ir.from_proto(PAGES[name].model()[0])
    assert not SidestepDefectsPass(["another"])(model).modified
