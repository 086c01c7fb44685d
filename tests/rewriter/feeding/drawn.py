"""Inputs that are drawn for a model."""

from __future__ import annotations

from typing import Any

from passes.promises import Promises
from rewriter.feeding.feeds import Feed, FeedMaker

__all__ = ["make_feeds"]


def make_feeds(
    model: Any, cases: int = 8, seed: int = 0, promises: Promises | None = None
) -> list[Feed]:
    """Make inputs from a model's types that keep its promises.

    Args:
        model: The model (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
        cases: How many feeds.
        seed: The same seed gives the same feeds.
        promises: The promises to keep; None reads those that the model carries.

    Returns:
        The feeds. The model may refuse some: types do not say everything, and only running it
        tells.
    """
    maker = FeedMaker(model, seed, promises)
    return [maker.draw(kind) for kind in maker.kinds(cases)]
