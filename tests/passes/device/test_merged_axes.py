"""Reshapes that only merge axes, or leave out ones, are told no computed size."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.device.whole_shapes import WholeShapesPass
from rewriter.backends import run
from rewriter.errors import RewriteError
from rewriter.placement.device_kernels import kernels_of
from rewriter.placement.placing import place
from rewriter.target_table import find_target

SIZES = """a = Shape <end = 1> (x)  b = Shape <start = 1, end = 2> (x)  c = Shape <start = 2> (x)
    zero = Constant <value_ints = [0]> ()  one = Constant <value_ints = [1]> ()
    two = Constant <value_ints = [2]> ()  three = Constant <value_ints = [3]> () """


def model(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[A,B,C] x, float[A,B,3] p, float[A,1,C] q, int64[1] told) => (float[] y) {{
            {SIZES} {body} }}""")


# The body, and what computes the result then.
MERGED = {
    "the first axes": (
        "m = Mul (a, b) s = Concat <axis = 0> (m, c) y = Reshape <allowzero = 1> (x, s)",
        "Flatten",
    ),
    "the last axes": (
        "m = Mul (c, b) s = Concat <axis = 0> (a, m) y = Reshape <allowzero = 1> (x, s)",
        "Flatten",
    ),
    "all axes": ("m = Mul (a, b) n = Mul (c, m) y = Reshape (x, n)", "Reshape"),
    "all axes, by the product of the shape": (
        "d = Shape (x) n = ReduceProd (d) y = Reshape (x, n)",
        "Reshape",
    ),
    "all axes, counted on another tensor": (
        """z = Neg (x) d = Shape (z) u = Gather (d, zero) v = Gather (d, one) w = Gather (d, two)
        m = Mul (u, v) n = Mul (m, w) y = Reshape (x, n)""",
        "Reshape",
    ),
    "those in front of a number": (
        """d = Shape <end = 1> (p) e = Shape <start = -2, end = -1> (p) m = Mul (d, e)
        s = Concat <axis = 0> (m, three) y = Reshape <allowzero = 1> (p, s)""",
        "Reshape",
    ),
    "what a Transpose moved": (
        """t = Transpose <perm = [0, 2, 1]> (p) d = Shape <end = 1> (p) m = Mul (d, three)
        e = Shape <start = 1, end = 2> (p) s = Concat <axis = 0> (m, e)
        y = Reshape <allowzero = 1> (t, s)""",
        "Flatten",
    ),
    "two by two": (
        """u = Unsqueeze (x, one) v = Unsqueeze (u, zero) d = Shape <start = 3> (v)
        e = Abs (d) w = ReduceProd (e) s = Concat <axis = 0> (a, w)
        y = Reshape <allowzero = 1> (v, s)""",
        "Flatten",
    ),
    "an axis of 1 left out": (
        """d = Shape <end = 1> (q) e = Shape <start = 2> (q) s = Concat <axis = 0> (d, e)
        y = Reshape <allowzero = 1> (q, s)""",
        "Squeeze",
    ),
    "an axis of 1 elsewhere": (
        """d = Shape <end = 1> (q) e = Shape <start = 2> (q) m = Mul (d, one)
        s = Concat <axis = 0> (one, m, e) y = Reshape <allowzero = 1> (q, s)""",
        "Unsqueeze",
    ),
}
KEPT = {
    "axes in another order": (
        "m = Mul (a, c) s = Concat <axis = 0> (m, b) y = Reshape <allowzero = 1> (x, s)"
    ),
    "0 may be the size of the own axis": (
        "m = Mul (a, b) s = Concat <axis = 0> (m, c) y = Reshape (x, s)"
    ),
    "sizes of another tensor": ("s = Concat <axis = 0> (a, c) y = Reshape <allowzero = 1> (q, s)"),
    "two of four axes": (
        """u = Unsqueeze (x, zero) t = Concat <axis = 0> (u, u) m = Mul (a, b)
        s = Concat <axis = 0> (two, m, c) y = Reshape <allowzero = 1> (t, s)"""
    ),
    "a part of a product": (
        """d = Shape (x) n = ReduceProd <noop_with_empty_axes = 1> (d) m = Mul (n, one)
        y = Reshape <allowzero = 1> (x, m)"""
    ),
    "by a number that is told": (
        "m = Mul (a, told) s = Concat <axis = 0> (m, c) y = Reshape <allowzero = 1> (x, s)"
    ),
}


def formed(given: onnx.ModelProto) -> onnx.ModelProto:
    taken = ir.from_proto(given)
    WholeShapesPass(kernels_of("cuda", taken))(taken)
    return ir.to_proto(taken)


@pytest.mark.quick
@pytest.mark.parametrize("name", MERGED)
def test_axes_are_merged_without_their_sizes(name: str) -> None:
    body, wanted = MERGED[name]
    after = formed(model(body))
    (made,) = (node for node in after.graph.node if "y" in node.output)
    assert made.op_type == wanted
    placed = place(ir.from_proto(after), find_target("onnxruntime-cuda"))
    assert placed is not None
    assert not placed.host


@pytest.mark.quick
@pytest.mark.parametrize("name", KEPT)
def test_what_asks_for_something_else_stays(name: str) -> None:
    after = formed(model(KEPT[name]))
    (made,) = (node for node in after.graph.node if "y" in node.output)
    (maker,) = (node for node in after.graph.node if made.input[1] in node.output)
    assert (made.op_type, maker.op_type != "Constant") == ("Reshape", True)


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
@pytest.mark.parametrize("name", [*MERGED, *KEPT])
def test_it_computes_the_same(name: str, backend: str) -> None:
    body = MERGED[name][0] if name in MERGED else KEPT[name]
    given, after = model(body), formed(model(body))
    rng = np.random.default_rng(0)
    for sizes in itertools.product((0, 1, 2), (1, 0, 4), (1, 0, 5)):
        a, b, c = sizes
        feeds = {
            "x": rng.random(sizes, np.float32),
            "p": rng.random((a, b, 3), np.float32),
            "q": rng.random((a, 1, c), np.float32),
            "told": np.array([b]),
        }
        try:
            (wanted,) = run(given, feeds, backend=backend).values()
        except RewriteError:
            continue  # an error as given
        (found,) = run(after, feeds, backend=backend).values()
        np.testing.assert_array_equal(wanted, found)
