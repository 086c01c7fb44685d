"""Thirty bodies over sequences whose elements are not proven to have one shape."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.workload import Case, draw, model

__all__ = ["BODIES", "Body"]


@dataclasses.dataclass(frozen=True)
class Body:
    """What a map computes of the elements of a sequence.

    Attributes:
        text: The body, from ``a`` to ``b``.
        shape: The shape of the elements, as drawn.
        dims: The dimensions that the model declares; None for an unknown rank.
        weights: Shapes of what the body captures.
        result: ``sequence``, ``stacked`` or ``joined``.
        rank: Rank of what the body yields, where the result is a tensor.
        is_ragged: Whether the first dimension of the elements varies.
        integers: Whether elements are uint8.
    """

    text: str
    shape: tuple[int, ...] = (16, 16)
    dims: str | None = None
    weights: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    result: str = "sequence"
    rank: int = 2
    is_ragged: bool = False
    integers: bool = False

    def case(self, name: str, samples: int) -> Case:
        """Return the workload of so many samples."""
        kind = "uint8" if self.integers else "float"
        element = f"{kind}[{self.dims or ''}]"
        open_dims = ", ".join(f"d{i}" for i in range(self.rank))
        results = {
            "sequence": ("seq(float[]) ys", ""),
            "stacked": (
                f"float[{', '.join(f's{i}' for i in range(self.rank + 1))}] y",
                "y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)",
            ),
            "joined": (f"float[{open_dims}] y", "y = ConcatFromSequence <axis = 0> (ys)"),
        }
        output, after = results[self.result]
        given = f"""
        mapped (seq({element}) xs) => ({output}) {{
          ys = SequenceMap (xs) <body = per_sample ({element} a) => (float[] b) {{ {self.text} }}>
          {after}
        }}"""
        weights = {key: draw(7, *shape) for key, shape in self.weights.items()}
        first, *rest = self.shape or (0,)
        rows = [max(1, first - 4 + i % 9) if self.is_ragged else first for i in range(samples)]
        shapes = [(n, *rest) if self.shape else () for n in rows]
        return Case(name, model(given, weights), None, {"xs": list(map(self._draw, shapes))})

    def _draw(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if self.integers:
            return np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        return draw(0, *shape, 1)[..., 0]


def _chain(*kinds: str) -> str:
    names = ["a", *(f"v{i}" for i in range(1, len(kinds))), "b"]
    pairs = zip(kinds, itertools.pairwise(names), strict=True)
    return " ".join(f"{after} = {kind} ({before})" for kind, (before, after) in pairs)


_KINDS = ("Abs", "Neg", "Relu", "Tanh")
_GATE = "m = Mul (a, w) s = Add (m, v) g = Sigmoid (s) b = Mul (g, a)"
_GATED = {"w": (16,), "v": (16,)}
_MIXED = (
    "h = MatMul (a, w) r = Relu (h) p = Softmax <axis = -1> (r) o = MatMul (p, v) b = Add (o, u)"
)
_MIXES = {"w": (16, 16), "v": (16, 16), "u": (16,)}
_ATTENTION = """q = MatMul (a, w) k = MatMul (a, v) t = Transpose <perm = [1, 0]> (k)
    s = MatMul (q, t) p = Softmax <axis = -1> (s) b = MatMul (p, a)"""
_PIXELS = """f = Cast <to = 1> (a) mean = Constant <value_floats = [123.0, 116.0, 103.0]> ()
    c = Sub (f, mean) d = Constant <value_float = 57.0> () s = Div (c, d)
    b = Transpose <perm = [2, 0, 1]> (s)"""
_NORM = {"w": (16,), "v": (16,)}

BODIES: Mapping[str, Body] = {
    "one node": Body(_chain("Relu")),
    "two nodes": Body(_chain("Abs", "Neg")),
    "four nodes": Body(_chain(*_KINDS)),
    "eight nodes": Body(_chain(*_KINDS * 2)),
    "sixteen nodes": Body(_chain(*_KINDS * 4)),
    "four nodes, numbers": Body(_chain(*_KINDS), shape=()),
    "four nodes of 4 KiB": Body(_chain(*_KINDS), shape=(32, 32)),
    "four nodes of 16 KiB": Body(_chain(*_KINDS), shape=(64, 64)),
    "four nodes of 64 KiB": Body(_chain(*_KINDS), shape=(128, 128)),
    "sixteen nodes of 64 KiB": Body(_chain(*_KINDS * 4), shape=(128, 128)),
    "gate": Body(_GATE, weights=_GATED),
    "gate, rank known": Body(_GATE, dims="N, M", weights=_GATED),
    "gate, columns known": Body(_GATE, dims="N, 16", weights=_GATED),
    "gate, all known": Body(_GATE, dims="16, 16", weights=_GATED),
    "gate, ragged": Body(_GATE, dims="N, 16", weights=_GATED, is_ragged=True),
    "gate, stacked": Body(_GATE, weights=_GATED, result="stacked"),
    "gate, joined": Body(_GATE, dims="N, 16", weights=_GATED, result="joined"),
    "linear layer": Body("h = MatMul (a, w) b = Add (h, v)", weights={"w": (16, 16), "v": (16,)}),
    "linear, softmax, linear": Body(_MIXED, weights=_MIXES),
    "linear, softmax, linear, rank known": Body(_MIXED, dims="N, M", weights=_MIXES),
    "linear, softmax, linear, ragged": Body(_MIXED, dims="N, 16", weights=_MIXES, is_ragged=True),
    "attention": Body(_ATTENTION, dims="N, 16", weights={"w": (16, 16), "v": (16, 16)}),
    "large products": Body(
        "h = MatMul (a, w) r = Relu (h) b = MatMul (r, v)",
        shape=(16, 128),
        dims="N, 128",
        weights={"w": (128, 128), "v": (128, 128)},
    ),
    "normalised rows": Body("b = LayerNormalization (a, w, v)", dims="N, 16", weights=_NORM),
    "softmax of columns": Body(
        "s = Softmax <axis = 0> (a) l = Log (s) b = Neg (l)", dims="N, 16", is_ragged=True
    ),
    "mean of rows": Body(
        """axis = Constant <value_ints = [0]> () e = Exp (a)
           m = ReduceMean <keepdims = 0> (e, axis) b = Sqrt (m)""",
        dims="N, 16",
        result="stacked",
        rank=1,
        is_ragged=True,
    ),
    "turned": Body("t = Transpose (a) e = Exp (t) b = Transpose (e)", dims="N, M"),
    "pixels": Body(_PIXELS, shape=(24, 24, 3), dims="H, W, 3", integers=True),
    "distinct numbers": Body(
        "r = Round (a) u, p, i, n = Unique (r) b = ReduceSum <keepdims = 0> (u)",
        result="stacked",
        rank=0,
    ),
    "kept numbers": Body(
        """t = Tanh (a) zero = Constant <value_float = 0.0> () above = Greater (t, zero)
           k = Compress (t, above) e = Exp (k) b = Neg (e)""",
        dims="N, 16",
        result="joined",
        rank=1,
    ),
}
