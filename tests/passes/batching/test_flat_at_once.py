"""Many readers of images of any size in one model: each is tried in the default run."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.engines import plain_expansion
from tests.passes.batching.images import loops_and_sequences

CONSTANTS = """
zero = Constant <value_ints = [0]> ()
one = Constant <value_ints = [1]> ()
two = Constant <value_ints = [2]> ()
far = Constant <value_ints = [99]> ()
grow = Constant <value_floats = [1.5, 2.0]> ()
minus = Constant <value_ints = [-1]> ()
k = Constant <value_int = 0> ()
deep = Constant <value_int = 4> ()
onoff = Constant <value_floats = [0.0, 1.0]> ()
half = Constant <value_float = 0.5> ()
scale = Constant <value_floats = [1.0, 2.0, 3.0]> ()
m = Constant <value = float[3, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> ()
twice = Constant <value_ints = [1, 2, 1]> ()
pads = Constant <value_ints = [1, 0, 0, 0, 2, 0]> ()
some = Constant <value = bool[3] {1, 0, 1}> ()
all = Constant <value_ints = [0, 1]> ()
mean = ReduceMean <keepdims = 0> (x)
own = ReduceMax (x, all)
t = Transpose <perm = [2, 0, 1]> (x)
image = Unsqueeze (t, zero)
big = Greater (x, half)
"""
READERS = {
    "positions": {
        "a0 = ArgMax <axis = 2, keepdims = 0> (x)": "int64[h,w]",
        "a1 = ArgMin <axis = -1, select_last_index = 1> (x)": "int64[h,w,1]",
        "a2 = ArgMax <axis = 0> (x)": "int64[1,w,3]",
        "a4 = ArgMax <axis = 0, keepdims = 0> (t)": "int64[h,w]",
        "a3 = ArgMin <axis = 1, keepdims = 0> (x)": "int64[h,3]",
    },
    "rows": {
        "b0 = Softmax (x)": "float[h,w,3]",
        "b1 = LogSoftmax <axis = 0> (x)": "float[h,w,3]",
        "b2 = Hardmax (x)": "float[h,w,3]",
        "b3 = LpNormalization <p = 1> (x)": "float[h,w,3]",
        "b4 = LayerNormalization (x, scale)": "float[h,w,3]",
        "b5, c5 = TopK <largest = 0> (x, two)": "float[h,w,2]",
    },
    "numbers of each": {
        "d0 = CumSum <reverse = 1> (x, k)": "float[h,w,3]",
        "d1 = Clip (x, half)": "float[h,w,3]",
        "d2 = Clip (x, half, mean)": "float[h,w,3]",
        "d3 = Where (big, x, mean)": "float[h,w,3]",
        "d4 = Sub (own, x)": "float[h,w,3]",
        "d5 = Mul (mean, x)": "float[h,w,3]",
    },
    "reductions": {
        "e0 = ReduceSum <keepdims = 0> (x, one)": "float[h,3]",
        "e1 = ReduceMax (x, two)": "float[h,w,1]",
        "e2 = ReduceMean <keepdims = 0> (x, minus)": "float[h,w]",
        "e3 = ReduceL2 (x, zero)": "float[1,w,3]",
    },
    "places": {
        "f0 = Transpose (x)": "float[3,w,h]",
        "f1 = Slice (x, minus, zero, one, minus)": "float[h,v,3]",
        "f2 = Slice (x, one, far, minus)": "float[h,w,2]",
        "f3 = Pad (x, pads, half)": "float[g,v,3]",
        "f4 = Concat <axis = 1> (x, x)": "float[h,v,3]",
        "f5 = Concat <axis = 2> (x, x)": "float[h,w,6]",
        "f6 = Tile (x, twice)": "float[h,v,3]",
        "f7 = MatMul (x, m)": "float[h,w,2]",
        "f8 = Gather <axis = 2> (x, one)": "float[h,w,1]",
    },
    "columns": {
        "g0 = Cast <to = 7> (x) ga = OneHot (g0, deep, onoff)": "float[h,w,3,4]",
        "g1, gb = Split <axis = 2, num_outputs = 2> (x)": "float[h,w,2]",
    },
    "images": {
        "h3 = GlobalAveragePool (image)": "float[1,3,1,1]",
        "h5 = DepthToSpace <blocksize = 1> (image)": "float[1,3,h,w]",
    },
    "resized": {
        'r0 = Resize <mode = "linear", axes = [0, 1]> (x, , grow) '
        "j0 = Slice (r0, one, far, zero)": "float[g,v,3]",
    },
    "sizes": {
        "i0 = Shape <start = 1> (x)": "int64[2]",
        "i1 = Flatten <axis = 2> (x)": "float[n,3]",
        "i2 = Size (x)": "int64",
    },
}


def model_of(readers: dict[str, str]) -> onnx.ModelProto:
    """Return a map over images with an output for the first value of each last node."""
    names = [re.findall(r"(\w+)(?:, \w+)? = [A-Z]", node)[-1] for node in readers]
    types = dict(zip(names, readers.values(), strict=True))
    declared = ", ".join(f"{type_} {name}" for name, type_ in types.items())
    outputs = ", ".join(f"seq({type_}) {name}_list" for name, type_ in types.items())
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[H,W,3]) xs) => ({outputs}) {{
          {", ".join(f"{name}_list" for name in names)} = SequenceMap (xs)
            <body = one (float[H,W,3] x) => ({declared}) {{ {CONSTANTS} {" ".join(readers)} }}> }}""")


@pytest.mark.parametrize("group", READERS)
@pytest.mark.long
def test_images_of_any_size(group: str) -> None:
    before = model_of(READERS[group])
    after = rewriter.optimize(before, strategy="fuse", target="portable", tensor_io=True)
    assert not loops_and_sequences(after)
    rng = np.random.default_rng(0)
    shapes = ((3, 4, 3), (2, 5, 3), (4, 2, 3))
    images = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = backends.run(plain_expansion(before), {"xs": images})
    io = TensorIo.read(models.take(after).model)
    found = outputs_as_lists(io, backends.run(after, {"xs": images}))
    for name, values in expected.items():
        for one, other in zip(found[name], values, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)
