"""Operators that meet, or cross, the axis in which samples differ in length stay per-sample.

Where all samples of a case have one length, a rule that asks less would run, and mix them up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_declined, ragged


def ints(*numbers: int) -> Operand:
    return constant(np.array(numbers, np.int64))


def places(*rest: int, high: float, lengths: tuple[int, ...] = (2, 0, 3)) -> Operand:
    return ragged(*rest, dtype=np.int64, low=0, high=high + 0.9, lengths=lengths)


def of(nodes: str, outputs: str = "y", opset: int = 18, **operands: Any) -> RaggedCase:
    return RaggedCase(nodes, nodes, operands, outputs.split(), opset)


def numbers(*samples: Any) -> Operand:
    return mapped(*(np.array(sample) for sample in samples))


TURNED = "t = Transpose(x) "
X, ONE = ragged(4), ragged(4, lengths=(1, 1, 1))
THREE, FOUR = ragged(4, lengths=(3, 3, 3)), ragged(4, lengths=(4, 4, 4))
MATRICES, COLUMNS = "Transpose<perm = [1, 0, 2]>", "Transpose<perm = [1, 2, 0]>"
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
        "Tile ragged",
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
    "first columns": (
        of(f"{TURNED}y, z = TopK<axis = 1>(t, k)", "y z", x=THREE, k=ints(2)),
        "TopK ragged",
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
    "rows beside columns": (of(f"{TURNED}y = Concat<axis = 0>(t, x)", x=FOUR), "Concat ragged"),
}


@pytest.mark.parametrize("name", CROSSED)
def test_what_crosses_it(name: str) -> None:
    case, reason = CROSSED[name]
    prove_declined(case, reason)


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


@pytest.mark.parametrize("name", POSITIONS)
def test_positions(name: str) -> None:
    case, reason = POSITIONS[name]
    prove_declined(case, reason)
