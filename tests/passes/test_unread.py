"""Initializers that a rewrite leaves unread are dropped, and no others."""

from __future__ import annotations

import onnx
import pytest

import rewriter

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'
LOOP = """y = Loop (n, go) <body = b (int64 i, bool g) => (bool h, float[2] r) {
    h = Identity (g)  r = Gather (w, i) }>"""
GRAPHS = {
    "read by the loop only": (
        f"g (float[3,2] w) => (float[3,2] y) <int64 n = {{3}}, bool go = {{1}}> {{ {LOOP} }}",
        set(),
    ),
    "read outside as well": (
        f"""g (float[3,2] w) => (float[3,2] y, int64 m) <int64 n = {{3}}, bool go = {{1}}> {{
            {LOOP} m = Neg (n) }}""",
        {"n"},
    ),
    "read in the body only, where it stands": (
        """g (float[3,2] w) => (float[3,2] y) <int64 n = {3}, bool go = {1}> {
            y = Loop (n, go) <body = b (int64 i, bool g) => (bool h, float[2] r) <int64 zero = {0}> {
                h = Identity (g)  j = Add (i, zero)  r = Gather (w, j) }> }""",
        set(),
    ),
    "an input of the graph too": (
        f"g (float[3,2] w, int64 n) => (float[3,2] y) <int64 n = {{3}}, bool go = {{1}}> {{ {LOOP} }}",
        {"n"},
    ),
    "never read": (
        f"""g (float[3,2] w) => (float[3,2] y)
            <int64 n = {{3}}, bool go = {{1}}, float spare = {{2}}> {{ {LOOP} }}""",
        {"spare"},
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_initializers_after_a_rewrite(name: str) -> None:
    text, left = GRAPHS[name]
    after = rewriter.optimize(onnx.parser.parse_model(HEADER + text))
    assert {t.name for t in after.graph.initializer} == left
