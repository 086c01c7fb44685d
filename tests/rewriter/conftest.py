"""Models on disk, for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.commands import progress
from tests.rewriter.cli_models import RAGGED, ROWS, write


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell no progress however slow the machine is: what goes to stderr is compared."""
    monkeypatch.setattr(progress, "_INTERVAL", 1e6)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.onnx", ROWS)


@pytest.fixture
def ragged(tmp_path: Path) -> Path:
    return write(tmp_path / "ragged.onnx", RAGGED)
