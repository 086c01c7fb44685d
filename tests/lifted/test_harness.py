"""The lifted suite's own judgement: it must notice what is wrong."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.lifted.build import build
from tests.lifted.cases import CONSTANT, MAPPED, SHARED, WAYS, official_cases
from tests.lifted.judge import difference, loop_free
from tests.lifted.outcome import prepare

_ONE = np.ones((2,), np.float32)


@pytest.mark.parametrize(
    ("expected", "actual", "said"),
    [
        pytest.param([[_ONE]], [[_ONE]], "", id="equal"),
        pytest.param([[_ONE]], [[_ONE + 1e-6]], "", id="within the tolerance"),
        pytest.param([[_ONE * np.nan]], [[_ONE * np.nan]], "", id="NaN equals NaN"),
        pytest.param([[]], [[]], "", id="no samples"),
        pytest.param([[_ONE]], [[_ONE + 1e-3]], "value", id="another value"),
        pytest.param([[_ONE]], [[_ONE * np.nan]], "value", id="NaN for a number"),
        pytest.param([[_ONE]], [[_ONE.astype(np.float64)]], "type float64", id="another type"),
        pytest.param([[_ONE]], [[_ONE.reshape(1, 2)]], "shape (1, 2)", id="another shape"),
        pytest.param([[_ONE]], [[]], "0 outputs or elements", id="a missing sample"),
        pytest.param([[_ONE]], [_ONE], "no sequence", id="a tensor for a sequence"),
        pytest.param([[np.array(3)]], [[np.array(4)]], "value", id="another integer"),
        pytest.param(
            [[np.array(["a"], object)]], [[np.array(["b"], object)]], "value", id="another string"
        ),
    ],
)
def test_difference(expected: list, actual: list, said: str) -> None:
    found = difference(expected, actual)
    assert said in found
    assert bool(found) == bool(said)


def test_roles_of_the_three_ways() -> None:
    conv = official_cases()["test_basic_conv_with_padding"]
    assert WAYS["all"](conv) == {"x": MAPPED, "W": MAPPED}
    assert WAYS["first"](conv) == {"x": MAPPED, "W": SHARED}
    assert WAYS["typical"](conv) == {"x": MAPPED, "W": CONSTANT}


def test_samples_differ_and_keep_their_shape() -> None:
    prepared = prepare("test_gather_0", "all")
    assert prepared is not None
    first, second, third = prepared.samples
    for name, array in first.items():
        assert array.shape == second[name].shape == third[name].shape
        assert not np.array_equal(array, second[name])
        assert not np.array_equal(second[name], third[name])


def test_a_loop_of_the_body_does_not_count() -> None:
    scan = official_cases()["test_scan9_sum"]
    assert loop_free(scan, scan.model)
    assert not loop_free(official_cases()["test_relu"], scan.model)


def test_a_loop_in_a_function_counts() -> None:
    relu = official_cases()["test_relu"]
    hidden = onnx.ModelProto()
    hidden.CopyFrom(relu.model)
    function = hidden.functions.add(name="Hidden", domain="local")
    function.node.extend(official_cases()["test_scan9_sum"].model.graph.node)
    assert not loop_free(relu, hidden)


def test_declared_numbers_are_true_and_symbols_have_none() -> None:
    prepared = prepare("test_relu", "all")
    assert prepared is not None
    shapes = []
    for static in (True, False):
        one = prepared
        given = one.official, one.roles, one.samples, one.results
        lifted = build(*given, static=static, stacks=False)
        element = lifted.model.graph.output[0].type.sequence_type.elem_type
        shapes.append([dim.dim_value for dim in element.tensor_type.shape.dim])
    assert shapes == [[3, 4, 5], [0, 0, 0]]


@pytest.mark.full
@pytest.mark.parametrize(
    ("way", "cases", "operators"),
    [("all", 1180, 178), ("first", 1180, 178), ("typical", 1165, 172)],
)
def test_hardly_a_case_is_unusable(way: str, cases: int, operators: int) -> None:
    prepared = [prepare(name, way) for name in official_cases()]
    usable = [case.official.op_type for case in prepared if case is not None]
    assert len(usable) >= cases
    assert len(set(usable)) >= operators
