"""The sessions that a comparison runs, opened when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx

from passes.errors import RewriteError
from passes.expand import ExpandSequenceMapPass
from passes.graph.graphs import all_graphs
from passes.maps.sequence_map import find_sequence_maps
from passes.tensors.io import TensorIo
from rewriter.backends import BackendError, Session, open_session
from rewriter.backends.list_sessions import ListSession
from rewriter.evaluator.run_watch import Lender, OverBudgetError, watching
from rewriter.model_files import models
from rewriter.proof.budget import Allowance

__all__ = [
    "Engine",
    "Outcome",
    "StoppedError",
    "Values",
    "holds_loops",
    "open_lists",
    "plain_expansion",
    "run_on_onnxruntime",
]

Values = dict[str, Any]


class StoppedError(BackendError):
    """A run took more than the verification may take."""


Outcome = Values | BackendError


class Engine:
    """A session that is opened when first needed; its failures are values.

    Attributes:
        ran: The maps and loops whose bodies ran in the last run, each by the name of its first
            output, where the session tells.
    """

    def __init__(
        self, open_: Callable[[], Session], allowance: Allowance, *, lender: Lender | None = None
    ) -> None:
        """Nothing is opened yet.

        Args:
            open_: Opens the session.
            allowance: What is left of the time and the memory.
            lender: What helps the evaluator where its values judge nothing.
        """
        self._open = open_
        self._allowance = allowance
        self._lender = lender
        self._session: Session | BackendError | None = None
        self.ran: frozenset[str] = frozenset()

    @property
    def refusal(self) -> str | None:
        """Why the model is refused; empty where it is taken, None if it was not asked."""
        if self._session is None:
            return None
        return str(self._session) if isinstance(self._session, BackendError) else ""

    def run(self, feeds: Values, *, is_gauged: bool = False) -> Outcome:
        """Run the model once, within the allowance.

        Args:
            feeds: The inputs.
            is_gauged: Whether another engine ran the model on them within the memory.
        """
        self.ran = frozenset()
        if self._allowance.is_over:
            return StoppedError("the time is over")
        session = self._opened()
        if isinstance(session, BackendError):
            return session
        if self._allowance.is_over:
            return StoppedError("loading the model took too long")
        budget = self._allowance.budget
        try:
            deadline, memory = self._allowance.deadline, budget.memory
            with watching(deadline, memory, is_gauged=is_gauged, lender=self._lender) as watch:
                outputs = session.run(feeds)
        except OverBudgetError as error:
            return StoppedError(str(error))
        except BackendError as error:
            return error
        self.ran = frozenset(watch.ran)
        return outputs

    def _opened(self) -> Session | BackendError:
        if self._session is None:
            try:
                with self._allowance.paused():
                    self._session = self._open()
            except BackendError as error:
                self._session = error
            except RewriteError as error:
                self._session = BackendError(str(error), is_limit=True)
        return self._session


def open_lists(model: Any, backend: str) -> Session:
    """Open a session that gives sequences as lists, whichever way the model passes them."""
    io = TensorIo.read(models.take(model).model)
    session = open_session(model, backend, briefly=True)
    return ListSession(session, io) if io.outputs else session


def run_on_onnxruntime(model: onnx.ModelProto, feeds: Values) -> Values:
    """Run a model of one node once.

    Raises:
        BackendError: onnxruntime refuses it or fails.
    """
    return open_session(model, "onnxruntime").run(feeds)


def plain_expansion(model: Any) -> Any:
    """Return the model with each SequenceMap in the form that the specification gives it."""
    taken = models.take(model)
    if not find_sequence_maps(taken.model):
        return model
    ExpandSequenceMapPass(form="plain")(taken.model)
    return taken.model


def holds_loops(model: Any) -> bool:
    """Return whether a model holds a Loop or a Scan, at any depth."""
    graphs = all_graphs(models.take(model).model)
    return any(node.op_type in ("Loop", "Scan") for graph in graphs for node in graph)
