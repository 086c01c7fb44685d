"""Loops and Scans that are no maps: left as they are, with the node that decides it."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.decisions import Verdict
from passes.fuse import FuseSequenceMapPass
from tests.passes.loops import Read, kept, prove

EXPORTED = pathlib.Path(__file__).parents[3] / "models" / "exported"
SCALARS = """
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    one1 = Constant <value = int64[1] {1}> ()
    none = SequenceEmpty <dtype = 1> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
"""


def carried(kind: str, body: str, *, initial: str = "none", go: str = "Identity (t)") -> str:
    """Return a graph whose Loop carries ``s`` and collects ``y``."""
    return f"""g (float[N,4] x, float[4] b) => ({kind} r, float[M,4] ys) {{ {SCALARS}
        r, ys = Loop (n, t, {initial}) <body = step (int64 i, bool c, {kind} s)
            => (bool go, {kind} s2, float[4] y) {{
            e = Gather <axis = 0> (x, i)
            {body}
            go = {go}
        }}>
    }}"""


ROW, LIST = "float[4]", "seq(float[4])"
APPEND = "s2 = SequenceInsert (s, y)"
REFUSED = {
    "recurrence": (
        carried(ROW, "y = Add (e, s)  s2 = Tanh (y)", initial="b"),
        "recurrence",
        "Tanh",
    ),
    "append_before_the_last": (
        carried(LIST, "y = Tanh (e)  m = Sub (i, one)  s2 = SequenceInsert (s, y, m)"),
        "recurrence",
        "SequenceInsert",
    ),
    "append_at_both_ends": (
        carried(LIST, "y = Tanh (e)  u = SequenceInsert (s, y, zero)  s2 = SequenceInsert (u, y)"),
        "recurrence",
        "SequenceInsert",
    ),
    "conditional_append": (
        carried(
            LIST,
            """y = Identity (e)
            a = ReduceMax <axes = [0], keepdims = 0> (e)
            p = Greater (a, a0)
            s2 = If (p) <then_branch = h () => (seq(float[4]) u)
                             { w = SequenceInsert (s, y, zero)  u = SequenceInsert (w, y) },
                         else_branch = k () => (seq(float[4]) v) { v = Identity (s) }>""",
        ).replace("r, ys", "a0 = Constant <value = float {0.5}> ()\n r, ys", 1),
        "conditional-append",
        "If",
    ),
    "branches_append_otherwise": (
        carried(
            LIST,
            """y = Tanh (e)
            a = ReduceMax <axes = [0], keepdims = 0> (e)
            p = Greater (a, a0)
            s2 = If (p) <then_branch = h () => (seq(float[4]) u)
                             { u = SequenceInsert (s, y, zero) },
                         else_branch = k () => (seq(float[4]) v) { v = SequenceInsert (s, y) }>""",
        ).replace("r, ys", "a0 = Constant <value = float {0.5}> ()\n r, ys", 1),
        "control-flow",
        "If",
    ),
    "reads_what_it_collected": (
        carried(
            LIST,
            f"""k = SequenceLength (s)
            f = Cast <to = 1> (k)
            y = Mul (e, f)
            {APPEND}""",
        ),
        "reads-earlier-result",
        "SequenceLength",
    ),
    "reads_the_element_before": (
        carried(
            LIST,
            f"""m = Sub (i, one)
            p = Greater (i, zero)
            y = If (p) <then_branch = h () => (float[4] u) {{ u = SequenceAt (s, m) }},
                        else_branch = k () => (float[4] v) {{ v = Identity (e) }}>
            {APPEND}""",
        ),
        "reads-earlier-result",
        "If",
    ),
    "doubling_counter": (
        carried("int64", "y = Gather <axis = 0> (x, s)  s2 = Add (s, s)", initial="zero"),
        "carried-offset",
        "Add",
    ),
    "counter_that_wraps": (
        carried(
            "int64",
            "y = Gather <axis = 0> (x, s)  u = Add (s, one)  s2 = Mod (u, n)",
            initial="zero",
        ),
        "recurrence",
        "Mod",
    ),
    "early_exit": (
        carried(
            LIST,
            f"y = Tanh (e)  {APPEND}  a = ReduceMax <axes = [0], keepdims = 0> (e)",
            go="Less (a, a)",
        ),
        "early-exit",
        "Less",
    ),
    "stops_after_the_first": (
        carried(LIST, f"y = Tanh (e)  {APPEND}", go="Constant <value = bool {0}> ()"),
        "early-exit",
        "Constant",
    ),
    "grows_away_from_its_end": (
        carried(LIST, f"y = Tanh (e)  {APPEND}", go="Less (n, i)"),
        "early-exit",
        "Less",
    ),
    "random": (carried(LIST, f"d = RandomNormalLike (e)  y = Add (e, d)  {APPEND}"), "random", ""),
    "random_shared": (
        carried(LIST, f"d = RandomNormal <shape = [4]> ()  y = Add (e, d)  {APPEND}"),
        "random",
        "",
    ),
    "dropout_in_training": (
        carried(LIST, f"h = Constant <value = float {{0.5}}> ()  y = Dropout (e, h, t)  {APPEND}"),
        "random",
        "",
    ),
}


def deciding(found: Read) -> list[tuple[str, str]]:
    return [(r.code.value, r.op_type) for d in found.decisions for r in d.reasons]


@pytest.mark.parametrize("name", REFUSED)
def test_no_map(name: str) -> None:
    text, code, op_type = REFUSED[name]
    found = kept(text)
    reasons = deciding(found)
    assert code in [c for c, _ in reasons], reasons
    if op_type:
        assert (code, op_type) in reasons
        reason = next(r for r in found.decisions[0].reasons if r.code.value == code)
        assert reason.node.startswith("Loop_"), reason


def test_a_list_that_does_not_start_empty() -> None:
    text = carried(LIST, f"y = Tanh (e)  {APPEND}", initial="begun").replace(
        "r, ys", "begun = SequenceInsert (none, b)\n r, ys", 1
    )
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, 4)).astype(np.float32) for n in (0, 1, 3)]
    prove(text, *({"x": x, "b": np.ones(4, np.float32)} for x in rows))


def test_a_scan_with_a_recurrence() -> None:
    found = kept("""g (float[N,4] x, float[4] b) => (float[4] r, float[M,4] ys) {
        r, ys = Scan <body = step (float[4] h, float[4] p) => (float[4] h2, float[4] y) {
            h1 = Add (h, p)
            h2 = Tanh (h1)
            y = Identity (h2)
        }, num_scan_inputs = 1> (b, x)
    }""")
    assert deciding(found) == [("recurrence", "Tanh")]


def test_states_that_change_places() -> None:
    found = kept("""g (float[N,4] x, float[4] a, float[4] b) => (float[M,4] ys) {
        r, s, ys = Scan <body = step (float[4] h, float[4] k, float[4] p)
            => (float[4] h2, float[4] k2, float[4] y) {
            h2 = Identity (k)
            k2 = Identity (h)
            y = Add (p, h)
        }, num_scan_inputs = 1> (a, b, x)
    }""")
    assert "recurrence" in found.codes


def test_an_old_opset_is_not_read() -> None:
    found = kept(
        """g (float[N,4] x) => (float[M,4] ys) {
        ys = Scan <body = step (float[4] p) => (float[4] y) { y = Tanh (p) },
            num_scan_inputs = 1> (x)
    }""",
        opset=10,
    )
    assert found.codes == ["opset"]


def test_a_loop_that_a_rewrite_wrote_is_left_alone() -> None:
    text = """g (float[N,4] x) => (float[M,4] ys) {
        ys = Scan <body = step (float[4] p) => (float[4] y) { y = Tanh (p) },
            num_scan_inputs = 1> (x)
    }"""
    model = ir.from_proto(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    )
    model.graph[0].metadata_props["seqmap.origin"] = "map"
    reading = FuseSequenceMapPass(loops=True)
    assert not reading(model).modified
    assert reading.decisions == []


@pytest.mark.parametrize("path", sorted(EXPORTED.glob("*_negative.onnx")), ids=lambda p: p.stem)
def test_exporters_loops_that_are_no_maps(path: pathlib.Path) -> None:
    before = onnx.load(path)
    model = ir.from_proto(before)
    reading = FuseSequenceMapPass(loops=True)
    is_split = path.stem == "ts_rnn_negative"  # the list leaves the Loop
    assert reading(model).modified == is_split
    assert is_split or ir.to_proto(model) == ir.to_proto(ir.from_proto(before))
    assert [d.verdict for d in reading.decisions] == [
        Verdict.FISSIONED if is_split else Verdict.KEPT
    ]
    assert reading.decisions[0].reasons


def test_an_operator_of_which_nothing_is_known() -> None:
    text = carried(LIST, f"d = custom.Counter (b)  y = Add (e, d)  {APPEND}")
    head = '<ir_version: 8, opset_import: ["" : 17, "custom" : 1]>'
    model = ir.from_proto(onnx.parser.parse_model(f"{head} {text}"))
    reading = FuseSequenceMapPass(loops=True)
    assert not reading(model).modified
    assert [r.code.value for r in reading.decisions[0].reasons] == ["no-rule"]
