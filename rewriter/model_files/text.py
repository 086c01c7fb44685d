"""ONNX's text form, read and written with a check that nothing which counts is lost."""

from __future__ import annotations

import codecs
import re
from typing import Any

import onnx
import onnx.parser
import onnx.printer

from passes.graph.limits import DEEPEST_TEXT
from rewriter.errors import ModelError
from rewriter.model_files.protos import all_tensors, one_line

__all__ = ["parse", "to_text"]

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TOKENS = re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*|[(<{\[\])}>]')
_COMMENTS = frozenset({"doc_string", "metadata_props"})


def parse(data: bytes, name: str) -> onnx.ModelProto:
    """Read ONNX text.

    Args:
        data: The text in UTF-8, or in UTF-16 behind a byte order mark, as PowerShell writes it.
        name: What to call the model in an error.

    Raises:
        ModelError: If the text is not that of a model; it names line and column.
    """
    try:
        text = data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig")
        _check_depth(text, name)
        return onnx.parser.parse_model(text)
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{name} is not ONNX text: byte {error.start} is not {error.encoding.upper()}"
        ) from error
    except onnx.parser.ParseError as error:
        raise ModelError(f"{name} is not ONNX text: {_complaint(error)}") from error
    except (IndexError, RuntimeError, ValueError) as error:  # of the conversion of a number
        raise ModelError(f"{name} is not ONNX text: a number in it is too large") from error


def to_text(proto: onnx.ModelProto, name: str) -> str:
    """Write ONNX text.

    The form has no place for the doc strings and metadata of graphs, nodes and values, and they
    are left out; those of the model itself stay.

    Args:
        proto: The model.
        name: What to call the text in an error.

    Raises:
        ModelError: If the text would not give the model back.
    """
    text = onnx.printer.to_text(proto)
    try:
        lost = _essence(onnx.parser.parse_model(text)) != _essence(proto)
    except (onnx.parser.ParseError, ValueError):  # text that is not read, or tensors cut short
        lost = True
    if lost:
        raise ModelError(f"cannot write {name}: ONNX text cannot hold this model, use .onnx")
    return text + "\n"


def _check_depth(text: str, name: str) -> None:
    depth = 0
    for token in _TOKENS.finditer(text):
        if token[0] in "(<{[":
            depth += 1
        elif token[0] in ")>}]":
            depth -= 1
        if depth > DEEPEST_TEXT:
            raise ModelError(
                f"{name} has brackets more than {DEEPEST_TEXT} deep inside of each other, and so "
                "many are not read"
            )


def _complaint(error: onnx.parser.ParseError) -> str:
    raw = error.args[0] if error.args else ""
    lines = (raw.decode() if isinstance(raw, bytes) else str(raw)).splitlines()
    at = re.search(r"line: (\d+) column: (\d+)", lines[0]) if lines else None
    where = f"line {at[1]}, column {at[2]}: " if at else ""
    return where + one_line(lines[-1] if lines else error)


def _essence(proto: onnx.ModelProto) -> bytes:
    """Return bytes that are equal for two models that mean the same."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in all_tensors(copy):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            values = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name)
            tensor.CopyFrom(values)
    for part in (copy.graph, *copy.functions):
        _strip(part)
    _drop_empty(copy)
    return copy.SerializeToString(deterministic=True)


def _strip(message: Any) -> None:
    for field, value in message.ListFields():
        if field.name in _COMMENTS:
            message.ClearField(field.name)
        elif field.message_type is not None:
            for child in value if field.is_repeated else [value]:
                _strip(child)


def _drop_empty(message: Any) -> None:
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in value if field.is_repeated else [value]:
                _drop_empty(child)
        elif not field.is_repeated and field.containing_oneof is None and not value:
            message.ClearField(field.name)
