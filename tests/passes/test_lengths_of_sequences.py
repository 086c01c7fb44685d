"""The lengths of a sequence's elements: read in a loop only where nothing else tells them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.expand import ExpandSequenceMapPass
from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from passes.tensors.lengths import lengths_of
from passes.typing import Typings, type_values
from rewriter.backends import open_session

SEQUENCES = {
    "constructed": ("s = SequenceConstruct (a, b)", 0, [2, 4]),
    "cut by sizes": ("s = SplitToSequence (a, n)", 0, [1, 1]),
    "cut by sizes along another axis": ("s = SplitToSequence <axis = 1> (a, m)", 1, [2, 2]),
    "cut by one size": ("s = SplitToSequence (b, k)", 0, [3, 1]),
    "rows": ("s = SplitToSequence (b)", 1, [1, 1, 1, 1]),
    "mapped": (
        "s = SequenceMap (q) <body = f (float[N,3] x) => (float[M,3] y) "
        "{ y = Concat <axis = 0> (x, a) }>",
        0,
        [5, 3],
    ),
    "an input": ("s = Identity (q)", 1, [3, 1]),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_lengths(name: str) -> None:
    made, loops, expected = SEQUENCES[name]
    text = f"""<ir_version: 10, opset_import: ["" : 18]>
      g (float[2,3] a, float[4,3] b, seq(float[N,3]) q) => (seq(float[]) s)
      <int64 k = {{3}}, int64[2] n = {{1, 1}}, int64[2] m = {{1, 2}}> {{ {made} }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    typings = Typings(type_values(model), type_values(model, proven=True))
    builder = Builder("lengths")
    found = lengths_of(builder, model.graph.outputs[0], typings)
    assert sum(node.op_type == "Loop" for node in builder.nodes) == loops
    model.graph.extend(builder.nodes)
    found.type, found.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([None])
    model.graph.outputs.append(found)
    ExpandSequenceMapPass()(model)
    make_names_unique(model)
    elements = [np.ones((rows, 3), np.float32) for rows in (3, 1)]
    feeds = {"a": elements[0][:2], "b": np.ones((4, 3), np.float32), "q": elements}
    got = open_session(ir.to_proto(model)).run(feeds)
    assert list(got.values())[1].tolist() == expected
