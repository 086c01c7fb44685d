"""Errors and warnings of reading, writing and running models, and what a wrong word meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from passes.errors import RewriteError

__all__ = [
    "BackendError",
    "FaultWarning",
    "InvalidResultError",
    "ModelError",
    "ModelWarning",
    "suggestion",
]


class ModelError(RewriteError):
    """A model cannot be read, taken, checked or written."""


class ModelWarning(UserWarning):
    """A model is usable here, but other tools will refuse it."""


class InvalidResultError(RewriteError):
    """The rewritten model is not valid, though the model as given is: a defect of seqmap."""


class FaultWarning(UserWarning):
    """A pass failed on a map, which has a safer form instead: a defect of seqmap, or of a rule."""


class BackendError(RewriteError):
    """A backend cannot load a model, or fails while running it.

    Attributes:
        is_limit: The backend lacks something that the model needs; the inputs are not to blame.
    """

    def __init__(self, message: str, is_limit: bool = False) -> None:
        super().__init__(message)
        self.is_limit = is_limit


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` for the nearest known word, empty where none is near."""
    by_folded = {one.casefold(): one for one in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.7)
    return f"; did you mean {by_folded[close[0]]!r}?" if close else ""
