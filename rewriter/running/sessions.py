"""A model that is opened once and run many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, overload

from passes.errors import RewriteError
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

    @overload
    def run(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]: ...

    @overload
    def run(self, names: Sequence[str] | None, inputs: Mapping[str, Any], /) -> list[Any]: ...

    def run(self, *given: Any, inputs: Any = None) -> Any:
        """Run the model once.

        ``run(names, inputs)`` is the call of onnxruntime's ``InferenceSession``: it returns the
        outputs that are named as a list, or all of them where ``names`` is None.

        Args:
            given: The inputs, or the names of outputs and the inputs.
            inputs: Input name to array, list of arrays (a sequence) or None (an absent optional).
                Those that are bound may be left out.

        Returns:
            Output name to array, list of arrays or None.

        Raises:
            RewriteError: The inputs do not fit the model, or break a promise that it carries, or
                there is no such output.
            BackendError: The model fails on these inputs, or the session is closed.
        """
        match given:
            case ():
                return self._outputs(inputs)
            case (feeds,):
                return self._outputs(feeds)
            case (None, feeds):
                return list(self._outputs(feeds).values())
            case (names, feeds):
                return _picked(self._outputs(feeds), names)
        raise RewriteError("run takes the inputs, or the names of outputs and the inputs")

    def _outputs(self, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
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


def _picked(outputs: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    if unknown := [name for name in names if name not in outputs]:
        raise RewriteError(
            f"the model has no output {unknown[0]!r}; its outputs are {', '.join(outputs)}"
        )
    return [outputs[name] for name in names]


def session(model: AnyModel, backend: str = "onnxruntime", device: str = "cpu") -> ModelSession:
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
