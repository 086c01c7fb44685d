"""Loops that carry one value over very small rows, from no iteration on."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from benchmarks.workload import Case, Family, model

__all__ = ["SHORT_LOOPS"]

_TEXT = """
looped ({kind}[N, {wide}] x, {kind}[{wide}] b, bool[N] p) => ({outputs})
  <bool go = {{1}}, int64 zero = {{0}}, int64[1] first = {{0}}> {{
  shape = Shape (x) n = Gather (shape, zero)
  {names} = Loop (n, go, b) <body = step (int64 i, bool on, {kind}[{wide}] s)
      => (bool still, {kind}[{wide}] s2{collected}) {{
    still = Identity (on) e = Gather (x, i) f = Gather (p, i)
    {body} }}> }}"""


def _looped(rows: int, *, body: str, kind: str, collects: bool = False, wide: int = 8) -> Case:
    """A Loop that carries ``s`` over rows ``e`` with flags ``f``."""
    text = _TEXT.format(
        kind=kind,
        wide=wide,
        body=body,
        outputs=f"{kind}[{wide}] r" + f", {kind}[N, {wide}] ys" * collects,
        names="r, ys" if collects else "r",
        collected=f", {kind}[{wide}] y" * collects,
    )
    rng = np.random.default_rng(rows)
    dtype = {"float": np.float32}.get(kind, kind)
    feeds = {
        "x": (rng.standard_normal((rows, wide)) * 1.5).astype(dtype),
        "b": (rng.standard_normal(wide) * 1.5).astype(dtype),
        "p": rng.random(rows) < 0.5,
    }
    return Case(f"{body} over {rows:,} rows", model(text), None, feeds)


_ROWS = {
    "sum": ("s2 = Add (s, e)", "float"),
    "sum of int64": ("s2 = Add (s, e)", "int64"),
    "product of int64": ("s2 = Mul (s, e)", "int64"),
    "maximum": ("s2 = Max (s, e)", "float"),
    "sum under a condition": ("t = Add (s, e) s2 = Where (f, t, s)", "float"),
    "last row under a condition": ("s2 = Where (f, e, s)", "float"),
}
_COLLECTED = {
    "running sum of int64": ("s2 = Add (s, e) y = Identity (s2)", "int64"),
    "running maximum": ("s2 = Max (s, e) y = Identity (s2)", "float"),
    "sum that begins anew": ("t = Add (s, e) s2 = Where (f, e, t) y = Identity (s2)", "float"),
    "filled forward": ("s2 = Where (f, e, s) y = Identity (s2)", "float"),
    "difference to the row before": ("y = Sub (e, s) s2 = Identity (e)", "float"),
}

SHORT_LOOPS: Mapping[str, Family] = {
    **{
        f"{name}, rows of 8": functools.partial(_looped, body=body, kind=kind)
        for name, (body, kind) in _ROWS.items()
    },
    **{
        f"{name}, rows of 8": functools.partial(_looped, body=body, kind=kind, collects=True)
        for name, (body, kind) in _COLLECTED.items()
    },
    "product of int64, rows of 1,024": functools.partial(
        _looped, body="s2 = Mul (s, e)", kind="int64", wide=1024
    ),
    "running maximum, rows of 1,024": functools.partial(
        _looped, body="s2 = Max (s, e) y = Identity (s2)", kind="float", wide=1024, collects=True
    ),
}
"""Loops by what they carry."""
