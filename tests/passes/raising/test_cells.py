"""Loops around recurrent cells, which become the operators RNN, GRU and LSTM."""

from __future__ import annotations

import pytest

from tests.passes.loops import model, read, same
from tests.passes.raising.cells import DIALECTS, cell_feeds, cell_loop

LENGTHS = (0, 1, 2, 7, 64)

_APART = """ai = MatMul (xi, wi)  ui = MatMul (h, ri)  pi = Add (ai, ui)  i = Add (pi, bi)
    af = MatMul (xi, wf)  uf = MatMul (h, rf)  pf = Add (uf, af)  ff = Add (bf, pf)
    ag = MatMul (xi, wg)  ug = MatMul (h, rg)"""
_THREE = """gx = MatMul (xi, w3)  gxb = Add (gx, b3)  gh = MatMul (h, r3)  ghb = Add (gh, d3)"""
_MIX = "zn = Mul (z, nn)  zh = Mul (z, h)  left = Sub (nn, zn)  h2 = Add (left, zh)"
_TORCH = f"""{_THREE}
    xr, xz, xn = Split <axis = -1> (gxb)  hr, hz, hn = Split <axis = -1> (ghb)
    sr = Add (xr, hr)  r = Sigmoid (sr)  sz = Add (xz, hz)  z = Sigmoid (sz)
    rn = Mul (r, hn)  sn = Add (xn, rn)  nn = Tanh (sn)"""
GRU = {
    "as_torch": f"{_TORCH}  d = Sub (h, nn)  e = Mul (z, d)  h2 = Add (nn, e)",
    "mixed_by_one_less": f"{_TORCH} o = Sub (unit, z) a = Mul (o, nn) b = Mul (h, z) h2 = Add (a, b)",
    "mixed_apart": f"{_TORCH} {_MIX}",
    "the_other_way_round": f"{_TORCH} o = Sub (unit, z) a = Mul (z, nn) b = Mul (o, h) h2 = Add (a, b)",
    "weights_turned": f"""turned = Transpose <perm = [1, 0]> (t3)  gx = MatMul (xi, turned)
        gxb = Add (gx, b3)  ghb = Gemm <transB = 1> (h, u3, d3)
        {_TORCH.removeprefix(_THREE)} {_MIX}""",
    "sliced": f"""{_THREE}
        xr = Slice (gxb, zero1, four1, last1)  hr = Slice (ghb, zero1, four1, last1)
        xz = Slice (gxb, four1, eight1, last1)  hz = Slice (ghb, four1, eight1, last1)
        xn = Slice (gxb, eight1, far1, last1)  hn = Slice (ghb, eight1, far1, last1)
        sr = Add (xr, hr)  r = Sigmoid (sr)  sz = Add (hz, xz)  z = Sigmoid (sz)
        rn = Mul (hn, r)  sn = Sum (xn, rn)  nn = Tanh (sn)  {_MIX}""",
    "reset_before": f"""{_APART}  z = Sigmoid (i)  r = Sigmoid (ff)  rh = Mul (r, h)
        vg = MatMul (rh, rg)  pg = Add (ag, vg)  sg = Add (pg, bg)  nn = Tanh (sg)  {_MIX}""",
    "reset_behind": f"""{_APART}  z = Sigmoid (i)  r = Sigmoid (ff)
        vg = Mul (ug, r)  pg = Add (ag, vg)  sg = Add (pg, bg)  nn = Tanh (sg)  {_MIX}""",
    "joined": f"""xh = Concat <axis = -1> (xi, h)  g = MatMul (xh, k2)  gb = Add (g, b2)
        both = Sigmoid (gb)  r, z = Split <axis = -1> (both)  rh = Mul (r, h)
        xrh = Concat <axis = -1> (xi, rh)  s = MatMul (xrh, kn)  sb = Add (s, bg)
        nn = Tanh (sb)  {_MIX}""",
    "of_relus": f"""{_APART}  z = Sigmoid (i)  r = Sigmoid (ff)
        vg = Mul (ug, r)  pg = Add (ag, vg)  nn = Relu (pg)  {_MIX}""",
}
RNN = {
    "tanh": f"{_APART}  h2 = Tanh (i)",
    "relu": f"{_APART}  h2 = Relu (i)",
    "two_biases": f"{_APART}  j = Add (i, di)  h2 = Tanh (j)",
    "no_bias": f"{_APART}  h2 = Tanh (pi)",
    "turned_round": f"{_APART}  m = Neg (i)  h2 = Tanh (m)",
    "half_of_it": f"{_APART}  m = Mul (i, half)  h2 = Tanh (m)",
    "two_matrices": f"{_APART}  j = Add (i, uf)  k = Sub (j, af)  h2 = Tanh (k)",
}
_KEPT = "fc = Mul (f, c)  ig = Mul (it, gt)  c2 = Add (fc, ig)  tc = Tanh (c2)  h2 = Mul (ot, tc)"
_FOUR = """gx = MatMul (xi, w4)  gh = MatMul (h, r4)  gs = Add (gx, gh)  gb = Add (gs, b4)"""
LSTM = {
    "as_torch": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
    "forget_bias": f"""{_FOUR}  i, g, ff, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f1 = Add (ff, unit)  f = Sigmoid (f1)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
    "joined": f"""xh = Concat <axis = -1> (xi, h)  gs = MatMul (xh, k4)  gb = Add (gs, b4)
        i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
    "apart": f"""{_APART}  ao = MatMul (xi, wo)  uo = MatMul (h, ro)  o = Add (ao, uo)
        pg = Add (ug, ag)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Tanh (pg)  ot = Sigmoid (o)  {_KEPT}""",
    "forgets_what_enters": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sub (unit, it)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
    "of_relus": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Relu (g)  ot = Sigmoid (o)  {_KEPT}""",
}
CELLS = {
    **{f"gru_{name}": ("GRU", body, ("h",)) for name, body in GRU.items()},
    **{f"rnn_{name}": ("RNN", body, ("h",)) for name, body in RNN.items()},
    **{f"lstm_{name}": ("LSTM", body, ("h", "c")) for name, body in LSTM.items()},
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_becomes_its_operator(name: str, dialect: str) -> None:
    kind, body, states = CELLS[name]
    # A Scan of no steps fails in onnxruntime, and so does joining an empty list.
    lengths = LENGTHS if dialect in ("counted", "while", "reversed") else LENGTHS[1:]
    before = model(cell_loop(dialect, body, states=states, lead="2,", row="2,"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[kind] == 1
    feeds = [cell_feeds(n, states=states) for n in lengths]
    assert same(before, found.model, *feeds) == len(lengths)
