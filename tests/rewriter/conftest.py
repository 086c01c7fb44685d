"""Models on disk, for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rewriter.cli_models import RAGGED, ROWS, write


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.onnx", ROWS)


@pytest.fixture
def ragged(tmp_path: Path) -> Path:
    return write(tmp_path / "ragged.onnx", RAGGED)
