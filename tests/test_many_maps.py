"""The work of a rewrite grows with the number of maps and Loops, and not with its square."""

from __future__ import annotations

import sys
from types import FrameType

import onnx
import pytest

import rewriter

_HEADER = '<ir_version: 9, opset_import: ["" : 18]> '
_ROWS = """t = Constant <value = bool {1}> () zero = Constant <value_int = 0> ()
    shape = Shape (y0) n = Gather (shape, zero) three = Constant <value_int = 3> ()
    row = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> () """
_NODES = {
    "a chain of SequenceMaps": """y{i} = SequenceMap (y{j}) <body = b{i} (float[N] x) =>
        (float[N] z) {{ z = Relu (x) }}>""",
    "a chain of Loops over a sequence": """n{i} = SequenceLength (y{j}) e{i} = SequenceEmpty ()
        t{i} = Constant <value = bool {{1}}> ()
        y{i} = Loop (n{i}, t{i}, e{i}) <body = b{i} (int64 k, bool c, seq(float[N]) s) =>
        (bool d, seq(float[N]) r) {{ d = Identity (c) x = SequenceAt (y{j}, k) z = Relu (x)
        r = SequenceInsert (s, z) }}>""",
    "a chain of Loops over rows": """y{i} = Loop (n, t) <body = b{i} (int64 k, bool c) =>
        (bool d, float[4] z) {{ d = Identity (c) x = Gather (y{j}, k) z = Relu (x) }}>""",
    "Loops over the same rows": """y{i} = Loop (n, t) <body = b{i} (int64 k, bool c) =>
        (bool d, float[4] z) {{ d = Identity (c) x = Gather (y0, k) z = Relu (x) }}>""",
    "sums that begin with sums": """r{i} = Loop (n, t, r{j}) <body = b{i} (int64 k, bool c,
        float[4] a) => (bool d, float[4] b) {{ d = Identity (c) x = Gather (y0, k)
        b = Add (a, x) }}>""",
    "recurrences": """r{i} = Loop (n, t, r{j}) <body = b{i} (int64 k, bool c, float[4] a) =>
        (bool d, float[4] b) {{ d = Identity (c) x = Gather (y0, k) m = Mul (a, x)
        b = Tanh (m) }}>""",
    "recurrences with other nodes between": """n{i} = Neg (r{j}) r{i} = Loop (n, t, n{i}) <body =
        b{i} (int64 k, bool c, float[] a) => (bool d, float[] b) {{ d = Identity (c)
        x = Gather (y0, k) m = Mul (a, x) b = Tanh (m) }}>""",
    "rings of lists": """s{i} = SequenceConstruct (row, row, row)
        q{i}, y{i} = Loop (n, t, s{i}) <body = b{i} (int64 k, bool c, seq(float[4]) s) =>
        (bool d, seq(float[4]) r, float[4] z) {{ d = Identity (c) x = Gather (y{j}, k)
        z = Relu (x) p = Mod (k, three) l = SequenceErase (s, p) r = SequenceInsert (l, z, p) }}>""",
}
_SUMMED = """zeros = Constant <value_ints = [0]> () r0 = ReduceSum <keepdims = 0> (y0, zeros) """


def many(name: str, count: int) -> onnx.ModelProto:
    sequences, sums = "equence" in name, "r{j}" in _NODES[name]
    kind = "seq(float[N])" if sequences else "float[N,4]"
    result = f"float[4] r{count}" if sums else f"{kind} y{count}"
    begin = ("" if sequences else _ROWS) + (_SUMMED if sums else "")
    nodes = " ".join(_NODES[name].format(i=i, j=i - 1) for i in range(1, count + 1))
    return onnx.parser.parse_model(f"{_HEADER} g ({kind} y0) => ({result}) {{ {begin} {nodes} }}")


def layers(count: int) -> onnx.ModelProto:
    """Return a map whose body holds its weights as nodes."""
    layer = "w{i} = Constant <value_floats = [2.0, 3.0]> () v{i} = Mul (v{j}, w{i}) "
    nodes = "".join(layer.format(i=i, j=i - 1) for i in range(1, count + 1))
    return onnx.parser.parse_model(f"""{_HEADER} g (seq(float[N]) x) => (seq(float[N]) y) {{
        y = SequenceMap (x) <body = b (float[N] v0) => (float[N] v{count}) {{ {nodes} }}> }}""")


def calls(model: onnx.ModelProto) -> int:
    """Return how many functions of Python are called for a rewrite."""
    found = 0

    def enter(_: FrameType, event: str, __: object) -> None:
        nonlocal found
        found += event == "call"

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        rewriter.rewrite(model, verify=False)
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("name", _NODES)
def test_four_times_as_many_cost_no_more_each(name: str) -> None:
    rewriter.rewrite(many(name, 2), verify=False)  # what is loaded once counts for nothing
    assert calls(many(name, 60)) < 4.8 * calls(many(name, 15))


def test_four_times_as_many_nodes_of_a_body_cost_no_more_each() -> None:
    rewriter.rewrite(layers(2), verify=False)
    assert calls(layers(320)) < 4.8 * calls(layers(80))
