"""Errors and warnings of reading and writing models."""

from __future__ import annotations

from passes.errors import RewriteError

__all__ = ["ModelError", "ModelWarning"]


class ModelError(RewriteError):
    """A model cannot be read, taken, checked or written."""


class ModelWarning(UserWarning):
    """A model is usable here, but other tools will refuse it."""
