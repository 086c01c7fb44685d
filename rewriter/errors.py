"""Errors of reading and writing models."""

from __future__ import annotations

from passes.errors import RewriteError

__all__ = ["ModelError"]


class ModelError(RewriteError):
    """A model cannot be read, taken, checked or written."""
