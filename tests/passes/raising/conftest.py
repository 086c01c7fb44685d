"""What the tests of few iterations share."""

from __future__ import annotations

import pytest

from passes.fusing import few_iterations


@pytest.fixture
def however_slowly_they_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take copies of a body that has any number of nodes."""
    monkeypatch.setattr(few_iterations, "load_slowly", lambda copies, nodes: copies > 11)
