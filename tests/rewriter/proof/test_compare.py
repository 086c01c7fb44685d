from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rewriter.proof.compare import TOLERANCES, compare, element_type

NAN, INF = np.nan, np.inf


def f32(*numbers):
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        pytest.param(f32(1, 2), f32(1, 2.0001), id="within-float32"),
        pytest.param(np.array([1.0]), np.array([1.0 + 1e-10]), id="within-float64"),
        pytest.param(np.float16([1.0]), np.float16([1.005]), id="within-float16"),
        pytest.param(
            np.array([1.0], ml_dtypes.bfloat16),
            np.array([1.0078125], ml_dtypes.bfloat16),
            id="within-bfloat16",
        ),
        pytest.param(f32(NAN, 1), f32(NAN, 1), id="nan-is-nan"),
        pytest.param(f32(INF, -INF), f32(INF, -INF), id="inf-is-inf"),
        pytest.param(np.complex64([1 + 2j]), np.complex64([1 + 2.0001j]), id="complex"),
        pytest.param(np.array(["a", ""], object), np.array(["a", ""]), id="spellings-of-strings"),
        pytest.param(np.array(True), np.array(True), id="bool-of-rank-0"),
        pytest.param(np.zeros((0, 3)), np.zeros((0, 3)), id="no-numbers"),
        pytest.param([], [], id="empty-sequence"),
        pytest.param([f32(1), f32(1, 2)], [f32(1), f32(1, 2)], id="ragged-sequence"),
        pytest.param(None, None, id="absent"),
        pytest.param({1: 0.5}, {1: 0.5}, id="map"),
        pytest.param(np.uint64([2**64 - 1]), np.uint64([2**64 - 1]), id="uint64"),
    ],
)
def test_equal(expected, actual):
    difference = compare({"y": expected}, {"y": actual})
    assert difference.equal, difference.message


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        pytest.param(
            f32(1, 2),
            f32(1, 2.001),
            "output 'y'[1] is 2.001 and should be 2.0",
            id="beyond-float32",
        ),
        pytest.param(
            np.array([1.0]),
            np.array([1.0 + 1e-6]),
            "output 'y'[0] is 1.000001 and should be 1.0",
            id="beyond-float64",
        ),
        pytest.param(
            f32(1, 2, 3),
            f32(7, 2, 7),
            "output 'y'[0] is 7.0 and should be 1.0 (2 of 3 numbers differ)",
            id="counts-the-others",
        ),
        pytest.param(
            f32(1), f32(NAN), "output 'y'[0] is nan and should be 1.0", id="nan-for-a-number"
        ),
        pytest.param(
            f32(INF), f32(1), "output 'y'[0] is 1.0 and should be inf", id="number-for-inf"
        ),
        pytest.param(
            f32(INF), f32(-INF), "output 'y'[0] is -inf and should be inf", id="signs-of-inf"
        ),
        pytest.param(
            np.int64([3]), np.int64([4]), "output 'y'[0] is 4 and should be 3", id="integers-exact"
        ),
        pytest.param(
            np.uint64([2**64 - 1]),
            np.uint64([2**64 - 2]),
            "output 'y'[0] is 18446744073709551614 and should be 18446744073709551615",
            id="large-integers-exact",
        ),
        pytest.param(
            np.array([True]),
            np.array([False]),
            "output 'y'[0] is False and should be True",
            id="bool",
        ),
        pytest.param(
            np.array(["a"], object),
            np.array(["b"], object),
            "output 'y'[0] is b and should be a",
            id="string",
        ),
        pytest.param(
            f32(1), np.array([1.0]), "output 'y' is float64 and should be float32", id="type"
        ),
        pytest.param(
            np.array(["1"]), f32(1), "output 'y' is float32 and should be string", id="no-string"
        ),
        pytest.param(
            f32(1), np.float32(1), "output 'y' has shape () and should have (1,)", id="rank"
        ),
        pytest.param(
            np.zeros((0, 3)),
            np.zeros((0, 0)),
            "output 'y' has shape (0, 0) and should have (0, 3)",
            id="shape-without-numbers",
        ),
        pytest.param([f32(1)], [], "output 'y' has 0 elements and should have 1", id="length"),
        pytest.param(
            [f32(1), f32(2)],
            [f32(1), f32(3)],
            "output 'y'[1][0] is 3.0 and should be 2.0",
            id="element",
        ),
        pytest.param(
            [f32(1)], f32(1), "output 'y' is a tensor and should be a sequence", id="kind"
        ),
        pytest.param(f32(1), None, "output 'y' is absent and should be a tensor", id="absent"),
        pytest.param(
            {1: 0.5}, {2: 0.5}, "output 'y' has the keys [2] and should have [1]", id="map-keys"
        ),
    ],
)
def test_different(expected, actual, message):
    assert compare({"y": expected}, {"y": actual}).message == message


def test_names_and_order_of_outputs_count():
    one = np.zeros(1)
    difference = compare({"a": one, "b": one}, {"b": one, "a": one})
    assert difference.message == "the outputs are ['b', 'a'] and should be ['a', 'b']"


def test_largest_errors_over_all_outputs():
    difference = compare(
        {"a": f32(1, 2), "b": [f32(10)]}, {"a": f32(1.5, 2), "b": [f32(10.25)]}, rtol=0, atol=9
    )
    assert difference.equal
    assert (difference.max_abs_error, difference.max_rel_error) == (0.5, 0.5)


def test_number_for_infinity_is_an_infinite_error():
    assert compare({"y": f32(1)}, {"y": f32(INF)}).max_abs_error == INF


@pytest.mark.parametrize("dtype", sorted(TOLERANCES))
def test_every_tolerance_can_fail(dtype):
    numbers = np.array([1.0, 0.0]).astype(element_of(dtype))
    assert compare({"y": numbers}, {"y": numbers}).equal
    for wrong in ([1.5, 0.0], [1.0, 0.5]):
        assert not compare({"y": numbers}, {"y": np.array(wrong).astype(numbers.dtype)}).equal


@pytest.mark.parametrize(
    ("options", "is_equal"),
    [({"rtol": 0.3}, True), ({"atol": 0.3}, True), ({"rtol": 0.1, "atol": 0.1}, False)],
    ids=["rtol", "atol", "both-too-small"],
)
def test_tolerances_can_be_given(options, is_equal):
    assert compare({"y": f32(1)}, {"y": f32(1.25)}, **options).equal is is_equal


def test_given_tolerances_leave_integers_exact():
    assert not compare({"y": np.int32([1])}, {"y": np.int32([2])}, rtol=9, atol=9).equal


@pytest.mark.parametrize("name", ["float8_e8m0fnu", "float4_e2m1fn"])
def test_floats_without_a_tolerance_are_compared_as_floats(name):
    kind = element_of(name)
    nan = float("nan") if name == "float8_e8m0fnu" else 1.0
    one, other = np.array([0.5, nan], kind), np.array([2.0, nan], kind)
    assert compare({"y": one}, {"y": one}).equal
    found = compare({"y": one}, {"y": other})
    assert "is 2 and should be 0.5" in found.message
    assert (found.max_abs_error, found.max_rel_error) == (1.5, 3.0)


def test_every_spelling_of_strings_is_one_element_type():
    assert {element_type(np.array(["a"], t)) for t in (object, np.str_)} == {"string"}


def element_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))
