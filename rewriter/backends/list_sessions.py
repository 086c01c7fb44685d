"""Sessions that take and give lists where the model itself takes and gives tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from passes.errors import RewriteError
from passes.tensors.io import TensorIo
from rewriter.backends.session import Session
from rewriter.errors import BackendError
from rewriter.feeding.tensor_io import as_tensors, outputs_as_lists

__all__ = ["ListSession", "TensorSession"]


class TensorSession:
    """A session that takes a list for an input that the model takes as a tensor.

    Attributes:
        session: Runs the model.
    """

    def __init__(self, session: Session, io: TensorIo, dtypes: Mapping[str, Any]) -> None:
        """Wrap a session.

        Args:
            session: Runs the model.
            io: Which inputs are sequences to the user.
            dtypes: The element type of each input, for a list without elements.
        """
        self.session = session
        self._io = io
        self._dtypes = dtypes

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        return self.session.run(self.tensors(feeds))

    def tensors(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the feeds that the model itself takes.

        Raises:
            BackendError: A list does not fit into one tensor.
        """
        given = dict(feeds)
        for name, passed in self._io.inputs.items():
            value = given.get(name)
            if not isinstance(value, list):
                continue
            try:
                given |= as_tensors(name, passed, value, self._dtypes[name])
            except RewriteError as error:
                raise BackendError(str(error)) from error
        return given


class ListSession:
    """A session that gives a list for an output that the model gives as a tensor."""

    def __init__(self, session: Session, io: TensorIo) -> None:
        self._session = session
        self._io = io

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        return outputs_as_lists(self._io, self._session.run(feeds))
