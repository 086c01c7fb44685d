"""Models that take images padded to the largest, and the size of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from passes.errors import RewriteError
from passes.tensors.io import TensorIo
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from tests.passes.batching.images import loops_and_sequences
from tests.rewriter.cli_models import seqmap

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEADER} {text}")


def mapped(element: str, result: str, nodes: str) -> onnx.ModelProto:
    return parse(f"""g (seq({element}) xs) => (seq({result}) ys) {{
        ys = SequenceMap (xs) <body = b ({element} x) => ({result} y) {{ {nodes} }}> }}""")


RESIZE = (
    's = Constant <value_ints = [8, 6]> () y = Resize <axes = [0, 1], mode = "linear"> (x,,,s)'
)
CASES = {
    "resized": mapped("uint8[H,W,3]", "uint8[8,6,3]", RESIZE),
    "arithmetic": mapped("float[H,W,3]", "float[H,W,3]", "y = Mul (x, x)"),
    "channels first": mapped(
        "float[3,H,W]", "float[3]", "a = Constant <value_ints = [1, 2]> () "
        "y = ReduceMean <keepdims = 0> (x, a)"
    ),
    "all axes": mapped("float[C,H,W]", "float[W,C]", "a = Constant <value_ints = [1]> () "
        "m = ReduceMax <keepdims = 0> (x, a) y = Transpose (m)"
    ),
    "a known axis between": mapped("float[H,2,W]", "float[W,2,H]", "y = Transpose (x)"),
    "one axis": mapped("float[L,4]", "float[L,4]", "y = Softmax <axis = 0> (x)"),
    "an axis behind": mapped("float[4,L]", "float[4,L]", "y = Softmax <axis = 1> (x)"),
    "windows": mapped("float[1,2,H,W]", "float[1,2,h,w]",
        "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x)"
    ),
    "as they are": mapped("float[H,W]", "float[H,W]", "y = Identity (x)"),
}  # fmt: skip


def images(model: onnx.ModelProto, count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    element = model.graph.input[0].type.sequence_type.elem_type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element.elem_type)
    shapes = [
        [dim.dim_value or int(rng.integers(1, 12)) for dim in element.shape.dim]
        for _ in range(count)
    ]
    return [(rng.random(shape) * 255).astype(dtype) for shape in shapes]


def assert_same(wanted: list[np.ndarray], given: list[np.ndarray]) -> None:
    assert [one.shape for one in given] == [one.shape for one in wanted]
    # Some processors' kernels of Softmax write zero for what is less than any normal number.
    least = float(np.finfo(np.float32).tiny)
    for one, other in zip(wanted, given, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=least)


def padded(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    options = {"strategy": "fuse", "target": "portable", **options}
    return rewriter.optimize(model, tensor_io=True, padded="xs", **options)


def lists(new: onnx.ModelProto, outputs: dict[str, Any]) -> list[np.ndarray]:
    return list(outputs_as_lists(TensorIo.read(models.take(new).model), outputs)["ys"])


def tensors(new: onnx.ModelProto, xs: list[np.ndarray], spare: int) -> dict[str, np.ndarray]:
    """Return images in one tensor with room behind the largest, and NaN or 255 in all of it."""
    passed = TensorIo.read(models.take(new).model).inputs["xs"]
    first, behind = passed.span
    room = np.max([x.shape for x in xs], axis=0)
    room += [spare * (not isinstance(dim, int)) for dim in passed.dims or ()]
    fill = 255 if xs[0].dtype == np.uint8 else np.nan
    tensor = np.full((len(xs), *room), fill, xs[0].dtype)
    for row, x in zip(tensor, xs, strict=True):
        row[tuple(map(slice, x.shape))] = x
    sizes = np.array([x.shape[first:behind] for x in xs], np.int64)
    return {"xs": tensor, "xs.sizes": sizes}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_lists_give_what_the_model_as_given_does(name: str) -> None:
    new = padded(CASES[name])
    assert not loops_and_sequences(new)
    for count in (0, 1, 2, 16):
        xs = images(CASES[name], count, count)
        found = lists(new, rewriter.run(new, {"xs": xs}))
        assert_same(rewriter.run(CASES[name], {"xs": xs})["ys"], found)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_what_is_behind_an_element_means_nothing(name: str) -> None:
    new = padded(CASES[name])
    xs = images(CASES[name], 5)
    found = lists(new, rewriter.run(new, tensors(new, xs, spare=2)))
    assert_same(rewriter.run(CASES[name], {"xs": xs})["ys"], found)


def test_a_runtime_with_loops_reads_each_row_in_its_loop() -> None:
    model = CASES["resized"]
    new = padded(model, strategy="auto", target="onnxruntime")
    assert loops_and_sequences(new) == {"Loop"}
    xs = images(model, 3)
    found = lists(new, rewriter.run(new, tensors(new, xs, spare=1)))
    assert_same(rewriter.run(model, {"xs": xs})["ys"], found)


def test_the_interface_and_the_report_say_it() -> None:
    result = rewriter.rewrite(CASES["resized"], target="portable", tensor_io=True, padded=["xs"])
    assert [value.name for value in result.model.graph.input] == ["xs", "xs.sizes"]
    shape = result.model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in shape] == [0, 0, 0, 3]
    assert "input xs: padded [B, H, W, 3], sizes in xs.sizes" in str(result.report)
    assert rewriter.validate(CASES["resized"], result.model).ok
    record = json.loads(result.report.to_json())["tensor_io"]["inputs"]["xs"]
    assert (record["form"], record["sizes"]) == ("padded", "xs.sizes")


@pytest.mark.long
def test_two_inputs_are_padded_apart() -> None:
    model = parse("""g (seq(float[H,W]) xs, seq(float[H,W]) zs) => (seq(float[H,W]) ys) {
        ys = SequenceMap (xs, zs) <body = b (float[H,W] x, float[H,W] z) => (float[M] y) {
            a = Constant <value_ints = [1]> () m = ReduceMax <keepdims = 0> (x, a)
            n = ReduceMin <keepdims = 0> (z, a) y = Concat <axis = 0> (m, n) }> }""")
    new = rewriter.optimize(
        model, strategy="fuse", target="portable", tensor_io=True, padded=["xs", "zs"]
    )
    assert rewriter.validate(model, new).ok


def test_elements_of_one_shape_need_no_sizes() -> None:
    new = padded(CASES["resized"], uniform=["xs"])
    assert [value.name for value in new.graph.input] == ["xs"]


def test_a_predictor_takes_lists() -> None:
    model = CASES["channels first"]
    xs = images(model, 5)
    results = rewriter.Predictor(padded(model), batch_size=2).predict([{"xs": x} for x in xs])
    found = [result.outputs["ys"] for result in results if result.outputs]
    assert_same(rewriter.run(model, {"xs": xs})["ys"], found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padded": "xs"}, "ask for tensor_io, --tensor-io, too"),
        (
            {"padded": "nothing", "tensor_io": True},
            "'nothing' is to be padded, but is no sequence",
        ),
        ({"padded": [1], "tensor_io": True}, "which is no name"),
    ],
)
def test_what_cannot_be_padded_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        rewriter.optimize(CASES["resized"], **options)


@pytest.mark.parametrize("sizes", [[[9, 1]], [[-1, 1]], [[1]], [[1, 1], [1, 1]]])
def test_sizes_that_do_not_fit_are_refused(sizes: list[list[int]]) -> None:
    new = padded(CASES["resized"])
    feeds = {"xs": np.zeros((1, 4, 4, 3), np.uint8), "xs.sizes": np.array(sizes, np.int64)}
    with pytest.raises(RewriteError, match=r"give one row for each element, no larger than"):
        rewriter.run(new, feeds)


def test_an_image_without_pixels_reads_nothing() -> None:
    new = padded(CASES["resized"])
    feeds = {"xs": np.ones((2, 4, 4, 3), np.uint8), "xs.sizes": np.array([[2, 0], [4, 4]])}
    with pytest.raises(RewriteError):
        rewriter.run(new, feeds)


def test_the_command_line(tmp_path: Path) -> None:
    given, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(CASES["resized"], given)
    words = ["--target", "portable", "--tensor-io", "--padded", "xs", "--verify", "4"]
    assert seqmap("optimize", given, out, *words) == 0
    assert [value.name for value in onnx.load(out).graph.input] == ["xs", "xs.sizes"]
    assert seqmap("run", out) == 0
    assert seqmap("validate", given, out, "--cases", "2") == 0
    assert seqmap("bench", out, "--sizes", "2") == 0
