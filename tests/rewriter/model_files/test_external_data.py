"""Weights that a model says lie elsewhere: outside of its folder or its file nothing is read."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import rewriter
from rewriter import cli
from rewriter.errors import ModelError
from rewriter.model_files.models import take
from rewriter.model_files.on_disk import load, save

SECRET = b"no business of any model"
HEADER = '<ir_version: 10, opset_import: ["" : 17, "f" : 1]>'
EXTERNAL = onnx.TensorProto.EXTERNAL

# Where the tensor stands that is not in the model file.
PLACES = {
    "main graph": "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }",
    "subgraph": """g (bool c, float[2] x) => (float[2] y) { y = If (c)
        <then_branch = a () => (float[2] u) <float[2] w = {1, 2}> { u = Identity (w) },
         else_branch = b () => (float[2] v) { v = Identity (x) }> }""",
    "constant": """g (float[2] x) => (float[2] y)
        { w = Constant <value = float[2] {1, 2}> ()  y = Add (x, w) }""",
    "function": """g (float[2] x) => (float[2] y) { y = f.k (x) }
        <domain: "f", opset_import: ["" : 17]> k (x) => (y)
        { w = Constant <value = float[2] {1, 2}> ()  y = Add (x, w) }""",
}


def tensors(proto: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the dense tensors of one of the models above."""
    found: list[onnx.TensorProto] = []

    def visit(nodes, initializers):
        found.extend(initializers)
        for node in nodes:
            for attribute in node.attribute:
                found.extend([attribute.t] if attribute.HasField("t") else [])
                visit(attribute.g.node, attribute.g.initializer)

    visit(proto.graph.node, proto.graph.initializer)
    for function in proto.functions:
        visit(function.node, [])
    return found


def moved(tensor: onnx.TensorProto, **entries: str) -> None:
    """Say of a tensor that its bytes lie elsewhere."""
    for name in ("raw_data", "float_data", "int64_data"):
        tensor.ClearField(name)
    tensor.data_location = EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def hostile(place: str, **entries: str) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(HEADER + PLACES[place])
    (tensor,) = tensors(proto)
    moved(tensor, **entries)
    return proto


def written(proto: onnx.ModelProto, folder: pathlib.Path) -> pathlib.Path:
    path = folder / "in.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return the folder of a model, beside a secret, with links that lead out and that do not."""
    (tmp_path / "secret").write_bytes(SECRET)
    folder = tmp_path / "model"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "w.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "deep" / "up").symlink_to("../..")
    (folder / "deep" / "chain").symlink_to("../link")
    (folder / "deep" / "er" / "in").symlink_to("../../w.bin")
    return folder


OUTSIDE = {
    "up": "../secret",
    "up again": "deep/../../secret",
    "absolute": "{outside}/secret",
    "absolute inside": "{outside}/model/w.bin",
    "a link": "link",
    "a linked folder": "deep/up/secret",
    "a link to a link": "deep/chain",
    "of another system": "..\\secret",
    "a drive": "C:\\secret",
    "no name": "",
    "a zero byte": "w.bin\0",
    "a name that no file can have": "n" * 5000,
}


@pytest.mark.parametrize("location", OUTSIDE.values(), ids=OUTSIDE)
def test_weights_outside_of_the_folder_are_refused(folder, location, capsys):
    path = written(hostile("main graph", location=location.format(outside=folder.parent)), folder)
    out = folder.parent / "out"
    out.mkdir()
    for words in (
        ("optimize", path, out / "o.onnx", "--copy-weights", "--no-verify"),
        ("optimize", path, out / "o.onnx", "--copy-weights"),
        ("optimize", path, path.with_name("o.onnx")),
        ("explain", path),
        ("run", path),
        ("validate", path, path),
        ("bench", path),
    ):
        assert cli.main([str(word) for word in words]) == 1
        printed = capsys.readouterr()
        assert printed.err.count("\n") == 1, printed.err
        assert "the external tensor 'w' " in printed.err or "of the external tensor" in printed.err
    assert os.listdir(out) == []
    assert not path.with_name("o.onnx").exists()


@pytest.mark.parametrize("place", PLACES)
def test_wherever_the_tensor_stands(folder, place):
    path = written(hostile(place, location="../secret"), folder)
    for call in (
        lambda: rewriter.load(path),
        lambda: rewriter.optimize(path),
        lambda: rewriter.explain(path),
        lambda: rewriter.run(path, {}),
        lambda: rewriter.validate(path, path),
        lambda: rewriter.ReferenceEvaluator(path),
        lambda: rewriter.optimize(hostile(place, location="../secret")),
        lambda: save(hostile(place, location="../secret"), folder / "out.onnx"),
        lambda: take(ir.from_proto(hostile(place, location="../secret"))),
    ):
        with pytest.raises(ModelError, match=r"lies at '\.\./secret', outside of its folder: put"):
            call()


def sparse(attribute: bool) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(HEADER + PLACES["main graph"])
    tensor = onnx.SparseTensorProto(dims=[2])
    tensor.values.CopyFrom(onnx.helper.make_tensor("w", 1, [1], [1.0]))
    tensor.indices.CopyFrom(onnx.helper.make_tensor("at", 7, [1], [0]))
    moved(tensor.indices, location="../secret")
    if attribute:
        proto.graph.node.add(op_type="Constant", output=["s"]).attribute.add(
            name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR
        ).sparse_tensor.CopyFrom(tensor)
    else:
        proto.graph.sparse_initializer.add().CopyFrom(tensor)
    return proto


def trained() -> onnx.ModelProto:
    proto = onnx.parser.parse_model(HEADER + PLACES["main graph"])
    proto.training_info.add().algorithm.CopyFrom(hostile("main graph", location="../secret").graph)
    return proto


@pytest.mark.parametrize(
    "proto",
    [sparse(attribute=False), sparse(attribute=True), trained()],
    ids=["sparse initializer", "sparse attribute", "training"],
)
def test_tensors_that_no_rewrite_reads_count_too(folder, proto):
    with pytest.raises(ModelError, match="outside of its folder"):
        load(written(proto, folder))


RANGES = {
    "negative offset": ({"offset": "-4"}, "offset '-4' of .* is not a number of bytes from 0"),
    "negative length": ({"length": "-8"}, "length '-8' of .* is not a number of bytes from 0"),
    "text": ({"offset": "four"}, "offset 'four' of .* is not a number"),
    "a fraction": ({"offset": "1.5"}, r"offset '1\.5' of .* is not a number"),
    "other digits": ({"offset": "\u0661"}, "of .* is not a number"),
    "thousands of digits": ({"offset": "9" * 9999}, r"offset '9999999999999999999\.\.\.' of"),
    "empty": ({"length": ""}, "length '' of .* is not a number"),
    "behind the end": ({"offset": "4"}, "the file has 8 bytes, and .* ends at 12"),
    "too long": ({"length": "9"}, "the file has 8 bytes, and .* ends at 9"),
    "huge": ({"offset": str(2**62)}, "the file has 8 bytes"),
    "the largest": ({"offset": str(2**63 - 1), "length": str(2**63 - 1)}, "has 8 bytes"),
}


@pytest.mark.parametrize(("entries", "message"), RANGES.values(), ids=RANGES)
def test_a_range_outside_of_the_file_is_refused(folder, entries, message):
    path = written(hostile("main graph", location="w.bin", **entries), folder)
    with pytest.raises(ModelError, match=message):
        load(path)


def test_a_location_told_twice_is_refused(folder):
    proto = hostile("main graph", location="w.bin")
    tensors(proto)[0].external_data.add(key="location", value="../secret")
    with pytest.raises(ModelError, match="says twice where it lies"):
        load(written(proto, folder))


def test_a_tensor_of_the_ir_is_held_to_the_same(folder):
    model = ir.from_proto(hostile("main graph", location="w.bin"))
    (value,) = model.graph.initializers.values()
    kinds = {"location": "link", "offset": None, "length": 8}
    for change in ({"location": "link"}, {"offset": -1}, {"length": -1}, {"offset": 4}):
        at = kinds | {"location": "w.bin"} | change
        value.const_value = ir.ExternalTensor(
            at["location"], at["offset"], at["length"], ir.DataType.FLOAT,
            shape=ir.Shape([2]), name="w", base_dir=folder,
        )  # fmt: skip
        with pytest.raises(ModelError):
            rewriter.optimize(model)


def test_strings_cannot_lie_in_a_file(folder):
    proto = hostile("main graph", location="w.bin")
    tensors(proto)[0].data_type = onnx.TensorProto.STRING
    path = written(proto, folder)
    for call in (lambda: load(path), lambda: rewriter.explain(ir.from_proto(proto))):
        with pytest.raises(ModelError, match="'w' holds strings, which cannot lie in a file"):
            call()


@pytest.mark.parametrize("location", ["w.bin", "./w.bin", "deep/er/in"])
def test_what_lies_inside_is_read(folder, location):
    path = written(hostile("main graph", location=location), folder)
    assert load(path).graph.initializers["w"].const_value.numpy().tolist() == [1, 2]


def test_the_folder_may_be_a_link_itself(folder, tmp_path):
    written(hostile("main graph", location="w.bin"), folder)
    (tmp_path / "other").symlink_to(folder)
    load(tmp_path / "other" / "in.onnx")


def test_missing_weights_may_come_later(folder):
    path = written(hostile("main graph", location="later.bin", offset="4096"), folder)
    save(load(path), folder / "out.onnx")
