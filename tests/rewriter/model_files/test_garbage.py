"""Python looks for cycles less often while a model is rewritten, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import onnx_ir as ir
import pytest

import rewriter
from rewriter.model_files.models import seldom_collected
from tests.test_files_entered import ONE_MATMUL


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_it_is_seldom_in_a_block_only() -> None:
    gc.set_threshold(700, 10, 10)
    with seldom_collected():
        assert gc.get_threshold()[0] > 10_000
        with seldom_collected():
            assert gc.get_threshold()[0] > 10_000
        assert gc.get_threshold()[0] > 10_000
    assert gc.get_threshold() == (700, 10, 10)


def test_blocks_of_threads_may_end_in_any_order() -> None:
    gc.set_threshold(700, 10, 10)
    one, other = seldom_collected(), seldom_collected()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold()[0] > 10_000
    other.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, 100_000])
def test_who_asks_for_fewer_gets_what_is_asked(first: int) -> None:
    gc.set_threshold(first, 10, 10)
    with seldom_collected():
        assert gc.get_threshold() == (first, 10, 10)


def test_a_rewrite_is_such_a_block() -> None:
    gc.set_threshold(700, 10, 10)
    found: list[int] = []

    def on_pass(_: str, __: ir.Model) -> None:
        found.append(gc.get_threshold()[0])

    rewriter.rewrite(rewriter.load(ONE_MATMUL), on_pass=on_pass)
    assert found
    assert min(found) > 10_000
    with pytest.raises(rewriter.RewriteError):
        rewriter.rewrite(ONE_MATMUL, target="no such target")
    assert gc.get_threshold() == (700, 10, 10)
