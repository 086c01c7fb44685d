"""Files of other kinds that are handed in for a model."""

from __future__ import annotations

import io
import pickle
import zipfile

import pytest

from rewriter.errors import ModelError
from rewriter.model_files import files


def archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as written:
        written.writestr("archive/data.pkl", b"")
    return made.getvalue()


KINDS = {
    "PyTorch": (archive(), "a zip archive, as PyTorch and Keras write: export it"),
    "pickle": (pickle.dumps([1], 2), "a pickle, as torch.save writes: export"),
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
