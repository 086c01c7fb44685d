"""Files of other kinds that are handed in for a model."""

from __future__ import annotations

import codecs
import io
import pickle
import zipfile
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

import rewriter
from rewriter.errors import ModelError
from rewriter.model_files import files

MODELS = Path(__file__).parents[3] / "models"


def archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as written:
        written.writestr("archive/data.pkl", b"")
    return made.getvalue()


KINDS = {
    "PyTorch": (archive(), "a zip archive, as PyTorch and Keras write: export it"),
    "pickle": (pickle.dumps([1], 2), "a pickle, as torch.save writes: export"),
    "scikit-learn": (pickle.dumps([1], 4), "a pickle: convert the model in it"),
    "joblib": (pickle.dumps([1], 5), "a pickle: convert the model in it"),
    "Keras": (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes: convert"),
    "TensorFlow Lite": (b"\x1c\x00\x00\x00TFL3", "a TensorFlow Lite model: convert"),
    "onnxruntime": (b"\x18\x00\x00\x00ORTM", "in onnxruntime's own format: use"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS: run"),
    "gzip": (b"\x1f\x8b\x08", "compressed by gzip: unpack"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_says_what_the_file_is_and_what_to_do(kind: str) -> None:
    data, told = KINDS[kind]
    with pytest.raises(ModelError, match=f"^m.onnx is {told}"):
        files.decode(data, "m.onnx")


def test_a_page_of_the_web_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"<!DOCTYPE html><title>404</title>")
    with pytest.raises(ModelError, match=r"m\.onnx is a page of the web: download the model"):
        files.read(path)


TEXT = (MODELS / "demo" / "resize_crop.onnxtxt").read_text("utf-8")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_text_as_windows_writes_it_is_read(encoding: str, tmp_path: Path) -> None:
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    data = mark + TEXT.replace("\n", "\r\n").encode(encoding)
    path = tmp_path / "m.onnxtxt"
    path.write_bytes(data)
    expected = files.decode(TEXT.encode(), "m.onnxtxt")
    assert files.read(path) == files.decode(data, "m.onnxtxt") == expected


class FromElsewhere:
    """Stands for an object of another package."""


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("sklearn.pipeline", "skl2onnx.to_onnx makes a model of it"),
        ("torch.nn.modules.module", "torch.onnx.export makes a model of it"),
        ("keras.src.models", "tf2onnx.convert.from_keras makes a model of it"),
        ("onnxruntime.capi", "onnx.load of the file that it was opened from makes a model of it"),
    ],
)
def test_the_error_says_what_makes_a_model_of_an_object(
    package: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FromElsewhere, "__module__", package)
    mine = type("Mine", (FromElsewhere,), {})
    with pytest.raises(ModelError, match=f"this is of type Mine: {told}$"):
        rewriter.optimize(mine())


class Program:
    """Stands for an ONNXProgram of ``torch.onnx.export``."""

    def __init__(self) -> None:
        self.model = rewriter.load(MODELS / "demo" / "dy_hstack.onnx")

    @property
    def model_proto(self) -> onnx.ModelProto:
        return ir.to_proto(self.model)


def test_a_program_of_torch_is_saved(tmp_path: Path) -> None:
    program = Program()
    rewriter.save(program, tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == program.model_proto
