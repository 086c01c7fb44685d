"""Sizes that kernels make, where ONNX's inference counts otherwise."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["resized_size", "window_counts"]


def resized_size(size: int, scale: float) -> int | None:
    """Return the size of an axis that is scaled; None where floats and doubles make two of it.

    Inference takes the floor of a product of doubles, onnxruntime of one of floats.
    """
    exact = math.floor(size * scale)
    return exact if exact == np.floor(np.float32(size) * np.float32(scale)) else None


def window_counts(size: int, before: int, behind: int, reach: int, step: int) -> tuple[int, int]:
    """Return how many windows a pool that rounds up has: by inference, and by kernels.

    Below opset 22 inference counts a window that begins behind the image, in what pads it.

    Args:
        size: The size of the image along an axis.
        before: How much is padded in front of it.
        behind: How much is padded behind it.
        reach: How far a window reaches.
        step: How far apart windows begin.
    """
    inferred = -(-(size + before + behind - reach) // step) + 1
    return inferred, min(inferred, (size + before - 1) // step + 1)
