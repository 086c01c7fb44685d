"""Operators of which every sample yields as many rows as its values ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.direct import declines_directly
from tests.passes.batching.harness import Case, Operand, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, reasons_of


def numbers(*samples: Any, dtype: Any = np.int64) -> Operand:
    return mapped(*(np.array(sample, dtype) for sample in samples))


def drawn(*shape: int, seed: int = 0) -> Operand:
    return mapped(*(np.random.default_rng(seed + k).random(shape, np.float32) for k in range(3)))


def one(operand: Operand) -> np.ndarray[Any, Any]:
    return operand.samples[0]


BOXES, SCORES = drawn(2, 8, 4), drawn(2, 3, 8, seed=5)
COUNT, OVERLAP, LEAST = (constant(x) for x in (np.array([3]), np.float32(0.3), np.float32(0.6)))


def suppress(name: str, inputs: str = "b, s, m, o, t", **changed: Operand) -> RaggedCase:
    operands = {"b": BOXES, "s": SCORES, "m": COUNT, "o": OVERLAP, "t": LEAST, **changed}
    used = {n: x for n, x in operands.items() if n in inputs.replace(" ", "").split(",")}
    attributes = "<center_point_box = 1>" if "centres" in name else ""
    text = f"y = NonMaxSuppression{attributes}({inputs})"
    return RaggedCase(f"NonMaxSuppression {name}", text, used)


X = mapped((4, 3))
FLAGS = numbers([1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0], dtype=np.bool_)
MANY = numbers([1, 0, 1, 0, 1, 1, 0], [0] * 7, [1] * 7, dtype=np.bool_)


def compress(name: str, attributes: str = "", **operands: Operand) -> RaggedCase:
    text = f"y = Compress{attributes}({', '.join(operands)})"
    return RaggedCase(f"Compress {name}", text, operands)


def count(name: str, start: Operand, limit: Operand, delta: Operand) -> RaggedCase:
    given = {"a": start, "b": limit, "c": delta}
    return RaggedCase(f"Range {name}", "y = Range(a, b, c)", given)


ZERO, ONE, MINUS = (constant(np.array(n)) for n in (0, 1, -1))
FLOATS = [constant(np.array(n, np.float32)) for n in (0, 0.3)]
CASES = [
    suppress("of two images"),
    suppress("of one image", b=drawn(1, 8, 4), s=drawn(1, 3, 8, seed=5)),
    suppress("of centres"),
    suppress("with limits by default", "b, s, m"),
    suppress("with run-time limits", m=shared(np.array(2)), t=shared(np.float32(0.7))),
    suppress("of shared boxes", b=shared(one(BOXES))),
    suppress("of shared scores", s=shared(one(SCORES)), b=drawn(2, 8, 4, seed=9)),
    suppress("of scores of which some pass", t=constant(np.float32(0.95))),
    compress("of rows", "<axis = 0>", x=X, c=FLAGS),
    compress("of rows from behind", "<axis = -2>", x=X, c=FLAGS),
    compress("of some rows", "<axis = 0>", x=X, c=numbers([1, 0], [0, 0], [1, 1], dtype=np.bool_)),
    compress("flattened", x=X, c=MANY),
    compress("of a vector", "<axis = -1>", x=mapped((4,)), c=FLAGS),
    compress("of shared rows", "<axis = 0>", x=shared(one(X)), c=FLAGS),
    compress("by more conditions than rows", "<axis = 0>", x=X, c=MANY),
    count("to a limit", ZERO, numbers(3, 0, 5), ONE),
    count("from a start", numbers(3, -2, 7), constant(np.array(5)), shared(np.array(2))),
    count("backwards", numbers(3, -2, 7), ZERO, MINUS),
    count("by steps", ZERO, constant(np.array(9)), numbers(2, -1, 4)),
    count("of int32", *(numbers(*n, dtype=np.int32) for n in ([0, 1, 9], [4, 1, 0], [1, 2, -2]))),
    count("of floats", FLOATS[0], numbers(1, -1, 2.1, dtype=np.float32), FLOATS[1]),
    RaggedCase(
        "Range that is read",
        "r = Range(a, n, d) y = Mul(r, d)",
        {"a": ZERO, "n": numbers(3, 0, 5), "d": constant(np.array(2))},
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.parametrize(
    ("case", "code"),
    [
        (compress("of columns", "<axis = 1>", x=mapped((3, 4)), c=FLAGS), "data-dependent-shape"),
        (suppress("with mapped limits", m=numbers([1], [3], [2])), "batched-operand"),
    ],
    ids=str,
)
def test_rule_declines(case: RaggedCase, code: str) -> None:
    assert (case.name.split()[0], code) in reasons_of(case)


def test_conditions_of_every_sample_need_opset_16() -> None:
    case = Case("at 15", "y = Compress<axis = 0>(x, c)", {"x": X, "c": FLAGS}, opset=15)
    assert declines_directly(case) == [("Compress", "opset")]
