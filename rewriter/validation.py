"""Does a rewritten model compute what the model before it computed?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from passes.errors import RewriteError
from passes.promises import Promises
from passes.tensors.io import TensorIo
from rewriter import models, weights
from rewriter.feed_checks import as_feeds
from rewriter.feeds import Feed, FeedMaker, check_feeds, read_feeds
from rewriter.input_specs import InputSpec, input_specs
from rewriter.judging import Case, Judge
from rewriter.mismatch import write_mismatch
from rewriter.size_tests import lengths_beyond
from rewriter.verification_words import told_judges, told_rest

__all__ = ["Case", "Check", "find_broken_pass", "validate", "write_mismatch"]

Inputs = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of a comparison.

    Attributes:
        cases: One record for each feed.
        broken_pass: The first pass whose result differs, where the passes were given.
        runtime_refusal: Why onnxruntime refuses the model after; empty where it takes it, None
            where it was not asked.
    """

    cases: tuple[Case, ...]
    broken_pass: str | None = None
    runtime_refusal: str | None = None

    @property
    def verified(self) -> int:
        """How many feeds proved something; none where the model draws random numbers."""
        if any(case.is_random for case in self.cases):
            return 0
        return sum(case.verdict == "equal" for case in self.cases)

    @property
    def mismatch(self) -> Case | None:
        """The first feed on which the models differ."""
        return next((case for case in self.cases if case.verdict == "differs"), None)

    @property
    def ok(self) -> bool:
        """Whether at least one feed proved something and none showed a difference."""
        return self.verified > 0 and self.mismatch is None

    @property
    def max_abs_error(self) -> float:
        """Largest absolute difference of two numbers over all feeds."""
        return max((case.max_abs_error for case in self.cases), default=0.0)

    @property
    def max_rel_error(self) -> float:
        """Largest relative difference of two numbers over all feeds."""
        return max((case.max_rel_error for case in self.cases), default=0.0)

    @property
    def summary(self) -> str:
        """The result in one sentence, with the remedy where there is one."""
        if self.mismatch is not None:
            broken = f", since the pass {self.broken_pass}" if self.broken_pass else ""
            return f"differs on {self.mismatch.description}{broken}: {self.mismatch.message}"
        if self.verified:
            return (
                f"verified on {self.verified} of {len(self.cases)} feeds {told_judges(self.cases)}"
                f", largest difference from the model before {self.max_abs_error:.1e}"
                f"{told_rest(self.cases)}"
            )
        reason = next((case.message for case in self.cases if case.message), "no feed was tried")
        return (
            f"not verified: none of {len(self.cases)} feeds proves anything ({reason})"
            f"{told_rest(self.cases)}; give inputs it accepts with --inputs, or skip this with "
            "--no-verify"
        )


def validate(
    before: Any,
    after: Any,
    inputs: Inputs | None = None,
    cases: int = 8,
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
    passes: Iterable[tuple[str, Any]] | None = None,
) -> Check:
    """Compare two models on feeds that keep the promises they carry.

    Args:
        before: The model that is right (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
        after: The model to check.
        inputs: One feed (input name to array, list of arrays or None), a list of feeds, or an npz
            file; None makes feeds from the types of ``before``.
        cases: How many feeds are made.
        seed: The same seed makes the same feeds.
        atol: Absolute tolerance in place of the table in :mod:`rewriter.compare`.
        rtol: Relative tolerance, likewise.
        passes: Name of each pass and the model after it, to name the one that broke the model;
            asked for only when it is broken.

    Returns:
        What each feed showed. A feed on which ``before`` fails proves nothing.

    Raises:
        RewriteError: A model cannot be read, the models take different inputs, or given inputs
            do not fit them or break a promise.
    """
    for model in (before, after):
        weights.require(models.take(model).model)
    _check_same_inputs(before, after)
    promises = _promises(before, after)
    judge = Judge(before, after, rtol, atol)
    if inputs is not None:
        feeds = _given(inputs, before, after, promises)
        found = _trusting(judge, lambda: map(judge.case, feeds))
    else:
        maker = FeedMaker(before, seed, promises, lengths_beyond(after))
        found = _trusting(judge, lambda: _made(judge, maker, cases))
    check = Check(tuple(found), runtime_refusal=judge.runtime_refusal)
    if check.mismatch is None or passes is None:
        return check
    feed = Feed(check.mismatch.description, check.mismatch.feed)
    broken = find_broken_pass(before, passes, feed, rtol=rtol, atol=atol)
    return dataclasses.replace(check, broken_pass=broken)


def find_broken_pass(
    before: Any,
    steps: Iterable[tuple[str, Any]],
    feed: Feed | Mapping[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
) -> str | None:
    """Return the first pass whose result differs from the model before all of them.

    Args:
        before: The model that is right.
        steps: Name of each pass and the model after it, in order.
        feed: The inputs that show the difference.
        rtol: Relative tolerance in place of the table's.
        atol: Absolute tolerance, likewise.

    Returns:
        The name, or None where every step is right.
    """
    feed = feed if isinstance(feed, Feed) else Feed("given", dict(feed))
    for name, model in steps:
        if Judge(before, model, rtol, atol).case(feed).verdict == "differs":
            return name
    return None


def _check_same_inputs(before: Any, after: Any) -> None:
    """Refuse two models of which one takes what the other does not."""
    one, other = _specs(before), _specs(after)
    for name in [*one, *other]:
        sides = (one.get(name), other.get(name))
        types = [spec and _type(spec) for spec in sides]
        if types[0] == types[1] or not any(spec and _is_fed(spec) for spec in sides):
            continue
        first, second = (
            f"takes {type_} {name!r}" if type_ else f"has no input {name!r}" for type_ in types
        )
        raise RewriteError(
            f"the models take different inputs: the first {first}, the second {second}; compare "
            "models with the same inputs"
        )


def _specs(model: Any) -> dict[str, InputSpec]:
    return {spec.name: spec for spec in input_specs(models.take(model).model, Promises())}


def _type(spec: InputSpec) -> str:
    text = f"seq({spec.dtype})" if spec.is_sequence else str(spec.dtype)
    return (f"optional({text})" if spec.is_optional else text).lower()


def _is_fed(spec: InputSpec) -> bool:
    return spec.is_required or spec.is_optional


def _promises(before: Any, after: Any) -> Promises:
    """Return what either model was promised."""
    one, other = (Promises.read(models.take(model).model) for model in (before, after))
    return Promises(
        one.uniform | other.uniform,
        {**one.input_shapes, **other.input_shapes},
        one.trust_types or other.trust_types,
    )


def _given(inputs: Inputs, before: Any, after: Any, promises: Promises) -> list[Feed]:
    if isinstance(inputs, str | os.PathLike):
        given: list[Mapping[str, Any]] = [read_feeds(inputs, before)]
    elif isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        given = [as_feeds(inputs)]
    else:
        given = [as_feeds(one) for one in inputs]
    for values in given:
        check_feeds(before, values, promises)
        if TensorIo.read(models.take(after).model):
            check_feeds(after, values, promises)
    names = ["given"] if len(given) == 1 else [f"given {i}" for i in range(len(given))]
    return [Feed(name, dict(values)) for name, values in zip(names, given, strict=True)]


def _trusting(judge: Judge, work: Callable[[], Iterable[Case]]) -> list[Case]:
    """Judge by the reference evaluator; where that runs no feed at all, by onnxruntime."""
    found = list(work())
    if judge.has_runtime and not _proves(found):
        judge.trusts_reference = False
        second = list(work())
        return second if _proves(second) else found
    return found


def _proves(cases: list[Case]) -> bool:
    return any(case.verdict in ("equal", "differs") for case in cases)


def _made(judge: Judge, maker: FeedMaker, cases: int) -> Iterator[Case]:
    worked: int | None = None
    for kind in maker.kinds(cases):
        for attempt in maker.attempts(kind, worked):
            feed = maker.draw(kind, attempt)
            if judge.is_defined(feed):
                worked = attempt
                break
        else:
            feed = maker.draw(kind)
        yield judge.case(feed)
