"""Recurrent cells under a mask, which leaves the states of some rows as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rewriter import rewrite
from rewriter.backends import open_session
from rewriter.proof.compare import compare
from tests.passes.carried.cells import cell_feeds, cell_loop
from tests.passes.carried.test_cells import CELLS, DIALECTS, ZEROS
from tests.passes.loops import model, read, same

LENGTHS = (0, 1, 2, 7, 64)

FORMS = {
    "where": "{0}2 = Where (runs, {0}_new, {0})",
    "where_not": "{0}2 = Where (waits, {0}, {0}_new)",
    "product": """{0}a = Mul (w, {0}_new)  {0}b = Mul (v, {0})  {0}2 = Add ({0}a, {0}b)""",
    "product_turned": """{0}b = Mul ({0}, v)  {0}a = Mul ({0}_new, w)  {0}2 = Add ({0}b, {0}a)""",
    "as_tf2onnx": """{0}a = Mul (w, {0}_new)  {0}b = Mul (wn, {0})  {0}2 = Add ({0}a, {0}b)""",
}
_FLAG = """mi = Gather <axis = 0> (m, {at})  runs = Unsqueeze (mi, last1)  waits = Not (runs)
    w = Cast <to = 1> (runs)  wn = Cast <to = 1> (waits)  v = Sub (unit, w)"""
MASKS = ("true", "false", "false_first", "false_last", "alternating", "random")


def masked(
    kind: str,
    form: str,
    dialect: str = "counted",
    batch: str = "3",
    *,
    flag: str = _FLAG,
    inputs: str = "bool[N,{batch}] m",
    **given: str,
) -> str:
    """Return a graph whose Loop runs a cell under a mask, ``m``."""
    _, body, states = CELLS[kind]
    at = {"while": "number", "reversed": "at"}.get(dialect, "number")
    for state in states:
        body = body.replace(f"{state}2 =", f"{state}_new =").replace(
            f"({state}2)", f"({state}_new)"
        )
    chosen = "  ".join(FORMS[form].format(state) for state in states)
    return cell_loop(
        dialect,
        f"{body}  {flag.format(at=at)}  {chosen}",
        states=states,
        lead=f"{batch},",
        row=f"{batch},",
        inputs=inputs.format(batch=batch),
        **given,
    )


def feeds_of(kind: str, length: int, batch: int, mask: str) -> dict[str, np.ndarray]:
    """Make the inputs for a number of iterations and rows, and a kind of mask."""
    number = np.arange(length)[:, None] + np.arange(batch)
    made = {
        "true": number >= 0,
        "false": number < 0,
        "false_first": number >= min(2, length),
        "false_last": number < length - 1,
        "alternating": number % 2 == 0,
        "random": np.random.default_rng(length).random((length, batch)) > 0.4,
    }
    return {**cell_feeds(length, batch, states=CELLS[kind][2]), "m": made[mask]}


def _zeros_of(states: Sequence[str], form: str) -> dict[str, str]:
    """Return what two states need where a mask weighs them: no first one that may hold NaN."""
    is_needed = len(states) > 1 and not form.startswith("where")
    return {"prepare": ZEROS, "start": "start"} if is_needed else {}


KINDS = ("gru_as_torch", "gru_reset_before", "rnn_tanh", "lstm_as_torch", "step_of_lstm")


CASES = [
    (kind, form)
    for kind in (*KINDS, "step_of_gru", "step_of_rnn")
    for form in FORMS
    if form.startswith("where") or not kind.startswith("step")
]
"""Cells and masks; an operator of one step is not weighed, since onnxruntime loses its NaN."""


@pytest.mark.quick
@pytest.mark.parametrize(("kind", "form"), CASES)
def test_a_masked_cell_becomes_its_operator(kind: str, form: str) -> None:
    op_type, _, states = CELLS[kind]
    given = _zeros_of(states, form)
    before = model(masked(kind, form, **given))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = [feeds_of(kind, n, 3, mask) for n in LENGTHS for mask in MASKS]
    assert same(before, found.model, *feeds) == len(feeds)


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d not in ("scan", "backward")])
@pytest.mark.parametrize("batch", ["1", "B"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_in_any_dialect_with_any_batch(kind: str, batch: str, dialect: str) -> None:
    op_type, _, _ = CELLS[kind]
    before = model(masked(kind, "where", dialect, batch))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    lengths = LENGTHS[1:] if dialect == "listed" else LENGTHS
    sizes = (1,) if batch == "1" else (1, 3)
    feeds = [feeds_of(kind, n, b, mask) for n in lengths for b in sizes for mask in MASKS]
    # No type tells the batch, B, of the rows that a Loop without iterations yields.
    assert same(before, found.model, *feeds, open_rows=batch == "B") == len(feeds)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_states_that_begin_as_zeros(kind: str) -> None:
    op_type, _, _ = CELLS[kind]
    before = model(masked(kind, "where", batch="B", prepare=ZEROS, start="start"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    # A step of no rows ends in onnxruntime.
    sizes = (1, 3) if kind.startswith("step") else (0, 1, 3)
    feeds = [feeds_of(kind, n, b, mask) for n in (1, 7) for b in sizes for mask in MASKS]
    assert same(before, found.model, *feeds) == len(feeds)


OPEN = {
    "zeroed": "y = Mul (h2, w)",
    "zeroed_new": "nil = Sub (unit, unit)  y = Where (runs, h_new, nil)",
    "computed": "yt = Tanh (h2)  yw = MatMul (yt, ri)  y = Add (yw, w)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", ["counted", "behind"])
@pytest.mark.parametrize("y", OPEN)
@pytest.mark.parametrize("kind", ["gru_reset_before", "step_of_lstm"])
def test_what_reads_states_of_an_open_batch(kind: str, y: str, dialect: str) -> None:
    """The batch of the mask is not proven that of the rows and states: 1 is repeated."""
    op_type, _, _ = CELLS[kind]
    before = model(masked(kind, "where", dialect, "B", inputs="bool[N,M] m", y=OPEN[y]))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = [feeds_of(kind, n, b, mask) for n in (0, 1, 7) for b in (1, 3) for mask in MASKS]
    for n in (1, 7):
        masks = [feeds_of(kind, n, 1, mask)["m"] for mask in MASKS]
        feeds += [{**feeds_of(kind, n, 3, "true"), "m": mask} for mask in masks]
    assert same(before, found.model, *feeds, open_rows=True) == len(feeds)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_zeros_where_the_mask_is_false(kind: str) -> None:
    op_type, _, _ = CELLS[kind]
    before = model(masked(kind, "where", y="y = Mul (h2, w)"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = [feeds_of(kind, n, 3, mask) for n in LENGTHS for mask in MASKS]
    assert same(before, found.model, *feeds) == len(feeds)


_ONE_FLAG = """mi = Gather <axis = 0> (m, number)  runs = Identity (mi)  waits = Not (runs)
    w = Cast <to = 1> (runs)  wn = Cast <to = 1> (waits)  v = Sub (unit, w)"""


@pytest.mark.parametrize("batch", ["", "3,", "B,"])
@pytest.mark.parametrize("dims", ["", ",1"])
@pytest.mark.parametrize(("kind", "form"), [case for case in CASES if case[0] in KINDS[:4]])
def test_one_flag_for_all_rows(kind: str, form: str, dims: str, batch: str) -> None:
    op_type, body, states = CELLS[kind]
    for state in states:
        body = body.replace(f"{state}2 =", f"{state}_new =")
        body = body.replace(f"({state}2)", f"({state}_new)")
    chosen = "  ".join(FORMS[form].format(state) for state in states)
    given = _zeros_of(states, form) if batch == "B," else {}
    if not given and len(states) > 1 and not form.startswith("where"):
        pytest.skip("a first state may hold NaN")
    text = cell_loop(
        "counted",
        f"{body}  {_ONE_FLAG}  {chosen}",
        states=states,
        lead=batch,
        row=batch,
        inputs=f"bool[N{dims}] m",
        **given,
    )
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = []
    for n in LENGTHS:
        for mask in MASKS:
            feed = dict(feeds_of(kind, n, 1, mask))
            feed |= cell_feeds(n, 3 if batch else None, states=states)
            feeds.append({**feed, "m": feed["m"] if dims else feed["m"][:, 0]})
    assert same(before, found.model, *feeds, open_rows=batch == "B,") == len(feeds)


SHOWN = {
    "where": "y = Where (runs, h_new, tenth)",
    "where_not": "y = Where (waits, tenth, h_new)",
    "product": "ya = Mul (w, h_new)  y = Add (ya, tenth)",
    "as_tf2onnx": "ya = Mul (h_new, w)  yb = Mul (tenth, wn)  y = Add (ya, yb)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("form", SHOWN)
@pytest.mark.parametrize("kind", ["gru_as_torch", "rnn_tanh", "lstm_as_torch"])
def test_the_new_state_where_the_mask_takes_it(kind: str, form: str) -> None:
    """As Keras writes zeros for what is masked: `h_new` is the state at the end there."""
    op_type, _, _ = CELLS[kind]
    given = _zeros_of(("h", "c"), form)
    before = model(masked(kind, form, y=SHOWN[form], **given))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = [feeds_of(kind, n, 3, mask) for n in LENGTHS for mask in MASKS]
    assert same(before, found.model, *feeds) == len(feeds)
    feeds = [feeds_of(kind, 7, 3, mask) for mask in MASKS]
    for feed in feeds:
        feed["x"][2, 1, 0] = np.nan
    assert same(before, rewrite(before, strategy="fuse").model, *feeds) == len(feeds)


@pytest.mark.parametrize(
    ("form", "y"),
    [
        ("where", "y = Where (waits, h_new, tenth)"),
        ("where", "y = Mul (w, h_new)"),  # NaN of what is masked
        ("product", "y = Mul (v, h_new)"),
        ("where", "y = Identity (h_new)"),
    ],
)
def test_the_new_state_elsewhere_stays_in_the_loop(form: str, y: str) -> None:
    given = _zeros_of(("h", "c"), form)
    assert read(model(masked("lstm_as_torch", form, y=y, **given))).loops == 1


@pytest.mark.parametrize(("steps", "loops"), [(2, 1), (7, 0)])
def test_auto_leaves_very_few_steps_to_the_loop(steps: int, loops: int) -> None:
    text = masked("gru_as_torch", "where")
    before = model(text.replace("float[N,", f"float[{steps},").replace("[N,", f"[{steps},"))
    found = read(before, auto=True)
    assert found.loops == loops
    assert ("cost" in found.codes) == bool(loops)
    assert read(before).loops == 0


@pytest.mark.parametrize("kind", ["gru_as_torch", "step_of_rnn"])
def test_auto_asks_for_the_number_of_steps(kind: str) -> None:
    """The Loop as given runs very few of them, which moving the steps of a mask is slower for."""
    before = model(masked(kind, "where"))
    found = read(before, auto=True)
    assert (found.operators["If"], found.loops) == (1, 1)
    assert found.operators[CELLS[kind][0]] == 1 + kind.startswith("step")
    feeds = [feeds_of(kind, n, 3, mask) for n in LENGTHS for mask in MASKS]
    assert same(before, found.model, *feeds) == len(feeds)


FIRST = {
    "of_a_state": ("one_step = MatMul (h0, ri)  like = Tanh (one_step)", 0),
    "of_a_row_and_a_state": (
        """first = Gather <axis = 0> (x, zero)  of_row = MatMul (first, wi)
        of_state = MatMul (h0, ri)  like = Add (of_row, of_state)""",
        1,
    ),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_last_state_that_is_shown(name: str) -> None:
    """As Keras keeps it: it begins with zeros of the shape of a state, which has to be proven."""
    _, body, _ = CELLS["gru_as_torch"]
    first, loops = FIRST[name]
    text = cell_loop(
        "counted",
        f"""{body.replace("h2 =", "h_new =")}  {_FLAG.format(at="number")}
        h2 = Where (runs, h_new, h)  s2 = Where (runs, h_new, s)""",
        states=("h", "s"),
        inputs="bool[N,B] m",
        prepare=f"{first}  shape = Shape (like)  zeros = ConstantOfShape (shape)",
        y="y = Identity (s2)",
    )
    before = model(text.replace("(n, t, h0, s0)", "(n, t, h0, zeros)"))
    found = read(before)
    assert found.loops == loops, [(d.path, d.reasons) for d in found.decisions]
    feeds = [feeds_of("lstm_as_torch", n, 3, mask) for n in (1, 7) for mask in MASKS]
    for feed in feeds:
        feed["s0"] = feed.pop("c0")
    assert same(before, found.model, *feeds) == len(feeds)


_LENGTHS_FLAG = """here = Less (number, lengths)  runs = Unsqueeze (here, last1)
    waits = Not (runs)  w = Cast <to = 1> (runs)  wn = Cast <to = 1> (waits)  v = Sub (unit, w)"""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("kind", "form"), [case for case in CASES if case[1] in ("where", "product")]
)
def test_lengths_of_samples(kind: str, form: str) -> None:
    op_type, _, _ = CELLS[kind]
    given = _zeros_of(CELLS[kind][2], form)
    before = model(masked(kind, form, flag=_LENGTHS_FLAG, inputs="int64[3] lengths", **given))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators[op_type] == 1
    feeds = []
    for n in (1, 2, 7, 64):
        for lengths in ((n, n, n), (0, 0, 0), (n, 0, 1), (n + 3, -1, n // 2)):
            feed = feeds_of(kind, n, 3, "true")
            feeds.append({**feed, "lengths": np.array(lengths, np.int64)})
            del feeds[-1]["m"]
    assert same(before, found.model, *feeds) == len(feeds)


def _near(mask: str, kind: str = "gru_as_torch", **chosen: str) -> str:
    """Return a masked cell with some of its nodes replaced."""
    text = masked(kind, "where", inputs="bool[N,3] m, bool[N,3,4] m4, float[N,3] p", flag=mask)
    for state, instead in chosen.items():
        assert FORMS["where"].format(state) in text
        text = text.replace(FORMS["where"].format(state), instead)
    return text


_AT = _FLAG.format(at="number")
NEAR = {
    "a_mask_that_reads_the_state": _near(
        "hs = ReduceSum <keepdims = 1> (h, last1)  runs = Less (hs, half)"
    ),
    "a_mask_of_each_element": _near("runs = Gather <axis = 0> (m4, number)"),
    "a_weight_that_is_no_flag": _near(
        """pi = Gather <axis = 0> (p, number)  w = Unsqueeze (pi, last1)  v = Sub (unit, w)""",
        h="ha = Mul (w, h_new)  hb = Mul (v, h)  h2 = Add (ha, hb)",
    ),
    "one_of_two_states": _near(_AT, "lstm_as_torch", c="c2 = Identity (c_new)"),
    "two_masks": _near(
        f"{_AT} mp = Sub (above, number) mj = Gather <axis = 0> (m, mp) r2 = Unsqueeze (mj, last1)",
        "lstm_as_torch",
        c="c2 = Where (r2, c_new, c)",
    ),
    "one_state_the_other_way_round": _near(_AT, "lstm_as_torch", c="c2 = Where (waits, c_new, c)"),
    "another_state_instead": _near(_AT, "lstm_as_torch", h="h2 = Where (runs, h_new, c)"),
    "the_first_state_instead": _near(_AT, h="h2 = Where (runs, h_new, h0)"),
    "weighed_by_more_than_one": _near(
        _AT, h="ha = Mul (w, h_new)  q = Add (unit, w)  hb = Mul (q, h)  h2 = Add (ha, hb)"
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", NEAR)
def test_what_comes_close_stays_a_loop(name: str) -> None:
    before = model(NEAR[name])
    found = read(before)
    assert found.loops == 1, found.operators
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    kind = "lstm_as_torch" if "c0" in [v.name for v in before.graph.input] else "gru_as_torch"
    rng = np.random.default_rng(7)
    for n in (0, 1, 7):
        feed = feeds_of(kind, n, 3, "random")
        feed["m4"] = rng.random((n, 3, 4)) > 0.5
        feed["p"] = rng.random((n, 3)).astype(np.float32)
        assert same(before, found.model, feed) == 1


@pytest.mark.parametrize("kind", ["lstm_as_torch", "step_of_gru", "step_of_lstm", "step_of_rnn"])
def test_what_a_product_makes_of_nan_keeps_the_loop(kind: str) -> None:
    """A first state with one NaN, and an operator: onnxruntime makes numbers of NaN there."""
    assert read(model(masked(kind, "product"))).loops == 1


@pytest.mark.quick
@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
@pytest.mark.parametrize(
    ("kind", "form"), [case for case in CASES if case[1] in ("where", "product", "as_tf2onnx")]
)
def test_nan_reaches_what_it_reaches_in_the_loop(kind: str, form: str, backend: str) -> None:
    """Of a step that is left out it reaches nothing, or all where it is multiplied by 0."""
    states = CELLS[kind][2]
    if (kind, backend) == ("step_of_rnn", "reference"):
        pytest.skip("the evaluator has no RNN of Relu")
    given = _zeros_of(states, form)
    before = model(masked(kind, form, **given))
    after = rewrite(before, strategy="fuse").model
    assert not any(node.op_type == "Loop" for node in after.graph.node)
    one, other = open_session(before, backend=backend), open_session(after, backend=backend)
    for mask in MASKS:
        for name in ("x", *(() if given else [f"{state}0" for state in states])):
            for step in (0, 3) if name == "x" else (0,):
                feed = feeds_of(kind, 5, 3, mask)
                feed[name] = feed[name].copy()
                (feed[name][step] if name == "x" else feed[name])[1, 2] = np.nan
                difference = compare(one.run(feed), other.run(feed))
                assert difference.equal, (mask, name, step, difference.message)
