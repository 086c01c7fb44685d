"""The evaluator against the specification's words, and onnxruntime where that is right."""

from __future__ import annotations

import pytest

from rewriter.evaluator.reference import ReferenceEvaluator
from tests.rewriter.evaluator.evaluating import (
    assert_same,
    parse,
    run_onnxruntime,
)
from tests.rewriter.evaluator.reference_cases import CASES


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_specified(case):
    outputs = ReferenceEvaluator(parse(case.text)).run(None, case.feeds)
    assert_same(outputs, case.expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_onnxruntime(case):
    try:
        assert_same(run_onnxruntime(parse(case.text), case.feeds), case.expected)
    except (Exception, AssertionError):
        if not case.ort:
            raise
    else:
        assert not case.ort, f"onnxruntime no longer {case.ort}"


# What a Loop gives without any step: no rows, the known dimensions, 0 for the unknown ones.
# Then what onnxruntime gives where that is something else.
