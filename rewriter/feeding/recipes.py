"""The ways in which inputs are drawn: one table."""

from __future__ import annotations

import dataclasses
from typing import Literal

from rewriter.feeding.feed_values import Style

__all__ = ["RECIPES", "Recipe"]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How open dimensions and numbers are chosen; models differ in what they accept.

    ``is_long`` is for models of sound: the last axis is long, and what counts samples is 1, or
    with ``binds_length`` what the kind counts.
    """

    sizes: Literal["apart", "by symbol", "one size"] = "by symbol"
    ragged: Literal["all", "first", "last", "own symbols"] = "all"
    style: Style = "small"
    scale: int = 1
    is_long: bool = False
    binds_length: bool = False
    index_limit: int = 2


RECIPES = (
    Recipe("apart", style="signed"),
    Recipe("apart"),
    Recipe(style="signed"),
    Recipe(),
    Recipe(ragged="own symbols"),
    Recipe(ragged="first"),
    Recipe(ragged="last"),
    Recipe("one size"),
    Recipe(style="positive", index_limit=1),
    Recipe(style="one", index_limit=1),
    Recipe(style="zero", index_limit=1),
    Recipe("one size", style="one", index_limit=1),
    Recipe(ragged="first", style="positive", binds_length=True),
    Recipe(ragged="first", style="positive", scale=8),
    Recipe("one size", style="positive", scale=8),
    Recipe("apart", ragged="last", style="signed", scale=128, is_long=True, binds_length=True),
    Recipe("apart", ragged="last", style="signed", scale=128, is_long=True),
    Recipe("apart", ragged="last", style="signed", scale=4096, is_long=True, binds_length=True),
    Recipe("apart", ragged="last", style="signed", scale=4096, is_long=True),
)
"""Most telling first. A model that accepts none of these needs inputs from its user."""
