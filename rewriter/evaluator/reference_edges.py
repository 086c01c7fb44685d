"""Operators of onnx's own evaluator that fail on numbers without axes, or on no rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.ops import op_grid_sample, op_non_max_suppression
from onnx.reference.ops.aionnxml import op_normalizer

from rewriter.evaluator.reference_operator import Operator

__all__ = ["EDGE_OPERATORS"]


class NonMaxSuppression(op_non_max_suppression.NonMaxSuppression, Operator):
    """The boxes that are kept.

    onnx's own does not read a limit that has no axis, and ignores surplus scores.
    """

    def _run(self, boxes: np.ndarray, scores: np.ndarray, *limits: Any, **attributes: Any) -> Any:
        if boxes.shape[1] != scores.shape[2]:
            raise self.error(f"there are {boxes.shape[1]} boxes and {scores.shape[2]} scores")
        given = [None if limit is None else np.reshape(limit, -1) for limit in limits]
        most, overlap, least = (*given, None, None, None)[:3]
        most = np.zeros(1, np.int64) if most is None else most
        overlap = np.zeros(1, np.float32) if overlap is None else overlap
        run: Any = super()._run
        return run(boxes, scores, most, overlap, least, **attributes)


class LpNormalization(Operator):
    """Vectors of length 1; onnx's own adds numbers up with their signs where p is 1."""

    def _run(self, x: np.ndarray, axis: int = -1, p: int = 2) -> tuple[np.ndarray, ...]:
        powers = np.abs(x) if p == 1 else np.square(x)
        length = powers.sum(axis=axis, keepdims=True)
        length = length if p == 1 else np.sqrt(length)
        return (np.divide(x, length, out=np.zeros_like(x), where=length != 0),)


class GlobalAveragePool(Operator):
    """The mean of each channel; onnx's own divides by the number of images, 0 too."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if 0 in x.shape[2:]:
            raise self.error(f"an image of shape {x.shape[1:]} has no pixels")
        return (x.mean(axis=tuple(range(2, x.ndim)), keepdims=True).astype(x.dtype),)


class GridSample(op_grid_sample.GridSample, Operator):
    """Pixels of images at points; onnx's own takes zeros of an image that has none."""

    def _run(self, *inputs: np.ndarray, **attributes: Any) -> Any:
        x, grid = inputs
        if 0 in x.shape[2:]:
            raise self.error(f"an image of shape {x.shape[1:]} has no pixels")
        if not grid.size:
            return (np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype),)
        run: Any = super()._run
        return run(x, grid, **attributes)


class Normalizer(op_normalizer.Normalizer):
    """Rows of length 1; onnx's own does not know the columns of no rows."""

    def _run(self, x: np.ndarray, norm: str = "MAX") -> tuple[np.ndarray, ...]:
        run: Any = super()._run
        return tuple(run(x, norm)) if x.size else (x.astype(np.float32),)


EDGE_OPERATORS = (GlobalAveragePool, GridSample, LpNormalization, NonMaxSuppression, Normalizer)
