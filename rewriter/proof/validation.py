"""Does a rewritten model compute what the model before it computed?"""

from __future__ import annotations

import collections
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.graphs import is_default_domain, node_paths
from passes.promises import Promises
from passes.tensors.io import TensorIo
from rewriter.feeding.feed_checks import as_feeds
from rewriter.feeding.feeds import Feed, FeedKind, FeedMaker, check_feeds, read_feeds
from rewriter.feeding.input_specs import input_specs
from rewriter.feeding.same_inputs import check_same_inputs
from rewriter.model_files import models, weights
from rewriter.model_files.kinds import AnyModel
from rewriter.proof.budget import Allowance, Budget
from rewriter.proof.case_record import ALONE, Case
from rewriter.proof.check_record import Check
from rewriter.proof.judging import Judge
from rewriter.proof.mismatch import write_mismatch
from rewriter.proof.size_tests import lengths_beyond
from rewriter.proof.verification_words import shape_remedy

__all__ = ["Case", "Check", "find_broken_pass", "validate", "write_mismatch"]

_MOST_CASES = 10_000
Inputs = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str]


def validate(
    before: AnyModel,
    after: AnyModel,
    inputs: Inputs | None = None,
    cases: int = 8,
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
    passes: Iterable[tuple[str, Any]] | None = None,
    budget: Budget | None = None,
    on_feed: Callable[[str], None] | None = None,
) -> Check:
    """Compare two models on feeds that keep the promises they carry.

    Args:
        before: The model that is right (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
        after: The model to check.
        inputs: One feed (input name to array, list of arrays or None), a list of feeds, or an npz
            file; None makes feeds from the types of ``before``.
        cases: How many feeds are made, from 1 to 10,000.
        seed: The same seed makes the same feeds.
        atol: Absolute tolerance in place of the table in :mod:`rewriter.proof.compare`.
        rtol: Relative tolerance, likewise.
        passes: Name of each pass and the model after it, to name the one that broke the model;
            asked for only when it is broken.
        budget: The time and the memory that all of it may take; a feed that would take more is
            skipped.
        on_feed: Called before each feed with words such as ``3 of 8, length 5 ragged``.

    Returns:
        What each feed showed. A feed on which ``before`` fails proves nothing, and feeds in which
        no body of a map or a loop runs prove nothing alone.

    Raises:
        RewriteError: A model cannot be read, the models take different inputs, or given inputs
            do not fit them or break a promise; or ``cases`` is no such number.
    """
    if not isinstance(cases, int) or not 0 < cases <= _MOST_CASES:
        raise RewriteError(f"cases is {cases!r}: give a number from 1 to {_MOST_CASES:,}")
    for model in (before, after):
        weights.require(models.take(model).model)
    check_same_inputs(before, after)
    promises = _promises(before, after)
    budget = budget or Budget()
    judge = Judge(before, after, rtol, atol, Allowance(budget))
    tell = on_feed or (lambda _: None)
    if inputs is not None:
        feeds = _given(inputs, before, after, promises)
        found = _trusting(judge, lambda: _judged(judge, feeds, tell))
    else:
        maker = FeedMaker(before, seed, promises, lengths_beyond(after))
        found = _trusting(judge, lambda: _made(judge, maker, cases, tell))
    model = models.take(before).model
    check = Check(
        tuple(found),
        runtime_refusal=judge.runtime_refusal,
        budget=budget,
        shape_remedy=shape_remedy(input_specs(model, promises)),
        bodies=_bodies(model),
    )
    if check.mismatch is None or passes is None:
        return check
    feed = Feed(check.mismatch.description, check.mismatch.feed)
    broken = find_broken_pass(before, passes, feed, rtol, atol, judge.allowance)
    return dataclasses.replace(check, broken_pass=broken)


def find_broken_pass(
    before: AnyModel,
    steps: Iterable[tuple[str, Any]],
    feed: Feed | Mapping[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    allowance: Allowance | None = None,
) -> str | None:
    """Return the first pass whose result differs from the model before all of them.

    Args:
        before: The model that is right.
        steps: Name of each pass and the model after it, in order.
        feed: The inputs that show the difference.
        rtol: Relative tolerance in place of the table's.
        atol: Absolute tolerance, likewise.
        allowance: What is left of the time and the memory.

    Returns:
        The name; None where every step is right, or the time is over.
    """
    feed = feed if isinstance(feed, Feed) else Feed("given", dict(feed))
    allowance = allowance or Allowance(Budget())
    for name, model in steps:
        allowance.start_feed()
        if Judge(before, model, rtol, atol, allowance).case(feed).verdict == "differs":
            return name
    return None


def _bodies(model: ir.Model) -> dict[str, str]:
    """Return the path of each map and loop, by the name of its first output.

    Those of functions are left out: a function may be called nowhere.
    """
    paths = node_paths(model)
    return {
        name: paths[node]
        for node in model.graph.all_nodes()
        if is_default_domain(node) and node.op_type in ("SequenceMap", "Loop", "Scan")
        if node.outputs and (name := node.outputs[0].name)
    }


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
    """Judge by the reference evaluator; where that proves nothing at all, by onnxruntime.

    What took too much, and not too long for the evaluator alone, is not tried again.
    """
    found = list(work())
    is_stopped = any(case.verdict == "skipped" for case in found)
    if judge.has_runtime and not _proves(found) and not (is_stopped and judge.trusts_reference):
        judge.trusts_reference = False
        judge.allowance.add_half()
        second = list(work())
        return second if _proves(second) else found
    return found


def _proves(cases: list[Case]) -> bool:
    return any(case.verdict in ("equal", "differs") for case in cases)


def _judged(judge: Judge, feeds: Sequence[Feed], tell: Callable[[str], None]) -> Iterator[Case]:
    for number, feed in enumerate(feeds, 1):
        tell(f"{number} of {len(feeds)}, {feed.description}")
        judge.allowance.start_feed()
        yield judge.case(feed)


def _made(
    judge: Judge, maker: FeedMaker, cases: int, tell: Callable[[str], None]
) -> Iterator[Case]:
    """Judge feeds of several kinds; behind one that takes too much, small ones come first."""
    worked: int | None = None
    kinds = collections.deque(maker.kinds(cases))
    while kinds:
        kind = kinds.popleft()
        tell(f"{cases - len(kinds)} of {cases}, {kind.description}")
        judge.allowance.start_feed()
        attempt, case = _search(judge, maker, kind, worked)
        if case.ran_body:  # otherwise any values would have done
            worked = worked if attempt is None else attempt
        if case.verdict == "skipped":
            kinds = collections.deque(sorted(kinds, key=lambda kind: kind.length or math.inf))
        yield case


def _search(
    judge: Judge, maker: FeedMaker, kind: FeedKind, worked: int | None
) -> tuple[int | None, Case]:
    """Draw feeds until the model before accepts one.

    The evaluator may accept what breaks a rule that onnxruntime knows: one on which onnxruntime
    runs is better, unless no body ran: then other values change nothing. Feeds without elements
    are alike, whatever draws them: one is enough.

    Returns:
        The try and what it showed; else of a feed that takes too much, else of the first.
    """
    stopped: Feed | None = None
    alone: tuple[int, Case] | None = None
    tried: dict[bytes, Feed] = {}
    for attempt in maker.attempts(kind, worked):
        feed = maker.draw(kind, attempt)
        if feed.fingerprint in tried:
            continue
        tried[feed.fingerprint] = feed
        if judge.is_defined(feed):
            case = judge.case(feed)
            is_alone = case.message.startswith(ALONE)
            if not is_alone or not case.ran_body or judge.runtime_refusal:
                return attempt, case
            alone = alone or (attempt, case)
        elif judge.is_stopped(feed):
            stopped = stopped or feed
        if judge.allowance.is_over:
            break
    return alone or (None, judge.case(stopped or next(iter(tried.values()))))
