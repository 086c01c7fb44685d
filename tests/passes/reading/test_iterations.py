"""Loops and Scans whose body does not have what the node gives it, or takes from it."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.reading.iterations import read_iteration

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (int64 n, bool c, float[2] s, float[N,2] x, float[N,2] z) => (float[2] y) {{ {} }}"""
STATE = (
    "(int64 i, bool go, float[2] a) => (bool go2, float[2] b) { go2 = Identity (go) b = Neg (a) }"
)
TWO = "(float[2] a, float[2] e) => (float[2] b, float[2] o) { b = Add (a, e) o = Neg (e) }"
ONE = "(float[2] e) => (float[2] o) { o = Neg (e) }"
WELL_FORMED = {
    "a state": f"y = Loop (n, c, s) <body = b {STATE}>",
    "a state, no condition": f"y = Loop (n, , s) <body = b {STATE}>",
    "a state and rows": f"y, r = Scan <num_scan_inputs = 1, body = b {TWO}> (s, x)",
    "rows": f"y = Scan <num_scan_inputs = 1, body = b {ONE}> (x)",
}
MALFORMED = {
    "a state too few": f"y = Loop (n, c) <body = b {STATE}>",
    "a state too many": f"y, r = Loop (n, c, s, s) <body = b {STATE}>",
    "a state left out": f"y = Loop (n, c, , s) <body = b {STATE}>",
    "a result too many": f"y, r = Loop (n, c, s) <body = b {STATE}>",
    "no result for a state": (
        "y = Loop (n, c, s, s) <body = b (int64 i, bool go, float[2] a, float[2] d)"
        " => (bool go2, float[2] b) { go2 = Identity (go) b = Add (a, d) }>"
    ),
    "no rows": f"y = Scan <num_scan_inputs = 0, body = b {ONE}> (s)",
    "rows for nothing": f"y = Scan <num_scan_inputs = 2, body = b {ONE}> (x)",
    "rows too many": f"y = Scan <num_scan_inputs = 2, body = b {ONE}> (x, z)",
    "rows left out": f"y = Scan <num_scan_inputs = 1, body = b {ONE}> (, x)",
    "a result of a Scan too many": f"y, r = Scan <num_scan_inputs = 1, body = b {ONE}> (x)",
    "no result for a state of a Scan": (
        "y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] d, float[2] e)"
        " => (float[2] b) { m = Add (a, d) b = Add (m, e) }> (s, s, x)"
    ),
    "no body": "y = Loop (n, c, s)",
}


def _node(line: str) -> ir.Node:
    (node,) = ir.from_onnx_text(TEXT.format(line)).graph
    return node


@pytest.mark.parametrize("name", WELL_FORMED)
def test_well_formed(name: str) -> None:
    assert read_iteration(_node(WELL_FORMED[name])) is not None


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    assert read_iteration(_node(MALFORMED[name])) is None


def test_a_body_that_a_function_is_given_is_not_read() -> None:
    node = _node(WELL_FORMED["a state"])
    node.attributes["body"] = ir.RefAttr("body", "given", ir.AttributeType.GRAPH)
    assert read_iteration(node) is None
