"""What every backend gives: a session that runs one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from passes.errors import RewriteError

__all__ = ["BackendError", "PlacementError", "Session", "as_arrays", "has_nothing", "one_line"]


class BackendError(RewriteError):
    """A backend cannot load a model, or fails while running it.

    Attributes:
        is_limit: The backend lacks something that the model needs; the inputs are not to blame.
    """

    def __init__(self, message: str, is_limit: bool = False) -> None:
        super().__init__(message)
        self.is_limit = is_limit


class PlacementError(BackendError):
    """A backend takes a model, but all of it would run elsewhere than asked."""


class Session(Protocol):
    """A model that is ready to run."""

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once.

        Args:
            feeds: Input name to array, list of arrays (a sequence) or None (an absent optional).

        Returns:
            Output name to array, list of arrays or None, in the order of the model's outputs.

        Raises:
            BackendError: The model fails on these inputs.
        """
        ...


def as_arrays(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the feeds with arrays for what numpy can make arrays of, such as its scalars."""

    def made(value: Any) -> Any:
        return None if value is None else np.asarray(value)

    return {
        name: [made(item) for item in value] if isinstance(value, list) else made(value)
        for name, value in feeds.items()
    }


def has_nothing(feeds: Mapping[str, Any]) -> bool:
    """Return whether a sequence without elements or an array without numbers is fed."""
    items: list[Any] = []
    for value in feeds.values():
        if isinstance(value, list):
            if not value:
                return True
            items.extend(value)
        elif value is not None:
            items.append(value)
    return any(np.asarray(item).size == 0 for item in items)


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return an error's message on one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else f"{text[:limit]}..."
