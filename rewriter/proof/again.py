"""The model as given once more, so that its results differ by rounding alone.

Another engine tells how far rounding goes, and so does the same engine where every number that is
fed is exchanged for its neighbour: no runtime promises more digits than that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from rewriter.backends import BackendError
from rewriter.proof.engines import Engine, Outcome, Values

__all__ = ["Again", "beside"]

_TIMES = 3
"""How often the feeds are exchanged for others beside them."""


@dataclasses.dataclass(frozen=True)
class Again:
    """What tells how far the results of a model differ by rounding.

    Attributes:
        engine: The one that said what is right.
        feeds: What it was fed with.
        elsewhere: Gives the results of another engine.
    """

    engine: Engine
    feeds: Values
    elsewhere: Callable[[], Outcome]

    def outcomes(self, has_other: bool) -> Iterator[Values]:
        """Yield results, as many as are asked for.

        Args:
            has_other: Whether there is another engine.
        """
        if has_other and not isinstance(values := self.elsewhere(), BackendError):
            yield values
        for seed in range(_TIMES):
            feeds = beside(self.feeds, seed)
            if feeds is None or isinstance(values := self.engine.run(feeds), BackendError):
                return
            yield values


def beside(feeds: Mapping[str, Any], seed: int) -> Values | None:
    """Exchange each number but 0 for the next larger or smaller one; None where there is none."""
    if not any(map(_holds_floats, feeds.values())):
        return None
    draw = np.random.default_rng(seed)
    return {name: _moved(value, draw) for name, value in feeds.items()}


def _holds_floats(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_holds_floats, value))
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _moved(value: Any, draw: np.random.Generator) -> Any:
    if isinstance(value, list):
        return [_moved(item, draw) for item in value]
    if not _holds_floats(value):
        return value
    towards = np.where(draw.random(value.shape) < 0.5, -np.inf, np.inf)
    with np.errstate(all="ignore"):
        near = np.nextafter(value, towards.astype(value.dtype))
    stays = (value == 0) | ~np.isfinite(value) | ~np.isfinite(near)
    return np.where(stays, value, near)
