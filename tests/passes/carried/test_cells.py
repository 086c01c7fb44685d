"""Loops around recurrent cells, which become the operators RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_nodes
from rewriter import rewrite
from rewriter.backends import open_session, run
from rewriter.proof.compare import compare
from rewriter.proof.count_iterations import ITERATIONS, with_iterations
from tests.passes.carried.cells import DIALECTS, cell_feeds, cell_loop
from tests.passes.loops import model, read, same

LENGTHS = (0, 1, 2, 7, 64)
Feeds = Mapping[str, np.ndarray]

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
    "one_gate_for_both": f"{_TORCH}  d = Sub (h, nn)  e = Mul (r, d)  h2 = Add (nn, e)",
    "mixed_apart": f"{_TORCH} {_MIX}",
    "of_relu": f"{_TORCH.replace('Tanh (sn)', 'Relu (lo)')} {_MIX}".replace(
        "nn = Relu", "lo = Mul (sn, tenth)  nn = Relu"
    ),
    "of_clip": f"""nil = Constant <value = float {{0}}> ()  six = Constant <value = float {{6}}> ()
        {_THREE}  three = Constant <value = float {{3}}> ()
        xr, xz, xn = Split <axis = -1> (gxb)  hr, hz, hn = Split <axis = -1> (ghb)
        sr = Add (xr, hr)  r3a = Add (sr, three)  r6 = Clip (r3a, nil, six)  r = Div (r6, six)
        sz = Add (xz, hz)  z3a = Add (sz, three)  z6 = Clip (z3a, nil, six)  z = Div (z6, six)
        rn = Mul (r, hn)  sn = Add (xn, rn)  nn = Tanh (sn)  {_MIX}""",
    "of_hard_sigmoid": f"{_TORCH.replace('Sigmoid', 'HardSigmoid')} {_MIX}",
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
    "as_keras": f"""gx = MatMul (xi, w3)  gxb = Add (gx, b3)  xz, xr, xn = Split <axis = -1> (gxb)
        both = Slice (r3, from0, to8, axes2)  gh = MatMul (h, both)
        hr = Slice (gh, from4, to8, axes2)  sr = Add (xr, hr)  r = Sigmoid (sr)  rh = Mul (r, h)
        hz = Slice (gh, from0, to4, axes2)  sz = Add (xz, hz)  z = Sigmoid (sz)
        rest = Slice (r3, from8, to12, axes2)  hn = MatMul (rh, rest)
        sn = Add (xn, hn)  nn = Tanh (sn)  {_MIX}""",
    "joined": f"""xh = Concat <axis = -1> (xi, h)  g = MatMul (xh, k2)  gb = Add (g, b2)
        both = Sigmoid (gb)  r, z = Split <axis = -1> (both)  rh = Mul (r, h)
        xrh = Concat <axis = -1> (xi, rh)  s = MatMul (xrh, kn)  sb = Add (s, bg)
        nn = Tanh (sb)  {_MIX}""",
}
RNN = {
    "tanh": f"{_APART}  h2 = Tanh (i)",
    "sigmoid": f"{_APART}  h2 = Sigmoid (i)",
    "relu": f"{_APART}  m = Mul (i, tenth)  h2 = Relu (m)",
    "leaky_relu": f"{_APART}  m = Mul (i, tenth)  h2 = LeakyRelu (m)",
    "elu": f"{_APART}  m = Mul (i, tenth)  h2 = Elu <alpha = 1.0> (m)",
    "softplus": f"{_APART}  m = Mul (i, tenth)  h2 = Softplus (m)",
    "softsign": f"{_APART}  h2 = Softsign (i)",
    "hard_sigmoid": f"{_APART}  h2 = HardSigmoid (i)",
    "flatter_hard_sigmoid": f"{_APART}  h2 = HardSigmoid <alpha = 0.16666667> (i)",
    "hard_sigmoid_from_a_quarter": f"{_APART}  h2 = HardSigmoid <alpha = 0.2, beta = 0.25> (i)",
    "clipped": f"""{_APART}  nil = Constant <value = float {{0}}> ()  three = Constant <value = float {{3}}> ()
        six = Constant <value = float {{6}}> ()  j = Add (i, three)  q = Clip (j, nil, six)
        h2 = Div (q, six)""",
    "clipped_by_min_and_max": f"""{_APART}  nil = Constant <value = float {{0}}> ()
        share = Constant <value = float {{0.16666667}}> ()  three = Constant <value = float {{3}}> ()
        six = Constant <value = float {{6}}> ()  j = Add (i, three)  q = Max (j, nil)
        p = Min (six, q)  h2 = Mul (p, share)""",
    "clipped_by_relu": f"""{_APART}  j = Add (i, half)  q = Relu (j)  h2 = Min (q, unit)""",
    "relu_as_max": f"""{_APART}  nil = Constant <value = float[1] {{0}}> ()
        m = Mul (i, tenth)  h2 = Max (nil, m)""",
    "two_biases": f"{_APART}  j = Add (i, di)  h2 = Tanh (j)",
    "no_bias": f"{_APART}  h2 = Tanh (pi)",
    "turned_round": f"{_APART}  m = Neg (i)  h2 = Tanh (m)",
    "half_of_it": f"{_APART}  m = Mul (i, half)  h2 = Tanh (m)",
    "by_einsum": """ai = Einsum <equation = "bi,ij->bj"> (xi, wi)  ij = Transpose <perm = [1, 0]> (ri)
        ui = Einsum <equation = "ji,bi->bj"> (ij, h)  i = Add (ai, ui)  h2 = Tanh (i)""",
    "by_gemm_of_no_bias": """none = Constant <value = float {0}> ()
        ai = Gemm <beta = 0.0> (xi, wi, none)  ui = Gemm <beta = 0.5> (h, ri)
        i = Add (ai, ui)  h2 = Tanh (i)""",
    "two_matrices": f"{_APART}  j = Add (i, uf)  k = Sub (j, af)  h2 = Tanh (k)",
}
_CARRY = "fc = Mul (f, c)  ig = Mul (it, gt)  c2 = Add (fc, ig)"
_SHOW = "tc = Tanh (c2)  h2 = Mul (ot, tc)"
_KEPT = f"{_CARRY}  {_SHOW}"
_FOUR = """gx = MatMul (xi, w4)  gh = MatMul (h, r4)  gs = Add (gx, gh)  gb = Add (gs, b4)"""
LSTM = {
    "as_torch": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
    "of_softsign": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Softsign (g)  ot = Sigmoid (o)
        {_KEPT.replace("Tanh", "Relu")}""",
    "forget_bias": f"""{_FOUR}  i, g, ff, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f1 = Add (ff, unit)  f = Sigmoid (f1)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
    "joined": f"""xh = Concat <axis = -1> (xi, h)  gs = MatMul (xh, k4)  gb = Add (gs, b4)
        i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
    "apart": f"""{_APART}  ao = MatMul (xi, wo)  uo = MatMul (h, ro)  o = Add (ao, uo)
        pg = Add (ug, ag)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Tanh (pg)  ot = Sigmoid (o)  {_KEPT}""",
    "peepholes": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  pe = Mul (di, c)
        se = Add (i, pe)  it = Sigmoid (se)  pf = Mul (c, df)  sf = Sub (ff, pf)
        f = Sigmoid (sf)  gt = Tanh (g)  {_CARRY}  po = Mul (do, c2)  so = Add (po, o)
        ot = Sigmoid (so)  {_SHOW}""",
    "one_peephole": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sigmoid (ff)  gt = Tanh (g)  {_CARRY}  ph = Mul (c2, half)  po = Mul (do, ph)
        so = Add (po, o)  ot = Sigmoid (so)  {_SHOW}""",
    "forgets_what_enters_by_a_peephole": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)
        pe = Mul (di, c)  se = Add (i, pe)  it = Sigmoid (se)  f = Sub (unit, it)
        gt = Tanh (g)  {_CARRY}  po = Mul (do, c2)  so = Add (po, o)  ot = Sigmoid (so)
        {_SHOW}""",
    "forgets_what_enters": f"""{_FOUR}  i, ff, g, o = Split <axis = -1> (gb)  it = Sigmoid (i)
        f = Sub (unit, it)  gt = Tanh (g)  ot = Sigmoid (o)  {_KEPT}""",
}
_STEP = "x3 = Unsqueeze (xi, zero1)  h3 = Unsqueeze (h, zero1)  c3 = Unsqueeze (h, zero1)"
_OF_ONE = f"""{_STEP}  all, hy = {{0}} <hidden_size = 4{{1}}> (x3, w_{{2}}, r_{{2}}, b_{{2}}, "", h3)
    h2 = Squeeze (hy, zero1)"""
STEPS = {
    "gru": ("GRU", _OF_ONE.format("GRU", ", linear_before_reset = 1", "gru"), ("h",)),
    "rnn": ("RNN", _OF_ONE.format("RNN", ', activations = ["Relu"]', "rnn"), ("h",)),
    "lstm": (
        "LSTM",
        f"""{_STEP.replace("(h, zero1)  c3 = Unsqueeze (h", "(h, zero1)  c3 = Unsqueeze (c")}
        all, hy, cy = LSTM <hidden_size = 4> (x3, w_lstm, r_lstm, b_lstm, "", h3, c3)
        h2 = Squeeze (hy, zero1)  c2 = Squeeze (cy, zero1)""",
        ("h", "c"),
    ),
}
CELLS = {
    **{f"step_of_{name}": case for name, case in STEPS.items()},
    **{f"gru_{name}": ("GRU", body, ("h",)) for name, body in GRU.items()},
    **{f"rnn_{name}": ("RNN", body, ("h",)) for name, body in RNN.items()},
    **{f"lstm_{name}": ("LSTM", body, ("h", "c")) for name, body in LSTM.items()},
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_becomes_its_operator(name: str, dialect: str) -> None:
    kind, body, states = CELLS[name]
    # A Scan of no steps fails in onnxruntime, and so does joining an empty list.
    fails = dialect in ("scan", "backward", "listed")
    lengths = LENGTHS[1:] if fails else LENGTHS
    before = model(cell_loop(dialect, body, states=states, lead="2,", row="2,"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[kind] == 1
    feeds = [cell_feeds(n, states=states) for n in lengths]
    assert same(before, found.model, *feeds) == len(lengths)


_GRU_STEP, _LSTM_STEP = STEPS["gru"][1], STEPS["lstm"][1]
OTHER_STEPS = {
    "backwards": _GRU_STEP.replace("<hidden", '<direction = "reverse", hidden'),
    "as_many_as_lengths_say": "lengths = Constant <value = int32[2] {1, 0}> () "
    + _GRU_STEP.replace('""', "lengths"),
    "two_of_one_row": _GRU_STEP.replace("(x3,", "(xx,").replace(
        "all,", "xx = Concat <axis = 0> (x3, x3)  all,"
    ),
    "from_twice_the_state": _GRU_STEP.replace("h3)", "hh)").replace(
        "all,", "hh = Add (h3, h3)  all,"
    ),
    "from_what_the_state_is_not": _GRU_STEP.replace("(h, zero1)", "(hn, zero1)").replace(
        "x3 =", "hn = Neg (h)  x3 ="
    ),
    "half_of_what_follows": _GRU_STEP.replace("h2 = Squeeze (hy", "h1 = Tanh (hy").replace(
        "(hy, zero1)", "(hy)  h2 = Squeeze (h1, zero1)"
    ),
    "with_peepholes": "dims = Constant <value = int64[2] {1, 12}> () "
    "peepholes = ConstantOfShape <value = float[1] {0.5}> (dims) "
    + _LSTM_STEP.replace("h3, c3)", "h3, c3, peepholes)"),
    "states_that_change_places": _LSTM_STEP.replace("(hy,", "(cx,")
    .replace("(cy,", "(hy,")
    .replace("(cx,", "(cy,"),
}


@pytest.mark.parametrize("batch", ["2", "B"])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_auto_runs_a_few_steps_in_the_loop_as_given(kind: str, batch: str) -> None:
    """What makes a state and rows of the operator's shape takes several times as long as no step."""
    _, body, states = CELLS[f"{kind}_as_torch"]
    text = cell_loop("counted", body, states=states, lead=f"{batch},", row=f"{batch},")
    before = model(text)
    found = read(before, auto=True)
    (decision,) = found.decisions
    few = decision.few
    assert 0 < few <= 8
    assert found.loops == 1
    counted = open_session(ir.to_proto(with_iterations(found.model)))
    fed = [cell_feeds(n, states=states) for n in (0, 1, few, few + 1, 20)]
    assert same(before, found.model, *fed, open_rows=True) == len(fed)
    assert [int(counted.run(feed)[ITERATIONS]) for feed in fed] == [0, 1, few, 0, 0]


@pytest.mark.parametrize("name", OTHER_STEPS)
def test_another_step_of_an_operator_stays_in_the_loop(name: str) -> None:
    body = OTHER_STEPS[name]
    states = ("h", "c") if "LSTM" in body else ("h",)
    before = model(cell_loop("counted", body, states=states, lead="2,", row="2,"))
    found = read(before)
    assert found.loops == 1
    feeds = [cell_feeds(n, states=states) for n in (0, 1, 3)]
    assert same(before, found.model, *feeds) == 3


SHAPES = {
    "no_batch": ("", "", [(None, {})]),
    "a_batch_of_one": ("1,", "1,", [(1, {})]),
    "rows_without_a_batch": ("1,", "", [(1, {"row": ()})]),
    "two_axes": ("1,2,", "1,2,", [(2, {"lead": (1, 2), "row": (1, 2)})]),
    "the_batch_first": ("2,1,", "2,1,", [(2, {"lead": (2, 1), "row": (2, 1)})]),
}


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["gru_as_torch", "rnn_tanh", "lstm_as_torch"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_state_has_any_axes_in_front(name: str, kind: str) -> None:
    lead, row, given = SHAPES[name]
    op_type, body, states = CELLS[kind]
    before = model(cell_loop("counted", body, states=states, lead=lead, row=row))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = [cell_feeds(n, b, states=states, **more) for n in (0, 1, 7) for b, more in given]
    assert same(before, found.model, *feeds) == len(feeds)


def _of_two_batches(length: int, states: Sequence[str], rows: int, state: int) -> Feeds:
    given = dict(cell_feeds(length, rows, states=states))
    return given | {f"{s}0": np.full((state, 4), 0.5, np.float32) for s in states}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["gru_as_torch", "rnn_tanh", "lstm_as_torch"])
def test_rows_and_states_may_have_two_batches(kind: str) -> None:
    """One of 1 is repeated, as Add does; without iterations a state stays what it was."""
    op_type, body, states = CELLS[kind]
    text = cell_loop("counted", body, states=states, lead="B,", row="C,")
    before = model(
        text.replace("float[M,B,", "float[M,D,").replace("float[B,4] h_last", "float[E,4] h_last")
    )
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    pairs = [(1, 1), (3, 3), (3, 1), (1, 3), (0, 0), (0, 1), (1, 0)]
    feeds = [_of_two_batches(n, states, *pair) for n in (1, 7) for pair in pairs]
    assert same(before, found.model, *feeds) == len(feeds)
    one, other = open_session(before), open_session(found.model)
    for pair in [*pairs, (2, 3)]:
        given = _of_two_batches(0, states, *pair)
        for name, value in one.run(given).items():
            if name != "ys":
                assert np.array_equal(other.run(given)[name], value)


ZEROS = """sizes = Slice (whole, one1, two1)  zeros = Concat <axis = 0> (sizes, four1)
    start = ConstantOfShape (zeros)"""


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["gru_as_torch", "rnn_tanh", "lstm_as_torch"])
def test_a_state_begins_as_zeros_of_any_batch(kind: str) -> None:
    op_type, body, states = CELLS[kind]
    text = cell_loop("counted", body, states=states, prepare=ZEROS, start="start")
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = [cell_feeds(n, b, states=states) for n in (0, 1, 7) for b in (0, 1, 3) if n or not b]
    assert same(before, found.model, *feeds) == len(feeds)


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["gru_as_torch", "rnn_tanh", "lstm_as_torch"])
def test_a_list_that_starts_with_the_first_state_of_any_batch(kind: str) -> None:
    op_type, body, states = CELLS[kind]
    before = model(cell_loop("behind", body, states=states, prepare=ZEROS, start="start"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = [cell_feeds(n, b, states=states) for n in (0, 1, 7) for b in (0, 1, 3) if n or not b]
    assert same(before, found.model, *feeds) == len(feeds)


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["gru_as_torch", "rnn_tanh", "lstm_as_torch"])
def test_what_reads_the_state_of_each_iteration_is_batched(kind: str) -> None:
    op_type, body, states = CELLS[kind]
    collected = "m2 = MatMul (h2, wy)  m1 = MatMul (h, wy)  m0 = Sub (m2, m1)  y = Relu (m0)"
    text = cell_loop("counted", body, states=states, lead="2,", row="2,", y=collected, wide=2)
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    assert found.operators["MatMul"] == 2
    feeds = [cell_feeds(n, states=states) for n in LENGTHS]
    assert same(before, found.model, *feeds) == len(LENGTHS)


@pytest.mark.quick
def test_a_cell_reads_what_another_yields() -> None:
    body = f"""{RNN["tanh"]}  ui2 = MatMul (h2, rf)  pi2 = MatMul (c, ro)
        s = Add (ui2, pi2)  c2 = Sigmoid (s)"""
    text = cell_loop(
        "counted", body, states=("h", "c"), prepare=ZEROS, start="start", y="y = Identity (c2)"
    )
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators["RNN"] == 2
    feeds = [cell_feeds(n, states=("h", "c")) for n in (1, 2, 7)]
    assert same(before, found.model, *feeds) == len(feeds)


@pytest.mark.quick
@pytest.mark.parametrize("second", ["rnn", "step"])
def test_a_cell_reads_another_one_whose_sizes_no_type_tells(second: str) -> None:
    after = {
        "rnn": "ui2 = MatMul (h2, rf)  pi2 = MatMul (c, ro)  s = Add (ui2, pi2)  c2 = Tanh (s)",
        "step": """x3 = Unsqueeze (h2, zero1)  c3 = Unsqueeze (c, zero1)
            all, cy = RNN <hidden_size = 4> (x3, r_rnn, r_rnn, b_rnn, "", c3)
            c2 = Squeeze (cy, zero1)""",
    }
    body, states = f"{GRU['as_keras']}  {after[second]}", ("h", "c")
    text = cell_loop(
        "counted", body, states=states, prepare=ZEROS, start="start", y="y = Identity (c2)"
    )
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators["GRU"] == found.operators["RNN"] == 1
    feeds = [cell_feeds(n, b, states=states) for n in (0, 1, 7) for b in (0, 1, 3) if n or not b]
    assert same(before, found.model, *feeds) == len(feeds)


@pytest.mark.quick
@pytest.mark.parametrize("place", ["zero", "last"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_vector_that_is_made_a_row_of_one(place: str, masked: bool) -> None:
    """As `cell(x[None], h[None])[0]` is written."""
    chosen = """mi = Gather <axis = 0> (m, number)  h2 = Where (mi, hn, h)"""
    body = f"""last = Constant <value = int64 {{-1}}> ()  x1 = Unsqueeze (xi, zero1)
        h1 = Unsqueeze (h, zero1)  a = MatMul (x1, wi)  u = MatMul (h1, ri)  s = Add (a, u)
        tt = Tanh (s)  hn = Gather <axis = 0> (tt, {place})
        {chosen if masked else "h2 = Identity (hn)"}"""
    before = model(cell_loop("counted", body, lead="", row="", inputs="bool[N] m"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators["RNN"] == 1
    feeds = [{**cell_feeds(n, None), "m": np.arange(n) % 3 > 0} for n in (0, 1, 2, 7, 64)]
    assert same(before, found.model, *feeds) == len(feeds)


_GIVEN = "{0}  d = Sub (h, nn)  e = Mul (z, d)  h2 = Add (nn, e)"
NEAR = {
    "gates_of_two_kinds": _GIVEN.format(_TORCH.replace("r = Sigmoid (sr)", "r = Tanh (sr)")),
    "mixed_twice": f"{_TORCH}  d = Sub (h, nn)  e = Mul (z, d)  e2 = Mul (z, e)  h2 = Add (nn, e2)",
    "a_state_beside": f"{_TORCH}  d = Sub (h, nn)  e = Mul (z, d)  q = Add (nn, e)  h2 = Add (q, h)",
    "the_candidate_alone": f"{_TORCH}  e = Mul (z, h)  h2 = Add (nn, e)",
    "a_square": f"{_APART}  q = Mul (h, h)  m = MatMul (q, ri)  s = Add (i, m)  h2 = Tanh (s)",
    "a_share": f"{_APART}  g = Tanh (i)  q = Mul (h, half)  h2 = Add (g, q)",
    "no_matrix": f"{_APART}  q = Add (ai, h)  h2 = Tanh (q)",
    "weights_of_each_iteration": f"""{_APART}  most = ReduceMax <keepdims = 0> (xi)
        q = Mul (ri, most)  m = MatMul (h, q)  s = Add (m, ai)  h2 = Tanh (s)""",
    "within_bounds": f"{_APART}  q = Tanh (i)  h2 = Clip (q, , half)",
    "a_steeper_bend": f"{_APART}  h2 = LeakyRelu <alpha = 0.2> (i)",
    "a_sigmoid_that_falls": f"{_APART}  h2 = HardSigmoid <alpha = -0.2> (i)",
    "within_other_bounds": f"{_APART}  h2 = Clip (i, tenth, half)",
    "within_six": f"""{_APART}  nil = Constant <value = float {{0}}> ()
        six = Constant <value = float {{6}}> ()  h2 = Clip (i, nil, six)""",
    "above_another_number": f"{_APART}  h2 = Max (i, tenth)",
    "within_wide_bounds": f"""{_APART}  nil = Constant <value = float[1,1,1] {{0}}> ()
        a = Clip (i, , unit)  b = Max (a, nil)  h2 = Squeeze (b, zero1)""",
    "bounds_of_each_iteration": f"""{_APART}  most = ReduceMax <keepdims = 0> (xi)
        a = Relu (i)  h2 = Min (a, most)""",
    "another_activation": f"{_APART}  h2 = Selu (i)",
    "gate_of_the_state_itself": f"{_APART}  q = Mul (h, bg)  s = Add (i, q)  h2 = Tanh (s)",
    "in_an_if": f"""{_APART}  total = ReduceSum <keepdims = 0> (ai)  on2 = Less (total, half)
        h2 = If (on2) <then_branch = yes () => (float[2,4] a) {{ a = Tanh (i) }},
            else_branch = no () => (float[2,4] b) {{ b = Identity (h) }}>""",
    "a_gate_without_a_row": f"""{_APART}  r = Sigmoid (uf)  z = Sigmoid (i)
        rg2 = Mul (r, ug)  s = Add (ag, rg2)  nn = Tanh (s)  {_MIX}""",
    "normalised": f"""{_APART}  ln = LayerNormalization <axis = -1> (i, bg, bi)
        h2 = Tanh (ln)""",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", NEAR)
def test_what_comes_close_stays_a_loop(name: str) -> None:
    before = model(cell_loop("counted", NEAR[name], lead="2,", row="2,"))
    found = read(before)
    assert found.loops == 1, found.operators
    assert not found.operators.keys() & {"RNN", "GRU", "LSTM"}
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    feeds = [cell_feeds(n) for n in (0, 1, 7)]
    assert same(before, found.model, *feeds) == len(feeds)


LSTM_NEAR = {
    "the_state_shown_of_before": _KEPT.replace("tc = Tanh (c2)", "tc = Tanh (c)"),
    "gates_of_two_kinds": _KEPT.replace("Mul (it, gt)", "Mul (gt, gt2)"),
    "two_candidates": _KEPT.replace("Mul (ot, tc)", "Mul (gt2, tc)"),
    "not_shown": _KEPT.replace("h2 = Mul (ot, tc)", "h2 = Mul (ot, c2)"),
    "an_output_gate_of_the_state_before": f"""{_CARRY}  po = Mul (do, c)  so = Add (o, po)
        os = Sigmoid (so)  {_SHOW.replace("(ot,", "(os,")}""",
    "an_output_gate_of_a_part_of_the_state": f"""{_CARRY}  po = Mul (do, fc)  so = Add (o, po)
        os = Sigmoid (so)  {_SHOW.replace("(ot,", "(os,")}""",
    "a_gate_of_the_state_as_it_is": f"""se = Add (i, c)  ie = Sigmoid (se)
        {_KEPT.replace("(it,", "(ie,")}""",
    "a_gate_of_half_the_state": f"""ch = Mul (half, c)  se = Add (i, ch)  ie = Sigmoid (se)
        {_KEPT.replace("(it,", "(ie,")}""",
    "a_gate_of_the_state_by_a_matrix": f"""cm = MatMul (c, ri)  se = Add (i, cm)
        ie = Sigmoid (se)  {_KEPT.replace("(it,", "(ie,")}""",
    "a_gate_of_the_state_by_two_vectors": f"""cv = Mul (c, di)  cw = Mul (cv, df)
        se = Add (i, cw)  ie = Sigmoid (se)  {_KEPT.replace("(it,", "(ie,")}""",
    "a_candidate_of_the_state": f"""pc = Mul (dg, c)  sg = Add (g, pc)  gp = Tanh (sg)
        {_KEPT.replace("gt)", "gp)")}""",
}


@pytest.mark.parametrize("dialect", ["counted", "scan"])
@pytest.mark.parametrize("y", ["Identity (c2)", "Identity (c)"])
def test_the_second_state_of_each_iteration_keeps_the_loop(dialect: str, y: str) -> None:
    """LSTM gives the last of them alone."""
    body = LSTM["as_torch"]
    text = cell_loop(dialect, body, states=("h", "c"), lead="2,", row="2,", y=f"y = {y}")
    before = model(text)
    found = read(before)
    assert found.loops == 1, found.operators
    feeds = [cell_feeds(n, states=("h", "c")) for n in (1, 7)]
    assert same(before, found.model, *feeds) == len(feeds)


@pytest.mark.quick
@pytest.mark.parametrize("name", LSTM_NEAR)
def test_what_comes_close_to_an_lstm_stays_a_loop(name: str) -> None:
    gates = LSTM["as_torch"].removesuffix(_KEPT)
    body = f"{gates} gt2 = Relu (g)  {LSTM_NEAR[name]}"
    before = model(cell_loop("counted", body, states=("h", "c"), lead="2,", row="2,"))
    found = read(before)
    assert found.loops == 1, found.operators
    feeds = [cell_feeds(n, states=("h", "c")) for n in (0, 1, 7)]
    assert same(before, found.model, *feeds) == len(feeds)


def _chain(step: str, count: int) -> str:
    steps = "  ".join(step.format(at, at + 1) for at in range(count))
    return f"v0 = MatMul (h, ri)  {steps}  h2 = Tanh (v{count})"


@pytest.mark.quick
@pytest.mark.parametrize(
    "step",
    [
        "v{1} = Add (v{0}, bi)",
        "t{0}x = Tanh (v{0})  s{0}x = Sigmoid (v{0})  v{1} = Add (t{0}x, s{0}x)",
    ],
)
def test_a_long_body_is_left_in_time(step: str) -> None:
    before = model(cell_loop("counted", _chain(step, 400), lead="2,", row="2,"))
    assert read(before).loops == 1


@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_an_operator_of_several_steps_stays_in_its_loop(kind: str) -> None:
    body = f"""x3 = Unsqueeze (xi, one1)  h3 = Unsqueeze (h, zero1)
        all, hy = {kind} <hidden_size = 4> (x3, w_{kind.lower()}, r_{kind.lower()}, "", "", h3)
        h2 = Squeeze (hy, zero1)"""
    text = cell_loop("counted", body, lead="1,", row="5,")
    before = model(text)
    found = read(before)
    assert found.loops == 1
    feeds = [cell_feeds(n, 1, row=(5,)) for n in (0, 1, 7)]
    assert same(before, found.model, *feeds) == len(feeds)


@pytest.mark.quick
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["gru_as_torch", "gru_joined", "lstm_as_torch", "rnn_tanh"])
def test_what_is_infinite_or_nan_spoils_what_it_spoils_in_the_loop(kind: str, bad: float) -> None:
    """By the evaluator: onnxruntime's operators make numbers of NaN, see `recurrence-of-nan`."""
    _, body, states = CELLS[kind]
    before = model(cell_loop("counted", body, states=states, lead="2,", row="2,"))
    found = read(before)
    assert found.loops == 0
    row, state = dict(cell_feeds(7, states=states)), dict(cell_feeds(7, states=states))
    row["x"] = row["x"].copy()
    row["x"][3, 1, 0] = bad
    state["h0"] = state["h0"].copy()
    state["h0"][0, 2] = bad
    for given in (row, state):
        expected, actual = (run(one, given, backend="reference") for one in (before, found.model))
        difference = compare(expected, actual)
        assert difference.equal, difference.message


@pytest.mark.quick
@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize(
    "kind",
    [
        *("gru_as_torch", "gru_joined", "gru_of_relu", "lstm_as_torch", "lstm_of_softsign"),
        *(
            "rnn_sigmoid",
            "rnn_relu",
            "rnn_hard_sigmoid",
            "rnn_clipped",
            "step_of_gru",
            "step_of_lstm",
        ),
    ],
)
def test_nan_reaches_in_onnxruntime_what_it_reaches_in_the_loop(kind: str, step: int) -> None:
    op_type, body, states = CELLS[kind]
    before = model(cell_loop("counted", body, states=states, lead="3,", row="3,"))
    after = rewrite(before, strategy="fuse").model
    found = {node.op_type for node in all_nodes(ir.from_proto(after))}
    assert op_type in found
    assert "Loop" not in found
    one, other = open_session(before), open_session(after)
    for name in ("x", *(f"{state}0" for state in states)):
        for length in (1, 9):
            feeds = {k: v.copy() for k, v in cell_feeds(length, 3, states=states).items()}
            at = min(step, length - 1)
            (feeds[name][at] if name == "x" else feeds[name])[1, 2] = np.nan
            difference = compare(one.run(feeds), other.run(feeds))
            assert difference.equal, (name, length, difference.message)


@pytest.mark.quick
@pytest.mark.parametrize("target", ["onnxruntime", "tract", "portable"])
@pytest.mark.parametrize(
    "kind",
    [
        *("gru_as_torch", "gru_joined", "lstm_as_torch", "lstm_of_softsign"),
        *("rnn_sigmoid", "rnn_tanh", "rnn_hard_sigmoid"),
    ],
)
def test_infinite_numbers_of_a_row_spoil_in_onnxruntime_what_they_spoil_in_the_loop(
    kind: str, target: str
) -> None:
    """Their sum is NaN in the gates where their weights have both signs, and infinite elsewhere."""
    _, body, states = CELLS[kind]
    before = model(cell_loop("counted", body, states=states, lead="3,", row="3,"))
    after = rewrite(before, strategy="fuse", target=target).model
    found = {node.op_type for node in all_nodes(ir.from_proto(after))}
    assert "Loop" not in found
    loses_nan = kind not in ("rnn_sigmoid", "rnn_tanh")
    assert ("If" in found) == (target == "onnxruntime" and loses_nan)
    one, other = open_session(before), open_session(after)
    for length in (1, 9):
        for number in range(4):
            feeds = {k: v.copy() for k, v in cell_feeds(length, 3, states=states).items()}
            rng = np.random.default_rng(number)
            row = feeds["x"][length // 2, 1]
            row[:] = rng.choice([np.inf, -np.inf, 0.5], row.shape)
            difference = compare(one.run(feeds), other.run(feeds))
            assert difference.equal, (length, number, difference.message)


def test_exact_keeps_the_loop() -> None:
    before = model(cell_loop("counted", GRU["as_torch"], lead="2,", row="2,"))
    found = read(before, exact=True)
    assert found.loops == 1
    assert "exact" in found.codes


def test_exact_splits_off_what_rounds_as_it_did() -> None:
    """As it does where no operator computes the recurrence: what reads each state goes behind."""
    collected = "ya = Abs (h2)  yb = Floor (ya)  yc = Neg (yb)  yd = Ceil (yc)  y = Abs (yd)"
    for body in (GRU["as_torch"], NEAR["a_state_beside"]):
        before = model(cell_loop("counted", body, lead="2,", row="2,", y=collected))
        found = read(before, exact=True)
        (loop,) = (n for n in all_nodes(ir.from_proto(found.model)) if n.op_type == "Loop")
        inside = {node.op_type for node in loop.attributes["body"].as_graph()}
        assert not inside & {"Floor", "Ceil"}
        assert "MatMul" in inside
        assert same(before, found.model, *(cell_feeds(n) for n in LENGTHS)) == len(LENGTHS)


def test_doubles_stay_in_a_loop() -> None:
    text = cell_loop("counted", RNN["no_bias"], lead="2,", row="2,").replace("float", "double")
    found = read(model(text))
    assert found.loops == 1
    assert not found.operators["RNN"]
