"""Positions of, or in, samples that differ in length, which no rule has: they stay per-sample."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.bodies import (
    COLUMNS,
    FOUR,
    MATRICES,
    THREE,
    TURNED,
    X,
    ints,
    numbers,
    of,
    places,
)
from tests.passes.batching.harness import mapped
from tests.passes.batching.ragged import prove_declined, ragged

POSITIONS = {
    "bounds that begin": (
        of(
            "y = Slice(x, s, e, a)",
            x=ragged(4, lengths=(2, 2, 3)),
            s=places(high=0, lengths=(1, 1, 1)),
            e=ints(2),
            a=ints(0),
        ),
        "Slice ragged",
    ),
    "bounds that end": (
        of(
            "y = Slice(x, s, e, a)",
            x=ragged(4, lengths=(2, 2, 3)),
            s=ints(0),
            e=places(high=0, lengths=(1, 1, 1)),
            a=ints(0),
        ),
        "Slice ragged",
    ),
    "a start of each, along two axes": (
        of(
            "y = Slice(x, s, e, a)",
            x=X,
            s=numbers([0, 1], [0, 1], [1, 1]),
            e=ints(2, 3),
            a=ints(0, 1),
        ),
        "Slice ragged",
    ),
    "an end of each, along two axes": (
        of(
            "y = Slice(x, s, e, a)",
            x=X,
            s=ints(0, 1),
            e=numbers([2, 3], [1, 3], [1, 3]),
            a=ints(0, 1),
        ),
        "Slice ragged",
    ),
    "bounds of rows of one size": (
        of(
            "y = Slice(m, x, e, a)",
            x=places(high=1, lengths=(1, 1, 1)),
            m=mapped((3, 2)),
            e=ints(3),
            a=ints(0),
        ),
        "Slice ragged",
    ),
    "columns by bounds of each": (
        of("y = Slice(x, s, e, a)", x=X, s=numbers([0], [0], [0]), e=ints(3), a=ints(1)),
        "Slice ragged",
    ),
    "places of one size beside rows": (
        of("y = GatherND<batch_dims = 1>(x, i)", x=THREE, i=numbers(*[[[0], [3], [1]]] * 3)),
        "GatherND ragged",
    ),
    "rows of one size beside places": (
        of(
            "y = GatherND<batch_dims = 1>(m, x)",
            x=places(1, high=2, lengths=(3, 3, 3)),
            m=mapped((3, 3)),
        ),
        "GatherND ragged",
    ),
    "columns beside places": (
        of(
            f"{TURNED}y = GatherND<batch_dims = 1>(t, i)",
            x=FOUR,
            i=places(1, high=3, lengths=(4, 4, 4)),
        ),
        "GatherND ragged",
    ),
    "places in columns": (of(f"{TURNED}y = GatherND(t, i)", x=X, i=ints(1)), "GatherND ragged"),
    "elements of rows of one size": (
        of("y = GatherElements<axis = 1>(m, x)", x=places(4, high=2), m=mapped((3, 4))),
        "GatherElements ragged",
    ),
    "elements by places of one size": (
        of("y = GatherElements(x, i)", x=ragged(2, lengths=(3, 2, 2)), i=numbers(*[[[0, 1]]] * 3)),
        "GatherElements ragged",
    ),
    "flags of another length": (
        of("y = Compress<axis = 0>(m, x)", x=ragged(dtype=np.bool_), m=mapped((3, 2))),
        "Compress ragged",
    ),
    "boxes of two images": (
        of(
            f"b = {MATRICES}(x) s = {COLUMNS}(z) y = NonMaxSuppression(b, s, m)",
            x=ragged(2, 4, low=0),
            z=ragged(2, 1, low=0, seed=1),
            m=ints(2),
        ),
        "NonMaxSuppression ragged",
    ),
    "classes in any number": (
        of(
            "z = Constant<value_ints = [0]>() s = Unsqueeze(x, z) y = NonMaxSuppression(m, s, k)",
            x=ragged(6, low=0),
            m=mapped((1, 6, 4)),
            k=ints(2),
        ),
        "NonMaxSuppression ragged",
    ),
    "images in any number": (
        of(
            "y = NonMaxSuppression(x, z, m)",
            x=ragged(5, 4, low=0),
            z=ragged(2, 5, low=0, seed=1),
            m=ints(2),
        ),
        "NonMaxSuppression ragged",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", POSITIONS)
def test_positions(name: str) -> None:
    case, reason = POSITIONS[name]
    prove_declined(case, reason)
