"""What a backend lacks, read from its message."""

from __future__ import annotations

import re

__all__ = ["lacking", "plain_line"]

_WIDTH = 160

# A message of a backend, and what it lacks in plain words.
_LACKS = (
    (r"operation_type='(\w+)'", r"\1"),  # onnx2torch
    (r"\bop='(\w+)' is not supported", r"\1"),  # tinygrad
    (r"not supported for frontend ONNX: ([\w, ]+)", r"\1"),  # TVM
    (r"Translating node #\d+ \S+ Unimplemented\((\w+)\)", r"\1"),  # tract
    (r"No conversion rule found for operations: (\w+)-\d+", r"\1"),  # OpenVINO
    (r"is not asked to run (\w+)", r"\1"),
    (r"takes no notice of '(\w+)' of (\w+)", r"'\1' of \2"),
    (r"(antialias) is not implemented", r"'\1' of Resize"),  # tinygrad
    (r"NonZero Jax implementation must have static size", "NonZero of computed size"),
    (r": (Resize of mode .*?) is not implemented", r"\1"),
    (r": ([\w, ]+?)(?: version \d+)? is not implemented", r"\1"),  # jaxonnxruntime, IREE
    (r"unknown dtype `object`|dtype\('O'\)|8 is not a valid OnnxDataType", "strings"),
    (r"(\w+) ToTypedTranslator Caused by: shape input is variable", r"\1 of computed size"),
    (r"non-symbolic shape is not supported", "shapes that are computed"),  # TVM
    (r"requires the input new shape to be Shape", "shapes that are computed"),  # TVM
    (r"failed to legalize operation 'torch\.(aten\.\w+)'", r"\1"),  # IREE
)


def lacking(message: str) -> str:
    """Return what a backend lacks that says this; empty where that cannot be told."""
    for pattern, words in _LACKS:
        found = re.search(pattern, message)
        if found is not None:
            return found.expand(words)
    return ""


def plain_line(message: str) -> str:
    """Return a message for a cell of a table, without the places of temporary files."""
    text = re.sub(r"/tmp/\S+|<stdin>:\S+", "", message).replace("|", "/")
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
