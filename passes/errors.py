"""The root of every error that a user of seqmap can meet."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["ContradictionError", "RewriteError", "RuleError"]


class RewriteError(Exception):
    """A model, an option or a feed cannot be used as asked.

    The message is one sentence for the user: which node or file (a node by its path through
    subgraphs), why, and what to do about it.

    Attributes:
        exit_status: The status of a command that ends with it.
    """

    exit_status: ClassVar[int] = 1

    def on_command_line(self) -> str:
        """Return the message with options in place of Python's keyword arguments."""
        return str(self)


class ContradictionError(RewriteError):
    """The types that a model declares contradict each other."""


class RuleError(RewriteError):
    """A batching rule that was registered from outside fails on a node."""
