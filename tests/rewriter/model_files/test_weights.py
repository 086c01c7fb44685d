"""External weights stay where they are; what is written finds them, or is not written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import rewriter
from rewriter.errors import ModelError, ModelWarning
from rewriter.model_files.models import folder_of, take
from rewriter.model_files.on_disk import load, save

VALUES = np.array([1, 2], np.float32).tobytes()


def model(*locations: str) -> onnx.ModelProto:
    """Return a sum of tensors `w0`, `w1`, ... that lie at these locations."""
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) { y = Sum (x) }""")
    for index, location in enumerate(locations):
        tensor = proto.graph.initializer.add(name=f"w{index}", dims=[2], data_type=1)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, "offset": "0", "length": "8"}.items():
            tensor.external_data.add(key=key, value=value)
        proto.graph.node[0].input.append(f"w{index}")
    return proto


def written(folder: Path, *locations: str) -> Path:
    """Write a model and its weights; return the model's path."""
    folder.mkdir(exist_ok=True)
    for location in locations:
        path = folder / location
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(VALUES)
    onnx.save(model(*locations), folder / "in.onnx")
    return folder / "in.onnx"


def where(path: Path) -> list[str]:
    proto = onnx.load(path, load_external_data=False)
    return [tensor.external_data[0].value for tensor in proto.graph.initializer]


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_beside_the_weights_nothing_is_copied(tmp_path):
    path = written(tmp_path, "w.bin", "sub/v.bin")
    save(load(path), tmp_path / "out.onnx")
    assert where(tmp_path / "out.onnx") == ["w.bin", "sub/v.bin"]
    assert files(tmp_path) == {"in.onnx", "out.onnx", "w.bin", "sub/v.bin"}
    assert onnx.load(tmp_path / "out.onnx").graph.initializer[1].raw_data == VALUES


def test_a_rewrite_is_verified_with_weights_in_another_file(tmp_path):
    path = written(tmp_path, "w.bin")
    result = rewriter.rewrite(path, verify=True)
    assert isinstance(result.model, onnx.ModelProto)
    assert result.model.graph.initializer[0].external_data[0].value == "w.bin"
    assert result.report.verification["verified"] > 0


def test_the_folder_is_remembered_from_a_relative_path(tmp_path, monkeypatch):
    written(tmp_path / "a", "w.bin")
    monkeypatch.chdir(tmp_path / "a")
    loaded, taken = load("in.onnx"), take("in.onnx")
    monkeypatch.chdir(tmp_path)
    assert folder_of(loaded) == folder_of(taken.model) == taken.folder == tmp_path / "a"
    assert take(loaded).folder == tmp_path / "a"
    assert folder_of(take(model("w.bin")).model) is None
    assert loaded.graph.initializers["w0"].const_value.numpy().tobytes() == VALUES


def test_weights_in_bodies_functions_and_constants_count(tmp_path):
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 17, "f" : 1]>
        g (bool c) => (float[2] y)
        { y = If (c) <then_branch = a () => (float[2] u)
              <float[2] w = ["location": "w.bin", "offset": "0", "length": "8"]>
              { u = Identity (w) },
            else_branch = b () => (float[2] v) { v = f.k () }> }
        <domain: "f", opset_import: ["" : 17]> k () => (z)
        { z = Constant <value = float[2] k ["location": "k.bin", "offset": "0", "length": "8"]> ()
        }""")
    onnx.save(proto, tmp_path / "in.onnx")
    for name in ("w.bin", "k.bin"):
        (tmp_path / name).write_bytes(VALUES)
    (tmp_path / "to").mkdir()
    save(load(tmp_path / "in.onnx"), tmp_path / "to" / "out.onnx", copy_weights=True)
    assert files(tmp_path / "to") == {"out.onnx", "w.bin", "k.bin"}


@pytest.mark.parametrize("missing", [False, True], ids=["weights there", "weights missing"])
def test_elsewhere_is_refused_with_the_remedy(tmp_path, missing):
    path = written(tmp_path / "from", "w.bin")
    (tmp_path / "to").mkdir()
    if missing:
        (tmp_path / "from" / "w.bin").unlink()
    out = tmp_path / "to" / "out.onnx"
    with pytest.raises(ModelError) as caught:
        save(load(path), out)
    assert str(caught.value) == (
        f"{out} would not find its weights 'w.bin', which lie in {tmp_path / 'from'}: write it "
        "beside the weights, or copy them with --copy-weights (copy_weights=True)"
    )
    assert files(tmp_path / "to") == set()
    save(load(path), tmp_path / "from" / "out.onnx")  # the folder that they will come back to


def test_a_message_without_a_folder_needs_its_weights_at_the_new_place(tmp_path):
    path = written(tmp_path / "from", "w.bin")
    proto = model("w.bin")
    save(proto, tmp_path / "from" / "out.onnx")
    out = tmp_path / "out.onnx"
    with pytest.raises(ModelError, match=r"not find its weights 'w\.bin', which are not there"):
        save(proto, out)
    with pytest.raises(ModelError, match=r"^it is not known where the weights 'w\.bin' lie: pass"):
        save(proto, out, copy_weights=True)
    assert not out.exists()
    save(proto, out, copy_weights=True, folder=path.parent)
    assert (tmp_path / "w.bin").read_bytes() == VALUES


def test_copied_weights_keep_their_names(tmp_path):
    path = written(tmp_path / "from", "w.bin", "sub/v.bin")
    (tmp_path / "to").mkdir()
    out = tmp_path / "to" / "out.onnx"
    for _ in range(2):  # a second time there is nothing to copy
        save(load(path), out, copy_weights=True)
        assert files(tmp_path / "to") == {"out.onnx", "w.bin", "sub/v.bin"}
        assert where(out) == ["w.bin", "sub/v.bin"]
    assert (tmp_path / "to" / "sub" / "v.bin").read_bytes() == VALUES
    assert not (tmp_path / "to" / "w.bin").samefile(tmp_path / "from" / "w.bin")


def test_other_weights_are_never_overwritten(tmp_path):
    path = written(tmp_path / "from", "v.bin", "w.bin")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "w.bin").write_bytes(b"another model's")
    with pytest.raises(ModelError, match=r"w\.bin exists and holds other weights than .*: remove"):
        save(load(path), tmp_path / "to" / "out.onnx", copy_weights=True)
    assert files(tmp_path / "to") == {"w.bin"}
    assert (tmp_path / "to" / "w.bin").read_bytes() == b"another model's"


def test_missing_weights_cannot_be_copied(tmp_path):
    path = written(tmp_path / "from", "w.bin")
    (tmp_path / "from" / "w.bin").unlink()
    with pytest.raises(ModelError, match=r"^the weights .*w\.bin are missing: put them beside"):
        save(load(path), tmp_path / "out.onnx", copy_weights=True)


def test_a_failure_takes_copied_weights_back(tmp_path):
    path = written(tmp_path / "from", "w.bin")
    out = tmp_path / "to" / "out.onnx"
    out.mkdir(parents=True)
    with pytest.raises(ModelError, match="it is a folder"):
        save(load(path), out, copy_weights=True)
    assert files(tmp_path / "to") == set()


@pytest.mark.parametrize("copy_weights", [False, True])
def test_a_model_is_not_written_over_its_weights(tmp_path, copy_weights):
    path = written(tmp_path, "w.bin")
    with pytest.raises(
        ModelError, match=r"w\.bin holds weights of the model: choose another name"
    ):
        save(load(path), tmp_path / "w.bin", copy_weights=copy_weights)
    assert (tmp_path / "w.bin").read_bytes() == VALUES


def test_links_inside_of_the_folder_are_warned_of_and_mended(tmp_path):
    path = written(tmp_path / "in", "real.bin")
    (tmp_path / "in" / "w.bin").symlink_to("real.bin")
    onnx.save(model("w.bin"), path)
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(path)  # the reason for the warning
    out = tmp_path / "in" / "out.onnx"
    with pytest.warns(ModelWarning, match=r"refuse: copy them with --copy-weights$"):
        save(load(path), out)
    save(load(path), out, copy_weights=True)
    assert where(out) == ["w.bin"]
    assert not (tmp_path / "in" / "w.bin").is_symlink()
    onnx.checker.check_model(out)


def test_one_location_in_two_folders_is_refused(tmp_path):
    first, second = load(written(tmp_path / "a", "w.bin")), load(written(tmp_path / "b", "w.bin"))
    value = second.graph.initializers.pop("w0")
    value.name = "v0"
    first.graph.initializers["v0"] = value
    with pytest.raises(
        ModelError, match=r"^the weights 'w\.bin' lie in two folders, .*/a and .*/b"
    ):
        save(first, tmp_path / "a" / "out.onnx")


def test_a_tensor_without_a_location_is_refused(tmp_path):
    proto = model("w.bin")
    del proto.graph.initializer[0].external_data[0]
    with pytest.raises(ModelError, match=r"^the external tensor 'w0' has no location: "):
        save(proto, tmp_path / "out.onnx")
    assert os.listdir(tmp_path) == []
