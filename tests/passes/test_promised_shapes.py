"""Shapes that a caller promises."""

from __future__ import annotations

from passes.promises import Promises


def test_inputs_that_are_gone_have_no_shape() -> None:
    promises = Promises(input_shapes={"x": (1, None), "y": (2,)}, trust_types=True)
    left = promises.without_shapes(["x", None])
    assert left == Promises(input_shapes={"y": (2,)}, trust_types=True)
