"""Do the fields of a message hold what can be used at all? Text that is UTF-8, types, versions.

Whoever reads a message behind this check may take its strings for strings.
"""

from __future__ import annotations

from typing import Any

import onnx

from rewriter.errors import ModelError
from rewriter.model_files.tensor_bytes import AGAIN

__all__ = ["check_fields"]

_LARGEST_VERSION = 2**31 - 1  # of an opset, as ONNX's registry of schemas counts
_TYPES = onnx.AttributeProto.AttributeType
_Text = bytes | str
# The value of an attribute of these types is a message, which cannot be left out.
_MESSAGES = {
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.TYPE_PROTO: "tp",
}


def check_fields(proto: onnx.ModelProto, name: str) -> None:
    """Refuse a message with a field that nothing can be made of.

    Args:
        proto: The message; the numbers of its tensors are not looked at.
        name: What to call the model in an error.

    Raises:
        ModelError: Text is not UTF-8, an attribute has no type or no value, or the version of an
            opset is none.
    """
    stack: list[Any] = [proto]
    try:
        while stack:
            message = stack.pop()
            if isinstance(message, onnx.TensorProto):
                _check_text(message, "name", message.name)
                _check_text(message, "doc_string", message.doc_string)
                stack += [*message.external_data, *message.metadata_props]
                continue
            if isinstance(message, onnx.AttributeProto):
                _check_attribute(message)
            elif isinstance(message, onnx.OperatorSetIdProto):
                _check_version(message)
            for field, value in message.ListFields():
                values = value if field.is_repeated else [value]
                if field.message_type is not None:
                    stack.extend(values)
                elif field.cpp_type == field.CPPTYPE_STRING:
                    for text in values:
                        _check_text(message, field.name, text)
    except ModelError as error:
        raise ModelError(f"{name} is not a valid ONNX model: {error}") from None


def _check_text(message: Any, field: str, text: _Text) -> None:
    """Refuse text that is not UTF-8; protobuf gives it as bytes."""
    if not isinstance(text, bytes):
        return
    try:
        text.decode()
    except UnicodeDecodeError:
        shown = repr(text[:20])[1:] + "..." * (len(text) > 20)
        kind = message.DESCRIPTOR.name.removesuffix("Proto").lower()
        raise ModelError(
            f"the {field} {shown} of {'an' if kind[0] in 'aeiou' else 'a'} {kind} is not UTF-8: "
            f"{AGAIN}"
        ) from None


def _check_attribute(attribute: onnx.AttributeProto) -> None:
    if attribute.ref_attr_name:
        return
    _check_text(attribute, "name", attribute.name)
    if attribute.type == onnx.AttributeProto.UNDEFINED:
        raise ModelError(f"the attribute {attribute.name!r} has no type: {AGAIN}")
    held = _MESSAGES.get(attribute.type)
    if held is not None and not attribute.HasField(held):
        kind = _TYPES.Name(attribute.type)
        raise ModelError(f"the attribute {attribute.name!r} of the type {kind} is empty: {AGAIN}")


def _check_version(opset: onnx.OperatorSetIdProto) -> None:
    if not 1 <= opset.version <= _LARGEST_VERSION:
        _check_text(opset, "domain", opset.domain)
        domain = opset.domain or "ai.onnx"
        raise ModelError(f"it imports version {opset.version} of {domain!r}: {AGAIN}")
