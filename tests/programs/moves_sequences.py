"""Random nodes on sequences, and sequences made of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from tests.programs.moves_tensors import random_array
from tests.programs.scopes import Scope, Stuck, Val

__all__ = ["SEQUENCE_MOVES", "draw_sequence", "position"]

SPLITTABLE = ("float32", "float64", "int32", "int64", "object")
"""Element types that onnxruntime can split."""


def position(scope: Scope, seq: Val, *, extra: int = 0) -> tuple[Val, bool]:
    """Return a position that is in range in all worlds, or now and then one that is not.

    Returns:
        The position, and whether it may be out of range.
    """
    draw = scope.draw
    lengths = [len(v) for v in scope.values(seq)]
    least, most = min(lengths), max(lengths)
    dtype = draw.pick([np.int64, np.int64, np.int32])
    if draw.chance(0.12):
        draw.features["position out of range"] += 1
        return scope.constant(draw.pick([most - 1 + extra, -most, most + 1, -1]), dtype), True
    if draw.chance(0.25):
        found = [
            v
            for v in scope.tensors("i")
            if v.dtype in (np.int32, np.int64)
            and all(
                a.ndim == 0 and -n <= int(a) < n + extra
                for a, n in zip(scope.values(v), lengths, strict=True)
            )
        ]
        if found:
            draw.features["computed position"] += 1
            return draw.pick(found), False
    if least + extra < 1:
        raise Stuck
    number = draw.number(-least, least - 1 + extra)
    if number < 0:
        draw.features["negative position"] += 1
    return scope.constant(number, dtype), False


def _split(scope: Scope) -> Any:
    x = scope.draw.pick(v for v in scope.tensors(least=1) if v.dtype.name in SPLITTABLE)
    rank, draw = scope.rank(x), scope.draw
    axis = draw.number(-rank, rank - 1)
    sizes = {s[axis] for s in scope.shapes(x)}
    more: dict[str, Any] = {"axis": axis} if axis or draw.chance(0.5) else {}
    inputs = []
    kind = draw.pick(["ones", "ones", "rows", "rows", "chunks", "sizes"])
    if kind == "rows":
        more["keepdims"] = 0
    elif kind == "chunks":
        inputs.append(scope.constant(draw.number(1, 3), draw.pick([np.int64, np.int32])))
        if 0 in sizes:
            raise Stuck
    elif kind == "sizes":
        if len(sizes) == 1:
            size = sizes.pop()
            cuts = sorted(draw.number(0, size) for _ in range(draw.number(0, 3)))
            inputs.append(scope.constant(np.diff([0, *cuts, size]), np.int64))
        else:
            sizes_of = [
                v
                for v in scope.tensors("i")
                if v.dtype == np.int64
                and all(
                    n.ndim == 1 and n.size and (n >= 0).all() and n.sum() == a.shape[axis]
                    for n, a in zip(scope.values(v), scope.values(x), strict=True)
                )
            ]
            inputs.append(draw.pick(sizes_of))
    draw.features[f"split {kind}"] += 1
    return scope.op(
        "SplitToSequence", x, *inputs, sequences=[True], grain=x.grain, dtypes=[x.dtype], **more
    )


def _construct(scope: Scope) -> Any:
    x = scope.tensor()
    found = [v for v in scope.tensors() if v.dtype == x.dtype and scope.rank(v) == scope.rank(x)]
    values = [x, *(scope.draw.pick(found) for _ in range(scope.draw.number(0, 2)))]
    grains = [v.grain for v in values]
    grain = None if None in grains else max(g or 0 for g in grains)
    return scope.op("SequenceConstruct", *values, sequences=[True], grain=grain)


def _empty(scope: Scope) -> Any:
    dtype = np.dtype(scope.draw.pick(["float32", "float32", "int64", "int32", "bool"]))
    more = {} if dtype == np.float32 else {"dtype": helper.np_dtype_to_tensor_dtype(dtype)}
    return scope.op("SequenceEmpty", sequences=[True], dtypes=[dtype], grain=2, **more)


def _like_elements(scope: Scope, seq: Val) -> Val:
    """Return a tensor that may be inserted."""
    found = [v for v in scope.tensors() if v.dtype == seq.dtype]
    try:
        rank = scope.rank(seq)
    except Stuck:
        return scope.draw.pick(found)  # type: ignore[no-any-return]
    found = [v for v in found if scope.rank(v) == rank]
    if scope.draw.chance(0.3) or not found:
        shape = scope.draw.pick(scope.shapes(seq))
        return scope.constant(random_array(scope, seq.dtype, shape))
    return scope.draw.pick(found)  # type: ignore[no-any-return]


def _insert(scope: Scope) -> Any:
    seq = scope.sequence()
    x = _like_elements(scope, seq)
    grain = None if None in (seq.grain, x.grain) else max(seq.grain or 0, x.grain or 0)
    if scope.draw.chance(0.4):
        return scope.op("SequenceInsert", seq, x, sequences=[True], grain=grain)
    at, may_fail = position(scope, seq, extra=1)
    return scope.op("SequenceInsert", seq, x, at, sequences=[True], grain=grain, may_fail=may_fail)


def _erase(scope: Scope) -> Any:
    seq = scope.sequence()
    more = {"sequences": [True], "grain": seq.grain, "dtypes": [seq.dtype]}
    if scope.draw.chance(0.4):
        may_fail = scope.draw.chance(0.2)
        return scope.op("SequenceErase", seq, may_fail=may_fail, **more)
    at, may_fail = position(scope, seq)
    return scope.op("SequenceErase", seq, at, may_fail=may_fail, **more)


def _at(scope: Scope) -> Any:
    seq = scope.sequence()
    at, may_fail = position(scope, seq)
    return scope.op("SequenceAt", seq, at, grain=seq.grain, may_fail=may_fail)


def _at_last(scope: Scope) -> Any:
    seq = scope.sequence()
    length = scope.op("SequenceLength", seq)
    one = scope.constant(1, np.int64)
    last = scope.op("Sub", length, one)
    may_fail = scope.draw.chance(0.15)
    return scope.op("SequenceAt", seq, last, grain=seq.grain, may_fail=may_fail)


def _length(scope: Scope) -> Any:
    return scope.op("SequenceLength", scope.sequence())


def _join(scope: Scope) -> Any:
    seq = scope.sequence()
    new, draw = scope.draw.number(0, 1), scope.draw
    rank = scope.rank(seq) + new
    if not rank:
        raise Stuck
    axis = draw.number(-rank, rank - 1)
    more = {"new_axis": new} if new or draw.chance(0.3) else {}
    may_fail = draw.chance(0.3)
    return scope.op(
        "ConcatFromSequence", seq, axis=axis, grain=seq.grain, may_fail=may_fail, **more
    )


def _identity(scope: Scope) -> Any:
    return scope.identity(scope.sequence())


SEQUENCE_MOVES: dict[Callable[[Scope], Any], int] = {
    _split: 6,
    _construct: 3,
    _empty: 1,
    _insert: 4,
    _erase: 3,
    _at: 5,
    _at_last: 1,
    _length: 2,
    _join: 5,
    _identity: 1,
}


def draw_sequence(scope: Scope) -> None:
    """Add one random node on sequences."""
    moves = list(SEQUENCE_MOVES)
    weights = np.array([SEQUENCE_MOVES[m] for m in moves], float)
    move = moves[int(scope.draw.rng.choice(len(moves), p=weights / weights.sum()))]
    move(scope)
