"""Operators that meet, or cross, the axis in which samples differ in length stay per-sample.

Where all samples of a case have one length, a rule that asks less would run, and mix them up.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.bodies import (
    FOUR,
    MATRICES,
    ONE,
    THREE,
    TURNED,
    X,
    ints,
    numbers,
    of,
    places,
)
from tests.passes.batching.harness import constant, mapped, shared
from tests.passes.batching.ragged import prove_declined, ragged

CROSSED = {
    "scales of the rows": (
        of(
            "y = QuantizeLinear<axis = 0>(x, s)",
            x=THREE,
            s=constant(np.array([0.5, 1, 2], np.float32)),
        ),
        "QuantizeLinear ragged",
    ),
    "pads of each": (
        of("y = Pad(m, x)", x=places(high=0, lengths=(4, 4, 4)), m=mapped((2, 2))),
        "Pad ragged",
    ),
    "rows around the columns by a number of each": (
        of(f"{TURNED}y = Pad(t, p, m)", x=X, p=ints(1, 0, 2, 0), m=mapped(())),
        "Pad ragged",
    ),
    "one row repeated": (of("y = Expand(x, s)", x=ONE, s=ints(3, 4)), "Expand ragged"),
    "one row repeated, who knows how often": (
        of("y = Expand(x, s)", x=ONE, s=shared(np.array([3, 4]))),
        "Expand ragged",
    ),
    "one row for each of others": (
        of("s = Shape(z) y = Expand(x, s)", x=ONE, z=ragged(4, lengths=(2, 3, 1))),
        "Expand ragged",
    ),
    "rows repeated, who knows how often": (
        of("y = Tile(x, r)", x=X, r=shared(np.array([1, 2]))),
        "Tile data-dependent-shape",
    ),
    "a state and what it grows by": (
        of(
            "y = Loop(m, , x) <body = b (int64 i, bool c, float[N,4] s) => (bool d, float[M,4] u) { d = Identity(c) u = Concat<axis = 0>(s, s) }>",
            x=X,
            m=numbers(1, 2, 0),
        ),
        "Loop ragged",
    ),
    "columns scanned": (
        of(
            "y = Scan<num_scan_inputs = 1, scan_input_axes = [1], body = b (float[N] r) => (float[N] q) { q = Neg(r) }>(x)",
            x=X,
        ),
        "Scan ragged",
    ),
    "columns collected": (
        of(
            "y = Scan<num_scan_inputs = 1, scan_output_axes = [1], body = b (float[4] r) => (float[4] q) { q = Neg(r) }>(x)",
            x=ragged(4, lengths=(2, 1, 3)),
        ),
        "Scan ragged",
    ),
    "channels": (
        of(
            f"t = {MATRICES}(x) y = Conv(t, w)",
            x=ragged(2, 5, lengths=(3, 3, 3)),
            w=constant(np.ones((1, 3, 2), np.float32)),
        ),
        "Conv ragged",
    ),
    "first bytes": (
        of(
            "y, z = TopK<axis = 0>(x, k)",
            "y z",
            x=ragged(4, dtype=np.uint8, low=0, high=9, lengths=(2, 3, 3)),
            k=ints(2),
        ),
        "TopK ragged",
    ),
    "as many as there are numbers": (
        of(
            "y, z = TopK<axis = 0>(m, x)",
            "y z",
            x=places(high=0, lengths=(1, 1, 1)),
            m=mapped((3, 2)),
        ),
        "TopK batched-operand",
    ),
    "first states in front of each": (
        of(
            "y, z = RNN<hidden_size = 2>(x, w, r, , , h)",
            "y z",
            x=ragged(1, 3),
            w=constant(np.ones((1, 2, 3), np.float32)),
            r=constant(np.ones((1, 2, 2), np.float32)),
            h=ragged(1, 2, lengths=(1, 1, 1)),
        ),
        "RNN ragged",
    ),
    "first states of sequences of one length": (
        of(
            "y, z = RNN<hidden_size = 2>(m, w, r, , , x)",
            "y z",
            x=ragged(1, 2, lengths=(1, 1, 1)),
            w=constant(np.ones((1, 2, 3), np.float32)),
            r=constant(np.ones((1, 2, 2), np.float32)),
            m=mapped((2, 1, 3)),
        ),
        "RNN ragged",
    ),
    "columns normalized": (
        of(
            f"{TURNED}y = LayerNormalization<axis = 1>(t, w)",
            x=THREE,
            w=constant(np.ones(3, np.float32)),
        ),
        "LayerNormalization ragged",
    ),
    "a state that is turned": (
        of(
            "y = Loop(m, , x) <body = b (int64 i, bool c, float[N,4] s) => (bool d, float[4,N] u) { d = Identity(c) u = Transpose(s) }>",
            x=FOUR,
            m=numbers(1, 2, 0),
        ),
        "Loop ragged",
    ),
    "columns as a state": (
        of(
            f"{TURNED}y = Loop(m, , t) <body = b (int64 i, bool c, float[4,N] s) => (bool d, float[4,N] u) {{ d = Identity(c) u = Add(s, s) }}>",
            x=X,
            m=numbers(1, 2, 0),
        ),
        "Loop control-flow, Add recurrence",
    ),
    "filters in any number": (
        of("y = Conv(m, x)", x=ragged(2, 3), m=mapped((1, 2, 5))),
        "Conv ragged",
    ),
    "steps of each before opset 16": (
        of(
            "y = Loop(m, , z) <body = b (int64 i, bool c, float s) => (bool d, float u) { d = Identity(c) u = Add(s, s) }>",
            opset=15,
            m=numbers(1, 2, 0),
            z=mapped(()),
        ),
        "Loop opset",
    ),
    "a condition alone": (
        of(
            "y = Loop(, f, x) <body = b (int64 i, bool c, float[N,4] s) => (bool d, float[N,4] u) "
            "{ d = Identity(c) u = Add(s, s) }>",
            x=X,
            f=numbers(False, False, False),
        ),
        "Loop control-flow",
    ),
    "rows beside columns": (of(f"{TURNED}y = Concat<axis = 0>(t, x)", x=FOUR), "Concat ragged"),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", CROSSED)
def test_what_crosses_it(name: str) -> None:
    case, reason = CROSSED[name]
    prove_declined(case, reason)
