"""Are two sets of outputs the same? By shape, element type and value, with stated tolerances."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["TOLERANCES", "Difference", "as_known", "compare", "compare_values", "element_type"]

# (rtol, atol) by element type; a type that is not listed is compared exactly. They leave room
# for a sum taken in another order, not for another algorithm.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-11),
    "complex128": (1e-9, 1e-11),
    "float32": (1e-4, 1e-5),
    "complex64": (1e-4, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (4e-2, 1e-2),
    "float8_e4m3fn": (0.13, 0.01),
    "float8_e4m3fnuz": (0.13, 0.01),
    "float8_e5m2": (0.26, 0.01),
    "float8_e5m2fnuz": (0.26, 0.01),
}


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far two sets of outputs lie apart.

    Attributes:
        message: The first mismatch in words; empty when there is none.
        max_abs_error: Largest absolute difference of two finite numbers; infinite where one of
            the two is a number and the other is not.
        max_rel_error: Largest of those differences divided by the expected number's magnitude.
    """

    message: str = ""
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether nothing differs beyond the tolerances."""
        return not self.message


def element_type(array: np.ndarray[Any, Any]) -> str:
    """Return the element type's name; ``string`` for every numpy spelling of strings."""
    return "string" if array.dtype.kind in "OUST" else array.dtype.name


def compare(
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
) -> Difference:
    """Compare named outputs, ``expected`` being what is right.

    Args:
        expected: Output name to array, list (a sequence), dict (a map) or None (an absent
            optional).
        actual: The same from the other model.
        rtol: Relative tolerance for floating point types in place of their table entry.
        atol: Absolute tolerance, likewise.

    Returns:
        The largest differences over all outputs and the first mismatch in words.
    """
    if list(expected) != list(actual):
        return Difference(
            f"the outputs are {list(actual)} and should be {list(expected)}", np.inf, np.inf
        )
    return _worst(
        compare_values(value, actual[name], f"output {name!r}", rtol, atol)
        for name, value in expected.items()
    )


def as_known(expected: Any, actual: Any) -> Any:
    """Return what is expected if neither has a row and ``actual`` only tells more of its shape.

    A Loop that never runs yields no rows, with 0 for each further dimension that nothing tells.
    """
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [as_known(e, a) for e, a in zip(expected, actual, strict=True)]
    if not (isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray)):
        return actual
    if expected.dtype != actual.dtype or expected.ndim != actual.ndim or expected.ndim < 2:
        return actual
    if expected.shape[0] or actual.shape[0]:
        return actual
    pairs = zip(expected.shape, actual.shape, strict=True)
    return expected if all(e in (0, a) for e, a in pairs) else actual


def compare_values(
    expected: Any, actual: Any, where: str, rtol: float | None = None, atol: float | None = None
) -> Difference:
    """Compare two values of any ONNX type; ``where`` names them in the message.

    Args:
        expected: What it should be.
        actual: What it is.
        where: Names them in the message.
        rtol: The relative tolerance; None for that of the element type.
        atol: The absolute one.
    """
    if _kind(expected) != _kind(actual):
        message = f"{where} is {_kind(actual)} and should be {_kind(expected)}"
        return Difference(message, np.inf, np.inf)
    if expected is None:
        return Difference()
    if isinstance(expected, list):
        if len(expected) != len(actual):
            message = f"{where} has {len(actual)} elements and should have {len(expected)}"
            return Difference(message, np.inf, np.inf)
        return _worst(
            compare_values(a, b, f"{where}[{i}]", rtol, atol)
            for i, (a, b) in enumerate(zip(expected, actual, strict=True))
        )
    if isinstance(expected, dict):
        if expected.keys() != actual.keys():
            message = f"{where} has the keys {list(actual)} and should have {list(expected)}"
            return Difference(message, np.inf, np.inf)
        return _worst(
            compare_values(_entry(value), _entry(actual[key]), f"{where}[{key!r}]", rtol, atol)
            for key, value in expected.items()
        )
    return _compare_arrays(np.asarray(expected), np.asarray(actual), where, rtol, atol)


def _entry(value: Any) -> Any:
    """Return a value of a map; onnxruntime gives its floats as wider numbers of Python."""
    return np.float32(value) if isinstance(value, float) else value


def _kind(value: Any) -> str:
    if value is None:
        return "absent"
    if isinstance(value, list):
        return "a sequence"
    return "a map" if isinstance(value, dict) else "a tensor"


def _worst(differences: Iterable[Difference]) -> Difference:
    message, absolute, relative = "", 0.0, 0.0
    for difference in differences:
        message = message or difference.message
        absolute = max(absolute, difference.max_abs_error)
        relative = max(relative, difference.max_rel_error)
    return Difference(message, absolute, relative)


def _compare_arrays(
    expected: np.ndarray[Any, Any],
    actual: np.ndarray[Any, Any],
    where: str,
    rtol: float | None,
    atol: float | None,
) -> Difference:
    if element_type(expected) != element_type(actual):
        message = f"{where} is {element_type(actual)} and should be {element_type(expected)}"
        return Difference(message, np.inf, np.inf)
    if expected.shape != actual.shape:
        message = f"{where} has shape {actual.shape} and should have {expected.shape}"
        return Difference(message, np.inf, np.inf)
    if expected.size == 0:
        return Difference()
    if element_type(expected) == "string":
        expected, actual = expected.astype(object), actual.astype(object)
        return _first(expected, actual, expected != actual, where, 0.0, 0.0)
    kind = element_type(expected)
    table = TOLERANCES.get(kind, (0.0, 0.0) if kind.startswith("float") else None)
    if table is None:
        # Python's integers do not overflow: uint64 and int64 stay exact.
        return _compare_exact(expected, actual, where)
    same = (expected == actual) | ((expected != expected) & (actual != actual))  # NaN is NaN
    if np.all(same):
        return Difference()
    apart = ~same
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = expected[apart].astype(wide), actual[apart].astype(wide)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        error = np.where(np.isnan(error), np.inf, error)
        magnitude = np.abs(a)
        relative = error / magnitude
        relative = np.where(np.isnan(relative), np.inf, relative)
        allowed = (table[1] if atol is None else atol) + (
            table[0] if rtol is None else rtol
        ) * magnitude
        # An infinite magnitude would allow everything.
        is_wrong = ~((error <= allowed) & np.isfinite(allowed))
    wrong = np.zeros(expected.shape, np.bool_)
    wrong[apart] = is_wrong
    return _first(expected, actual, wrong, where, float(error.max()), float(relative.max()))


def _compare_exact(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], where: str
) -> Difference:
    wrong = expected != actual
    if not wrong.any():
        return Difference()
    absolute, relative = 0.0, 0.0
    for a, b in zip(expected[wrong].tolist(), actual[wrong].tolist(), strict=True):
        error = abs(int(a) - int(b))
        absolute = max(absolute, float(error))
        relative = max(relative, error / abs(int(a)) if a else np.inf)
    return _first(expected, actual, wrong, where, absolute, relative)


def _first(
    expected: np.ndarray[Any, Any],
    actual: np.ndarray[Any, Any],
    wrong: np.ndarray[Any, Any],
    where: str,
    absolute: float,
    relative: float,
) -> Difference:
    if not np.any(wrong):
        return Difference("", absolute, relative)
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f"{where}{list(index)}" if index else where
    count = int(np.sum(wrong))
    others = f" ({count} of {expected.size} numbers differ)" if count > 1 else ""
    return Difference(
        f"{at} is {actual[index]!s} and should be {expected[index]!s}{others}", absolute, relative
    )
