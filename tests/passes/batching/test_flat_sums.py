"""Sums over all pixels of large images stay near those of double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.passes.batching.images import FlatCase, numbers, without_loops

Array = np.ndarray[Any, Any]
_SIZES = [(450, 380), (1, 1), (2, 700), (300, 3)]


def _weighed(x: Array) -> Array:
    return (np.exp(x) / np.exp(x).sum() * x).sum().reshape(1, 1)


CASES: list[tuple[FlatCase, Callable[[Array], Array]]] = [
    (FlatCase(name, nodes, element=element, result=result), exact)
    for name, element, result, nodes, exact in [
        ("mean", "float[H,W,3]", "float[3]",
         numbers("k", 0, 1) + "y = ReduceMean <keepdims = 0> (x, k)",
         lambda x: x.mean(axis=(0, 1))),
        ("mean of channels", "float[3,H,W]", "float[3,1,1]",
         numbers("k", 1, 2) + "y = ReduceMean (x, k)",
         lambda x: x.mean(axis=(1, 2), keepdims=True)),
        ("sum of all", "float[H,W,3]", "float[]", "y = ReduceSum <keepdims = 0> (x)",
         lambda x: x.sum()),
        ("norm", "float[1,H,W,2]", "float[1,1,1,2]", numbers("k", 1, 2) + "y = ReduceL2 (x, k)",
         lambda x: np.sqrt((x * x).sum(axis=(1, 2), keepdims=True))),
        ("logarithm of a sum", "float[H,W]", "float[1,1]", "y = ReduceLogSumExp (x)",
         lambda x: np.log(np.exp(x).sum()).reshape(1, 1)),
        ("one line", "float[H,W,3]", "float[1]",
         numbers("to", -1) + numbers("k", 0) + "r = Reshape (x, to) y = ReduceMean (r, k)",
         lambda x: x.mean().reshape(1)),
        ("lines of pixels", "float[3,H,W]", "float[3]",
         numbers("k", 1) + "r = Flatten <axis = 1> (x) m = ReduceMean (r, k) d = Sub (r, m) "
         "q = Mul (d, d) v = ReduceMean <keepdims = 0> (q, k) y = Sqrt (v)",
         lambda x: x.std(axis=(1, 2))),
        ("softmax of pixels", "float[H,W]", "float[1,1]",
         numbers("to", 1, -1) + numbers("k", 1) + "r = Reshape (x, to) s = Softmax (r) "
         "p = Mul (s, r) y = ReduceSum (p, k)", _weighed),
        ("pooled", "float[1,3,H,W]", "float[1,3,1,1]", "y = GlobalAveragePool (x)",
         lambda x: x.mean(axis=(2, 3), keepdims=True)),
    ]
]  # fmt: skip


@pytest.mark.parametrize(("case", "exact"), CASES, ids=[case.name for case, _ in CASES])
def test_sums_of_many_pixels(case: FlatCase, exact: Callable[[Array], Array]) -> None:
    rng = np.random.default_rng(0)
    dims = case.element.removeprefix("float[").removesuffix("]").split(",")
    sides = [{"H": height, "W": width} for height, width in _SIZES]
    shapes = [[side[d] if d in side else int(d) for d in dims] for side in sides]
    images = [rng.uniform(0.1, 1, shape).astype(np.float32) for shape in shapes]
    found = without_loops(case)(images)["ys"]
    for image, value in zip(images, found, strict=True):
        np.testing.assert_allclose(value, exact(image.astype(np.float64)), rtol=2e-6, atol=1e-7)
