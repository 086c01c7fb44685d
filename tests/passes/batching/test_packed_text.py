"""Rows of strings in packed samples, which are gathered so that onnxruntime copies whole rows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter

BODIES = {
    "concat": "y = Concat <axis = 0> (x, x)",
    "slice": """a = Constant <value_ints = [0]> ()  b = Constant <value_ints = [1]> ()
        y = Slice (x, a, b, a)""",
    "gather": "a = Constant <value_ints = [0]> ()  y = Gather <axis = 0> (x, a)",
    "identity": "y = Identity (x)",
    "tile": "a = Constant <value_ints = [2, 1]> ()  y = Tile (x, a)",
}


@pytest.mark.parametrize("dims", ["N,3", "N"])
@pytest.mark.parametrize("body", BODIES)
def test_rows_of_strings(body: str, dims: str) -> None:
    width = dims.replace("N", "")
    text = BODIES[body] if width or body != "tile" else BODIES[body].replace("[2, 1]", "[2]")
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (string[R{width}] t, int64[B] l) => (string[K{width}] z) {{
        xs = SplitToSequence <axis = 0> (t, l)
        ys = SequenceMap (xs) <body = b (string[N{width}] x) => (string[P{width}] y) {{ {text} }}>
        z = ConcatFromSequence <axis = 0> (ys) }}""")
    after = rewriter.optimize(model, strategy="fuse")
    words = np.array([f"word {i}" for i in range(12)], object)
    feeds = {"t": words.reshape(4, 3) if width else words[:4], "l": np.int64([3, 1])}
    expected = rewriter.run(model, feeds, "reference")["z"]
    if body == "gather" and width:
        expected = feeds["t"][[0, 3]]
    found = rewriter.run(after, feeds)["z"]
    assert found.tolist() == expected.tolist()
