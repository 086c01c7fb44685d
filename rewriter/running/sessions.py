"""A model that is opened once and run many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from rewriter import backends
from rewriter.backends import BackendError
from rewriter.feeding.feed_checks import as_feeds, check_feeds
from rewriter.model_files import models, weights
from rewriter.model_files.kinds import AnyModel

__all__ = ["ModelSession", "session"]


class ModelSession:
    """A model on a backend; a context manager that lets go of it at the end.

    Attributes:
        backend: The name of the backend.
        device: Its device.
    """

    def __init__(self, model: Any, backend: str, device: str) -> None:
        """Open the model, see `session`."""
        self.backend, self.device = backend, device
        self._model = models.take(model).model
        weights.require(self._model)
        self._session: backends.Session | None = backends.open_session(model, backend, device)
        self._bound: dict[str, Any] = {}

    def run(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the model once.

        Args:
            inputs: Input name to array, list of arrays (a sequence) or None (an absent optional).
                Those that are bound may be left out.

        Returns:
            Output name to array, list of arrays or None.

        Raises:
            RewriteError: The inputs do not fit the model, or break a promise that it carries.
            BackendError: The model fails on these inputs, or the session is closed.
        """
        if self._session is None:
            raise BackendError("the session is closed; open another one")
        feeds = {**self._bound, **as_feeds(inputs or {})}
        check_feeds(self._model, feeds)
        return self._session.run(feeds)

    def bind(self, **inputs: Any) -> Self:
        """Keep values for some inputs, for all runs that follow; None takes one back.

        Args:
            inputs: Input name to value.

        Returns:
            The session.
        """
        feeds = {**self._bound, **inputs}
        self._bound = as_feeds({name: value for name, value in feeds.items() if value is not None})
        return self

    def close(self) -> None:
        """Let go of the model."""
        self._session = None

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()


def session(model: AnyModel, *, backend: str = "onnxruntime", device: str = "cpu") -> ModelSession:
    """Open a model once, to run it many times.

    Args:
        model: A model of any kind.
        backend: The name of a backend.
        device: One of its devices. On a GPU inputs and outputs are bound to the device where all
            of them are tensors of numbers.

    Raises:
        BackendError: The backend is unknown or not installed, refuses the model, or would run it
            elsewhere than asked.
    """
    return ModelSession(model, backend, device)
