"""Bodies that declare the number of the iteration as a tensor of one element.

onnxruntime hands over what is declared; tf2onnx and paddle2onnx declare one axis.
"""

from __future__ import annotations

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.loops import model, read, same

FEEDS = [{"x": np.arange(4 * n, dtype=np.float32).reshape(n, 4) + 1} for n in (0, 1, 3)]


def graph(body: str, collected: str, result: str) -> str:
    """Return a Loop over the rows of ``x`` that carries ``s`` and collects ``r``."""
    return f"""g (float[N,4] x) => (float[4] last, {result} rs) {{
        s0 = Constant <value = float[4] {{0,1,2,3}}> ()
        t = Constant <value = bool {{1}}> ()
        count = Shape <start = 0, end = 1> (x)
        n = Squeeze (count)
        last, rs = Loop (n, t, s0) <body = step (int64[1] i, bool c, float[4] s)
            => (bool d, float[4] s2, {collected} r) {{
            one = Constant <value = int64[1] {{1}}> ()
            zero = Constant <value = int64[1] {{0}}> ()
            f = Cast <to = 1> (i)
            e1 = Gather <axis = 0> (x, i)
            e = Squeeze (e1, zero)
            {body}
            d = Identity (c)
        }}>
    }}"""


MAPS = {
    "the number": ("r = Identity (i)  s2 = Identity (s)", "int64[1]", "int64[N,1]"),
    "computed from": ("r = Mul (f, f)  s2 = Identity (s)", "float[1]", "float[N,1]"),
    "a sum": ("r = Mul (e1, f)  s2 = Add (s, e)", "float[1,4]", "float[N,1,4]"),
    "a slice": (
        "j = Add (i, one)  r = Slice (x, i, j)  s2 = Identity (s)",
        "float[1,4]",
        "float[N,1,4]",
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_it_keeps_its_axis(name: str) -> None:
    before = model(graph(*MAPS[name]))
    found = read(before)
    assert found.loops == 0
    assert same(before, found.model, *FEEDS) == len(FEEDS)


def test_rows_that_a_recurrence_reads_lie_where_they_did() -> None:
    recurrence = "u = Exp (e)  v = Sin (u)  m = Mul (s, v)  s2 = Cos (m)  r = Mul (s2, f)"
    before = model(graph(recurrence, "float[4]", "float[N,4]"))
    found = read(before)
    assert [d.verdict for d in found.decisions] == [Verdict.FISSIONED]
    assert same(before, found.model, *FEEDS) == len(FEEDS)
