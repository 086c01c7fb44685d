"""Reshape of packed samples to shapes that hold numbers beside, or instead of, their length."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from tests.passes.batching.bodies import TURNED, ints, numbers, of
from tests.passes.batching.ragged import RaggedCase, prove_declined, prove_ragged, ragged

LENGTH = "n = Shape<end = 1>(x) "
WITH_LENGTH = f"{LENGTH}s = Concat<axis = 0>(n, m) y = Reshape(x, s)"
WITH_NUMBER = "s = Concat<axis = 0>(k, m) y = Reshape(x, s)"
IN_FRONT = "t = Unsqueeze(x, z) s = Concat<axis = 0>(k, m) "
THREES = (3, 3, 3)

FITTING = {
    "no numbers, and copied sizes": of("y = Reshape(x, s)", x=ragged(0), s=ints(0, 0, 1)),
    "columns, and what is left": of(f"{TURNED}y = Reshape(t, s)", x=ragged(2), s=ints(0, 1, -1)),
    "a number that is copied": of(WITH_LENGTH, x=ragged(2, 3), m=ints(0, 3)),
    "twice the length": of(
        f"{LENGTH}l = Mul(n, two) s = Concat<axis = 0>(l, m) y = Reshape(x, s)",
        x=ragged(2, 3),
        m=ints(3),
        two=ints(2),
    ),
    "a number of each": of(WITH_NUMBER, x=ragged(6), m=ints(3), k=numbers([4], [0], [6])),
    "a number of each, which may be 0": of(
        "s = Concat<axis = 0>(k, m) y = Reshape<allowzero = 1>(x, s)",
        x=ragged(6),
        m=ints(2, 3),
        k=numbers([2], [0], [3]),
    ),
    "a number of each in front of the length, which may be 0": of(
        f"{IN_FRONT}y = Reshape<allowzero = 1>(t, s)",
        x=ragged(6),
        z=ints(0),
        m=ints(2, 3),
        k=numbers([2], [0], [3]),
    ),
    "what is left for each": of(WITH_NUMBER, x=ragged(6), m=ints(2, 3), k=numbers(*[[-1]] * 3)),
}
OTHERS = {
    "no numbers, in so many columns": of(
        "y = Reshape<allowzero = 1>(x, s)", x=ragged(0), s=ints(5, 0)
    ),
    "so many rows": of("y = Reshape(x, s)", x=ragged(2, lengths=(3, 6, 9)), s=ints(3, 2, -1)),
    "rows of more": of("y = Reshape(x, s)", x=ragged(2, lengths=(3, 3, 6)), s=ints(-1, 3)),
    "numbers alone": of("y = Reshape(x, s)", x=ragged(2, lengths=THREES), s=ints(3, 2)),
    "one number": of("y = Reshape(x, s)", x=ragged(2, lengths=THREES), s=ints(6)),
    "a size that is copied beside a number": of(
        "y = Reshape(x, s)", x=ragged(2, lengths=(2, 2, 2)), s=ints(2, 0)
    ),
    "numbers of none": of(WITH_LENGTH, x=ragged(2, 3, lengths=(0, 0, 0)), m=ints(5)),
    "a number of each behind another": of(
        "s = Concat<axis = 0>(m, k) y = Reshape(x, s)",
        x=ragged(6, lengths=(3, 6, 3)),
        m=ints(3),
        k=numbers([6], [12], [6]),
    ),
    "a number of each in front of the length, where 0 copies another": of(
        f"{IN_FRONT}y = Reshape(t, s)",
        x=ragged(6, lengths=(3, 1, 4)),
        z=ints(0),
        m=ints(2, 3),
        k=numbers([3], [0], [4]),
    ),
    "a number of each, and a size that is copied": of(
        WITH_NUMBER, x=ragged(6), m=ints(0), k=numbers([2], [0], [3])
    ),
    "a number of each, in rows of others": of(
        WITH_NUMBER, x=ragged(6, lengths=(2, 0, 4)), m=ints(4), k=numbers([3], [0], [6])
    ),
}


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("name", FITTING)
def test_rule_equals_the_body_run_alone(name: str, batch: int) -> None:
    prove_ragged(FITTING[name], batch)


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_keep_the_length_stays_per_sample(name: str) -> None:
    prove_declined(OTHERS[name], "Reshape ragged")


def test_axes_merged_beside_the_length() -> None:
    case: RaggedCase = of(
        "t = Transpose<perm = [1, 0, 2]>(x) y = Flatten<axis = 2>(t)", x=ragged(2, 3)
    )
    prove_declined(case, "Flatten ragged")


ZERO = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[L,6]) xs, seq(int64[1]) ks) => (seq(float[N,2,3]) ys) <int64[2] m = {{2, 3}}> {{
  ys = SequenceMap (xs, ks) <body = b (float[L,6] x, int64[1] k) => (float[N,2,3] y) {{
    s = Concat <axis = 0> (k, m) y = Reshape <allowzero = {allowzero}> (x, s) }}> }}"""


def test_a_number_of_0_copies_the_length_unless_it_is_said_to_be_one() -> None:
    rows = [np.ones((count, 6), np.float32) for count in (4, 2)]
    feeds = {"xs": rows, "ks": [np.array([0]), np.array([2])]}
    copying, failing = (
        rewriter.optimize(
            onnx.parser.parse_model(ZERO.format(allowzero=n)), target="portable", tensor_io=True
        )
        for n in (0, 1)
    )
    found = rewriter.run(copying, feeds)
    assert found["ys"].shape == (6, 2, 3)
    assert found["ys.lengths"].tolist() == [4, 2]
    with pytest.raises(rewriter.BackendError):
        rewriter.run(failing, feeds)
