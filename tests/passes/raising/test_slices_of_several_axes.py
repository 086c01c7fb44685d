"""Slices of several axes, one of which is cut by the number of the iteration.

``x[i, :n[i]]`` is one Slice with the bounds ``[i, 0]`` and ``[i + 1, n[i]]`` as TensorFlow's and
PaddlePaddle's exporters write it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.passes.loops import model, read, same


def graph(body: str, row: str = "float[a]") -> str:
    """Return a Loop that collects ``r``; ``k`` is the number, ``j`` the next, ``m`` one of ``n``."""
    return f"""g (float[N,T,4] x, int64[N] n) => (float[N,?] rs) {{
        t = Constant <value = bool {{1}}> ()
        shape = Shape <start = 0, end = 1> (x)
        none = Squeeze (shape)
        rs = Loop (none, t) <body = step (int64 i, bool c) => (bool d, {row} r) {{
            zero = Constant <value = int64[1] {{0}}> ()
            one = Constant <value = int64[1] {{1}}> ()
            two = Constant <value = int64[1] {{2}}> ()
            axes01 = Constant <value = int64[2] {{0, 1}}> ()
            k = Unsqueeze (i, zero)
            j = Add (k, one)
            m = Gather (n, k)
            l = Sub (m, one)
            {body}
            d = Identity (c)
        }}>
    }}"""


SLICES = {
    "up to a length": """
        b = Concat <axis = 0> (k, zero)  e = Concat <axis = 0> (j, m)
        s = Slice (x, b, e, axes01)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
    "without axes": """
        b = Concat <axis = 0> (k, zero)  e = Concat <axis = 0> (j, m)
        s = Slice (x, b, e)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
    "the element last": """
        ax = Constant <value = int64[2] {-2, -3}> ()
        b = Concat <axis = 0> (zero, k)  e = Concat <axis = 0> (m, j)
        s = Slice (x, b, e, ax)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
    "the last valid": """
        b = Concat <axis = 0> (k, l)  e = Concat <axis = 0> (j, m)
        s = Slice (x, b, e, axes01)  r = Squeeze (s, axes01)""",
    "bounds of int32": """
        b0 = Concat <axis = 0> (k, zero)  e0 = Concat <axis = 0> (j, m)  ax = Cast <to = 6> (axes01)
        b = Cast <to = 6> (b0)  e = Cast <to = 6> (e0)
        s = Slice (x, b, e, ax)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
    "bounds of int32, some the same of each": """
        b0 = Concat <axis = 0> (k, zero)  e0 = Concat <axis = 0> (j, two)  ax = Cast <to = 6> (axes01)
        b = Cast <to = 6> (b0)  e = Cast <to = 6> (e0)
        s = Slice (x, b, e, ax)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
    "bounds of int32, each a number": """
        k3 = Cast <to = 6> (k)  j3 = Cast <to = 6> (j)  m3 = Cast <to = 6> (m)
        zero3 = Cast <to = 6> (zero)  ax = Cast <to = 6> (axes01)
        b = Concat <axis = 0> (k3, zero3)  e = Concat <axis = 0> (j3, m3)
        s = Slice (x, b, e, ax)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
    "the same of each": """
        ax = Constant <value = int64[3] {0, 1, 2}> ()  by = Constant <value = int64[3] {1, 1, 2}> ()
        b = Concat <axis = 0> (k, zero, one)  e = Concat <axis = 0> (j, two, two)
        s = Slice (x, b, e, ax, by)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
    "one axis alike, one up to a length": """
        ax = Constant <value = int64[3] {0, 1, 2}> ()
        b = Concat <axis = 0> (k, one, zero)  e = Concat <axis = 0> (j, two, m)
        s = Slice (x, b, e, ax)
        q = ReduceSum <keepdims = 0> (s, axes01)  r = ReduceSum <keepdims = 1> (q)""",
    "one axis alike, two of each": """
        ax = Constant <value = int64[3] {0, 1, 2}> ()  row = Gather (x, i)
        u = Unsqueeze (row, zero)
        b = Concat <axis = 0> (zero, zero, zero)  e = Concat <axis = 0> (one, m, l)
        s = Slice (u, b, e, ax)
        q = ReduceSum <keepdims = 0> (s, axes01)  r = ReduceSum <keepdims = 1> (q)""",
    "bounds that no Concat makes": """
        ones = Constant <value = int64[2] {1, 1}> ()
        b = Concat <axis = 0> (k, zero)  last = Concat <axis = 0> (k, l)  e = Add (last, ones)
        s = Slice (x, b, e, axes01)  q = Squeeze (s, zero)
        r = ReduceSum <keepdims = 0> (q, zero)""",
}


def feed(samples: int, longest: int, *lengths: int) -> Mapping[str, np.ndarray]:
    """Make the inputs; what is behind a length is not a number."""
    x = np.arange(samples * longest * 4, dtype=np.float32).reshape(samples, longest, 4)
    for row, length in zip(x, lengths, strict=True):
        row[max(length, 2) :] = np.nan
    return {"x": x, "n": np.array(lengths, np.int64)}


FEEDS = [feed(0, 3), feed(1, 3, 2), feed(3, 5, 5, 1, 3), feed(2, 4, 2, 2)]
ROWS = {
    "the same of each": "float[1]",
    "one axis alike, one up to a length": "float[1]",
    "one axis alike, two of each": "float[1]",
}


@pytest.mark.quick
@pytest.mark.parametrize("lacks", [(), ("Loop", "Scan", "If")], ids=["loops", "no loops"])
@pytest.mark.parametrize("name", SLICES)
def test_it_reads_the_row_and_cuts_it(name: str, lacks: tuple[str, ...]) -> None:
    before = model(graph(SLICES[name], ROWS.get(name, "float[4]")))
    found = read(before, lacks=frozenset(lacks))
    assert found.loops == 0, found.decisions
    assert same(before, found.model, *FEEDS) == len(FEEDS)
