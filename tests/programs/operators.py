"""The operators of random programs in numpy, as the specification words them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

__all__ = ["OPERATORS", "Failure"]

Array = Any
Inputs = list[Any]
Attributes = dict[str, Any]
Operator = Callable[[Inputs, Attributes, int, int], Any]


class Failure(Exception):
    """The specification makes an error of these values."""


def _need(condition: object, why: str = "") -> None:
    if not condition:
        raise Failure(why)


def _axes(attributes: Attributes, inputs: Inputs, at: int) -> list[int] | None:
    given = inputs[at] if len(inputs) > at else None
    return attributes.get("axes") if given is None else [int(a) for a in given]


def _axis(axis: int, rank: int) -> int:
    _need(-rank <= axis < rank, f"axis {axis} of rank {rank}")
    return axis % rank


def _broadcast(function: Callable[..., Array]) -> Operator:
    def run(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
        try:
            found = np.asarray(function(*inputs))
        except ValueError as error:
            raise Failure(str(error)) from error
        return found.astype(inputs[-1].dtype) if found.dtype.kind != "b" else found

    return run


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return a / b
    _need((b != 0).all(), "division by zero")
    quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return quotient * np.sign(a.astype(np.int64)) * np.sign(b.astype(np.int64))


def _fold(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def run(*values: Array) -> Array:
        found = values[0]
        for value in values[1:]:
            found = function(found, value)
        return found

    return run


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


BINARY: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "Max": _fold(np.maximum),
    "Min": _fold(np.minimum),
    "Sum": _fold(np.add),
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": lambda a, b: np.asarray(a == b, bool),
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}
UNARY: dict[str, Callable[[Array], Array]] = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Relu": lambda x: np.maximum(x, 0),
    "Exp": np.exp,
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x.astype(np.float64))),
    "Softplus": lambda x: np.logaddexp(x.astype(np.float64), 0),
    "Sqrt": np.sqrt,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,
    "Sign": np.sign,
    "Not": np.logical_not,
    "IsNaN": np.isnan,
    "IsInf": np.isinf,
    "Erf": lambda x: _erf(x.astype(np.float64)),
    "Identity": lambda x: x,
}


def _unary(function: Callable[[Array], Array]) -> Operator:
    def run(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
        x = inputs[0]
        if not isinstance(x, np.ndarray):
            return x  # Identity of a sequence, or of what nothing settles
        found = np.asarray(function(x))
        return found if found.dtype.kind == "b" else found.astype(x.dtype)

    return run


def _reduction(function: Callable[..., Array], *, of_nothing: bool) -> Operator:
    def run(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
        x = inputs[0]
        axes = _axes(attributes, inputs, 1)
        if not axes:
            if attributes.get("noop_with_empty_axes", 0):
                return x
            axes = list(range(x.ndim))
        where = tuple(_axis(a, x.ndim) for a in axes)
        _need(of_nothing or all(x.shape[a] for a in where), "reduction over nothing")
        found = function(x, axis=where, keepdims=bool(attributes.get("keepdims", 1)))
        return np.asarray(found).astype(x.dtype)

    return run


def _mean(x: Array, axis: Any, keepdims: bool) -> Array:
    if x.dtype.kind == "f":
        return np.mean(x, axis=axis, keepdims=keepdims, dtype=np.float64)
    total = np.sum(x, axis=axis, keepdims=keepdims)
    return _divide(total, np.array(max(1, x.size // max(1, total.size))))


def _arg(function: Callable[..., Array]) -> Operator:
    def run(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
        x = inputs[0]
        axis = _axis(attributes.get("axis", 0), x.ndim)
        _need(x.shape[axis], "ArgMax over nothing")
        if attributes.get("select_last_index", 0):
            found = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis)
        else:
            found = function(x, axis=axis)
        found = np.asarray(found, np.int64)
        return np.expand_dims(found, axis) if attributes.get("keepdims", 1) else found

    return run


def _constant(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    ((name, value),) = attributes.items()
    types = {"value_float": np.float32, "value_floats": np.float32}
    types |= {"value_int": np.int64, "value_ints": np.int64}
    return value if name == "value" else np.array(value, types.get(name, object))


def _cast(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    return inputs[0].astype(onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]))


def _shape(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    found = np.array(inputs[0].shape, np.int64)
    return found[attributes.get("start", 0) : attributes.get("end", None)]


def _reshape(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, target = inputs[0], [int(n) for n in inputs[1]]
    if not attributes.get("allowzero", 0):
        _need(all(n or i < x.ndim for i, n in enumerate(target)), "no such dimension")
        target = [n or x.shape[i] for i, n in enumerate(target)]
    _need(target.count(-1) <= 1)
    if -1 in target:
        known = math.prod(n for n in target if n != -1)
        _need(known and x.size % known == 0, "no such shape")
        target[target.index(-1)] = x.size // known
    _need(all(n >= 0 for n in target) and math.prod(target) == x.size, "another size")
    return x.reshape(target)


def _squeeze(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, axes = inputs[0], _axes(attributes, inputs, 1)
    if axes is None:
        return x.squeeze()
    where = tuple(_axis(a, x.ndim) for a in axes)
    _need(all(x.shape[a] == 1 for a in where), "squeezed where there is more than one")
    return x.squeeze(where)


def _unsqueeze(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    axes = _axes(attributes, inputs, 1) or []
    rank = inputs[0].ndim + len(axes)
    return np.expand_dims(inputs[0], tuple(_axis(a, rank) for a in axes))


def _flatten(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, axis = inputs[0], attributes.get("axis", 1)
    _need(-x.ndim <= axis <= x.ndim)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _transpose(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    perm = attributes.get("perm")
    _need(perm is None or len(perm) == inputs[0].ndim)
    return inputs[0].transpose(perm)


def _expand(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    try:
        shape = np.broadcast_shapes(inputs[0].shape, tuple(int(n) for n in inputs[1]))
    except ValueError as error:
        raise Failure(str(error)) from error
    return np.broadcast_to(inputs[0], shape).copy()


def _tile(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    _need(inputs[1].shape == (inputs[0].ndim,))
    return np.tile(inputs[0], [int(n) for n in inputs[1]]) if inputs[0].ndim else inputs[0]


def _concatenated(values: list[Array], axis: int) -> Array:
    rank = values[0].ndim
    axis = _axis(axis, rank)
    try:
        return np.concatenate(values, axis)
    except ValueError as error:
        raise Failure(str(error)) from error


def _concat(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    return _concatenated(inputs, attributes["axis"])


def _split(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x = inputs[0]
    axis = _axis(attributes.get("axis", 0), x.ndim)
    size = x.shape[axis]
    sizes = attributes.get("split")
    if len(inputs) > 1 and inputs[1] is not None:
        sizes = [int(n) for n in inputs[1]]
    if sizes is None:
        each = -(-size // outputs)
        sizes = [min(each, max(0, size - each * i)) for i in range(outputs)]
        _need(opset >= 18 or size % outputs == 0, "uneven split")
    _need(sum(sizes) == size and len(sizes) == outputs, "sizes do not add up")
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _slice(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x = inputs[0]
    starts, ends = ([int(n) for n in v] for v in inputs[1:3])
    axes = [int(a) for a in inputs[3]] if len(inputs) > 3 and inputs[3] is not None else None
    steps = [int(n) for n in inputs[4]] if len(inputs) > 4 else [1] * len(starts)
    axes = list(range(len(starts))) if axes is None else axes
    window = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        _need(step, "a step of 0")
        axis = _axis(axis, x.ndim)
        size = x.shape[axis]
        low, high = (0, size) if step > 0 else (-1, size - 1)
        first = min(max(start + size if start < 0 else start, 0), size if step > 0 else size - 1)
        last = min(max(end + size if end < 0 else end, low), high)
        window[axis] = slice(first, None if last < 0 else last, step)
        if size == 0:
            window[axis] = slice(0, 0)
    return x[tuple(window)]


def _indices(indices: Array, size: int) -> Array:
    _need(((indices >= -size) & (indices < size)).all(), "index out of range")
    return np.where(indices < 0, indices + size, indices)


def _gather(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, indices = inputs
    axis = _axis(attributes.get("axis", 0), x.ndim)
    return np.asarray(np.take(x, _indices(indices, x.shape[axis]), axis))


def _gather_elements(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, indices = inputs
    axis = _axis(attributes.get("axis", 0), x.ndim)
    fits = all(
        m <= n for i, (m, n) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != axis
    )
    _need(fits, "more indices than elements")
    part = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))]
    return np.take_along_axis(part, _indices(indices, x.shape[axis]), axis)


def _pad(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x = inputs[0]
    pads = [int(n) for n in inputs[1]]
    ends = [(pads[i], pads[i + x.ndim]) for i in range(x.ndim)]
    value = inputs[2].reshape(()) if len(inputs) > 2 and inputs[2] is not None else 0
    return np.pad(x, ends, constant_values=value)


def _top_k(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, k = inputs[0], int(inputs[1][0])
    axis = _axis(attributes.get("axis", -1), x.ndim)
    _need(0 <= k <= x.shape[axis], "fewer than k")
    order = np.argsort(-x if attributes.get("largest", 1) else x, axis, kind="stable")
    order = np.take(order, range(k), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


def _cumulative_sum(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x = inputs[0]
    axis = _axis(int(inputs[1].reshape(())), x.ndim)
    x = np.flip(x, axis) if attributes.get("reverse", 0) else x
    found = np.cumsum(x, axis, dtype=x.dtype)
    if attributes.get("exclusive", 0) and x.shape[axis]:
        zero = np.zeros_like(np.take(found, [0], axis))
        found = np.concatenate([zero, np.take(found, range(x.shape[axis] - 1), axis)], axis)
    return np.flip(found, axis) if attributes.get("reverse", 0) else found


def _softmax(*, logarithm: bool) -> Operator:
    def run(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
        x = inputs[0].astype(np.float64)
        axis = _axis(attributes.get("axis", -1 if opset >= 13 else 1), x.ndim)
        shape = x.shape
        if opset < 13:
            x = x.reshape(math.prod(shape[:axis]), math.prod(shape[axis:]))
            axis = 1
        if x.size:
            x = x - x.max(axis, keepdims=True)
            total = np.exp(x).sum(axis, keepdims=True)
            x = x - np.log(total) if logarithm else np.exp(x) / total
        return x.reshape(shape).astype(inputs[0].dtype)

    return run


def _matmul(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    try:
        found = np.matmul(inputs[0].astype(np.float64), inputs[1].astype(np.float64))
    except ValueError as error:
        raise Failure(str(error)) from error
    return np.asarray(found).astype(inputs[0].dtype)


def _where(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    try:
        return np.where(*inputs)
    except ValueError as error:
        raise Failure(str(error)) from error


def _clip(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x = inputs[0]
    x = np.maximum(x, inputs[1]) if len(inputs) > 1 and inputs[1] is not None else x
    return np.minimum(x, inputs[2]) if len(inputs) > 2 and inputs[2] is not None else x


def _layer_norm(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x = inputs[0].astype(np.float64)
    axis = _axis(attributes.get("axis", -1), x.ndim)
    where = tuple(range(axis, x.ndim))
    _need(all(x.shape[a] for a in where))
    centred = x - x.mean(where, keepdims=True)
    spread = np.sqrt((centred**2).mean(where, keepdims=True) + attributes.get("epsilon", 1e-5))
    return (centred / spread * inputs[1]).astype(inputs[0].dtype)


def _non_zero(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    return np.array(np.nonzero(np.atleast_1d(inputs[0])), np.int64)


def _compress(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, keep = inputs
    axis = attributes.get("axis")
    x = x if axis is not None else x.reshape(-1)
    axis = _axis(axis or 0, x.ndim)
    _need(keep.size <= x.shape[axis])
    return np.compress(keep, x, axis)


def _range(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    return np.arange(*(v.reshape(()) for v in inputs), dtype=inputs[0].dtype)


def _constant_of_shape(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    value = attributes.get("value", np.zeros(1, np.float32))
    _need((inputs[0] >= 0).all())
    return np.full([int(n) for n in inputs[0]], value.reshape(-1)[0], value.dtype)


def _scatter_elements(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    x, indices, updates = inputs
    axis = _axis(attributes.get("axis", 0), x.ndim)
    found = x.copy()
    np.put_along_axis(found, _indices(indices, x.shape[axis]), updates, axis)
    return found


def _one_hot(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    indices, depth, values = inputs
    depth = int(depth.reshape(-1)[0])
    axis = _axis(attributes.get("axis", -1), indices.ndim + 1)
    inside = (indices >= -depth) & (indices < depth)
    wrapped = np.where(indices < 0, indices + depth, indices)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = depth
    hit = np.expand_dims(wrapped, axis) == np.arange(depth).reshape(shape)
    return np.where(hit & np.expand_dims(inside, axis), values[1], values[0])


# Sequences.


def _position(inputs: Inputs, at: int, length: int, last: int) -> int:
    position = int(inputs[at].reshape(()))
    _need(-length <= position <= last, "position out of range")
    return position + length if position < 0 else position


def _sequence_at(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    length = len(inputs[0])
    return inputs[0][_position(inputs, 1, length, length - 1)]


def _insert(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> list[Array]:
    values = list(inputs[0])
    where = _position(inputs, 2, len(values), len(values)) if len(inputs) > 2 else len(values)
    values.insert(where, inputs[1])
    return values


def _erase(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> list[Array]:
    values = list(inputs[0])
    _need(values, "nothing to erase")
    where = _position(inputs, 1, len(values), len(values) - 1) if len(inputs) > 1 else -1
    del values[where]
    return values


def _join(inputs: Inputs, attributes: Attributes, opset: int, outputs: int) -> Array:
    values = inputs[0]
    _need(values, "nothing to concatenate")
    if attributes.get("new_axis", 0):
        _need(len({v.shape for v in values}) == 1, "stacked of different shapes")
        return np.stack(values, _axis(attributes["axis"], values[0].ndim + 1))
    return _concatenated(values, attributes["axis"])


def _split_to_sequence(
    inputs: Inputs, attributes: Attributes, opset: int, outputs: int
) -> list[Array]:
    x = inputs[0]
    axis = _axis(attributes.get("axis", 0), x.ndim)
    size = x.shape[axis]
    if len(inputs) < 2 or inputs[1] is None:
        parts = [np.take(x, [i], axis) for i in range(size)]
        if not attributes.get("keepdims", 1):
            parts = [part.squeeze(axis) for part in parts]
        return parts
    split = inputs[1]
    if split.ndim == 0:
        _need(int(split) > 0, "chunks of nothing")
        sizes = [min(int(split), size - at) for at in range(0, size, int(split))]
    else:
        sizes = [int(n) for n in split]
        _need(all(n >= 0 for n in sizes) and sum(sizes) == size, "sizes do not add up")
    ends = np.cumsum([0, *sizes])
    return [np.take(x, range(ends[i], ends[i + 1]), axis) for i in range(len(sizes))]


OPERATORS: dict[str, Operator] = {
    **{name: _broadcast(function) for name, function in BINARY.items()},
    **{name: _unary(function) for name, function in UNARY.items()},
    "ReduceSum": _reduction(np.sum, of_nothing=True),
    "ReduceProd": _reduction(np.prod, of_nothing=True),
    "ReduceMax": _reduction(np.max, of_nothing=False),
    "ReduceMin": _reduction(np.min, of_nothing=False),
    "ReduceMean": _reduction(_mean, of_nothing=False),
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "Constant": _constant,
    "Cast": _cast,
    "Shape": _shape,
    "Size": lambda inputs, *_: np.array(inputs[0].size, np.int64),
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "ScatterElements": _scatter_elements,
    "Pad": _pad,
    "TopK": _top_k,
    "CumSum": _cumulative_sum,
    "Softmax": _softmax(logarithm=False),
    "LogSoftmax": _softmax(logarithm=True),
    "MatMul": _matmul,
    "Where": _where,
    "Clip": _clip,
    "LayerNormalization": _layer_norm,
    "NonZero": _non_zero,
    "Compress": _compress,
    "Range": _range,
    "OneHot": _one_hot,
    "ConstantOfShape": _constant_of_shape,
    "SequenceConstruct": lambda inputs, *_: list(inputs),
    "SequenceEmpty": lambda *_: [],
    "SequenceLength": lambda inputs, *_: np.array(len(inputs[0]), np.int64),
    "SequenceAt": _sequence_at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "ConcatFromSequence": _join,
    "SplitToSequence": _split_to_sequence,
}
