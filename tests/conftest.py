"""Large tables run a fixed part by default, and whole under ``-m full``; quick ones always do.

Of a smaller one whose cases take tenths of a second each, marked `sampled`, the default run has
every third case, and ``-m long`` the others.
"""

from __future__ import annotations

import atexit
import collections
import gc
import zlib
from collections.abc import Iterable, Sequence

import pytest

LARGE = 16
"""Cases of one test function from which on it is a large table."""
SHARE = 12
"""One case in so many of a large table belongs to the default run."""
SAMPLED = 3
"""One case in so many of a table that is marked `sampled` belongs to the default run."""
VARIANTS = 3
"""From so many numbers of samples on, one of them belongs to it for each named case."""


GARBAGE = (200_000, 10, 100)
"""After how many new objects, and how often, Python looks for garbage while tests run."""


def pytest_configure() -> None:
    """Let nothing look for garbage while tests are collected: none of it is."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look for garbage seldom, and never among what was collected: a tenth of the time.

    The end of the process does, once; the end of pytest, which looks twice, does not.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()
    atexit.register(gc.unfreeze)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of large tables that the default run leaves out.

    Which they are follows from their names alone, so that it is the same on every machine.
    """
    tables = collections.defaultdict(list)
    for item in items:
        tables[item.nodeid.partition("[")[0]].append(item)
    for cases in tables.values():
        names = [item.nodeid for item in cases]
        kept, left_out = names, pytest.mark.full
        if len(cases) >= LARGE:
            if not cases[0].get_closest_marker("quick"):
                kept = list(kept_by_default(names))
        elif cases[0].get_closest_marker("sampled"):
            kept, left_out = every_third(names), pytest.mark.long
        for item in cases:
            if item.nodeid not in kept:
                item.add_marker(left_out)


def kept_by_default(names: Sequence[str]) -> Iterable[str]:
    """Yield the names of the cases of one large table that belong to the default run.

    One in `SHARE`, and of what is tried with several numbers of samples at least one.
    """
    named = collections.defaultdict(list)
    for name in names:
        case, _, last = name.rpartition("-")
        named[case if last.rstrip("]").isdigit() else name].append(name)
    for variants in named.values():
        chosen = [name for name in variants if not _number(name) % SHARE]
        is_tried_often = len(variants) >= VARIANTS
        yield from chosen or sorted(variants, key=_number)[:is_tried_often]


def every_third(names: Sequence[str]) -> Sequence[str]:
    """Return one in `SAMPLED` of the names of a table, and at least one."""
    return sorted(names, key=_number)[: -(-len(names) // SAMPLED)]


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
