"""Do two results differ by rounding alone? Two engines tell, by how far they differ on one model.

A sum of thousands of products that nearly cancel each other is a small number with the error of
large ones: another order of the sum differs by more than the number's own tolerance. So does the
order that another engine takes on the model as given, which says how much of a difference is
rounding::

    before, on the evaluator      0.25585938
    before, on onnxruntime        0.25588989    3.1e-05 apart: the rounding of such a sum
    after, on onnxruntime         0.25590587    4.7e-05 apart: less than twice as much
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewriter.proof.compare import TOLERANCES, compare_values, element_type

__all__ = ["may_round_alike", "rounds_alike"]

_SPREAD = 2.0
"""How many times further than the engines from each other the result may be from what is right."""

Array = np.ndarray[Any, Any]


def rounds_alike(
    expected: dict[str, Any],
    elsewhere: dict[str, Any],
    actual: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Return whether a result differs from another by no more than rounding.

    Args:
        expected: The outputs of the model before.
        elsewhere: The same from another engine.
        actual: The outputs of the model after.
        rtol: Relative tolerance for floating point types in place of the one of the type.
        atol: Absolute tolerance, likewise. It grows for each tensor by twice the distance of the
            two engines, which counts as rounding as far as it is small beside the largest number.
    """
    if not list(expected) == list(elsewhere) == list(actual):
        return False
    triples = zip(expected.values(), elsewhere.values(), actual.values(), strict=True)
    return all(_alike(*values, rtol, atol) for values in triples)


def may_round_alike(
    expected: dict[str, Any],
    actual: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Return whether there may be results elsewhere by which ``rounds_alike`` holds."""
    return rounds_alike(expected, _far(expected), actual, rtol, atol)


def _far(value: Any) -> Any:
    """Return values that are as far from others as counts, and of their types and shapes."""
    if isinstance(value, dict):
        return {name: _far(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_far(item) for item in value]
    if isinstance(value, np.ndarray) and element_type(value) in TOLERANCES:
        return (0.5 * value).astype(value.dtype)
    return value


def _alike(
    expected: Any, elsewhere: Any, actual: Any, rtol: float | None, atol: float | None
) -> bool:
    every = (expected, elsewhere, actual)
    if all(isinstance(value, list) for value in every):
        if not len(expected) == len(elsewhere) == len(actual):
            return False
        return all(_alike(*items, rtol, atol) for items in zip(*every, strict=True))
    if all(isinstance(value, np.ndarray) for value in every):
        atol = _allowed(expected, elsewhere, rtol, atol)
    return compare_values(expected, actual, "", rtol, atol).equal


def _allowed(
    expected: Array, elsewhere: Array, rtol: float | None, atol: float | None
) -> float | None:
    """Return the absolute tolerance of a tensor that two engines have computed."""
    kind = element_type(expected)
    if kind not in TOLERANCES or element_type(elsewhere) != kind:
        return atol
    if expected.shape != elsewhere.shape or not expected.size:
        return atol
    own_rtol, own_atol = TOLERANCES[kind]
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    one, other = expected.astype(wide), elsewhere.astype(wide)
    with np.errstate(all="ignore"):
        distance = float(np.max(np.abs(one - other)))
        largest = float(np.max(np.abs(one)))
    leeway = 0.0
    if np.isfinite(distance) and np.isfinite(largest):
        leeway = min(_SPREAD * distance, (own_rtol if rtol is None else rtol) * largest)
    return (own_atol if atol is None else atol) + leeway
