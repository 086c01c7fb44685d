"""``seqmap bench IN``: the model as given against the rewritten one, timed in pairs."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import onnx_ir as ir

from rewriter import backends, models, pipeline, weights
from rewriter.backends import BackendError, Session
from rewriter.checking import require_valid
from rewriter.commands import options
from rewriter.commands.console import Console
from rewriter.commands.trying import accepted_feed

__all__ = ["SUMMARY", "USAGE", "add_options", "execute"]

USAGE = "IN "
SUMMARY = "time a model as given and rewritten: medians of paired runs and their ratio"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_model(parser, "input", "IN", "the model, .onnx or .onnxtxt")
    options.add_rewrite_options(parser)
    group = parser.add_argument_group("bench")
    group.add_argument(
        "--repeats", type=options.count, default=30, metavar="N", help="pairs; default: 30"
    )
    options.add_backend_options(group)
    options.add_feed_options(group)


def execute(args: argparse.Namespace, console: Console) -> int:
    """Time both models on one feed; a valid model that is refused as given has no time."""
    with console.progress("reading"):
        before = models.load(args.input)
        weights.require(before)
    with console.progress("rewriting"):
        after = pipeline.rewrite(before, **options.rewrite_options(args)).model
    with console.progress("loading"):
        slow, refusal = _open(before, args)
        if slow is None:
            require_valid(
                before
            )  # what is refused for being invalid can end the process, rewritten
        fast = backends.open_session(after, args.backend, args.device)
    sessions = [fast] if slow is None else [slow, fast]
    with console.progress("finding inputs"):
        # The rewritten model carries the promises that the feed has to keep.
        feed, _ = accepted_feed(after, args, sessions)
    with console.progress("timing"):
        medians = _medians(sessions, feed, args.repeats)
    console.record |= {"repeats": args.repeats, "after_ms": medians[-1]}
    if slow is None:
        console.record |= {"before_ms": None, "ratio": None, "refused": refusal}
        console.say(f"as given   refused: {refusal}\nrewritten  {medians[0]:.3f} ms")
        return 0
    ratio = medians[0] / medians[1]
    console.record |= {"before_ms": medians[0], "ratio": ratio}
    console.say(
        f"as given   {medians[0]:.3f} ms\nrewritten  {medians[1]:.3f} ms\n"
        f"ratio      {ratio:.2f} (medians of {args.repeats} paired runs)"
    )
    return 0


def _open(model: ir.Model, args: argparse.Namespace) -> tuple[Session | None, str]:
    try:
        return backends.open_session(model, args.backend, args.device), ""
    except BackendError as error:
        return None, " ".join(str(error).split())


def _medians(sessions: list[Session], feed: dict[str, Any], repeats: int) -> list[float]:
    """Run the models in turn, so that what disturbs the machine disturbs them all alike.

    Returns:
        The median time of each session, in milliseconds.
    """
    times: list[list[float]] = [[] for _ in sessions]
    for _ in range(repeats):
        for session, own in zip(sessions, times, strict=True):
            started = time.perf_counter()
            session.run(feed)
            own.append(1e3 * (time.perf_counter() - started))
    return [statistics.median(own) for own in times]
