"""Random arrays of every ONNX element type."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError

__all__ = ["Style", "draw"]

Style = Literal["small", "signed", "positive", "one", "zero"]
"""What numbers are drawn: integers that a model may use as sizes, axes or counts are safest
small and not negative; data deserves both signs."""

_WORDS = ("alpha", "", "Beta", "naïve", "12", "a b", "gamma", "7")
_LARGEST = 2**28  # elements: two gigabytes of float64
_DIGITS = ("12", "7", "3", "450")
# Inclusive limits of the integers drawn, by style.
_LIMITS: dict[Style, tuple[int, int]] = {
    "small": (0, 4),
    "signed": (-9, 9),
    "positive": (1, 4),
    "one": (1, 1),
    "zero": (0, 0),
}


def draw(
    rng: np.random.Generator,
    dtype: ir.DataType,
    shape: tuple[int, ...],
    style: Style,
    indices: tuple[int, int] | None = None,
    *,
    has_empty: bool = True,
) -> np.ndarray[Any, Any]:
    """Draw one array.

    Args:
        rng: Where the randomness comes from.
        dtype: The element type.
        shape: The shape.
        style: Which numbers.
        indices: Inclusive limits of numbers that are indices, in place of the style's.
        has_empty: Whether a string may be empty.

    Returns:
        The array; strings as an array of Python objects.

    Raises:
        RewriteError: The array would be larger than any that is worth drawing.
    """
    if math.prod(shape) > _LARGEST:
        raise RewriteError(
            f"an input of the shape {list(shape)} is too large to be drawn: give inputs with "
            "--inputs, or skip this with --no-verify"
        )
    if dtype == ir.DataType.STRING:
        words: tuple[str, ...] = _WORDS if style in ("small", "signed") else _DIGITS
        words = words if has_empty else tuple(filter(None, words))
        return np.array(rng.choice(words, size=shape), dtype=object).reshape(shape)
    numpy_type = dtype.numpy()
    if indices is not None:
        return _integers(rng, *indices, shape).astype(numpy_type)
    if dtype == ir.DataType.BOOL:
        return rng.integers(0, 2, size=shape).astype(numpy_type)
    if dtype.is_integer():
        low, high = _integer_limits(dtype, style)
        return _integers(rng, low, high, shape).astype(numpy_type)
    # E8M0 has no sign bit.
    numbers = _reals(rng, shape, "positive" if dtype == ir.DataType.FLOAT8E8M0 else style)
    if numpy_type.kind == "c":
        return (numbers + 1j * _reals(rng, shape, style)).astype(numpy_type)
    return numbers.astype(numpy_type)


def _reals(rng: np.random.Generator, shape: tuple[int, ...], style: Style) -> np.ndarray[Any, Any]:
    if style == "zero":
        return np.zeros(shape)
    numbers = rng.standard_normal(shape)
    return np.asarray(np.abs(numbers) if style in ("positive", "one") else numbers)


def _integers(
    rng: np.random.Generator, low: int, high: int, shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    return np.asarray(rng.integers(low, high, size=shape, endpoint=True))


def _integer_limits(dtype: ir.DataType, style: Style) -> tuple[int, int]:
    low, high = _LIMITS[style]
    # Eight bits are pixels or quantized numbers: data, whatever the style of the counts.
    if dtype == ir.DataType.UINT8 and style in ("small", "signed"):
        return 0, 255
    if dtype == ir.DataType.INT8 and style == "signed":
        return -128, 127
    signed = dtype.is_signed()
    least = -(1 << (dtype.bitwidth - 1)) if signed else 0
    most = (1 << (dtype.bitwidth - 1 if signed else dtype.bitwidth)) - 1
    return max(low, least), min(high, most)
