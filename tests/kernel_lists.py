"""Writes tables from lists of operators in documentation: ``python -m tests.kernel_lists NAME FILE``.

``tensorrt`` reads onnx-tensorrt's ``docs/operators.md``, ``tensorrt-8.6`` that of the branch of a
release, ``migraphx`` MIGraphX's
``docs/dev/onnx_operators.rst``, ``coreml`` onnxruntime's ``coreml_supported_mlprogram_ops.md``,
``dml`` the part on DirectML of onnxruntime's ``docs/OperatorKernels.md``.
"""

from __future__ import annotations

import csv
import io
import pathlib
import re
import sys
from collections.abc import Iterator

from rewriter.placement.kernel_table import load_table
from tests.kernel_tables import COLUMNS, COPIES, TABLES

RELEASES = ("8.5", "8.6", "9.3")
"""Releases of TensorRT with a table of their own, beside the newest."""
HEADS = {
    "tensorrt": ("TensorrtExecutionProvider", "TensorRT 10.1", "TensorRT", "list"),
    **{
        f"tensorrt-{release}": (
            "TensorrtExecutionProvider",
            f"TensorRT {release}",
            "TensorRT",
            "list",
        )
        for release in RELEASES
    },
    "migraphx": ("MIGraphXExecutionProvider", "MIGraphX 2.16", "MIGraphX", "list"),
    "coreml": ("CoreMLExecutionProvider", "onnxruntime 1.25", "CoreML", "list"),
    "dml": ("DmlExecutionProvider", "onnxruntime 1.25", "DirectML", ""),
}
TYPES = {
    "FP64": "double",
    "DOUBLE": "double",
    "FP32": "float",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP8": "float8e4m3fnuz",
    **{name.upper(): name for name in ("bool", "int4", "int8", "int16", "int32", "int64")},
    **{name.upper(): name for name in ("uint8", "uint16", "uint32", "uint64")},
}
Row = tuple[str, str, str, str]
"""Operator, since, until, types."""


def matrix(text: str) -> Iterator[Row]:
    """Read a table of operators, whether they are supported, and types; rows may go on below.

    Where a release says that it casts int64 to int32, what takes the one takes the other.
    """
    text = text.replace("INT32", "INT32, INT64") if "INT64 to INT32" in text else text
    operator, types = "", ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 2:
            continue
        if cells[0]:
            if operator:
                yield operator, "", "", named(types)
            supported = cells[1] in ("Y", "✅", "Partial") and re.fullmatch(r"\w+", cells[0])
            operator, types = (cells[0] if supported else ""), ""
        types += " " + (cells[2] if len(cells) > 2 else "")
    if operator:
        yield operator, "", "", named(types)


def named(types: str) -> str:
    """Write "FP32, BOOL" as the tables do; ``main`` is an operator's own type variable."""
    known = sorted({TYPES[word] for word in re.findall(r"\w+", types) if word in TYPES})
    return f"main={'|'.join(known)}" if known else ""


def names(text: str) -> Iterator[Row]:
    """Read a table that tells names alone, ``|ai.onnx:Add|remark|``."""
    for name in re.findall(r"^\|\s*ai\.onnx:(\w+)\s*\|", text, re.MULTILINE):
        yield {"Argmax": "ArgMax", "Argmin": "ArgMin"}.get(name, name), "", "", ""


def documented_kernels(text: str) -> Iterator[Row]:
    """Read the kernels of DirectML in the default domain."""
    part = text.partition("by DmlExecutionProvider")[2].partition("*com.microsoft*")[0]
    operator = ""
    for line in part.splitlines():
        cells = line.split("|")
        if len(cells) < 6 or not (found := re.fullmatch(r"\[?(\d+)(?:, (\d+)\])?(\+?)", cells[3])):
            continue
        operator = cells[1] or operator
        since, until, is_open = found.groups()
        types = re.findall(r"\*\*(\w+)\*\* = ([^*<|]+)", cells[4])
        told = (f"{name}={'|'.join(sorted(_tensors(given)))}" for name, given in types)
        yield operator, since, "" if is_open else until or since, ";".join(sorted(told))


def _tensors(text: str) -> list[str]:
    return [
        one.replace("tensor(", "").replace("(", " ") for one in re.findall(r"[a-z].*?(?=\))", text)
    ]


READERS = {
    **{name: matrix for name in HEADS if name.startswith("tensorrt")},
    "migraphx": matrix,
    "coreml": names,
    "dml": documented_kernels,
}


def table(name: str, text: str) -> str:
    """Return a table of the package, made of a page of documentation."""
    # Nobody tells what DirectML's kernels keep on the host: taken to be what CUDA's do.
    like = load_table("cuda") if name == "dml" else None
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(HEADS[name])
    writer.writerow(COLUMNS)
    for operator, since, until, types in sorted(set(READERS[name](text))):
        if operator in COPIES:
            continue
        known = like.kernels.get(("", operator)) if like else None
        on_host = (known[-1].host_inputs, known[-1].host_outputs) if known else ((), ())
        told = [" ".join(map(str, sorted(positions))) for positions in on_host]
        writer.writerow(["", operator, since, until, types, *told])
    return written.getvalue()


if __name__ == "__main__":
    given = pathlib.Path(sys.argv[2]).read_text("utf-8")
    (TABLES / f"{sys.argv[1]}.csv").write_text(table(sys.argv[1], given), "utf-8")
