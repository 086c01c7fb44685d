"""Random nodes on tensors, in the form that the opset asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from tests.programs.scopes import Scope, Stuck, Val

__all__ = ["TENSOR_MOVES", "condition", "draw_tensor", "fit_for"]

Move = Callable[[Scope], Any]
NUMBERS = ("float16", "float32", "float64", "int32", "int64")
FINEST = 6


def fit_for(*names: str) -> Callable[[Val], bool]:
    """Return whether a value has one of some element types."""
    return lambda v: (v.dtype.name if v.dtype != object else "string") in names


def _of(scope: Scope, *names: str, least: int = 0, plain: bool = False) -> Val:
    """Return a tensor of one of some types; ``plain``: without NaN and infinities."""
    fits = fit_for(*names)
    found = [v for v in scope.tensors(least=least) if fits(v)]
    if plain:
        found = [v for v in found if not scope.is_odd(v)]
    return scope.draw.pick(found)


def _exact(scope: Scope, least: int = 0) -> Val:
    """Return numbers that rounding has not touched."""
    found = [v for v in scope.tensors("fi", least) if not v.is_float or v.grain is not None]
    found = [v for v in found if v.dtype.name in ("float32", "float64", "int32", "int64")]
    return scope.draw.pick(v for v in found if not scope.is_odd(v))


def _finer(*vals: Val, product: bool = False) -> int | None:
    """Return the grain of a sum, or of a product."""
    grains = [v.grain for v in vals]
    if any(g is None for g in grains) or any(v.dtype == np.float16 for v in vals):
        return None
    found = sum(grains) if product else max(grains)  # type: ignore[arg-type, type-var]
    return found if found <= FINEST else None


def _partner(scope: Scope, x: Val) -> Val:
    """Return a tensor that broadcasts with another, of the same element type."""
    if scope.draw.chance(0.3):
        return _number(scope, x)
    found = [
        other
        for other in scope.tensors()
        if other.dtype == x.dtype
        and all(
            _broadcasts(a.shape, b.shape)
            for a, b in zip(scope.values(x), scope.values(other), strict=True)
        )
    ]
    return scope.draw.pick(found)


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


def _number(scope: Scope, like: Val, *, nonzero: bool = False) -> Val:
    """Return a constant of rank 0 or 1, or of the last dimension where that is known."""
    draw = scope.draw
    static = scope.static(like)
    shapes: list[tuple[int, ...]] = [(), (1,)]
    if static:
        shapes += [static[-1:], static]
    shape = draw.pick(shapes)
    return scope.constant(random_array(scope, like.dtype, shape, nonzero=nonzero))


def random_array(
    scope: Scope, dtype: Any, shape: tuple[int, ...], *, nonzero: bool = False
) -> np.ndarray:
    """Return small numbers, letters or truths."""
    rng, dtype = scope.draw.rng, np.dtype(dtype)
    if dtype.kind == "O":
        return np.array(rng.choice(["a", "b", "", "ü"], shape), object).reshape(shape)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "f":
        found = rng.integers(-12, 13, shape) / 4
        return np.asarray(np.where(found == 0, 1.5, found) if nonzero else found, dtype)
    low = 1 if nonzero or dtype.kind == "u" else -3
    return np.asarray(rng.integers(low, 6, shape), dtype)


def _unary(scope: Scope) -> Any:
    op = scope.draw.pick(
        ["Neg", "Abs", "Relu", "Tanh", "Sigmoid", "Exp", "Floor", "Ceil", "Sign", "Erf", "Sqrt"]
    )
    if op in ("Neg", "Abs"):
        x = _of(scope, "float16", "float32", "float64", "int8", "int32", "int64")
        return scope.op(op, x, grain=x.grain)
    if op in ("Floor", "Ceil", "Sign"):
        x = _exact(scope)
        if not x.is_float or (op == "Sign" and scope.draw.opset < 13):
            raise Stuck
        return scope.op(op, x, grain=x.grain)
    if op == "Relu":
        x = _of(scope, "float16", "float32", "float64", plain=True)
        return scope.op(op, x, grain=x.grain)
    names = ["float32", "float16"] if op == "Erf" else ["float16", "float32", "float64"]
    x = _of(scope, *names, plain=True)
    if op == "Exp" and any((np.abs(v) > 6).any() for v in scope.values(x)):
        raise Stuck
    if op == "Sqrt":
        x = scope.op("Abs", x)
    return scope.op(op, x)


def _binary(scope: Scope) -> Any:
    op = scope.draw.pick(["Add", "Sub", "Mul", "Add", "Mul", "Div", "Max", "Min"])
    x = _of(scope, *NUMBERS, plain=op in ("Max", "Min", "Div"))
    if op == "Div":
        if x.dtype.kind == "i":
            raise Stuck  # a lane of zeros kills the process
        return scope.op(op, x, _number(scope, x, nonzero=True))
    y = _partner(scope, x)
    if op in ("Max", "Min") and (scope.is_odd(y) or (not x.is_float and scope.draw.opset < 12)):
        raise Stuck
    pair = [x, y] if scope.draw.chance(0.7) else [y, x]
    return scope.op(op, *pair, grain=_finer(x, y, product=op == "Mul"))


def _compare(scope: Scope) -> Any:
    x = _exact(scope)
    y = _partner(scope, x)
    if (y.is_float and y.grain is None) or scope.is_odd(y):
        raise Stuck
    ops = ["Less", "Greater", "Equal"]
    ops += ["LessOrEqual", "GreaterOrEqual"] if scope.draw.opset >= 12 else []
    return scope.op(scope.draw.pick(ops), x, y)


def _equal_others(scope: Scope) -> Any:
    names = ["bool", "int32", "int64"] + (["string"] if scope.draw.opset >= 19 else [])
    x = _of(scope, *names)
    return scope.op("Equal", x, _partner(scope, x))


def _logic(scope: Scope) -> Any:
    x = _of(scope, "bool")
    if scope.draw.chance(0.3):
        return scope.op("Not", x)
    return scope.op(scope.draw.pick(["And", "Or", "Xor"]), x, _partner(scope, x))


def _where(scope: Scope) -> Any:
    mask = _of(scope, "bool")
    x = _of(scope, "float32", "float64", "int32", "int64", "uint8", "string")
    if not all(
        _broadcasts(a.shape, b.shape)
        for a, b in zip(scope.values(mask), scope.values(x), strict=True)
    ):
        raise Stuck
    y = _number(scope, x) if scope.draw.chance(0.5) else _partner(scope, x)
    return scope.op("Where", mask, x, y, grain=_finer(x, y))


def _is_nan(scope: Scope) -> Any:
    op = scope.draw.pick(["IsNaN", "IsInf"])
    return scope.op(op, _of(scope, "float32", "float64"))


CASTS = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


def _cast(scope: Scope) -> Any:
    x = _of(scope, *CASTS)
    wanted = np.dtype(scope.draw.pick(n for n in CASTS if n != x.dtype.name))
    if x.is_float and wanted.kind != "f":
        if x.grain is None or scope.is_odd(x):
            raise Stuck
        if wanted.kind == "u" and any((v < 0).any() for v in scope.values(x)):
            raise Stuck  # what becomes of it is not said
    if wanted.kind != "b" and any((np.abs(v.astype(float)) > 100).any() for v in scope.values(x)):
        raise Stuck
    grain = 0 if not x.is_float else x.grain
    if np.float16 in (wanted, x.dtype):
        grain = None
    to = helper.np_dtype_to_tensor_dtype(wanted)
    return scope.op("Cast", x, to=to, grain=grain)


def _any(scope: Scope, least: int = 0) -> Val:
    return scope.tensor(least=least)


def _transpose(scope: Scope) -> Any:
    x = _any(scope, 2)
    rank = scope.rank(x)
    if scope.draw.chance(0.3):
        return scope.op("Transpose", x, grain=x.grain)
    perm = [int(i) for i in scope.draw.rng.permutation(rank)]
    return scope.op("Transpose", x, perm=perm, grain=x.grain)


def _reshape(scope: Scope) -> Any:
    x = _any(scope)
    rank, draw = scope.rank(x), scope.draw
    match draw.number(0, 4):
        case 0:
            target = [-1]
        case 1 if rank >= 2:
            target = [0] * (rank - 2) + [-1]
        case 2 if rank >= 1:
            target = [1] * draw.number(0, 1) + [0] * rank
            if target[0] == 1:
                raise Stuck
        case 3:
            static = scope.static(x)
            if static is None:
                raise Stuck
            target = list(static[::-1])
        case _:
            # By the shape of another value, or of the same.
            other = draw.pick(
                v
                for v in scope.tensors()
                if all(
                    a.size == b.size for a, b in zip(scope.values(v), scope.values(x), strict=True)
                )
            )
            shape = scope.op("Shape", other)
            if any(0 in v.shape for v in scope.values(x)):
                raise Stuck
            return scope.op("Reshape", x, shape, grain=x.grain)
    if any(0 in v.shape for v in scope.values(x)) and -1 in target:
        raise Stuck
    return scope.op("Reshape", x, scope.constant(target, np.int64), grain=x.grain)


def _unsqueeze(scope: Scope) -> Any:
    x = _any(scope)
    rank = scope.rank(x)
    if rank > 3:
        raise Stuck
    axis = scope.draw.number(-rank - 1, rank)
    return scope.axes_form("Unsqueeze", 13, x, [axis], grain=x.grain)


def _squeeze(scope: Scope) -> Any:
    x = _any(scope, 1)
    rank = scope.rank(x)
    ones = [a for a in range(rank) if all(s[a] == 1 for s in scope.shapes(x))]
    axis = scope.draw.pick(ones)
    axis -= rank if scope.draw.chance(0.4) else 0
    return scope.axes_form("Squeeze", 13, x, [axis], grain=x.grain)


def _flatten(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", "int32", "int64", "bool", least=1)
    rank = scope.rank(x)
    return scope.op("Flatten", x, axis=scope.draw.number(-rank, rank), grain=x.grain)


def _expand(scope: Scope) -> Any:
    x = _any(scope)
    rank, draw = scope.rank(x), scope.draw
    if draw.chance(0.5):
        target = [draw.pick([1, 1, 2]) for _ in range(rank + draw.number(0, 1))]
        return scope.op("Expand", x, scope.constant(np.array(target, np.int64)), grain=x.grain)
    other = draw.pick(
        v
        for v in scope.tensors()
        if all(
            _broadcasts(a.shape, b.shape)
            for a, b in zip(scope.values(v), scope.values(x), strict=True)
        )
    )
    return scope.op("Expand", x, scope.op("Shape", other), grain=x.grain)


def _tile(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", "int32", "int64", "bool", least=1)
    counts = [scope.draw.pick([1, 1, 2, 0]) for _ in range(scope.rank(x))]
    return scope.op("Tile", x, scope.constant(counts, np.int64), grain=x.grain)


def _concat(scope: Scope) -> Any:
    x = _any(scope, 1)
    rank = scope.rank(x)
    axis = scope.draw.number(-rank, rank - 1)
    at = axis % rank
    found = [
        v
        for v in scope.tensors(least=1)
        if v.dtype == x.dtype
        and scope.rank(v) == rank
        and all(
            _without(a.shape, at) == _without(b.shape, at)
            for a, b in zip(scope.values(x), scope.values(v), strict=True)
        )
    ]
    others = [scope.draw.pick(found) for _ in range(scope.draw.number(1, 2))]
    return scope.op("Concat", x, *others, axis=axis, grain=_finer(x, *others))


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _slice(scope: Scope) -> Any:
    x = _any(scope, 1)
    rank, draw = scope.rank(x), scope.draw
    axis = draw.number(-rank, rank - 1)
    step = draw.pick([1, 1, 1, 2, -1])
    start, end = draw.number(-4, 3), draw.pick([-3, -1, 1, 2, 4, 100, 2**31 - 1, 2**63 - 1])
    if step < 0:
        start, end = draw.pick([(-1, -100), (100, 0), (2, -100), (-1, -(2**31))])
    numbers = [scope.constant([n], np.int64) for n in (start, end, axis)]
    if step != 1:
        numbers.append(scope.constant([step], np.int64))
    return scope.op("Slice", x, *numbers, grain=x.grain)


def _slice_by_length(scope: Scope) -> Any:
    """Cut at a length that is computed."""
    x = _any(scope, 1)
    rank = scope.rank(x)
    axis = scope.draw.number(0, rank - 1)
    other = scope.tensor("i")
    if other.dtype != np.int64 or scope.rank(other) != 0:
        other = scope.op("Size", scope.tensor())
    end = scope.axes_form("Unsqueeze", 13, other, [0])
    zero, where = scope.constant([0], np.int64), scope.constant([axis], np.int64)
    pair = (zero, end) if scope.draw.chance(0.7) else (end, scope.constant([99], np.int64))
    return scope.op("Slice", x, *pair, where, grain=x.grain)


def _gather(scope: Scope) -> Any:
    x = _any(scope, 1)
    rank, draw = scope.rank(x), scope.draw
    axis = draw.number(-rank, rank - 1)
    least = min(s[axis] for s in scope.shapes(x))
    most = max(s[axis] for s in scope.shapes(x))
    may_fail = draw.chance(0.08)
    bound = most if may_fail else least
    if not bound:
        raise Stuck
    if draw.chance(0.5):
        found = [
            v
            for v in scope.tensors("i")
            if v.dtype in (np.int64, np.int32)
            and all(((a >= -least) & (a < least)).all() for a in scope.values(v))
        ]
        return scope.op("Gather", x, draw.pick(found), axis=axis, grain=x.grain)
    shape = draw.pick([(), (1,), (2,), (3,)])
    indices = draw.rng.integers(-bound, bound, shape)
    given = scope.constant(indices, np.int64)
    return scope.op("Gather", x, given, axis=axis, grain=x.grain, may_fail=may_fail)


def _pad(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", "int32", "int64", least=1)
    pads = [scope.draw.pick([0, 0, 1, 2]) for _ in range(2 * scope.rank(x))]
    inputs = [scope.constant(pads, np.int64)]
    if scope.draw.chance(0.5):
        inputs.append(scope.constant(random_array(scope, x.dtype, ())))
    return scope.op("Pad", x, *inputs, grain=x.grain)


def _split(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", "int32", "int64", "uint8", "bool", least=1)
    rank, draw = scope.rank(x), scope.draw
    axis = draw.pick(a for a in range(rank) if len({s[a] for s in scope.shapes(x)}) == 1)
    size = scope.shapes(x)[0][axis]
    parts = draw.number(1, 3)
    cuts = sorted(draw.number(0, size) for _ in range(parts - 1))
    sizes = np.diff([0, *cuts, size]).tolist()
    if draw.opset < 13:
        return scope.op("Split", x, outputs=parts, axis=axis, split=sizes, grain=x.grain)
    given = scope.constant(np.array(sizes, np.int64))
    return scope.op("Split", x, given, outputs=parts, axis=axis, grain=x.grain)


def _reduce(scope: Scope) -> Any:
    draw = scope.draw
    op = draw.pick(["ReduceSum", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
    x = _of(scope, "float32", "float64", "int32", "int64", "float16", plain=True)
    if op == "ReduceMean" and not x.is_float:
        raise Stuck
    if op in ("ReduceMax", "ReduceMin") and x.dtype == np.float16:
        raise Stuck
    rank = scope.rank(x)
    many = draw.number(0, min(rank, 2))
    axes = [int(a) for a in draw.rng.choice(rank, many, replace=False)] if many else []
    axes = [a - rank if draw.chance(0.4) else a for a in axes]
    where = [a % rank for a in axes] or range(rank)
    if any(s[a] == 0 for s in scope.shapes(x) for a in where):
        raise Stuck  # a row of the table of what onnxruntime gets wrong
    keeps = draw.number(0, 1)
    exact = (op == "ReduceSum" and x.dtype != np.float16) or op in ("ReduceMax", "ReduceMin")
    grain = x.grain if exact else None
    if not axes:
        return scope.op(op, x, keepdims=keeps, grain=grain)
    since = 13 if op == "ReduceSum" else 18
    return scope.axes_form(op, since, x, axes, keepdims=keeps, grain=grain)


def _arg(scope: Scope) -> Any:
    x = _exact(scope, 1)
    if x.dtype == np.int64:
        raise Stuck
    axis = scope.draw.number(-scope.rank(x), scope.rank(x) - 1)
    if any(0 in s for s in scope.shapes(x)):
        raise Stuck
    keeps = scope.draw.number(0, 1)
    return scope.op(scope.draw.pick(["ArgMax", "ArgMin"]), x, axis=axis, keepdims=keeps)


def _top_k(scope: Scope) -> Any:
    x = _exact(scope, 1)
    axis = scope.draw.number(-scope.rank(x), scope.rank(x) - 1)
    least = min(s[axis] for s in scope.shapes(x))
    if not least:
        raise Stuck
    k = scope.constant([scope.draw.number(1, least)], np.int64)
    largest = scope.draw.number(0, 1)
    return scope.op("TopK", x, k, outputs=2, axis=axis, largest=largest, grain=x.grain)


def _cumulative(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", "int32", "int64", least=1, plain=True)
    axis = scope.draw.number(-scope.rank(x), scope.rank(x) - 1)
    given = scope.constant(axis, np.int64)
    flags = {"exclusive": scope.draw.number(0, 1), "reverse": scope.draw.number(0, 1)}
    return scope.op("CumSum", x, given, grain=x.grain, **flags)


def _softmax(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", "float16", least=1, plain=True)
    rank = scope.rank(x)
    if any(0 in s for s in scope.shapes(x)):
        raise Stuck
    op = scope.draw.pick(["Softmax", "LogSoftmax"])
    if scope.draw.chance(0.3) and (rank > 1 or scope.draw.opset >= 13):
        return scope.op(op, x)
    return scope.op(op, x, axis=scope.draw.number(-rank, rank - 1))


def _matmul(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", "int32", "int64", least=1, plain=True)
    draw = scope.draw
    last = {s[-1] for s in scope.shapes(x)}
    if any(0 in s for s in scope.shapes(x)):
        raise Stuck
    if draw.chance(0.6) and len(last) == 1:
        size = last.pop()
        shape = draw.pick([(size,), (size, 2), (size, 3), (size, size)])
        y = scope.constant(random_array(scope, x.dtype, shape))
    else:
        y = draw.pick(v for v in scope.tensors(least=1) if v.dtype == x.dtype)
        if scope.is_odd(y) or any(0 in s for s in scope.shapes(y)):
            raise Stuck
    return scope.op("MatMul", x, y, grain=_finer(x, y, product=True))


def _layer_norm(scope: Scope) -> Any:
    x = _of(scope, "float32", "float64", least=1, plain=True)
    if scope.draw.opset < 17 or any(0 in s for s in scope.shapes(x)):
        raise Stuck
    last = {s[-1] for s in scope.shapes(x)}
    if len(last) != 1:
        raise Stuck
    scale = scope.constant(random_array(scope, x.dtype, (last.pop(),)))
    return scope.op("LayerNormalization", x, scale)


def _clip(scope: Scope) -> Any:
    names = ("float32", "float64") if scope.draw.opset < 12 else NUMBERS[1:]
    x = _of(scope, *names, plain=True)
    bounds = [scope.constant(n, x.dtype) for n in (-1, 2)]
    kept = scope.draw.pick([bounds, bounds[:1], [None, bounds[1]]])
    return scope.op("Clip", x, *kept, grain=x.grain)


def _shape(scope: Scope) -> Any:
    if scope.draw.opset >= 15 and scope.draw.chance(0.4):
        start = scope.draw.pick([0, 1, -1])
        return scope.op("Shape", scope.tensor(), start=start)
    return scope.op("Shape", scope.tensor())


def _size(scope: Scope) -> Any:
    return scope.op("Size", scope.tensor())


def _dimension(scope: Scope) -> Any:
    """Read one dimension, as exporters do."""
    x = scope.tensor(least=1)
    shape = scope.op("Shape", x)
    at = scope.constant(scope.draw.number(-1, 0), np.int64)
    return scope.op("Gather", shape, at, axis=0)


def _constant(scope: Scope) -> Any:
    dtype = scope.draw.pick([*CASTS, "object"])
    shape = scope.draw.pick([(), (2,), (3,), (2, 3), (0,), (1, 3)])
    val = scope.constant(random_array(scope, np.dtype(dtype), shape))
    return scope.add_input(val)


def _non_zero(scope: Scope) -> Any:
    x = _of(scope, "bool", "int32", "int64", least=1)
    return scope.op("NonZero", x)


def _compress(scope: Scope) -> Any:
    x = _any(scope, 1)
    axis = scope.draw.number(0, scope.rank(x) - 1)
    least = min(s[axis] for s in scope.shapes(x))
    keep = random_array(scope, np.dtype(bool), (min(least, 3),))
    return scope.op("Compress", x, scope.constant(keep), axis=axis, grain=x.grain)


def _range(scope: Scope) -> Any:
    limit = _of(scope, "int64")
    if scope.rank(limit) or any(not 0 <= int(v) <= 9 for v in scope.values(limit)):
        raise Stuck
    zero, one = scope.constant(0, np.int64), scope.constant(1, np.int64)
    return scope.op("Range", zero, limit, one)


def _constant_of_shape(scope: Scope) -> Any:
    shape = scope.op("Shape", scope.tensor())
    value = helper.make_tensor("value", 1, [1], [0.5])
    return scope.op("ConstantOfShape", shape, value=value, grain=2)


def _one_hot(scope: Scope) -> Any:
    indices = _of(scope, "int64")
    if scope.rank(indices) not in (1, 2):
        raise Stuck
    depth = scope.constant(scope.draw.number(1, 3), np.int64)
    values = scope.constant([0.0, 1.0], np.float32)
    return scope.op("OneHot", indices, depth, values, grain=0)


def _identity(scope: Scope) -> Any:
    return scope.identity(scope.tensor())


TENSOR_MOVES: dict[Move, int] = {
    _unary: 6,
    _binary: 9,
    _compare: 3,
    _equal_others: 1,
    _logic: 2,
    _where: 3,
    _is_nan: 1,
    _cast: 4,
    _transpose: 3,
    _reshape: 3,
    _unsqueeze: 3,
    _squeeze: 2,
    _flatten: 1,
    _expand: 2,
    _tile: 1,
    _concat: 4,
    _slice: 4,
    _slice_by_length: 2,
    _gather: 4,
    _pad: 1,
    _split: 2,
    _reduce: 5,
    _arg: 1,
    _top_k: 1,
    _cumulative: 1,
    _softmax: 2,
    _matmul: 4,
    _layer_norm: 1,
    _clip: 1,
    _shape: 3,
    _size: 1,
    _dimension: 2,
    _constant: 2,
    _non_zero: 1,
    _compress: 1,
    _range: 1,
    _constant_of_shape: 1,
    _one_hot: 1,
    _identity: 2,
}


def draw_tensor(scope: Scope) -> None:
    """Add one random node on tensors."""
    moves = list(TENSOR_MOVES)
    weights = np.array([TENSOR_MOVES[m] for m in moves], float)
    move = moves[int(scope.draw.rng.choice(len(moves), p=weights / weights.sum()))]
    move(scope)


def condition(scope: Scope) -> Val:
    """Return a truth that hangs on the data or on a shape, or a constant one."""
    draw = scope.draw
    match draw.number(0, 4):
        case 0:
            found = [v for v in scope.tensors("b") if scope.rank(v) == 0]
            return draw.pick(found)  # type: ignore[no-any-return]
        case 1:
            size = scope.op("Size", scope.tensor(), keep=False)
            draw.features["condition of a shape"] += 1
            many = scope.constant(draw.number(0, 6), np.int64)
            return scope.op("Greater", size, many, keep=False)  # type: ignore[no-any-return]
        case 2:
            length = scope.op("SequenceLength", scope.sequence(), keep=False)
            many = scope.constant(draw.number(0, 3), np.int64)
            return scope.op("Greater", length, many, keep=False)  # type: ignore[no-any-return]
        case 3:
            return scope.constant(draw.chance(0.5), np.bool_)
    x = _exact(scope)
    if any(0 in s for s in scope.shapes(x)):
        raise Stuck
    total = scope.op("ReduceSum", x, keepdims=0, keep=False)
    half = scope.constant(0.5 if x.is_float else 1, x.dtype)
    draw.features["condition of data"] += 1
    return scope.op("Greater", total, half, keep=False)  # type: ignore[no-any-return]
