from __future__ import annotations

import pytest

from rewriter.proof.case_record import ALONE, ENGINES_DIFFER, Case, Verdict
from rewriter.proof.validation import Check

BOTH = "reference and onnxruntime"


def case(verdict: Verdict = "equal", engine: str = BOTH, message: str = "") -> Case:
    return Case("length 2", verdict, engine, message, max_abs_error=1e-7)


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([case()] * 2, "verified on 2 of 2 inputs by the evaluator and onnxruntime, "),
        (
            [case(), case(engine="reference", message=f"{ALONE}no memory"), case()],
            "verified on 3 of 3 inputs (2 by the evaluator and onnxruntime, 1 by the evaluator), ",
        ),
        (
            [case(engine="reference", message=f"{ALONE}onnxruntime refuses it")],
            "verified on 1 of 1 inputs by the evaluator alone (onnxruntime refuses it), ",
        ),
        ([case(engine="reference")], "verified on 1 of 1 inputs by the evaluator, "),
    ],
)
def test_who_judged(cases: list[Case], expected: str) -> None:
    assert Check(tuple(cases)).summary.startswith(expected)


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([case()], "largest difference from the model before 1.0e-07"),
        (
            [case(), case("defined only after"), case("before fails")],
            "; on 1 the model as given fails, and the new one runs; on 1 the model as given fails",
        ),
        (
            [case(message=f"{ENGINES_DIFFER}output 'y'[0]: 1 and 2")],
            "; on 1 the engines differ, before and after alike: output 'y'[0]: 1 and 2",
        ),
    ],
)
def test_every_feed_is_accounted_for(cases: list[Case], expected: str) -> None:
    assert Check(tuple(cases)).summary.endswith(expected)
