"""Several nodes that onnxruntime makes one operator of, or fewer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.fusions.drawing import SAMPLES, Drawing

__all__ = ["ANYWHERE", "ON_IMAGES", "Move"]

Move = Callable[[Drawing, str], str | None]
"""Adds nodes that read a value, and returns what they yield; None where they do not fit."""
_STEP, _WIDER_STEP = 0.0531416, 0.1037193
"""Scales that never give a number halfway between two steps of another: it would round either way."""


def _last(d: Drawing, x: str) -> int | None:
    """Return the last dimension of a value if all samples have it."""
    shape = d.shapes[x]
    return shape[-1] if shape and shape[-1] != SAMPLES else None


def _resized(shape: Sequence[int], axis: int, *sizes: int) -> tuple[int, ...]:
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def _free_axis(d: Drawing, x: str, least: int = 1) -> int | None:
    sizes = enumerate(d.shapes[x])
    found = [axis for axis, size in sizes if size != SAMPLES and size >= least]
    return d.rng.choice(found) if found else None


def _tanh_gelu(d: Drawing, x: str) -> str:
    """Write the form of Gelu by Tanh, with a bias in front now and then."""
    last = _last(d, x)
    if last and d.rng.random() < 0.5:
        x = d.like("Add", [x, d.numbers(last)])
    cube = d.like("Mul", [d.like("Pow", [x, d.constant(3.0)]), d.constant(0.044715)])
    inner = d.like("Mul", [d.like("Add", [x, cube]), d.constant((2 / np.pi) ** 0.5)])
    both = d.like("Add", [d.like("Tanh", [inner]), d.constant(1.0)])
    return d.like("Mul", [d.like("Mul", [x, d.constant(0.5)]), both])


def _quick_gelu(d: Drawing, x: str) -> str:
    return d.like("Mul", [x, d.like("Sigmoid", [d.like("Mul", [x, d.constant(1.702)])])])


def _biased_gelu(d: Drawing, x: str) -> str | None:
    last = _last(d, x)
    if not last:
        return None
    y = d.like("Add", [x, d.numbers(last)])
    root = d.like("Erf", [d.like("Div", [y, d.constant(2**0.5)])])
    whole = d.like("Mul", [y, d.like("Add", [root, d.constant(1.0)])])
    return d.like("Mul", [whole, d.constant(0.5)])


def _skip_normalized(d: Drawing, x: str) -> str | None:
    """Normalize a sum, by the operator."""
    last = _last(d, x)
    if not last:
        return None
    y = d.like("Add", [x, d.like("Relu", [x]) if d.rng.random() < 0.5 else d.numbers(last)])
    if d.rng.random() < 0.3:
        y = d.like("Add", [y, d.numbers(last)])
    given = [y, d.numbers(last), d.numbers(last)][: d.rng.randint(2, 3)]
    return d.like("LayerNormalization", given, axis=-1, epsilon=1e-3)


def _product_and_sum(d: Drawing, x: str) -> str | None:
    last = _last(d, x)
    if not last:
        return None
    size = d.rng.choice([2, 3])
    y = d.op("MatMul", [x, d.numbers(last, size)], *d.shapes[x][:-1], size)
    pair = [y, d.numbers(d.rng.choice([size, 1]))]
    d.rng.shuffle(pair)
    y = d.op("Add", pair, *d.shapes[y])
    return d.like(d.rng.choice(["Relu", "Sigmoid", "Tanh", "Softplus", "Neg"]), [y])


def _scaled_product(d: Drawing, x: str) -> str | None:
    last = _last(d, x)
    if not last:
        return None
    y = d.like(d.rng.choice(["Mul", "Div"]), [x, d.constant(0.5)])
    weight = d.op("Transpose", [d.numbers(3, last)], last, 3, perm=[1, 0])
    y = d.op("MatMul", [y, weight], *d.shapes[x][:-1], 3)
    return d.like("Mul", [y, d.constant(2.0)])


def _normalized_product(d: Drawing, x: str) -> str | None:
    """Scale the columns of a product by a BatchNormalization."""
    if len(d.shapes[x]) != 2 or not _last(d, x):
        return None
    y = d.op("MatMul", [x, d.numbers(d.shapes[x][1], 3)], d.shapes[x][0], 3)
    variance = d.constant([1.0, 2.0, 0.5])
    return d.like("BatchNormalization", [y, *(d.numbers(3) for _ in range(3)), variance])


def _slices_of_one(d: Drawing, x: str) -> str | None:
    """Read one value in several places, and join them in another order."""
    axis, shape = _free_axis(d, x, 2), d.shapes[x]
    if axis is None:
        return None
    size = shape[axis]
    parts = []
    for i in range(size):
        part = _resized(shape, axis, 1)
        if d.rng.random() < 0.5:
            ends = [d.ints(i), d.ints(i + 1), d.ints(axis)]
            parts.append(d.op("Slice", [x, *ends], *part))
        else:
            parts.append(d.op("Gather", [x, d.ints(i)], *part, axis=axis))
    d.rng.shuffle(parts)
    return d.op("Concat", parts, *shape, axis=axis)


def _unstacked(d: Drawing, x: str) -> str | None:
    axis, shape = _free_axis(d, x, 2), d.shapes[x]
    if axis is None:
        return None
    left = _resized(shape, axis)
    rows = [
        d.op("Gather", [x, d.constant(i, np.int64)], *left, axis=axis) for i in range(shape[axis])
    ]
    return d.op(d.rng.choice(["Sum", "Max", "Mean"]), rows, *left)


def _cut_twice(d: Drawing, x: str) -> str | None:
    axis, shape = _free_axis(d, x, 3), d.shapes[x]
    if axis is None:
        return None
    ends = [d.ints(1), d.ints(d.rng.choice([99, 2**31])), d.ints(axis)]
    y = d.op("Slice", [x, *ends], *_resized(shape, axis, shape[axis] - 1))
    ends = [d.ints(0), d.ints(-1), d.ints(axis - len(shape))]
    return d.op("Slice", [y, *ends], *_resized(shape, axis, shape[axis] - 2))


def _joined_and_cut(d: Drawing, x: str) -> str | None:
    axis, shape = _free_axis(d, x), d.shapes[x]
    if axis is None:
        return None
    size = shape[axis]
    both = d.op("Concat", [x, d.like("Neg", [x])], *_resized(shape, axis, 2 * size), axis=axis)
    first = d.rng.choice([0, size])
    return d.op("Slice", [both, d.ints(first), d.ints(first + size), d.ints(axis)], *shape)


def _to_parts_of_its_shape(d: Drawing, x: str) -> str | None:
    """Join the last two axes by parts of the value's own Shape."""
    shape = d.shapes[x]
    if len(shape) < 2 or SAMPLES in shape[-2:]:
        return None
    parts = []
    for axis in range(len(shape) - 2):
        size = d.op("Gather", [d.op("Shape", [x], len(shape)), d.constant(axis, np.int64)])
        parts.append(d.op("Unsqueeze", [size, d.ints(0)], 1))
    target = d.op("Concat", [*parts, d.ints(-1)], len(parts) + 1, axis=0)
    return d.op("Reshape", [x, target], *shape[:-2], shape[-2] * shape[-1])


def _expanded_by_ones(d: Drawing, x: str) -> str:
    rank = len(d.shapes[x])
    return d.op("Expand", [x, d.ints(*[1] * max(rank, 1))], *(d.shapes[x] or (1,)))


def _rotated(d: Drawing, x: str) -> str | None:
    last = _last(d, x)
    if not last or last % 2:
        return None
    half = (*d.shapes[x][:-1], last // 2)
    one, other = d.ops("Split", [x], [half, half], axis=-1, num_outputs=2)
    turned = d.op("Concat", [d.like("Neg", [other]), one], *d.shapes[x], axis=-1)
    pair = [d.like("Mul", [x, d.numbers(last)]), d.like("Mul", [turned, d.numbers(last)])]
    return d.like("Add", pair)


def _quantized_around(d: Drawing, x: str) -> str | None:
    """Quantize in front of what moves numbers, and behind it."""
    if d.dtype != np.float32 or len(d.shapes[x]) < 2:
        return None
    given = [
        d.constant(_STEP),
        d.constant(d.rng.choice([0, 7]), d.rng.choice([np.int8, np.uint8])),
    ]

    def there_and_back(value: str) -> str:
        return d.like("DequantizeLinear", [d.like("QuantizeLinear", [value, *given]), *given])

    y = there_and_back(x)
    perm = [*range(1, len(d.shapes[x])), 0]
    moved = d.op("Transpose", [y], *(d.shapes[x][axis] for axis in perm), perm=perm)
    return there_and_back(moved)


def _quantized_product(d: Drawing, x: str) -> str | None:
    """Multiply what is dequantized; with all in 8 bits it becomes one operator."""
    last = _last(d, x)
    if d.dtype != np.float32 or not last:
        return None
    given = [d.constant(_STEP), d.constant(3, np.uint8)]
    y = d.like("DequantizeLinear", [d.like("QuantizeLinear", [x, *given]), *given])
    seed = d.rng.randrange(2**31)
    whole = d.constant(np.random.default_rng(seed).integers(-9, 9, (last, 3)), np.int8)
    weight = d.op("DequantizeLinear", [whole, d.constant(0.1), d.constant(0, np.int8)], last, 3)
    y = d.op("MatMul", [y, weight], *d.shapes[x][:-1], 3)
    given = [d.constant(_WIDER_STEP), d.constant(100, np.uint8)]
    return d.like("DequantizeLinear", [d.like("QuantizeLinear", [y, *given]), *given])


def _wide_convolution(d: Drawing, x: str) -> str | None:
    """Convolve and pool images of eight channels, for which onnxruntime has blocks of channels."""
    shape = d.shapes[x]
    if d.dtype != np.float32 or len(shape) != 3 or SAMPLES in shape[1:]:
        return None
    count, channels, width = shape
    y = d.op("Unsqueeze", [x, d.ints(2)], count, channels, 1, width)
    y = d.op("Conv", [y, d.numbers(8, channels, 1, 1)], count, 8, 1, width)
    y = d.op("Conv", [y, d.numbers(16, 8, 1, 1), d.numbers(16)], count, 16, 1, width)
    if d.rng.random() < 0.5:
        y = d.like("Add", [y, d.like("Relu", [y])])
    y = d.like(d.rng.choice(["Relu", "Sigmoid", "HardSigmoid"]), [y])
    if d.rng.random() < 0.5:
        kind = d.rng.choice(["MaxPool", "AveragePool"])
        y = d.like(kind, [y], kernel_shape=[1, 3], pads=[0, 1, 0, 1])
    else:
        y = d.op("GlobalAveragePool", [y], count, 16, 1, 1)
    return d.op("Squeeze", [y, d.ints(2)], count, 16, d.shapes[y][-1])


def _padded_pool(d: Drawing, x: str) -> str | None:
    shape = d.shapes[x]
    if len(shape) != 3 or SAMPLES in shape[1:]:
        return None
    count, channels, width = shape
    y = d.op("Pad", [x, d.ints(0, 0, 1, 0, 0, 1)], count, channels, width + 2)
    kind = d.rng.choice(["MaxPool", "AveragePool"])
    return d.op(kind, [y], count, channels, width, kernel_shape=[3])


ON_IMAGES: tuple[Move, ...] = (_wide_convolution, _padded_pool)
"""For values of rank 3."""
ANYWHERE: tuple[Move, ...] = (
    *(_tanh_gelu, _quick_gelu, _biased_gelu, _skip_normalized, _product_and_sum),
    *(_scaled_product, _normalized_product, _slices_of_one, _unstacked, _cut_twice),
    *(_joined_and_cut, _to_parts_of_its_shape, _expanded_by_ones, _rotated),
    *(_quantized_around, _quantized_product),
)
