"""One feed, two models: do they compute the same?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.graphs import all_graphs
from passes.tensors.io import TensorIo
from rewriter import models
from rewriter.backends import BACKENDS, BackendError, Session, open_session
from rewriter.compare import Difference, compare
from rewriter.feeds import Feed
from rewriter.tensor_io import ListSession

__all__ = ["ALONE", "ENGINES_DIFFER", "Case", "Judge", "Verdict"]

ALONE = "it alone judged: "
ENGINES_DIFFER = "the engines differ, before and after alike: "
"""How the messages of such cases begin."""

Verdict = Literal["equal", "differs", "before fails", "defined only after"]
Values = dict[str, Any]
_Outcome = Values | BackendError


@dataclasses.dataclass(frozen=True)
class Case:
    """What one feed showed.

    Attributes:
        description: What the feed is like.
        verdict: ``equal`` proves something; ``before fails`` and ``defined only after`` prove
            nothing; ``differs`` says that the rewrite is wrong on this feed.
        engine: What judged it.
        message: Why, in one sentence; empty when there is nothing to say.
        max_abs_error: Largest absolute difference of two numbers.
        max_rel_error: Largest relative difference of two numbers.
        is_random: Two runs of ``before`` differ, so that values cannot be compared at all.
        feed: The values, input by input.
    """

    description: str
    verdict: Verdict
    engine: str
    message: str = ""
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    is_random: bool = False
    feed: Values = dataclasses.field(default_factory=dict, repr=False, compare=False)


class Judge:
    """Compares two models, feed by feed.

    The reference evaluator says what is right. Where it cannot run an operator of ``before``,
    onnxruntime does, on the plain expansion of ``before``. ``after`` has to agree on every engine
    that can run it. An engine that strays from the others on ``before`` too is compared with
    itself, and one that refuses ``before`` too is not asked about ``after``.

    Attributes:
        has_runtime: Whether onnxruntime is installed.
        trusts_reference: Whether the reference evaluator judges at all.
    """

    def __init__(
        self,
        before: Any,
        after: Any,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        self._rtol = rtol
        self._atol = atol
        self._reference_before = _Engine(lambda: _open(before, "reference"))
        self._reference_after = _Engine(lambda: _open(after, "reference"))
        self._runtime_before = _Engine(lambda: _open(_plain_expansion(before), "onnxruntime"))
        self._runtime_after = _Engine(lambda: _open(after, "onnxruntime"))
        self.has_runtime = BACKENDS["onnxruntime"].is_available
        self.trusts_reference = True
        graphs = all_graphs(models.take(before).model)
        self._holds_loops = any(n.op_type in ("Loop", "Scan") for graph in graphs for n in graph)
        self._last: tuple[Feed, _Outcome, str] | None = None

    @property
    def runtime_refusal(self) -> str | None:
        """Why onnxruntime refuses ``after``; empty where it takes it, None if it was not asked."""
        return self._runtime_after.refusal

    def is_defined(self, feed: Feed) -> bool:
        """Return whether ``before`` runs on a feed."""
        return not isinstance(self._expected(feed)[0], BackendError)

    def case(self, feed: Feed) -> Case:
        """Run both models on a feed and compare."""
        expected, engine = self._expected(feed)
        if isinstance(expected, BackendError):
            return self._undefined(feed, expected, engine)
        if engine == "reference":
            finding = self._against_reference(feed, expected)
        else:
            difference = self._difference(expected, self._runtime_after.run(feed.values))
            finding = _Finding(difference, engine)
        difference = finding.difference
        verdict: Verdict = "equal" if difference.equal else "differs"
        message = difference.message or finding.note
        if verdict == "differs" and not self._repeats(feed, expected, engine):
            message = "two runs of the model before differ: it draws random numbers"
            return Case(
                feed.description,
                "before fails",
                engine,
                message,
                is_random=True,
                feed=feed.values,
            )
        return Case(
            feed.description,
            verdict,
            finding.engine,
            message,
            difference.max_abs_error,
            difference.max_rel_error,
            feed=feed.values,
        )

    def _expected(self, feed: Feed) -> tuple[_Outcome, str]:
        if self._last is None or self._last[0] is not feed:
            self._last = (feed, *self._run_before(feed))
        return self._last[1:]

    def _run_before(self, feed: Feed) -> tuple[_Outcome, str]:
        outcome: _Outcome = BackendError("", is_limit=True)
        if self.trusts_reference:
            outcome = self._reference_before.run(feed.values)
        if isinstance(outcome, BackendError) and outcome.is_limit and self.has_runtime:
            return self._runtime_before.run(feed.values), "onnxruntime on the plain expansion"
        return outcome, "reference"

    def _undefined(self, feed: Feed, error: BackendError, engine: str) -> Case:
        if self.has_runtime:
            outcome = self._runtime_after.run(feed.values)
        else:
            outcome = self._reference_after.run(feed.values)
        fails = isinstance(outcome, BackendError)
        verdict: Verdict = "before fails" if fails else "defined only after"
        return Case(feed.description, verdict, engine, str(error), feed=feed.values)

    def _against_reference(self, feed: Feed, expected: Values) -> _Finding:
        """Compare ``after`` on both engines with what the reference says of ``before``."""
        on_reference = self._reference_after.run(feed.values)
        difference = self._difference(expected, on_reference)
        knows = not (isinstance(on_reference, BackendError) and on_reference.is_limit)
        if not self.has_runtime or (knows and not difference.equal):
            return _Finding(_named(difference, "reference"), "reference")
        actual = self._runtime_after.run(feed.values)
        other = self._difference(expected, actual)
        if not knows:
            return _Finding(_named(other, "onnxruntime"), "onnxruntime")
        if other.equal:
            return _Finding(_worse(difference, other), "reference and onnxruntime")
        own = self._runtime_before.run(feed.values)
        if isinstance(own, BackendError) and isinstance(actual, BackendError):
            return _Finding(difference, "reference", f"{ALONE}{actual}")
        if not isinstance(own, BackendError) and self._difference(own, actual).equal:
            # Both models compute the same here, and so they do there: the engines differ.
            note = f"{ENGINES_DIFFER}{other.message}"
            return _Finding(difference, "reference and onnxruntime", note)
        return _Finding(_named(other, "onnxruntime"), "reference and onnxruntime")

    def _difference(self, expected: Values, actual: _Outcome) -> Difference:
        if isinstance(actual, BackendError):
            return Difference(f"the model after fails: {actual}")
        if self._holds_loops:
            actual = {k: _without_rows(expected.get(k), v) for k, v in actual.items()}
        return compare(expected, actual, self._rtol, self._atol)

    def _repeats(self, feed: Feed, expected: Values, engine: str) -> bool:
        runner = self._reference_before if engine == "reference" else self._runtime_before
        again = runner.run(feed.values)
        return not isinstance(again, BackendError) and compare(expected, again).equal


@dataclasses.dataclass(frozen=True)
class _Finding:
    """What engines say of one feed, and what is worth telling although nothing is wrong."""

    difference: Difference
    engine: str
    note: str = ""


def _without_rows(expected: Any, actual: Any) -> Any:
    """Return what is expected if neither has a row and ``actual`` only tells more of its shape.

    A Loop that never runs yields no rows, with 0 for each further dimension that nothing tells.
    """
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [_without_rows(e, a) for e, a in zip(expected, actual, strict=True)]
    if not (isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray)):
        return actual
    if expected.dtype != actual.dtype or expected.ndim != actual.ndim or expected.ndim < 2:
        return actual
    if expected.shape[0] or actual.shape[0]:
        return actual
    pairs = zip(expected.shape, actual.shape, strict=True)
    return expected if all(e in (0, a) for e, a in pairs) else actual


class _Engine:
    """A session that is opened when first needed; its failures are values."""

    def __init__(self, open_: Callable[[], Session]) -> None:
        self._open = open_
        self._session: Session | BackendError | None = None

    @property
    def refusal(self) -> str | None:
        if self._session is None:
            return None
        return str(self._session) if isinstance(self._session, BackendError) else ""

    def run(self, feeds: Values) -> _Outcome:
        if self._session is None:
            try:
                self._session = self._open()
            except BackendError as error:
                self._session = error
            except RewriteError as error:
                self._session = BackendError(str(error), is_limit=True)
        if isinstance(self._session, BackendError):
            return self._session
        try:
            return self._session.run(feeds)
        except BackendError as error:
            return error


def _open(model: Any, backend: str) -> Session:
    """Open a session that gives sequences as lists, whichever way the model passes them."""
    io = TensorIo.read(models.take(model).model)
    session = open_session(model, backend)
    return ListSession(session, io) if io.outputs else session


def _plain_expansion(model: Any) -> Any:
    """Return the model with each SequenceMap in the form that the specification gives it."""
    from passes.expand import ExpandSequenceMapPass

    taken = models.take(model)
    if not any(node.op_type == "SequenceMap" for node in _all_nodes(taken.model)):
        return model
    ExpandSequenceMapPass(form="plain")(taken.model)
    return taken.model


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()


def _named(difference: Difference, engine: str) -> Difference:
    if difference.equal:
        return difference
    return dataclasses.replace(difference, message=f"on {engine}, {difference.message}")


def _worse(one: Difference, other: Difference) -> Difference:
    return Difference(
        one.message or other.message,
        max(one.max_abs_error, other.max_abs_error),
        max(one.max_rel_error, other.max_rel_error),
    )
