"""Finding inputs that a model accepts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from passes.errors import RewriteError
from rewriter.backends import BackendError, Session
from rewriter.feeds import FeedMaker, check_feeds, read_feeds
from rewriter.models import AnyModel

__all__ = ["accepted_feed"]


def accepted_feed(
    model: AnyModel, args: argparse.Namespace, sessions: Sequence[Session]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the feed that ``--inputs`` names, or draw one that every session runs.

    Types do not say everything about the inputs of a model, so a drawn feed that fails is drawn
    again in another way.

    Args:
        model: The model, whose types and promises the feed keeps.
        args: The options of ``add_feed_options``.
        sessions: Where the feed has to run.

    Returns:
        The feed, and the outputs of the last session.

    Raises:
        RewriteError: The given feed does not fit or fails, or no feed was found.
    """
    if args.inputs is not None:
        given = read_feeds(args.inputs, model)
        check_feeds(model, given)
        return given, _outputs(sessions, given)
    maker = FeedMaker(model, args.seed)
    (kind,) = maker.kinds(1)
    attempts = maker.attempts(kind, None)
    for attempt in attempts:
        feed = maker.draw(kind, attempt).values
        try:
            return feed, _outputs(sessions, feed)
        except BackendError as error:
            last = error
    raise RewriteError(
        f"the model ran on none of {len(attempts)} drawn inputs (the last: {last}); give inputs "
        "that it accepts with --inputs"
    )


def _outputs(sessions: Sequence[Session], feed: dict[str, Any]) -> dict[str, Any]:
    outputs: dict[str, Any] = {}
    for session in sessions:
        outputs = session.run(feed)
    return outputs
