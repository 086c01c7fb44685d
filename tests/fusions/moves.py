"""Random nodes that onnxruntime makes one operator of, moves, or takes away."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.fusions import composed
from tests.fusions.composed import Move
from tests.fusions.drawing import SAMPLES, Drawing
from tests.fusions.single import SINGLE

__all__ = ["AROUND", "INSIDE", "Move"]


def _one(op_type: str) -> Move:
    return lambda d, x: d.like(op_type, [x])


def _with_number(op_type: str, *numbers: float) -> Move:
    def move(d: Drawing, x: str) -> str:
        pair = [x, d.constant(d.rng.choice(numbers))]
        if op_type in ("Add", "Mul"):
            d.rng.shuffle(pair)
        return d.op(op_type, pair, *d.shapes[x])

    return move


def _known(d: Drawing, x: str, axis: int = -1) -> bool:
    shape = d.shapes[x]
    return len(shape) >= abs(axis) and shape[axis] != SAMPLES


def _by_matrix(d: Drawing, x: str) -> str | None:
    if not _known(d, x):
        return None
    *rest, last = d.shapes[x]
    size = d.rng.choice([2, 3, 4])
    return d.op("MatMul", [x, d.numbers(last, size)], *rest, size)


def _matrix_by(d: Drawing, x: str) -> str | None:
    if len(d.shapes[x]) < 2 or not _known(d, x, -2):
        return None
    *rest, rows, last = d.shapes[x]
    size = d.rng.choice([2, 3])
    return d.op("MatMul", [d.numbers(size, rows), x], *rest, size, last)


def _vector(d: Drawing, size: int) -> str:
    if size != SAMPLES:
        return d.numbers(size)
    found = [name for name in d.inputs if d.shapes[name] == (SAMPLES,)]
    return found[0] if found else d.input(SAMPLES)


def _by_vector(d: Drawing, x: str) -> str | None:
    *rest, last = d.shapes[x] or (0,)
    return d.op("MatMul", [x, _vector(d, last)], *rest) if last else None


def _vector_by(d: Drawing, x: str) -> str | None:
    if len(d.shapes[x]) < 2:
        return None
    *rest, rows, last = d.shapes[x]
    return d.op("MatMul", [_vector(d, rows), x], *rest, last)


def _gemm(d: Drawing, x: str) -> str | None:
    turned = d.rng.randint(0, 1)
    shape = d.shapes[x][::-1] if turned else d.shapes[x]
    if len(shape) != 2 or shape[1] == SAMPLES:
        return None
    other = d.rng.randint(0, 1)
    weight = d.numbers(3, shape[1]) if other else d.numbers(shape[1], 3)
    given = [x, weight, d.numbers(3)][: d.rng.randint(2, 3)]
    y = d.op(
        "Gemm", given, shape[0], 3, transA=turned, transB=other, alpha=d.rng.choice([1.0, 0.5])
    )
    return d.like("LeakyRelu", [y]) if d.rng.random() < 0.3 else y


def _transposed(d: Drawing, x: str, perm: list[int]) -> str:
    return d.op("Transpose", [x], *(d.shapes[x][axis] for axis in perm), perm=perm)


def _transpose(d: Drawing, x: str) -> str:
    perm = list(range(len(d.shapes[x])))
    d.rng.shuffle(perm)
    return _transposed(d, x, perm) if perm else x


def _turned(d: Drawing, x: str) -> str:
    rank = len(d.shapes[x])
    return _transposed(d, x, [*range(rank - 2), rank - 1, rank - 2])


def _attention(d: Drawing, x: str) -> str | None:
    if len(d.shapes[x]) < 2 or not _known(d, x) or not _known(d, x, -2):
        return None
    *rest, rows, _ = d.shapes[x]
    scores = d.op("MatMul", [x, _turned(d, x)], *rest, rows, rows)
    scores = d.like(d.rng.choice(["Mul", "Div"]), [scores, d.constant(0.7)])
    return d.op("MatMul", [d.like("Softmax", [scores], axis=-1), x], *d.shapes[x])


def _normalised(d: Drawing, x: str) -> str | None:
    if not d.shapes[x] or not _known(d, x):
        return None
    rows, last = (*d.shapes[x][:-1], 1), d.shapes[x][-1]

    def mean(value: str) -> str:
        return d.op("ReduceMean", [value, d.ints(-1)], *rows)

    centred = d.like("Sub", [x, mean(x)]) if d.rng.random() < 0.6 else x
    squares = mean(d.like("Pow", [centred, d.constant(2.0)]))
    deviation = d.like("Sqrt", [d.like("Add", [squares, d.constant(1e-5)])])
    y = d.like("Mul", [d.like("Div", [centred, deviation]), d.numbers(last)])
    return d.like("Add", [y, d.numbers(last)]) if d.rng.random() < 0.6 else y


def _gelu(d: Drawing, x: str) -> str:
    root = d.like("Erf", [d.like("Div", [x, d.constant(2**0.5)])])
    return d.like(
        "Mul", [d.like("Mul", [x, d.like("Add", [root, d.constant(1.0)])]), d.constant(0.5)]
    )


def _swish(d: Drawing, x: str) -> str:
    return d.like("Mul", [x, d.like("Sigmoid", [x])])


def _inverse(d: Drawing, x: str) -> str:
    below = d.like("Exp", [x])
    return d.like("Mul", [x, d.op("Div", [d.constant(1.0), below], *d.shapes[x])])


def _softmax(d: Drawing, x: str) -> str | None:
    shape = d.shapes[x]
    if not shape:
        return None
    sizes = [1 if d.rng.random() < 0.4 else size for size in shape]
    given = d.like("Add", [x, d.numbers(*sizes)]) if d.rng.random() < 0.5 else x
    return d.like("Softmax", [given], axis=d.rng.randrange(-len(shape), len(shape)))


def _axis(d: Drawing, x: str) -> int | None:
    found = [axis for axis, size in enumerate(d.shapes[x]) if size != SAMPLES]
    return d.rng.choice(found) if found else None


def _resized(shape: tuple[int, ...], axis: int, *sizes: int) -> tuple[int, ...]:
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def _pad(d: Drawing, x: str) -> str | None:
    axis, shape = _axis(d, x), d.shapes[x]
    if axis is None:
        return None
    named = axis - d.rng.choice([0, len(shape)])
    given = [x, d.ints(1, 2), d.constant(0.5), d.ints(named)]
    return d.op("Pad", given, *_resized(shape, axis, shape[axis] + 3))


def _slice(d: Drawing, x: str) -> str | None:
    axis, shape = _axis(d, x), d.shapes[x]
    if axis is None or shape[axis] < 2:
        return None
    given = [x, d.ints(1), d.ints(2**31), d.ints(axis)]
    return d.op("Slice", given, *_resized(shape, axis, shape[axis] - 1))


def _halves(d: Drawing, x: str) -> str | None:
    axis, shape = _axis(d, x), d.shapes[x]
    if axis is None or shape[axis] != 2:
        return None
    half = _resized(shape, axis, 1)
    one, other = d.ops("Split", [x], [half, half], axis=axis, num_outputs=2)
    return d.op("Concat", [other, one], *shape, axis=axis)


def _gathered(d: Drawing, x: str) -> str | None:
    axis, shape = _axis(d, x), d.shapes[x]
    if axis is None:
        return None
    first = d.rng.randrange(-shape[axis], shape[axis])
    return d.op("Gather", [x, d.constant(first, np.int64)], *_resized(shape, axis), axis=axis)


def _doubled(d: Drawing, x: str) -> str | None:
    axis, shape = _axis(d, x), d.shapes[x]
    if axis is None:
        return None
    return d.op("Concat", [x, x], *_resized(shape, axis, 2 * shape[axis]), axis=axis)


def _reduced(d: Drawing, x: str) -> str | None:
    shape, keeps = d.shapes[x], d.rng.randint(0, 1)
    if not shape:
        return None
    axis = d.rng.randrange(len(shape))
    left = _resized(shape, axis, *[1] * keeps)
    named = d.ints(axis - d.rng.choice([0, len(shape)]))
    return d.op(d.rng.choice(["ReduceSum", "ReduceMean"]), [x, named], *left, keepdims=keeps)


def _unsqueeze(d: Drawing, x: str) -> str:
    shape = d.shapes[x]
    axis = d.rng.randrange(len(shape) + 1)
    return d.op("Unsqueeze", [x, d.ints(axis)], *shape[:axis], 1, *shape[axis:])


def _squeeze(d: Drawing, x: str) -> str | None:
    shape = d.shapes[x]
    if 1 not in shape:
        return None
    axis = shape.index(1)
    return d.op("Squeeze", [x, d.ints(axis)], *_resized(shape, axis))


def _flat(d: Drawing, x: str) -> str | None:
    first, *rest = d.shapes[x] or (0,)
    if first != SAMPLES or SAMPLES in rest:
        return None
    size = int(np.prod(rest))
    return d.op("Reshape", [x, d.ints(d.rng.choice([-1, 0]), size)], first, size)


def _cast_back(d: Drawing, x: str) -> str:
    other = TensorProto.FLOAT if d.dtype != np.float32 else TensorProto.DOUBLE
    return d.like("Cast", [d.like("Cast", [x], to=other)], to=d.element_type)


def _quantized(d: Drawing, x: str) -> str | None:
    if d.dtype != np.float32:
        return None
    dtype = d.rng.choice([np.int8, np.uint8])
    given = [d.constant(0.1), d.constant(d.rng.choice([0, 3]), dtype)]
    return d.like("DequantizeLinear", [d.like("QuantizeLinear", [x, *given]), *given])


def _whole_product(d: Drawing, x: str) -> str | None:
    if len(d.shapes[x]) != 2 or not _known(d, x) or d.dtype != np.float32:
        return None
    rows, size = d.shapes[x]
    whole, scale, zero = d.ops("DynamicQuantizeLinear", [x], [(rows, size), (), ()])
    seed = d.rng.randrange(2**31)
    weights = d.constant(np.random.default_rng(seed).integers(-5, 6, (size, 3)), np.int8)
    y = d.op("Cast", [d.op("MatMulInteger", [whole, weights, zero], rows, 3)], rows, 3, to=1)
    return d.like("Mul", [y, d.like("Mul", [scale, d.constant(0.02)])])


def _to_own_shape(d: Drawing, x: str) -> str:
    shape = d.op("Shape", [x], len(d.shapes[x]))
    return d.op("Expand", [d.like("Mul", [x, d.constant(2.0)]), shape], *d.shapes[x])


def _where(d: Drawing, x: str) -> str:
    condition = d.like("Greater", [x, d.constant(0.0)])
    return d.op("Where", [d.like("Not", [condition]), d.constant(0.0), x], *d.shapes[x])


def _convolved(d: Drawing, x: str) -> str | None:
    if len(d.shapes[x]) != 3 or not _known(d, x) or not _known(d, x, -2):
        return None
    if d.rng.random() < 0.5:
        count, channels, length = d.shapes[x]
        x = d.op("Pad", [x, d.ints(0, 0, 1, 0, 0, 1)], count, channels, length + 2)
    count, channels, length = d.shapes[x]
    if length < 2:
        return None
    y = d.op("Conv", [x, d.numbers(3, channels, 2)], count, 3, length - 1)
    if d.rng.random() < 0.3:
        scale = d.constant([1.0, 2.0, 0.5])
        y = d.like("BatchNormalization", [y, *(d.numbers(3) for _ in range(3)), scale])
    elif d.rng.random() < 0.5:
        y = d.like(d.rng.choice(["Add", "Mul"]), [y, d.numbers(3, 1)])
    return d.like(d.rng.choice(["Relu", "Sigmoid"]), [y])


def _clip(d: Drawing, x: str) -> str:
    y = d.like("Relu", [x]) if d.rng.random() < 0.5 else x
    return d.like("Clip", [y, d.constant(-1.0), d.constant(1.0)])


_ANYWHERE: tuple[Move, ...] = (
    *map(_one, ("Relu", "Neg", "Tanh", "Identity", "Dropout")),
    _with_number("Mul", 1.0, 0.5),
    _with_number("Add", 0.0, 0.25),
    _with_number("Div", 1.0, 8**0.5),
    _with_number("Sub", 0.0, 0.25),
    *(_by_matrix, _matrix_by, _transpose, _attention, _normalised, _gelu, _swish, _softmax),
    *(_slice, _halves, _gathered, _unsqueeze, _squeeze, _whole_product, _where, _clip),
)
INSIDE = (*_ANYWHERE, *composed.ANYWHERE, *SINGLE)
"""For the body of a map."""
AROUND = (
    *INSIDE,
    *composed.ON_IMAGES,
    *(_by_vector, _vector_by, _gemm, _transpose, _transpose, _inverse, _pad, _doubled, _reduced),
    *(_flat, _cast_back, _quantized, _to_own_shape, _convolved),
)
"""In front of a map and behind it."""
