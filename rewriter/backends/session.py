"""The interface of a session, which every backend returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rewriter.backends.profiling import Placement
from rewriter.errors import BackendError

__all__ = [
    "AsGivenSession",
    "BackendError",
    "PlacementError",
    "PlacingSession",
    "Session",
    "as_arrays",
    "has_nothing",
    "one_line",
]


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


@runtime_checkable
class PlacingSession(Protocol):
    """A session that can tell where nodes ran."""

    def placement(self, feeds: Mapping[str, Any]) -> Placement:
        """Run the model once more; see `rewriter.backends.placement`."""
        ...


@runtime_checkable
class AsGivenSession(Protocol):
    """A session that can run the model as its runtime takes it."""

    def run_as_given(self, feeds: Mapping[str, Any], *, with_shapes: bool) -> dict[str, Any]:
        """Run the model once; see `rewriter.backends.run_as_given`."""
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
