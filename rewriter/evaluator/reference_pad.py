"""Pad with numbers below 0, which take elements away: onnx's own has none of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewriter.evaluator.reference_operator import Operator

__all__ = ["Pad"]


class Pad(Operator):
    """A tensor with elements added or taken away at both ends of its axes.

    What is taken away goes first, so that a mirrored edge is the edge that is left.
    """

    def _run(
        self,
        data: np.ndarray,
        pads: Any = None,
        constant_value: np.ndarray | None = None,
        axes: np.ndarray | None = None,
        mode: str = "constant",
        value: float | None = None,
        paddings: Any = None,
    ) -> tuple[np.ndarray, ...]:
        chosen = range(data.ndim) if axes is None else [int(axis) % data.ndim for axis in axes]
        numbers = np.asarray(paddings if pads is None else pads).astype(np.int64)
        if numbers.size != 2 * len(chosen):
            raise self.error(f"{numbers.size} numbers of pads are given for {len(chosen)} axes")
        widths = np.zeros((data.ndim, 2), np.int64)
        widths[list(chosen)] = numbers.reshape(2, -1).T
        kept = [
            slice(max(-begin, 0), size + min(end, 0))
            for size, (begin, end) in zip(data.shape, widths.tolist(), strict=True)
        ]
        if any(one.stop < one.start for one in kept):
            raise self.error(f"pads {numbers.tolist()} take more away than {data.shape} has")
        number = value if constant_value is None else constant_value
        options = {"constant_values": 0 if number is None else number}
        padded: np.ndarray = np.pad(
            data[tuple(kept)],
            np.maximum(widths, 0),
            mode,  # type: ignore[call-overload]
            **(options if mode == "constant" else {}),
        )
        return (padded.astype(data.dtype),)
