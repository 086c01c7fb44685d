"""One feed, two models: do they compute the same?"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from rewriter.backends import BACKENDS, BackendError, Session, open_session
from rewriter.feeding.feeds import Feed
from rewriter.model_files import models
from rewriter.proof.again import Again
from rewriter.proof.budget import Allowance, Budget
from rewriter.proof.case_record import ALONE, ENGINES_DIFFER, UNJUDGED, Case, Verdict
from rewriter.proof.compare import Difference, as_known, compare
from rewriter.proof.count_iterations import ITERATIONS, may_iterate, with_iterations
from rewriter.proof.engines import (
    Engine,
    Outcome,
    StoppedError,
    Values,
    holds_loops,
    open_lists,
    plain_expansion,
    run_on_onnxruntime,
)
from rewriter.proof.finding import Expected, Finding, named, stopped, worse
from rewriter.proof.rounding import may_round_alike, rounds_alike
from rewriter.proof.unjudged import find_unjudged

__all__ = ["Judge"]

_BOTH = "reference and onnxruntime"


class Judge:
    """Compares two models, feed by feed.

    The reference evaluator says what is right. Where it cannot run an operator of ``before``, or
    is known to differ from onnxruntime there, or took all the time of a feed before, onnxruntime
    does, on the plain expansion of ``before``; where the evaluator fails, onnxruntime may still
    find both models equal. ``after`` has to agree on every engine that can run it. An engine that
    strays from the others on ``before`` too is compared with itself, and one that refuses
    ``before`` too is not asked about ``after``.

    Attributes:
        has_runtime: Whether onnxruntime is installed.
        trusts_reference: Whether the reference evaluator judges at all.
        allowance: What is left of the time and the memory.
    """

    def __init__(
        self,
        before: Any,
        after: Any,
        rtol: float | None = None,
        atol: float | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self._rtol = rtol
        self._atol = atol
        self.allowance = allowance or Allowance(Budget())

        self.has_runtime = BACKENDS["onnxruntime"].is_available
        self.trusts_reference = True
        self._unjudged = find_unjudged(models.take(before).model) if self.has_runtime else ""

        def engine(open_: Callable[[], Session]) -> Engine:
            return Engine(open_, self.allowance)

        self._reference_before = Engine(
            lambda: open_lists(before, "reference"),
            self.allowance,
            lender=run_on_onnxruntime if self._unjudged else None,
        )
        self._reference_after = engine(lambda: open_lists(after, "reference"))
        self._runtime_before = engine(lambda: open_lists(plain_expansion(before), "onnxruntime"))
        self._runtime_after = engine(lambda: open_lists(after, "onnxruntime"))
        self._counting_before = engine(
            lambda: open_session(
                with_iterations(plain_expansion(before)), "onnxruntime", briefly=True
            )
        )
        self._holds_loops = holds_loops(before)
        self._iterates = may_iterate(before)
        self._last: tuple[Feed, Expected] | None = None

    @property
    def runtime_refusal(self) -> str | None:
        """Why onnxruntime refuses ``after``; empty where it takes it, None if it was not asked."""
        return self._runtime_after.refusal

    def is_defined(self, feed: Feed) -> bool:
        """Return whether ``before`` runs on a feed."""
        return not isinstance(self._expected(feed).outcome, BackendError)

    def is_stopped(self, feed: Feed) -> bool:
        """Return whether ``before`` takes more on a feed than it may."""
        return isinstance(self._expected(feed).outcome, StoppedError)

    def case(self, feed: Feed) -> Case:
        """Run both models on a feed and compare."""
        expected = self._expected(feed)
        if isinstance(expected.outcome, BackendError):
            return self._undefined(feed, expected.outcome, expected.engine)
        finding = self._finding(feed, expected.outcome, expected.engine)
        case = Case(
            feed.description,
            finding.verdict,
            finding.engine,
            finding.difference.message or finding.note,
            finding.difference.max_abs_error,
            finding.difference.max_rel_error,
            ran_body=expected.ran_body,
            ran=expected.ran,
            feed=feed.values,
        )
        if case.verdict != "differs" or self._repeats(feed, expected.outcome, expected.engine):
            return case
        return dataclasses.replace(
            case,
            verdict="before fails",
            engine=expected.engine,
            message="two runs of the model before differ: it draws random numbers",
            max_abs_error=0.0,
            max_rel_error=0.0,
            is_random=True,
        )

    def _finding(self, feed: Feed, expected: Values, engine: str) -> Finding:
        if engine == "reference":
            return self._against_reference(feed, expected)
        actual = self._runtime_after.run(feed.values)
        if isinstance(actual, StoppedError):
            return stopped(actual, engine)
        note = f"{UNJUDGED}{self._unjudged}" if self._unjudged else ""
        evaluated = functools.partial(self._reference_before.run, feed.values)
        again = Again(self._runtime_before, feed.values, evaluated)
        return Finding(self._beyond_rounding(expected, again, actual), engine, note)

    def _expected(self, feed: Feed) -> Expected:
        if self._last is None or self._last[0] is not feed:
            self._last = (feed, self._run_before(feed))
        return self._last[1]

    def _run_before(self, feed: Feed) -> Expected:
        outcome: Outcome = BackendError("", is_limit=True)
        if self.trusts_reference:
            outcome = self._reference_before.run(feed.values)
        ran = self._reference_before.ran
        ran_body = not self._iterates or bool(ran)
        is_limit = isinstance(outcome, BackendError) and outcome.is_limit
        if isinstance(outcome, StoppedError):
            # It is slow; onnxruntime may compare what is left in the time that is left.
            self.trusts_reference &= not (self.has_runtime and self.allowance.is_over)
        if not self.has_runtime or not (is_limit or self._unjudged):
            return Expected(outcome, "reference", ran_body, ran)
        if isinstance(outcome, StoppedError):
            return Expected(outcome, "reference", ran_body, ran)
        own = self._runtime_before.run(feed.values, is_gauged=not is_limit)
        if is_limit and self._iterates and not isinstance(own, BackendError):
            ran_body = self._ran_body_at_runtime(feed)
        if is_limit or not (isinstance(own, BackendError) and own.is_limit):
            return Expected(own, "onnxruntime on the plain expansion", ran_body, ran)
        return Expected(outcome, "reference", ran_body, ran)

    def _ran_body_at_runtime(self, feed: Feed) -> bool:
        outputs = self._counting_before.run(feed.values)
        return not isinstance(outputs, BackendError) and bool(outputs[ITERATIONS] > 0)

    def _undefined(self, feed: Feed, error: BackendError, engine: str) -> Case:
        if isinstance(error, StoppedError):
            return Case(feed.description, "skipped", engine, str(error), feed=feed.values)
        runner = self._runtime_after if self.has_runtime else self._reference_after
        outcome = runner.run(feed.values)
        if isinstance(outcome, StoppedError):
            return Case(feed.description, "skipped", engine, str(outcome), feed=feed.values)
        if engine == "reference" and self._equal_at_runtime(feed, outcome):
            ran_body = not self._iterates or self._ran_body_at_runtime(feed)
            note = f"{UNJUDGED}{error}"
            return Case(
                feed.description, "equal", "onnxruntime", note, ran_body=ran_body, feed=feed.values
            )
        fails = isinstance(outcome, BackendError)
        verdict: Verdict = "before fails" if fails else "defined only after"
        return Case(feed.description, verdict, engine, str(error), feed=feed.values)

    def _equal_at_runtime(self, feed: Feed, actual: Outcome) -> bool:
        """Return whether onnxruntime runs both models, where the evaluator stumbles, alike."""
        if not self.has_runtime or isinstance(actual, BackendError):
            return False
        own = self._runtime_before.run(feed.values)
        return not isinstance(own, BackendError) and self._difference(own, actual).equal

    def _against_reference(self, feed: Feed, expected: Values) -> Finding:
        """Compare ``after`` on both engines with what the reference says of ``before``."""
        on_reference = self._reference_after.run(feed.values)
        if isinstance(on_reference, StoppedError):
            return stopped(on_reference, "reference")
        own = functools.cache(lambda: self._runtime_before.run(feed.values, is_gauged=True))
        again = Again(self._reference_before, feed.values, own)
        difference = self._beyond_rounding(expected, again, on_reference)
        knows = not (isinstance(on_reference, BackendError) and on_reference.is_limit)
        if not self.has_runtime or (knows and not difference.equal):
            return Finding(named(difference, "reference"), "reference")
        actual = self._runtime_after.run(feed.values, is_gauged=knows)
        if isinstance(actual, StoppedError):
            if knows:
                note = f"{ALONE}onnxruntime did not run: {actual}"
                return Finding(difference, "reference", note)
            return stopped(actual, "onnxruntime")
        other = self._difference(expected, actual)
        if not knows:
            return Finding(named(other, "onnxruntime"), "onnxruntime")
        if other.equal:
            return Finding(worse(difference, other), _BOTH)
        outcome = own()
        if isinstance(outcome, StoppedError):
            return stopped(outcome, "onnxruntime")
        if isinstance(outcome, BackendError) and isinstance(actual, BackendError):
            return Finding(difference, "reference", f"{ALONE}{actual}")
        if not isinstance(outcome, BackendError) and self._difference(outcome, actual).equal:
            # Both models compute the same here, and so they do there: the engines differ.
            note = f"{ENGINES_DIFFER}{other.message}"
            return Finding(difference, _BOTH, note)
        other = self._beyond_rounding(expected, again, actual)
        return Finding(worse(difference, named(other, "onnxruntime")), _BOTH)

    def _beyond_rounding(self, expected: Values, again: Again, actual: Outcome) -> Difference:
        """Compare, and say nothing of what is no more than the rounding of a long sum.

        Args:
            expected: The outputs of ``before`` on one engine.
            again: Gives other outputs of ``before`` that differ from those by rounding alone.
            actual: The outputs of ``after``.
        """
        difference = self._difference(expected, actual)
        if difference.equal or isinstance(actual, BackendError):
            return difference
        tolerances = (self._rtol, self._atol)
        if not may_round_alike(expected, actual, *tolerances):
            return difference
        for elsewhere in again.outcomes(self.has_runtime):
            if rounds_alike(expected, elsewhere, actual, *tolerances):
                return dataclasses.replace(difference, message="")
        return difference

    def _difference(self, expected: Values, actual: Outcome) -> Difference:
        if isinstance(actual, BackendError):
            return Difference(f"the model after fails: {actual}")
        if self._holds_loops:
            actual = {k: as_known(expected.get(k), v) for k, v in actual.items()}
        return compare(expected, actual, self._rtol, self._atol)

    def _repeats(self, feed: Feed, expected: Values, engine: str) -> bool:
        runner = self._reference_before if engine == "reference" else self._runtime_before
        again = runner.run(feed.values)
        if isinstance(again, StoppedError):
            return True  # no time to ask: a difference is never taken for chance unseen
        return not isinstance(again, BackendError) and compare(expected, again).equal
