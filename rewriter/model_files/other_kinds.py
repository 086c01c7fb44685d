"""Files of other kinds that are handed in for a model, told by how they begin."""

from __future__ import annotations

__all__ = ["other_kind"]

_KINDS = (
    (0, b"PK\x03\x04", "a zip archive, as PyTorch and Keras write: export it to ONNX first"),
    (0, b"\x80\x02", "a pickle, as torch.save writes: export the model with torch.onnx.export"),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes: convert the model with tf2onnx"),
    (4, b"TFL3", "a TensorFlow Lite model: convert it with tf2onnx"),
    (4, b"ORTM", "in onnxruntime's own format: use the ONNX model that it was made from"),
    (0, b"version https://git-lfs", "a pointer of Git LFS: run git lfs pull"),
    (0, b"\x1f\x8b", "compressed by gzip: unpack it first"),
)
"""Where a mark stands in a file, the mark, and what the file is and what to do."""


def other_kind(data: bytes) -> str | None:
    """Return what a file is that is no ONNX model, and what to do; None where nothing tells.

    Args:
        data: The bytes of the file.
    """
    for start, mark, told in _KINDS:
        if data.startswith(mark, start):
            return told
    return None
