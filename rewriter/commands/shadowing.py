"""Other packages called ``passes`` or ``rewriter`` that hide those of seqmap, or are hidden."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["find_shadows", "warn_of_shadows"]

_NAMES = ("passes", "rewriter")


def find_shadows() -> list[str]:
    """Return a sentence for each package of another project with a name of ours."""
    found = []
    for name in _NAMES:
        for folder in dict.fromkeys(Path(entry or ".").resolve() for entry in sys.path):
            place = folder / name
            if (folder / "seqmap.py").is_file():
                continue  # another copy of seqmap
            is_there = (place / "__init__.py").is_file() or place.with_suffix(".py").is_file()
            if is_there:
                found.append(
                    f"{place} has the name of a package of seqmap, and one of the two hides the "
                    "other: rename it, or use another environment"
                )
                break
    return found


def warn_of_shadows() -> None:
    """Warn of packages that have a name of ours."""
    for sentence in find_shadows():
        warnings.warn(sentence, stacklevel=3)
