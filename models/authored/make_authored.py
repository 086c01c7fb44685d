"""Maps over images, audio and text, written with onnxscript.

``python models/authored/make_authored.py``: each function becomes a model of its name beside this
file.
"""

from __future__ import annotations

import pathlib

import onnx
import onnxscript
from onnx import TensorProto, helper
from onnxscript import FLOAT, INT64, UINT8, graph, script
from onnxscript import opset18 as op

HERE = pathlib.Path(__file__).parent
H, W, L = "H", "W", "L"


@script(default_opset=op)
def images(pictures):
    """Scale pictures of any size to 32 x 32, and join them."""

    @graph()
    def prepare(picture: UINT8[H, W, 3]):
        size = op.Constant(value_ints=[32, 32, 3])
        small = op.Resize(picture, None, None, size, mode="linear")
        scaled = op.Cast(small, to=1) / op.Constant(value_float=255.0)
        return op.Transpose(scaled, perm=[2, 0, 1])

    prepared = op.SequenceMap(pictures, body=prepare)
    batch = op.ConcatFromSequence(prepared, axis=0, new_axis=1)
    return batch


@script(default_opset=op)
def audio(clips):
    """Take the mean from clips of any length, and their level in decibels."""

    @graph()
    def level(clip: FLOAT[L]):
        centred = clip - op.ReduceMean(clip, keepdims=1)
        power = op.ReduceMean(centred * centred, keepdims=1) + op.Constant(value_float=1e-6)
        return op.Log(power) * op.Constant(value_float=4.3429448)

    levels = op.SequenceMap(clips, body=level)
    decibels = op.ConcatFromSequence(levels, axis=0)
    return decibels


@script(default_opset=op)
def text(sentences, table):
    """Embed sentences of any length as the mean of the rows of their tokens."""

    @graph()
    def embed(tokens: INT64[L]):
        rows = op.Gather(table, tokens, axis=0)
        mean = op.ReduceMean(rows, op.Constant(value_ints=[0]), keepdims=0)
        return op.Tanh(mean)

    vectors = op.SequenceMap(sentences, body=embed)
    embedded = op.ConcatFromSequence(vectors, axis=0, new_axis=1)
    return embedded


def _tensor(dtype: int, *dims: str | int) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(dtype, dims)


def _sequence(dtype: int, *dims: str | int) -> onnx.TypeProto:
    return helper.make_sequence_type_proto(_tensor(dtype, *dims))


TYPES: dict[str, tuple[onnxscript.OnnxFunction, dict[str, onnx.TypeProto]]] = {
    "images": (
        images,
        {
            "pictures": _sequence(TensorProto.UINT8, H, W, 3),
            "batch": _tensor(TensorProto.FLOAT, "N", 3, 32, 32),
        },
    ),
    "audio": (
        audio,
        {
            "clips": _sequence(TensorProto.FLOAT, L),
            "decibels": _tensor(TensorProto.FLOAT, "N"),
        },
    ),
    "text": (
        text,
        {
            "sentences": _sequence(TensorProto.INT64, L),
            "table": _tensor(TensorProto.FLOAT, 40, 8),
            "embedded": _tensor(TensorProto.FLOAT, "N", 8),
        },
    ),
}
"""The functions, and the types of inputs and outputs, which onnxscript does not write."""


def build(name: str) -> onnx.ModelProto:
    """Return the model of a function."""
    function, types = TYPES[name]
    model = function.to_model_proto()
    for value in (*model.graph.input, *model.graph.output):
        value.type.CopyFrom(types[value.name])
    return model


if __name__ == "__main__":
    for model_name in TYPES:
        onnx.save(build(model_name), HERE / f"{model_name}.onnx")
