"""Which samples that a loop collects have their shapes compared."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.loops.forms import Form, LoopBody, OutputPlan
from passes.loops.one_shape import lacks_dims, with_shapes

pytestmark = pytest.mark.quick

FLOAT = ir.DataType.FLOAT


def collected(
    form: Form,
    dims: tuple[int | str | None, ...] | None,
    proven: tuple[int | str | None, ...] | None = None,
    axis: int = 0,
    *,
    is_shared: bool = False,
) -> OutputPlan:
    return OutputPlan(form, FLOAT, dims, axis, proven, is_shared)


SCAN, BLOCKS, LIST = Form.SCAN_OUTPUT, Form.BLOCKS, Form.INSERTION
CASES: dict[str, tuple[OutputPlan, bool]] = {
    "all proven": (collected(SCAN, (3, 4), (3, 4)), False),
    "one declared beside a proven one": (collected(SCAN, (3, 4), (3, None)), False),
    "one declared beside a symbol": (collected(SCAN, (3, "N"), (None, "N")), True),
    "the last one declared beside a symbol": (collected(SCAN, ("N", 3), ("N", None)), True),
    "a symbol beside proven ones": (collected(SCAN, ("N", 3, 4), ("N", 3, 4)), False),
    "one declared, alone": (collected(SCAN, (3,), (None,)), False),
    "two declared": (collected(SCAN, (3, 4), (None, None)), True),
    "no number": (collected(SCAN, (), ()), False),
    "of any shape": (collected(SCAN, None), False),
    "of any size": (collected(SCAN, (3, 4, None), (None, None, None)), False),
    "shared": (collected(SCAN, (3, 4), (None, None), is_shared=True), False),
    "elements of a list": (collected(LIST, (3, 4), (None, None)), False),
    "blocks, proven beside": (collected(BLOCKS, (None, 4), (None, 4)), False),
    "blocks, declared beside": (collected(BLOCKS, (None, 4), (None, None)), True),
    "blocks, declared along": (collected(BLOCKS, (3, 4), (None, 4)), False),
    "blocks, declared along the last": (collected(BLOCKS, (3, 4), (3, None), -1), False),
    "blocks, declared beside the last": (collected(BLOCKS, (3, None), (None, None), -1), True),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes_that_are_compared(name: str) -> None:
    plan, expected = CASES[name]
    value = ir.Value(name="y")
    body = LoopBody([], [value, value], [], {})
    other = collected(SCAN, (2,), (2,))
    made, plans, positions = with_shapes(body, {0: other, 1: plan})
    assert positions == ({1: 2} if expected else {})
    assert [node.op_type for node in made.nodes] == ["Shape"] * expected
    assert len(made.outputs) == 2 + expected
    assert [plans[at] for at in (0, 1)] == [other, plan]
    if expected:
        rank = len(plan.dims or ())
        assert plans[2] == OutputPlan(SCAN, ir.DataType.INT64, (rank,), proven=(rank,))
        assert made.nodes[0].inputs[0] is value


@pytest.mark.parametrize(
    ("form", "is_tensor", "proven", "expected"),
    [
        (SCAN, True, None, True),
        (SCAN, True, 3, False),
        (SCAN, False, None, False),
        (BLOCKS, True, None, False),
    ],
)
def test_dimensions_that_are_told_without_samples(
    form: Form, proven: int | None, *, is_tensor: bool, expected: bool
) -> None:
    plan = OutputPlan(form, FLOAT, (3,), proven=(proven,), is_tensor=is_tensor)
    assert lacks_dims(plan) is expected
