"""Optional values that are known to hold something, or to be empty."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.runtimes.plain_forms import Form
from passes.typing import Typing

__all__ = ["OPTIONAL"]


def _has_element(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    known, held = _held_by(node, typing)
    return [builder.flag(held is not None)] if known else None


def _get_element(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The value that is held; the error of an empty one stays."""
    held = _held_by(node, typing)[1]
    return None if held is None else [held]


def _held_by(node: ir.Node, typing: Typing) -> tuple[bool, ir.Value | None]:
    """Return whether it is known what an optional value holds, and what."""
    value = node.inputs[0] if node.inputs else None
    if value is None:
        return True, None
    made = value.producer()
    if is_operator(made, "Optional"):
        return True, made.inputs[0] if made.inputs else None
    is_plain = isinstance(typing[value].type, ir.TensorType | ir.SequenceType)
    return is_plain, value if is_plain else None


OPTIONAL: Mapping[str, Form] = {
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
}
"""The forms by operator."""
