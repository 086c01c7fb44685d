"""Moves that work on numbers: element by element, linear algebra, reductions, neural layers."""

from __future__ import annotations

import numpy as np

from tests.property.pool import Pool, Skip, Value

__all__ = ["MOVES", "matmul", "sharpen"]

SMOOTH = [
    "Exp",
    "Sigmoid",
    "Tanh",
    "Sqrt",
    "Log",
    "Erf",
    "Softplus",
    "Sin",
    "Cos",
    "Atan",
    "Elu",
    "Selu",
    "LeakyRelu",
    "HardSigmoid",
    "Celu",
    "Softsign",
    "Reciprocal",
    "HardSwish",
    "ThresholdedRelu",
    "Mish",
    "Shrink",
]


def unary(p: Pool) -> None:
    x = p.pick("fi")
    if x.kind == "i":
        p.add(p.choose(["Neg", "Abs", "Sign", "Identity"]), [x])
    elif p.chance(0.5):
        p.add(p.choose(["Neg", "Abs", "Relu", "Identity"]), [x])
    elif x.exact and p.chance(0.4):
        p.add(p.choose(["Sign", "Floor", "Ceil", "Round"]), [x])
    elif p.opset >= 20 and p.chance(0.1):
        p.add("Gelu", [x], exact=False, approximate=p.choose(["none", "tanh"]))
    else:
        p.add(p.choose(SMOOTH), [x], exact=False)


def clip(p: Pool) -> None:
    x = p.pick("fi")
    low: Value | None = p.constant(np.array(-1, x.dtype)) if p.chance(0.7) else None
    high: Value | None = p.constant(np.array(1, x.dtype))
    if p.chance(0.3):
        high = p.pick(x.kind, lambda v: v.rank == 0 and v.dtype == x.dtype)
    p.add("Clip", [x, low, high if low is None or p.chance(0.7) else None])


def aligned_shape(p: Pool, x: Value, room: int = 0) -> list[int]:
    """Draw a shape that broadcasts with every sample of a value."""
    rank = p.number(0, max(x.rank, 0) + room)
    dims = [1] * rank
    for i in range(1, min(rank, x.rank) + 1):
        size = x.dims[-i]
        if size is not None and p.chance(0.7):
            dims[-i] = size
    return dims


def second(p: Pool, x: Value) -> Value:
    """Draw an operand that broadcasts with ``x``: of the pool, or a constant."""
    if p.chance(0.65):

        def fits(v: Value) -> bool:
            return v.dtype == x.dtype and v.name != x.name and _broadcast(v, x)

        try:
            return p.pick(x.kind, fits)
        except Skip:
            pass
    numbers = p.rng.integers(1, 4, aligned_shape(p, x, room=1))
    return p.constant(numbers.astype(x.dtype))


def _broadcast(a: Value, b: Value) -> bool:
    try:
        for left, right in zip(a.samples, b.samples, strict=True):
            np.broadcast_shapes(left.shape, right.shape)
    except ValueError:
        return False
    return True


def binary(p: Pool) -> None:
    x = p.pick("fi")
    y = second(p, x)
    pair = [x, y] if p.chance(0.5) else [y, x]
    op = p.choose(["Add", "Sub", "Mul", "Add", "Mul", "Max", "Min", "Div", "Mod", "Pow", "PRelu"])
    if op in ("Div", "Mod"):
        if x.kind == "i" and any((s == 0).any() for s in pair[1].samples):
            raise Skip  # onnxruntime dies of an integer division by zero
        if not all(v.exact for v in pair) and op == "Mod":
            raise Skip
        fmod = 1 if op == "Mod" and x.kind == "f" else None
        p.add(op, pair, exact=x.kind == "i" or op == "Mod", fmod=fmod)
    elif op == "Pow":
        p.add(op, [x, p.constant(p.choose([2, 3, 1]), x.dtype)], exact=x.kind == "i")
    elif op in ("Max", "Min"):
        p.add(op, [*pair, p.choose(pair)] if p.chance(0.3) else pair)
    else:
        p.add(op, pair)


def variadic(p: Pool) -> None:
    x = p.pick("f")
    p.add(p.choose(["Sum", "Mean", "Max"]), [x, second(p, x), second(p, x)], exact=False)


def compare(p: Pool) -> None:
    x = p.pick("fi", lambda v: v.exact)
    y = second(p, x)
    if not y.exact:
        raise Skip
    op = p.choose(["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
    flag = p.one(op, [x, y])
    if p.chance(0.3):
        p.add("Not", [flag])


def logic(p: Pool) -> None:
    x = p.pick("b")
    p.add(p.choose(["And", "Or", "Xor"]), [x, second_flag(p, x)])


def second_flag(p: Pool, x: Value) -> Value:
    return p.pick("b", lambda v: _broadcast(v, x))


def where(p: Pool) -> None:
    x = p.pick("fi")
    y = second(p, x)
    try:
        flag = p.pick("b", lambda v: _broadcast(v, x) and _broadcast(v, y))
    except Skip:
        if not x.exact:
            raise
        flag = p.one("Greater", [x, p.constant(0, x.dtype)])
    p.add("Where", [flag, x, y])


def cast(p: Pool) -> None:
    x = p.pick("fib")
    targets = [1, 11] if not x.exact else [1, 1, 6, 7, 9, 11]
    if p.chance(0.2):
        like = p.pick("fib", lambda v: x.exact or v.kind == "f")
        p.add("CastLike", [x, like])
    else:
        p.add("Cast", [x], to=p.choose(targets))


def float_checks(p: Pool) -> None:
    p.add(p.choose(["IsNaN", "IsInf"]), [p.pick("f", lambda v: v.dtype == np.float32)])


def matmul(p: Pool) -> None:
    a = p.pick("f", lambda v: v.rank >= 1)
    if p.chance(0.5):
        size = a.dims[-1]
        if size is None or not size:
            raise Skip
        shape = p.choose([[size], [size, 3], [size, 2], [2, size, 3], [1, size, 2]])
        b = p.constant(p.rng.integers(-2, 3, shape).astype(a.dtype))
    else:

        def fits(v: Value) -> bool:
            inner = -2 if v.rank >= 2 else -1
            return v.rank >= 1 and all(
                s.shape[-1] == t.shape[inner] for s, t in zip(a.samples, v.samples, strict=True)
            )

        b = p.pick("f", lambda v: v.dtype == a.dtype and fits(v))
    p.add("MatMul", [a, b])


def gemm(p: Pool) -> None:
    a = p.pick("f", lambda v: v.rank == 2)
    turn_a, turn_b = p.number(0, 1), p.number(0, 1)
    size = a.dims[0 if turn_a else 1]
    if size is None or not size:
        raise Skip
    shape = (3, size) if turn_b else (size, 3)
    b = p.constant(p.rng.integers(-2, 3, shape).astype(a.dtype))
    if p.chance(0.4):
        want = -1 if turn_b else 0
        b = p.pick("f", lambda v: v.rank == 2 and v.dims[want] == size and v.dtype == a.dtype)
    inputs = [a, b]
    if p.chance(0.6):
        columns = b.dims[0 if turn_b else 1]
        if columns is None:
            raise Skip
        inputs.append(
            p.constant(p.rng.integers(-2, 3, p.choose([(columns,), (1, 1), ()])), a.dtype)
        )
    p.add("Gemm", inputs, transA=turn_a, transB=turn_b, alpha=p.choose([None, 2.0]))


def einsum(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank in (1, 2, 3))
    y = p.pick("f", lambda v: v.rank in (1, 2) and v.dtype == x.dtype)
    left, right = "abc"[: x.rank], p.choose(["cd", "bc", "ab", "ad"])[: y.rank]
    out = p.choose([left, "", left[:1] + right[-1:], right[::-1]])
    out = "".join(dict.fromkeys(c for c in out if c in left + right))
    p.add("Einsum", [x, y], equation=f"{left},{right}->{out}")


def reduce(p: Pool) -> None:
    x = p.pick("fi", lambda v: v.rank >= 0)
    exact = ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare"]
    op = p.choose([*exact, "ReduceMean", "ReduceL2", "ReduceLogSumExp"])
    axes = _axes(p, x)
    keep = p.choose([None, 0, 1])
    if axes is None:
        noop = 1 if p.chance(0.2) and (p.opset >= 18 or op == "ReduceSum") else None
        p.add(op, [x], exact=op in exact, keepdims=keep, noop_with_empty_axes=noop)
    elif p.opset >= 18 or op == "ReduceSum":
        p.add(op, [x, p.ints(*axes)], exact=op in exact, keepdims=keep)
    else:
        p.add(op, [x], exact=op in exact, keepdims=keep, axes=axes)


def _axes(p: Pool, x: Value) -> list[int] | None:
    if x.rank == 0 or p.chance(0.25):
        return None
    axes = p.rng.permutation(x.rank)[: p.number(1, x.rank)]
    return [int(a) - (x.rank if p.chance(0.4) else 0) for a in axes]


def axis(p: Pool, x: Value) -> int:
    """Draw an axis of a value, counted from either end."""
    if x.rank < 1:
        raise Skip
    return p.number(-x.rank, x.rank - 1)


def arg(p: Pool) -> None:
    x = p.pick("fi", lambda v: v.exact and v.rank >= 1)
    options = {"keepdims": p.choose([None, 0, 1]), "select_last_index": p.choose([None, 0, 1])}
    p.add(p.choose(["ArgMax", "ArgMin"]), [x], axis=p.choose([None, axis(p, x)]), **options)


def top(p: Pool) -> None:
    x = p.pick("fi", lambda v: v.exact and v.rank >= 1)
    k = p.ints(p.number(1, 2))
    options = {"largest": p.choose([None, 0, 1]), "axis": p.choose([None, axis(p, x)])}
    p.add("TopK", [x, k], outputs=2, **options)


def cumsum(p: Pool) -> None:
    x = p.pick("fi", lambda v: v.rank >= 1)
    options = {"exclusive": p.choose([None, 1]), "reverse": p.choose([None, 1])}
    p.add("CumSum", [x, p.constant(axis(p, x), np.int64)], **options)


def softmax(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank >= 1)
    op = p.choose(
        ["Softmax", "LogSoftmax", "Hardmax" if x.exact else "Softmax", "LpNormalization"]
    )
    p.add(op, [x], exact=op == "Hardmax", axis=p.choose([None, axis(p, x)]))


def normalize(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank >= 1 and v.dtype == np.float32)
    at = axis(p, x)
    sizes = x.dims[at % x.rank :]
    if None in sizes:
        raise Skip
    scale = p.constant(p.rng.integers(1, 4, [int(n or 0) for n in sizes]).astype(x.dtype))
    if p.opset >= 23 and p.chance(0.3):
        p.add("RMSNormalization", [x, scale], exact=False, axis=at)
    else:
        bias = [p.constant(np.ones(scale.samples[0].shape, x.dtype))] if p.chance(0.5) else []
        p.add("LayerNormalization", [x, scale, *bias], exact=False, axis=at)


def channels(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank >= 3 and v.dtype == np.float32)
    size = x.dims[1]
    if size is None or not size:
        raise Skip
    scale, bias, mean, var = (
        p.constant(p.rng.integers(1, 4, [size]).astype(np.float32)) for _ in range(4)
    )
    op = p.choose(["BatchNormalization", "InstanceNormalization", "GlobalAveragePool", "LRN"])
    if op == "InstanceNormalization" and not all(sample.size for sample in x.samples):
        raise Skip  # it ends the process on onnxruntime, as given too
    if op == "BatchNormalization":
        p.add(op, [x, scale, bias, mean, var], exact=False)
    elif op == "InstanceNormalization":
        p.add(op, [x, scale, bias], exact=False)
    elif op == "LRN":
        p.add(op, [x], exact=False, size=3)
    else:
        p.add(p.choose([op, "GlobalMaxPool"]), [x], exact=False)


def conv(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank in (3, 4) and v.dtype == np.float32)
    size = x.dims[1]
    if size is None or not size:
        raise Skip
    spatial = x.rank - 2
    group = size if p.chance(0.2) else 1
    transposed = p.chance(0.2)
    ends = (size, 2) if transposed else (2 * group, size // group)
    kernel = [p.number(1, 2)] * spatial
    weights = p.rng.integers(-2, 3, [*ends, *kernel]).astype(np.float32)
    rows = 2 * group
    bias = [p.constant(np.ones(rows, np.float32))] if p.chance(0.5) else []
    options = {"pads": [1] * 2 * spatial if p.chance(0.4) else None, "group": group}
    if p.chance(0.3):
        options["strides"] = [2] * spatial
    op = "ConvTranspose" if transposed else "Conv"
    p.add(op, [x, p.constant(weights), *bias], **options)


def pool(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank in (3, 4) and v.dtype == np.float32)
    spatial = x.rank - 2
    options = {
        "kernel_shape": [2] * spatial,
        "strides": p.choose([None, [2] * spatial]),
        "ceil_mode": p.choose([None, 1]),
        "pads": [1] * 2 * spatial if p.chance(0.3) else None,
    }
    op = p.choose(["MaxPool", "AveragePool", "LpPool"])
    if op == "MaxPool" and x.exact and p.chance(0.3):
        p.add(op, [x], outputs=2, **options)
    else:
        p.add(op, [x], exact=op == "MaxPool", **options)


def recurrent(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank == 3 and v.dtype == np.float32 and v.dims[2] is not None)
    if not all(s.size for s in x.samples):
        raise Skip  # onnxruntime dies of a batch of 0
    op, gates = p.choose([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    hidden = 2
    w = p.constant(p.rng.integers(-1, 2, (1, gates * hidden, x.dims[2])).astype(np.float32))
    r = p.constant(p.rng.integers(-1, 2, (1, gates * hidden, hidden)).astype(np.float32))
    p.add(op, [x, w, r], outputs=p.number(1, 2), exact=False, hidden_size=hidden)


def sharpen(p: Pool) -> None:
    """Turn a difference in the last bits of a value into another number."""
    x = p.pick("f", lambda v: v.dtype == np.float32)
    large = p.one("Mul", [x, p.constant(2.0**20, np.float32)])
    op = p.choose(["Floor", "Ceil", "Round", "Cast", "Greater"])
    if op == "Cast":
        p.add(op, [large], to=7)
    elif op == "Greater":
        p.add(op, [x, p.one("ReduceMean", [x], exact=False)])
    else:
        p.add(op, [large])


def quantize(p: Pool) -> None:
    x = p.pick("f", lambda v: v.exact and v.dtype == np.float32)
    scale = p.constant(1, np.float32)
    code = p.one("QuantizeLinear", [x, scale, p.constant(3, np.uint8)])
    if p.chance(0.6):
        p.add("DequantizeLinear", [code, scale, p.constant(3, np.uint8)])


MOVES = [
    (6, unary),
    (2, clip),
    (9, binary),
    (2, variadic),
    (4, compare),
    (2, logic),
    (3, where),
    (3, cast),
    (1, float_checks),
    (5, matmul),
    (3, gemm),
    (2, einsum),
    (7, reduce),
    (3, arg),
    (2, top),
    (2, cumsum),
    (3, softmax),
    (3, normalize),
    (2, channels),
    (3, conv),
    (2, pool),
    (1, recurrent),
    (1, quantize),
]
