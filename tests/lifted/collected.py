"""Collects the official node tests in less time than ONNX takes for it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
from onnx.backend.test.case import base
from onnx.backend.test.case.test_case import TestCase
from onnx.reference.ops import op_pool_common

__all__ = ["collect"]


def collect() -> list[TestCase]:
    """Return the official node tests, sorted by name.

    Every process that runs tests does this. The texts of the documentation are left out, and
    the windows of a volume are pooled at once: these were half of the time.
    """
    from onnx.backend.test.case.node import collect_testcases

    with (
        warnings.catch_warnings(),
        mock.patch.object(base, "process_snippet", _no_snippet),
        mock.patch.object(op_pool_common, "pool", _pool),
    ):
        warnings.simplefilter("ignore")  # the makers of the official data overflow on purpose
        return sorted(collect_testcases(None), key=lambda test: test.name)


def _no_snippet(_op_name: str, name: str, _export: object) -> tuple[str, str]:
    return name, ""


_each_window = op_pool_common.pool


def _pool(
    padded: np.ndarray,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    out_shape: Sequence[int],
    kind: str,
    *padding: Any,
    **others: Any,
) -> np.ndarray:
    """Pool a volume without padding at once, and all else window by window, as ONNX does."""
    power = others.get("p", 1)
    if len(x_shape) != 5 or padding or others.keys() - {"p"}:
        return _each_window(padded, x_shape, kernel, strides, out_shape, kind, *padding, **others)
    axes = tuple(range(2, 5))
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), axis=axes)
    windows = windows[(..., *(slice(None, None, step) for step in strides), *[slice(None)] * 3)]
    if kind == "MAX":
        return windows.max(axis=(-3, -2, -1))
    if kind == "AVG":
        return windows.mean(axis=(-3, -2, -1), dtype=padded.dtype)
    return np.linalg.norm(windows.reshape(*windows.shape[:5], -1), ord=power, axis=-1)
