"""Single operators that onnxruntime moves a Transpose across, or folds into others."""

from __future__ import annotations

import numpy as np

from tests.fusions.composed import Move
from tests.fusions.drawing import SAMPLES, Drawing

__all__ = ["SINGLE"]

_ALIKE = (
    *("Abs", "Elu", "Erf", "HardSwish", "LeakyRelu", "Selu", "Sin", "Softplus", "Softsign"),
    *("ThresholdedRelu", "HardSigmoid"),
)
_REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare")


def _alike(d: Drawing, x: str) -> str:
    return d.like(d.rng.choice(_ALIKE), [x])


def _reduced(d: Drawing, x: str) -> str | None:
    """Reduce one axis or two, by whatever operator."""
    shape = d.shapes[x]
    if not shape:
        return None
    axes = d.rng.sample(range(len(shape)), d.rng.randint(1, min(2, len(shape))))
    if any(shape[axis] == SAMPLES for axis in axes):
        return None
    keeps = d.rng.randint(0, 1)
    left = [1 if at in axes else size for at, size in enumerate(shape) if keeps or at not in axes]
    named = d.ints(*(axis - d.rng.choice([0, len(shape)]) for axis in axes))
    return d.op(d.rng.choice(_REDUCTIONS), [x, named], *left, keepdims=keeps)


def _place_of_greatest(d: Drawing, x: str) -> str | None:
    shape = d.shapes[x]
    axes = [axis for axis, size in enumerate(shape) if size != SAMPLES]
    if not axes or d.dtype == np.float16:
        return None
    axis, keeps = d.rng.choice(axes), d.rng.randint(0, 1)
    left = (*shape[:axis], *[1] * keeps, *shape[axis + 1 :])
    kind = d.rng.choice(["ArgMax", "ArgMin"])
    y = d.op(kind, [x], *left, axis=axis - d.rng.choice([0, len(shape)]), keepdims=keeps)
    return d.op("Cast", [y], *left, to=d.element_type)


def _tiled(d: Drawing, x: str) -> str | None:
    shape = d.shapes[x]
    if not shape:
        return None
    times = [1 if size == SAMPLES else d.rng.choice([1, 1, 2]) for size in shape]
    sizes = [size * n for size, n in zip(shape, times, strict=True)]
    return d.op("Tile", [x, d.ints(*times)], *sizes)


def _with_others(d: Drawing, x: str) -> str:
    """Meet a constant that has some of the axes."""
    shape = d.shapes[x]
    kept = [1 if size == SAMPLES or d.rng.random() < 0.4 else size for size in shape]
    other = d.numbers(*kept[d.rng.randint(0, len(kept)) :])
    pair = [x, other]
    kind = d.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"])
    if d.rng.random() < 0.5:
        pair.reverse()
    return d.op(kind, pair, *shape)


def _prelu(d: Drawing, x: str) -> str | None:
    if not d.shapes[x]:
        return None
    last = d.shapes[x][-1]
    return d.like("PRelu", [x, d.numbers(1 if last == SAMPLES else last)])


def _chosen(d: Drawing, x: str) -> str:
    flags = d.like("Less", [x, d.constant(0.3)])
    if d.rng.random() < 0.5:
        flags = d.like(d.rng.choice(["And", "Or"]), [flags, d.like("Less", [d.constant(-9.0), x])])
    return d.like("Where", [flags, x, d.like("Mul", [x, d.constant(0.5)])])


def _enlarged(d: Drawing, x: str) -> str | None:
    """Repeat the last axis by a Resize."""
    shape = d.shapes[x]
    if d.dtype != np.float32 or len(shape) not in (3, 4) or shape[-1] == SAMPLES:
        return None
    scales = d.constant([*[1.0] * (len(shape) - 1), 2.0], np.float32)
    given = [x, "", scales]
    sizes = (*shape[:-1], 2 * shape[-1])
    return d.op(
        "Resize", given, *sizes, mode="nearest", coordinate_transformation_mode="asymmetric"
    )


def _log_softmax(d: Drawing, x: str) -> str | None:
    axes = [axis for axis, size in enumerate(d.shapes[x]) if size != SAMPLES]
    return d.like("LogSoftmax", [x], axis=d.rng.choice(axes)) if axes else None


def _running(d: Drawing, x: str) -> str | None:
    axes = [axis for axis, size in enumerate(d.shapes[x]) if size != SAMPLES]
    if not axes or d.dtype == np.float16:
        return None
    return d.like("CumSum", [x, d.constant(d.rng.choice(axes), np.int64)])


def _normalized_channels(d: Drawing, x: str) -> str | None:
    shape = d.shapes[x]
    if len(shape) != 3 or SAMPLES in shape[1:] or shape[2] < 2:
        return None
    given = [x, d.numbers(shape[1]), d.numbers(shape[1])]
    return d.like("InstanceNormalization", given, epsilon=1e-2)


def _own_like(d: Drawing, x: str) -> str:
    """Go there and back by CastLike."""
    other = d.constant(0.0, np.float64 if d.dtype == np.float32 else np.float32)
    wide = d.like("CastLike", [x, other])
    return d.like("CastLike", [d.like("Neg", [wide]), d.constant(1.0)])


def _parts(d: Drawing, x: str) -> str | None:
    """Split into unequal parts; the last one is not read."""
    shape = d.shapes[x]
    axes = [axis for axis, size in enumerate(shape) if size != SAMPLES and size >= 3]
    if not axes:
        return None
    axis = d.rng.choice(axes)
    sizes = [1, shape[axis] - 2, 1]
    shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    one, two, _ = d.ops("Split", [x, d.ints(*sizes)], shapes, axis=axis)
    joined = (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :])
    return d.op("Concat", [two, one], *joined, axis=axis)


SINGLE: tuple[Move, ...] = (
    *(_alike, _reduced, _place_of_greatest, _tiled, _with_others, _with_others, _prelu, _chosen),
    *(_enlarged, _log_softmax, _running, _normalized_channels, _own_like, _parts),
)
