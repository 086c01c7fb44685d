"""Large tables run a fixed part by default, and whole under ``-m full``."""

from __future__ import annotations

import collections
import zlib

import pytest

LARGE = 24
"""Cases of one test function from which on it is a large table."""
SHARE = 4
"""One case in so many of a large table belongs to the default run."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of large tables that the default run leaves out.

    Which they are follows from their names alone, so that it is the same on every machine.
    """
    tables = collections.defaultdict(list)
    for item in items:
        tables[item.nodeid.partition("[")[0]].append(item)
    for cases in tables.values():
        if len(cases) < LARGE:
            continue
        for item in cases:
            if zlib.crc32(item.nodeid.encode()) % SHARE:
                item.add_marker(pytest.mark.full)
