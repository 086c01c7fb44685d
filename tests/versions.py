"""Which versions of other packages are installed, for what is pinned of them."""

from __future__ import annotations

import importlib.metadata
import re

__all__ = ["is_at_least", "numbers"]


def is_at_least(package: str, version: str) -> bool:
    """Whether a version of a package or a newer one is installed."""
    return numbers(importlib.metadata.version(package)) >= numbers(version)


def numbers(version: str) -> list[int]:
    """Return what a version is compared by."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
