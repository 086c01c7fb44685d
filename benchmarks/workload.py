"""What a workload is, and how its models and numbers are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

__all__ = ["Case", "Family", "Sweep", "draw", "model"]


@dataclasses.dataclass(frozen=True)
class Case:
    """One workload.

    Attributes:
        name: What is done, and to how many samples.
        given: The model with a SequenceMap.
        by_hand: The same work written in batched operators; ``None`` where there is no such form.
        feeds: Input name to array, or to a list of arrays for a sequence.
        promises: Options of ``rewriter.rewrite`` beside the strategy.
    """

    name: str
    given: onnx.ModelProto
    by_hand: onnx.ModelProto | None
    feeds: Mapping[str, Any]
    promises: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Family = Callable[[int], Case]
"""Makes a workload for a number of samples."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One workload over growing numbers of samples.

    Attributes:
        name: What is done.
        bound: The largest growth per doubling that is aimed at.
        case: Makes the case for a number of samples.
    """

    name: str
    bound: float
    case: Family


def model(
    text: str, weights: Mapping[str, Any] | None = None, *, opset: int = 18
) -> onnx.ModelProto:
    """Parse a graph and give it weights."""
    parsed = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>{text}')
    tensors = [onnx.numpy_helper.from_array(v, name) for name, v in (weights or {}).items()]
    parsed.graph.initializer.extend(tensors)
    return parsed


def draw(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Draw float32 numbers of variance 1 / last dimension, which no layer lets overflow."""
    numbers = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return numbers * np.float32(shape[-1] ** -0.5)
