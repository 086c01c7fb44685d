from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from rewriter.feeding.feeds import Feed
from rewriter.proof import judging
from rewriter.proof.again import beside
from rewriter.proof.rounding import may_round_alike, rounds_alike
from rewriter.proof.validation import validate

pytestmark = pytest.mark.quick

LARGE = np.array([100.0, 0.25], np.float32)


def float32(*numbers):
    return {"y": np.array(numbers, np.float32)}


@pytest.mark.parametrize(
    ("elsewhere", "actual", "alike"),
    [
        pytest.param((100, 0.25003), (100, 0.25005), True, id="less than twice the distance"),
        pytest.param((100, 0.25003), (100, 0.2502), False, id="much more than the distance"),
        pytest.param((100, 0.25), (100, 0.25005), False, id="the engines agree"),
        pytest.param((100, 5.0), (100, 2.0), False, id="engines that compute another thing"),
        pytest.param((100, np.nan), (100, 0.25005), False, id="no number elsewhere"),
        pytest.param((100, np.inf), (100, 0.25005), False, id="infinite elsewhere"),
        pytest.param((100, 0.25003), (100, np.nan), False, id="no number after"),
    ],
)
def test_the_distance_of_two_engines_is_rounding(elsewhere, actual, alike):
    assert rounds_alike({"y": LARGE}, float32(*elsewhere), float32(*actual)) is alike


@pytest.mark.parametrize(
    ("expected", "elsewhere", "actual"),
    [
        pytest.param([LARGE], [LARGE + 1e-4], [LARGE + 1e-4] * 2, id="another length"),
        pytest.param(LARGE, LARGE + 1e-4, (LARGE + 1e-4)[None], id="another shape"),
        pytest.param(LARGE, LARGE + 1e-4, (LARGE + 1e-4).astype("f8"), id="another type"),
        pytest.param(np.array([3]), np.array([5]), np.array([4]), id="integers"),
        pytest.param(LARGE, None, LARGE + 1e-4, id="absent elsewhere"),
    ],
)
def test_other_differences_are_no_rounding(expected, elsewhere, actual):
    assert not rounds_alike({"y": expected}, {"y": elsewhere}, {"y": actual})


def test_the_tolerances_of_the_caller_hold():
    elsewhere, actual = float32(100, 0.25003), float32(100, 0.25005)
    assert not rounds_alike({"y": LARGE}, elsewhere, actual, rtol=0.0, atol=0.0)
    assert rounds_alike({"y": LARGE}, elsewhere, actual, rtol=1e-6, atol=0.0)


def long_sum(body):
    """A product with a sum of 8,192 terms, which nearly cancel each other in some places."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[16,8192] x) => (float[16,16] y) {{ {body} }}"""
    )
    weights = np.random.default_rng(0).standard_normal((8192, 16)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    for name, part in (("w1", weights[:3000]), ("w2", weights[3000:])):
        if name in body:
            model.graph.initializer.append(numpy_helper.from_array(part, name))
    return model


HALVES = """sizes = Constant<value_ints = [3000, 5192]>()
            x1, x2 = Split<axis = 1>(x, sizes)
            y1 = MatMul(x1, w1)
            y2 = MatMul(x2, w2)
            y = Add(y1, y2)"""
SHIFTED = """step = Constant<value_float = 0.01>()
             most = MatMul(x, w)
             y = Add(most, step)"""


def test_a_long_sum_in_another_order_is_right(monkeypatch):
    models = long_sum("y = MatMul(x, w)"), long_sum(HALVES)
    check = validate(*models)
    assert check.ok, check.summary
    monkeypatch.setattr(judging, "rounds_alike", lambda *_: False)
    assert not validate(*models).ok  # the numbers differ by more than their own tolerance


def test_the_neighbours_of_a_feed_tell_where_there_is_one_engine(monkeypatch):
    """No result is worth more digits than its inputs have."""
    models = long_sum("y = MatMul(x, w)"), long_sum(HALVES)
    feeds = [case.feed for case in validate(*models).cases]

    def verdicts(*models):
        judge = judging.Judge(*models)
        judge.has_runtime = False
        return {judge.case(Feed("given", feed)).verdict for feed in feeds}

    assert verdicts(*models) == {"equal"}
    assert verdicts(models[0], long_sum(SHIFTED)) == {"differs"}
    monkeypatch.setattr(judging, "rounds_alike", lambda *_: False)
    assert "differs" in verdicts(*models)


@pytest.mark.parametrize(
    ("actual", "may"),
    [
        pytest.param((100, 0.255), True, id="small beside the largest number"),
        pytest.param((100, 0.3), False, id="large"),
        pytest.param((100, np.nan), False, id="no number"),
    ],
)
def test_how_far_rounding_may_go(actual, may):
    assert may_round_alike({"y": LARGE}, float32(*actual)) is may


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.array([1.0, -2.0], np.float32), id="a tensor"),
        pytest.param([np.array([1.0], np.float16), np.array([2.0], np.float16)], id="a list"),
        pytest.param(np.array(3.0), id="a number"),
    ],
)
def test_neighbours_are_next_to_what_is_fed(value):
    moved = beside({"x": value, "n": np.array(3)}, 0)
    assert moved is not None
    assert moved["n"] == 3
    pairs = (
        zip(value, moved["x"], strict=True) if isinstance(value, list) else [(value, moved["x"])]
    )
    for old, new in pairs:
        assert new.dtype == old.dtype
        assert (old != new).all()
        np.testing.assert_array_almost_equal_nulp(old, new, 1)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.array([3]), id="integers"),
        pytest.param(None, id="absent"),
        pytest.param([], id="an empty list"),
        pytest.param(np.array(["a"], object), id="texts"),
    ],
)
def test_what_has_no_neighbours(value):
    assert beside({"x": value}, 0) is None


def test_zeros_and_ends_stay():
    values = np.array([0.0, np.inf, np.nan, np.finfo(np.float32).max], np.float32)
    for seed in range(3):
        moved = beside({"x": values}, seed)
        assert moved is not None
        np.testing.assert_array_equal(moved["x"][:3], values[:3])
        assert np.isfinite(moved["x"][3])


def test_it_is_right_where_onnxruntime_judges(monkeypatch):
    """As it does behind an evaluator that took all of the time."""
    models = long_sum("y = MatMul(x, w)"), long_sum(HALVES)
    feeds = [case.feed for case in validate(*models).cases]

    def verdicts(*models):
        judge = judging.Judge(*models)
        judge.trusts_reference = False
        cases = [judge.case(Feed("given", feed)) for feed in feeds]
        assert {case.engine for case in cases} == {"onnxruntime on the plain expansion"}
        return {case.verdict for case in cases}

    assert verdicts(*models) == {"equal"}
    assert verdicts(models[0], long_sum(SHIFTED)) == {"differs"}
    monkeypatch.setattr(judging, "rounds_alike", lambda *_: False)
    assert "differs" in verdicts(*models)


def test_a_sum_with_another_term_is_wrong():
    assert not validate(long_sum("y = MatMul(x, w)"), long_sum(SHIFTED)).ok
