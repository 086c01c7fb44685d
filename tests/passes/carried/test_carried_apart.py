"""Iterations stay apart: a place outside of what one of them reads or writes is an error still."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import rewriter

onnxruntime.set_default_logger_severity(4)

HEAD = """<ir_version: 9, opset_import: ["" : 18]>
g (float[A,3] x, int64[A] i, int64[A] j, float[K,3] rows, float[K] numbers) =>
  (float[] y, float[] w)
  <int64[1] z = {{0}}, int64[1] o = {{1}}, bool t = {{1}}, int64 none = {{0}}> {{
    n0 = Shape <start = 0, end = 1> (x) n = Squeeze (n0) first = Gather (rows, none)
    {outputs} = Loop (n, t, {begin}) <body = l (int64 q, bool c, {held} s) =>
        (bool d, {held} s2{collected}) {{
            r = Gather (x, q) a = Gather (i, q) b = Gather (j, q) e = ReduceSum <keepdims = 0> (r)
            a1 = Reshape (a, o) b1 = Reshape (b, o) at = Unsqueeze (a1, z) r1 = Unsqueeze (r, z)
            e1 = Reshape (e, o) {nodes} d = Identity (c) }}>{copy} }}"""
ROWS = {"begin": "rows", "held": "float[K,3]"}
NUMBERS = {"begin": "numbers", "held": "float[K]"}
FIRST = {"begin": "first", "held": "float[3]"}
READ = "g = Gather (s, a) h = {} (g, r) h1 = Unsqueeze (h, z) s2 = ScatterND (s, at, h1)"
CASES: dict[str, dict[str, str]] = {
    "rows are written": ROWS | {"nodes": "s2 = ScatterND (s, at, r1)"},
    "rows are added": ROWS | {"nodes": 's2 = ScatterND <reduction = "add"> (s, at, r1)'},
    "rows are the largest": ROWS | {"nodes": 's2 = ScatterND <reduction = "max"> (s, at, r1)'},
    "elements are added": NUMBERS
    | {"nodes": 's2 = ScatterElements <axis = 0, reduction = "add"> (s, a1, e1)'},
    "read, added and written": ROWS | {"nodes": READ.format("Add")},
    "read, compared and written": ROWS | {"nodes": READ.format("Max")},
    "counted": NUMBERS
    | {
        "nodes": "g = Gather (s, a) k = Constant <value_float = 1.0> () h = Add (g, k) "
        "h1 = Reshape (h, o) s2 = ScatterElements <axis = 0> (s, a1, h1)"
    },
    "two places": ROWS
    | {"nodes": "p = Concat <axis = 0> (a1, b1) p1 = Unsqueeze (p, z) s2 = ScatterND (s, p1, e1)"},
    "written under a condition": ROWS
    | {
        "nodes": "f = Cast <to = 9> (e) s2 = If (f) <then_branch = u () => (float[K,3] u1) "
        "{ u1 = ScatterND (s, at, r1) }, else_branch = v () => (float[K,3] u2) "
        "{ u2 = Identity (s) }>"
    },
    "state of each key": ROWS
    | {"nodes": "g = Gather (s, a) s2 = ScatterND (s, at, r1)", "collects": "g"},
    "picked rows are added": ROWS | {"nodes": "g = Gather (x, a) s2 = Add (s, g)"},
    "picked rows are listed": ROWS
    | {"nodes": "g = Gather (x, a) s2 = Identity (s)", "collects": "g"},
    "picked last": FIRST | {"nodes": "g = Gather (x, a) s2 = Identity (g)", "collects": "g"},
    "picked elements": ROWS
    | {"nodes": "g = GatherElements <axis = 0> (numbers, a1) s2 = Add (s, g)"},
    "windows by their ends": ROWS
    | {
        "nodes": "g = Slice (x, a1, b1, z) m = ReduceSum <keepdims = 0> (g, z) s2 = Add (s, m)",
        "collects": "m",
    },
    "appended": ROWS
    | {
        "held": "float[M,3]",
        "nodes": "g = Gather (x, a) g1 = Unsqueeze (g, z) s2 = Concat <axis = 0> (s, g1)",
    },
}
GOOD = {"i": [0, 2, 1, 3, 2, 0], "j": [1, 3, 2, 4, 3, 1]}
BAD = (4, 5, 6, 7, -1, -4, -5, -6, -7, 2**40, -(2**40), 2**63 - 1, -(2**63))


def _model(case: dict[str, str]) -> onnx.ModelProto:
    collects = case.get("collects")
    filled = {
        "outputs": "y, w" if collects else "y",
        "collected": f", float[] {collects}_" if collects else "",
        "copy": "" if collects else " w = Identity (y)",
        **case,
    }
    if collects:
        filled["nodes"] += f" {collects}_ = Identity ({collects})"
    return onnx.parser.parse_model(HEAD.format(**filled))


def _outcome(session: onnxruntime.InferenceSession, feeds: dict[str, Any]) -> list[Any] | None:
    try:
        return list(session.run(None, feeds))
    except Exception:  # onnxruntime's errors have no common base
        return None


@pytest.mark.parametrize("name", CASES)
def test_a_place_outside_is_the_same_as_in_the_loop(name: str) -> None:
    model = _model(CASES[name])
    after = rewriter.optimize(model, strategy="fuse", require=["loop-free"])
    old, new = (onnxruntime.InferenceSession(m.SerializeToString()) for m in (model, after))
    rng = np.random.default_rng(0)
    shapes = {"x": (6, 3), "rows": (4, 3), "numbers": (4,)}
    given = {k: rng.integers(-5, 6, shape).astype(np.float32) for k, shape in shapes.items()}
    places = [GOOD]
    for key, number, at in [(k, n, at) for k in "ij" for n in BAD for at in (1, 3)]:
        changed = list(GOOD[key])
        changed[at] = number
        places.append(GOOD | {key: changed})
    fails = 0
    for one in places:
        feeds = given | {k: np.array(v) for k, v in one.items()}
        wanted, found = _outcome(old, feeds), _outcome(new, feeds)
        assert (wanted is None) == (found is None), f"{one}: only one of them fails"
        fails += wanted is None
        for a, b in zip(wanted or (), found or (), strict=True):
            np.testing.assert_array_equal(b, a, err_msg=str(one))
    assert fails or "windows" in name
