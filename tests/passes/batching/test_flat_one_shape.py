"""Images of any size, of one size in the end: what follows runs on one stacked tensor."""

from __future__ import annotations

import collections
import re

import numpy as np
import onnx

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.engines import plain_expansion
from tests.passes.batching.images import loops_and_sequences

CONSTANTS = """
size = Constant <value_ints = [8, 6, 3]> ()
two = Constant <value_ints = [2]> ()
halves = Constant <value_ints = [4, -1]> ()
first = Constant <value_ints = [0]> ()
ones = Constant <value_ints = [1, 1, 1]> ()
twice = Constant <value_ints = [2, 1, 1]> ()
k = Constant <value_int = 0> ()
scale = Constant <value_floats = [1.0, 2.0, 3.0]> ()
m = Constant <value = float[3, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> ()
w = Constant <value = float[1, 3, 1, 1] {1.0, 2.0, 3.0}> ()
r = Resize (x, , , size)
c = Transpose <perm = [2, 0, 1]> (r)
image = Unsqueeze (c, first)
"""
READERS = {
    "y0 = Flatten (r)": "float[8,18]",
    "y1 = Reshape (r, halves)": "float[4,36]",
    "y2 = Softmax <axis = 0> (r)": "float[8,6,3]",
    "y3 = LayerNormalization (r, scale)": "float[8,6,3]",
    "y4 = Tile (r, twice)": "float[16,6,3]",
    "y5 = MatMul (r, m)": "float[8,6,2]",
    "y6 = ArgMax <axis = 0> (r)": "int64[1,6,3]",
    "y7 = CumSum (r, k)": "float[8,6,3]",
    "y8 = Add (r, r)": "float[8,6,3]",
    "y9 = ReduceMax (r)": "float[1,1,1]",
    "y10, i = TopK (r, two)": "float[8,6,2]",
    "y11 = Gather (r, two)": "float[1,6,3]",
    "y12 = Hardmax <axis = 1> (r)": "float[8,6,3]",
    "y13 = LpNormalization <axis = 0> (r)": "float[8,6,3]",
    "y14 = Trilu (r)": "float[8,6,3]",
    "y16 = Split <num_outputs = 1> (r)": "float[8,6,3]",
    "y17 = ReduceSum (r, two)": "float[8,6,1]",
    "y18 = DepthToSpace <blocksize = 1> (image)": "float[1,3,8,6]",
    "y20 = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (image)": "float[1,3,9,7]",
    "y19 = Conv <pads = [1, 1, 1, 1]> (image, w)": "float[1,1,10,8]",
    "y15 = Expand (r, ones)": "float[8,6,3]",
}


def model_of(nodes: dict[str, str]) -> onnx.ModelProto:
    """Return a map over images with an output for each node, all of them stacked."""
    names = [node.partition(" =")[0].partition(",")[0] for node in nodes]
    types = dict(zip(names, nodes.values(), strict=True))
    declared = ", ".join(f"{type_} {name}" for name, type_ in types.items())
    outputs = ", ".join(f"{t.replace('[', '[B,')} {n}_all" for n, t in types.items())
    stacks = "\n".join(
        f"{n}_all = ConcatFromSequence <axis = 0, new_axis = 1> ({n}_list)" for n in names
    )
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[H,W,3]) xs) => ({outputs}) {{
          {", ".join(f"{n}_list" for n in names)} = SequenceMap (xs) <body = one (float[H,W,3] x)
            => ({declared}) {{ {CONSTANTS} {" ".join(nodes)} }}>
          {stacks} }}""")


def nodes_of(model: onnx.ModelProto) -> collections.Counter[str]:
    return collections.Counter(n.op_type for n in model.graph.node if n.op_type != "Constant")


def optimized(nodes: dict[str, str]) -> onnx.ModelProto:
    return rewriter.optimize(model_of(nodes), strategy="fuse", target="portable", tensor_io=True)


_READING = {"Add", "Gather", "Mul", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that read pixels off their rows, for each reader anew."""


def test_each_reader_runs_on_the_stacked_images() -> None:
    alone, after = optimized({"y0 = Identity (r)": "float[8,6,3]"}), optimized(READERS)
    assert not loops_and_sequences(after)
    added = nodes_of(after) - nodes_of(alone)
    readers = collections.Counter(re.findall(r"= (\w+) ", " ".join(READERS)))
    readers["Reshape"] += 1  # Flatten
    del readers["Flatten"]
    given = {op: n for op, n in added.items() if op not in _READING}
    assert given == {op: n for op, n in readers.items() if op not in _READING}


def test_each_reader_computes_what_it_did() -> None:
    rng = np.random.default_rng(0)
    shapes = ((5, 9, 3), (1, 2, 3))
    images = [rng.uniform(0, 255, shape).astype(np.float32) for shape in shapes]
    before, after = model_of(READERS), optimized(READERS)
    expected = backends.run(plain_expansion(before), {"xs": images})
    io = TensorIo.read(models.take(after).model)
    given = outputs_as_lists(io, backends.run(after, {"xs": images}))
    for name, value in expected.items():
        np.testing.assert_array_equal(given[name], value, err_msg=name)
