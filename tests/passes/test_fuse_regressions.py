"""What random bodies brought to light: each model was once refused, or came out wrong.

The judge is the model itself on the reference evaluator, before the rewrite.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest

from rewriter.backends import BackendError, open_session
from rewriter.compare import compare
from rewriter.pipeline import rewrite
from tests.passes.expansion import rows

HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
STRATEGIES = ("expand", "fuse", "auto")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with maps.

    Attributes:
        name: Id of the test.
        text: The model without its header.
        feeds: Sets of inputs.
        options: Options of the rewrite.
    """

    name: str
    text: str
    feeds: tuple[dict[str, Any], ...]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


def sequence(*shapes: tuple[int, ...]) -> dict[str, Any]:
    return {"xs": rows(*shapes)}


def tensor(*shape: int, **others: Any) -> dict[str, Any]:
    return {"x": rows(shape)[0], **others}


def int32(number: int) -> np.ndarray[Any, Any]:
    return np.array(number, np.int32)


CASES = [
    Case(
        "slices of a run-time size",
        """g (float[N] x, int32 size) => (seq(float) ys) {
             xs = SplitToSequence <axis = 0> (x, size)
             ys = SequenceMap (xs) <body = b (e) => (y) {
               y = ReduceSum <keepdims = 0> (e) }> }""",
        (
            tensor(5, size=int32(2)),
            tensor(4, size=int32(2)),
            tensor(1, size=int32(3)),
            tensor(0, size=int32(2)),
        ),
    ),
    Case(
        "slices of a constant size that leaves a rest",
        """g (float[N] x) => (seq(float) ys) <int64 size = {2}> {
             xs = SplitToSequence <axis = 0> (x, size)
             ys = SequenceMap (xs) <body = b (e) => (y) {
               flags = Cast <to = 9> (e)
               f = Compress (e, flags)
               y = ReduceSum <keepdims = 0> (f) }> }""",
        (tensor(5), tensor(4), tensor(1), tensor(0)),
    ),
    Case(
        "lengths that only the loop over packed rows reads",
        """g (seq(float[N,2]) xs) => (seq(float[A,B]) ys) {
             ys = SequenceMap (xs) <body = b (e) => (y) {
               s = Shape (e)
               y = Expand (e, s) }> }""",
        (sequence((2, 2), (4, 2), (0, 2)), sequence((3, 2)), sequence()),
    ),
    Case(
        "results of unknown rank concatenated",
        """g (seq(float[]) xs) => (float[A,B] y) <int64[1] one = {1}> {
             ys = SequenceMap (xs) <body = b (e) => (r) { r = Unsqueeze (e, one) }>
             y = ConcatFromSequence <axis = 0, new_axis = 0> (ys) }""",
        (sequence((3,), (3,)), sequence((3,), (2,)), sequence((1,))),
    ),
    Case(
        "results of unknown rank stacked along the last axis",
        """g (seq(float[]) xs) => (float[A,B,C] y) <int64[1] one = {1}> {
             ys = SequenceMap (xs) <body = b (e) => (r) { r = Unsqueeze (e, one) }>
             y = ConcatFromSequence <axis = -1, new_axis = 1> (ys) }""",
        (sequence((3,), (3,)), sequence((1,))),
    ),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_model_that_was_wrong_once(case: Case, strategy: str) -> None:
    model = onnx.parser.parse_model(HEADER + case.text)
    after = rewrite(model, strategy=strategy, **case.options).model  # type: ignore[arg-type]
    before, sessions = (
        open_session(model, "reference"),
        [open_session(after, name) for name in ("onnxruntime", "reference")],
    )
    for feed in case.feeds:
        try:
            expected = before.run(feed)
        except BackendError:
            continue
        for session in sessions:
            difference = compare(expected, session.run(feed))
            assert difference.equal, difference.message
