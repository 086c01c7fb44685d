"""Model repositories of Triton: fed as Triton feeds, they compute what the model as given does."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.feeding.packed import declare_packed
from rewriter.serving.triton import for_triton, write_repository
from tests.rewriter.cli_models import seqmap

RAGGED = "models/exported/seqmap_mlp_ragged_rows.onnx"
ROWS = [np.arange(3 * n, dtype=np.float32).reshape(n, 3) / 9 for n in (4, 1, 7)]
HEAD = '<ir_version: 9, opset_import: ["" : 18]> '
SUMS = """g (seq(float[N,2]) xs) => (seq(float[2]) ys) {
    ys = SequenceMap (xs) <body = b (float[N,2] x) => (float[2] r) {
        axis = Constant <value = int64[1] {0}> ()  r = ReduceSum <keepdims = 0> (x, axis) }> }"""
STACKED = """g (seq(float[2,3]) xs) => (seq(float[3,2]) ys) {
    ys = SequenceMap (xs) <body = b (float[2,3] x) => (float[3,2] r) { r = Transpose (x) }> }"""
JOINED = """g (seq(float[2,3]) xs) => (float[B,3,2] y) {
    ys = SequenceMap (xs) <body = b (float[2,3] x) => (float[3,2] r) { r = Transpose (x) }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }"""
COUNTED = """g (seq(float[N,2]) xs) => (float[B] y) {
    ys = SequenceMap (xs) <body = b (float[N,2] x) => (float r) {
        r = ReduceSum <keepdims = 0> (x) }>
    sums = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
    two = Constant <value = float {2.0}> ()  y = Div (sums, two) }"""
CENTRED = """g (seq(float[2,3]) xs) => (seq(float[2,3]) ys) {
    all = ConcatFromSequence <axis = 0, new_axis = 1> (xs)
    axis = Constant <value = int64[1] {0}> ()  mean = ReduceMean <keepdims = 0> (all, axis)
    ys = SequenceMap (xs, mean) <body = b (float[2,3] x, float[2,3] m) => (float[2,3] r) {
        r = Sub (x, m) }> }"""
TOTALLED = """g (seq(float[2,3]) xs) => (float[B,2,3] y) {
    all = ConcatFromSequence <axis = 0, new_axis = 1> (xs)  y = Softmax <axis = 0> (all) }"""
FILTERED = """g (seq(float[N]) xs) => (seq(float[M]) ys) {
    ys = SequenceMap (xs) <body = b (float[N] x) => (float[M] r) {
        zero = Constant <value = float {0.0}> ()  c = Greater (x, zero)
        r = Compress <axis = 0> (x, c) }> }"""
SHARED = """g (seq(float[N,2]) xs, float[2] w) => (seq(float[N,2]) ys) {
    ys = SequenceMap (xs, w) <body = b (float[N,2] x, float[2] v) => (float[N,2] r) {
        r = Mul (x, v) }> }"""
IMAGES = """g (seq(float[H,W]) xs) => (seq(float[H,W]) ys) {
    ys = SequenceMap (xs) <body = b (float[H,W] x) => (float[H,W] r) { r = Relu (x) }> }"""
PICTURES = [
    np.arange(h * w, dtype=np.float32).reshape(h, w) - 3 for h, w in ((2, 5), (4, 1), (3, 3))
]
BOXED = """g (seq(float[H,W,3]) xs) => (seq(float[3,2,2]) ys) {
    ys = SequenceMap (xs) <body = b (float[H,W,3] x) => (float[3,2,2] r) {
        t = Transpose <perm = [2, 0, 1]> (x)  s = Constant <value_ints = [3, 2, 2]> ()
        r = Resize <mode = "linear"> (t, , , s) }> }"""
CLIPS = """g (seq(float[3,N]) xs) => (seq(float[3,N]) ys) {
    ys = SequenceMap (xs) <body = b (float[3,N] x) => (float[3,N] r) { r = Tanh (x) }> }"""
RESIZED = """g (seq(float[H,W]) xs) => (seq(float[I,J]) ys) {
    ys = SequenceMap (xs) <body = b (float[H,W] x) => (float[I,J] r) {
        two = Constant <value_floats = [2.0, 2.0]> ()  r = Resize (x, , two) }> }"""
TURNED = IMAGES.replace("r = Relu (x)", "r = Transpose (x)")
OFFSETS = """g (float[L] input, int64[B] lengths) => (float[B] output)
<int64[1] axis = {0}, int64 zero = {0}> {
    shape = Shape (lengths)  count = Gather (shape, zero)
    yes = Constant <value = bool {1}> ()
    last, output = Loop (count, yes, zero) <
        body = b (int64 i, bool c, int64 start) => (bool d, int64 stop, float s) {
            d = Identity (c)
            n = Gather (lengths, i)
            stop = Add (start, n)
            from = Unsqueeze (start, axis)
            to = Unsqueeze (stop, axis)
            part = Slice (input, from, to, axis)
            s = ReduceSum <keepdims = 0> (part)
        }> }"""
"""Sums of the parts of one vector, the offset carried from part to part."""
ROTATED = """g (float[L,2] x, int64[B] n) => (float[L,2] y) { y = Neg (x) }"""
ENCODER = "models/pipelines/ts_packed_encoder.onnx"
PARTED = """g (seq(KIND[N]) xs) => (seq(KIND[N]) ys) {
    ys = SequenceMap (xs) <body = b (KIND[N] x) => (KIND[N] r) { r = Concat <axis = 0> (x) }> }"""
TENSORS = "g (float[N] x) => (float[N] y) { y = Relu (x) }"


def load(model: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + model) if " " in model else onnx.load(model)


def as_triton_feeds(config: Any, samples: dict[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the requests of one batch as the protocol says."""
    feeds = {}
    for one in config.input:
        arrays = samples[one.name]
        for array in arrays:
            assert len(array.shape) == len(one.dims)
            assert all(d in (-1, n) for d, n in zip(one.dims, array.shape, strict=True))
        ragged = one.allow_ragged_batch
        feeds[one.name] = (
            np.concatenate([a.ravel() for a in arrays]) if ragged else np.stack(arrays)
        )
    for one in config.batch_input:
        (source,), (target,) = one.source_input, one.target_name
        feeds[target] = np.array([array.shape for array in samples[source]], np.int32)
    return feeds


def as_triton_answers(
    config: Any, outputs: dict[str, np.ndarray], samples: dict[str, list[np.ndarray]]
) -> dict[str, list[np.ndarray]]:
    """Cut the results of a batch into those of its requests."""
    scattered = {one.target_name[0]: one.source_input[0] for one in config.batch_output}
    answers = {}
    for one in config.output:
        value = outputs[one.name]
        if one.name not in scattered:
            answers[one.name] = list(value)
            continue
        # An open dimension is that of the input at the same place.
        shapes = [
            [array.shape[axis] if size == -1 else size for axis, size in enumerate(one.dims)]
            for array in samples[scattered[one.name]]
        ]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        parts = np.split(value.ravel(), ends[:-1])
        answers[one.name] = [p.reshape(s) for p, s in zip(parts, shapes, strict=True)]
    return answers


def parsed(text: str) -> Any:
    """Read a config by Triton's own schema."""
    spec = importlib.util.find_spec("tritonclient")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("tritonclient is not installed")
    path = pathlib.Path(spec.submodule_search_locations[0], "grpc", "model_config_pb2.py")
    own = importlib.util.spec_from_file_location("model_config_pb2", path)
    assert own is not None and own.loader is not None
    schema = importlib.util.module_from_spec(own)
    own.loader.exec_module(schema)
    from google.protobuf import text_format

    return text_format.Parse(text, schema.ModelConfig())


@pytest.mark.parametrize(
    ("model", "samples"),
    [
        (RAGGED, ROWS),
        (SUMS, [row[:, :2] for row in ROWS]),
        (STACKED, [row[:1].repeat(2, 0) for row in ROWS]),
        (JOINED, [row[:1].repeat(2, 0) for row in ROWS]),
        (COUNTED, [row[:, :2] for row in ROWS]),
        (IMAGES, PICTURES),
        (BOXED, [np.stack([one] * 3, 2) for one in PICTURES]),
        (CLIPS, [row[:2].T for row in (ROWS[0], ROWS[2])]),
    ],
    ids=[
        *("packed to packed", "packed to stacked", "stacked", "joined", "joined numbers"),
        *("images to images", "images to stacked", "clips along the last axis"),
    ],
)
def test_it_computes_the_same_from_what_triton_feeds(
    model: str, samples: list[np.ndarray], tmp_path: pathlib.Path
) -> None:
    given = load(model)
    # Where images of any size have a form in a loop, only tensors without one go into a batch.
    optimized = rewriter.optimize(given, tensor_io=True, target="portable")
    write_repository(
        rewriter.model_files.models.take(optimized).model,
        tmp_path / "m",
        rewriter.model_files.models.take(given).model,
    )
    config = parsed((tmp_path / "m" / "config.pbtxt").read_text("utf-8"))
    assert (config.name, config.max_batch_size) == ("m", 256)
    (name,) = (one.name for one in config.input)
    feeds = as_triton_feeds(config, {name: samples})
    served = onnx.load(tmp_path / "m" / "1" / "model.onnx")
    onnx.checker.check_model(served, full_check=True)
    outputs = rewriter.run(served, feeds)
    assert {one.name for one in config.output} == set(outputs)
    answers = as_triton_answers(config, outputs, {name: samples})
    for output, expected in rewriter.run(given, {name: samples}).items():
        assert len(answers[output]) == len(samples)
        for one, other in zip(answers[output], expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "packed", "samples"),
    [
        (OFFSETS, {"input": "lengths"}, [row.ravel() for row in ROWS]),
        (ROTATED, {"x": "n", "y": "n"}, [row[:, :2] for row in ROWS]),
        pytest.param(
            ENCODER,
            {"ids": "lengths"},
            [np.arange(n) for n in (4, 1, 7)],
            marks=pytest.mark.full,  # rewriting it takes seconds
        ),
    ],
    ids=["offsets by lengths", "packed to packed", "an encoder"],
)
def test_inputs_that_are_packed_as_the_model_comes(
    model: str, packed: dict[str, str], samples: list[np.ndarray], tmp_path: pathlib.Path
) -> None:
    given = load(model)
    declared = rewriter.model_files.models.take(given).model
    declare_packed(declared, packed)
    write_repository(rewriter.optimize(declared), tmp_path / "m", declared)
    config = parsed((tmp_path / "m" / "config.pbtxt").read_text("utf-8"))
    (name,) = (one.name for one in config.input)
    served = onnx.load(tmp_path / "m" / "1" / "model.onnx")
    assert {value.name for value in served.graph.input} == {name, packed[name]}
    outputs = rewriter.run(served, as_triton_feeds(config, {name: samples}))
    answers = as_triton_answers(config, outputs, {name: samples})
    for number, sample in enumerate(samples):
        alone = {name: sample, packed[name]: np.array([len(sample)])}
        for output, value in rewriter.run(given, alone).items():
            expected = value if output in packed else value[0]
            np.testing.assert_allclose(answers[output][number], expected, rtol=1e-5, atol=1e-6)


TWO = """g (seq(float[N,2]) xs, seq(float[M]) zs) => (seq(float[M]) b, seq(float[N]) a) {
    b, a = SequenceMap (xs, zs) <body = bo (float[N,2] x, float[M] z)
        => (float[M] s, float[N] r) {
        most = ReduceMax <keepdims = 0> (x)  s = Sub (z, most)
        axis = Constant <value = int64[1] {1}> ()  sums = ReduceSum <keepdims = 0> (x, axis)
        all = ReduceSum <keepdims = 0> (z)  r = Add (sums, all) }> }"""


def test_outputs_with_the_lengths_of_two_inputs() -> None:
    given = load(TWO)
    new, text = for_triton(
        rewriter.model_files.models.take(rewriter.optimize(given, tensor_io=True)).model,
        "m",
        rewriter.model_files.models.take(given).model,
    )
    config = parsed(text)
    scattered = {one.target_name[0]: one.source_input[0] for one in config.batch_output}
    assert scattered == {"b": "zs", "a": "xs"}
    samples = {"xs": [row[:, :2] for row in ROWS], "zs": [ROWS[n][:, 2] for n in (1, 2, 0)]}
    outputs = rewriter.run(new, as_triton_feeds(config, samples))
    answers = as_triton_answers(config, outputs, samples)
    for output, expected in rewriter.run(given, samples).items():
        for one, other in zip(answers[output], expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_names_are_quoted() -> None:
    given = load(STACKED)
    name = 'a "b" \\ c'
    given.graph.input[0].name = given.graph.node[0].input[0] = name
    new = rewriter.model_files.models.take(rewriter.optimize(given, tensor_io=True)).model
    config = parsed(for_triton(new, name, rewriter.model_files.models.take(given).model)[1])
    assert (config.name, config.input[0].name) == (name, name)


def test_a_scalar_travels_as_a_vector_of_one(tmp_path: pathlib.Path) -> None:
    declared = rewriter.model_files.models.take(load(OFFSETS)).model
    declare_packed(declared, {"input": "lengths"})
    (output,) = parsed(for_triton(declared, "m", declared)[1]).output
    assert (list(output.dims), list(output.reshape.shape)) == ([1], [])
    assert output.HasField("reshape")


def test_what_is_packed_runs_sample_by_sample() -> None:
    declared = rewriter.model_files.models.take(load(OFFSETS)).model
    declare_packed(declared, {"input": "lengths"})
    rewritten = rewriter.optimize(declared)
    check = rewriter.validate(declared, rewritten)
    assert check.ok
    results = rewriter.Predictor(rewritten)([row.ravel() for row in ROWS])
    for row, result in zip(ROWS, results, strict=True):
        assert result.outputs is not None
        np.testing.assert_allclose(result.outputs["output"], row.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        ({"inputs": "lengths"}, "no input or output is called 'inputs'"),
        ({"input": "length"}, "no input or output is called 'length'"),
        ({"lengths": "input"}, "input 'input' cannot hold lengths"),
        ({"input": "lengths", "more": "lengths"}, "'lengths' are the lengths of two inputs"),
        ({"input": "lengths", "whole": "lengths"}, "'whole' is no tensor of known rank"),
    ],
)
def test_what_cannot_be_packed_is_refused(packed: dict[str, str], message: str) -> None:
    inputs = "float[L] input, float[L] more, float whole, int64[B] lengths"
    given = load(f"g ({inputs}) => (float[L] y) {{ y = Neg (input) }}")
    with pytest.raises(rewriter.RewriteError, match=message):
        declare_packed(rewriter.model_files.models.take(given).model, packed)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            FILTERED,
            "output 'ys' has other lengths or sizes than an input, which Triton cannot pass on",
        ),
        (SHARED, "input 'w' may be one for all samples, and Triton batches every input"),
        (
            CENTRED,
            "output 'ys' is not proven to keep .*SequenceMap_3.* reads 'mean' whole|'ReduceMean_2'",
        ),
        (TOTALLED, "output 'y' is not proven to keep samples apart.*Softmax_1' .Softmax. may mix"),
        (RESIZED, "output 'ys' has other lengths or sizes than an input"),
        (TURNED, "output 'ys' has other lengths or sizes than an input"),
        (TENSORS, "takes no sequence as a tensor, so there is nothing to batch"),
        (PARTED.replace("KIND", "string"), "output 'ys' holds strings whose shape differs"),
        (
            PARTED.replace("KIND", "bfloat16"),
            "'xs' is of type BFLOAT16, which Triton does not pass",
        ),
        (
            PARTED.replace("KIND", "complex64"),
            "'xs' is of type COMPLEX64, which Triton does not pass",
        ),
    ],
    ids=[
        "other lengths",
        "shared",
        "centred",
        "totalled",
        "images of other sizes",
        "images that are turned",
        "no sequence",
        "texts",
        "bfloat16",
        "complex",
    ],
)
def test_what_triton_cannot_batch_is_refused(model: str, message: str) -> None:
    optimized = rewriter.optimize(load(model), tensor_io=True, target="portable")
    new = rewriter.model_files.models.take(optimized).model
    with pytest.raises(rewriter.RewriteError, match=message):
        for_triton(new, "m", rewriter.model_files.models.take(load(model)).model)


def test_the_command_line_writes_a_folder(tmp_path: pathlib.Path) -> None:
    assert seqmap("optimize", "--tensor-io", "triton", RAGGED, tmp_path / "mlp") == 0
    assert (tmp_path / "mlp" / "1" / "model.onnx").is_file()
    text = (tmp_path / "mlp" / "config.pbtxt").read_text("utf-8")
    assert 'name: "mlp"' in text and "allow_ragged_batch: true" in text
    assert seqmap("optimize", "--tensor-io", RAGGED, tmp_path / "out.onnx") == 0
    assert seqmap("optimize", RAGGED, tmp_path / "x.onnx", "--tensor-io", "triton") == 2
    words = ("--tensor-io", "triton", "--packed")
    onnx.save(load(OFFSETS), tmp_path / "sums.onnx")
    place = (tmp_path / "sums.onnx", tmp_path / "sums")
    assert seqmap("optimize", *place, *words, "input=lengths") == 0
    assert 'source_input: "input"' in (tmp_path / "sums" / "config.pbtxt").read_text("utf-8")
    assert seqmap("optimize", tmp_path, tmp_path / "all", "--packed", "input=lengths") == 2
