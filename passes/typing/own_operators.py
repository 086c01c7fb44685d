"""Operators of our own, which ONNX's inference asks our functions about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import onnx

from passes.graph.opsets import schema_of

__all__ = ["NodeCall", "register_operator"]

Dims: TypeAlias = list[Any]
"""Dimensions as inference has them: a message, a number, or None where nothing is known."""


class NodeCall:
    """A node as its shape function sees it; it sets the types of its outputs."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def elem_type(self) -> int:
        """Return the element type of the first input, 0 if unknown."""
        known = self._context.get_input_type(0)
        return 0 if known is None else int(known.tensor_type.elem_type)

    def dims(self, position: int = 0) -> Dims | None:
        """Return the dimensions of an input, None if the rank is unknown."""
        known = self._context.get_input_type(position)
        if known is None or not known.tensor_type.HasField("shape"):
            return None
        return list(known.tensor_type.shape.dim)

    def attribute(self, name: str) -> onnx.AttributeProto | None:
        """Return an attribute, None where the node leaves it out."""
        found = self._context.get_attribute(name)
        return found if isinstance(found, onnx.AttributeProto) and found.name else None

    def number(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        found = self.attribute(name)
        return default if found is None else int(found.i)

    def numbers(self, name: str) -> list[int]:
        """Return a list of integers, none where the node leaves it out."""
        found = self.attribute(name)
        return [] if found is None else [int(n) for n in found.ints]

    def set(self, elem_type: int, dims: Dims | None, output: int = 0) -> None:
        """Set the type of an output; an unknown element type sets nothing."""
        if not elem_type or output >= self._context.get_num_outputs():
            return
        made = onnx.TypeProto()
        made.tensor_type.elem_type = elem_type
        if dims is not None:
            made.tensor_type.shape.dim.extend(map(_dim, dims))
        self._context.set_output_type(output, made)


def _dim(dim: Any) -> Any:
    made = onnx.TensorShapeProto.Dimension()
    if isinstance(dim, int):
        made.dim_value = dim
    elif dim is not None:
        made.CopyFrom(dim)
    return made


def register_operator(
    op_type: str,
    domain: str,
    version: int,
    attributes: Callable[[Any], Sequence[Any]],
    infer: Callable[[Any], None],
    *,
    takes: Iterable[str] = ("Identity",),
) -> None:
    """Tell ONNX the schema of an operator and how to infer its types; once is enough.

    Args:
        op_type: Its name; it has any number of inputs and outputs.
        domain: Its domain.
        version: Its version.
        attributes: Makes its attributes by ``onnx.defs.OpSchema``.
        infer: The inference function; it gets the context of a node.
        takes: Operators of ONNX; their inputs and outputs have all types that its own may have.
    """
    if onnx.defs.has(op_type, domain):
        return
    schema: Any = onnx.defs.OpSchema
    parameter = schema.FormalParameter
    variadic = schema.FormalParameterOption.Variadic
    types = sorted({one for name in takes for one in _types_of(name)})
    made = schema(
        op_type,
        domain,
        version,
        inputs=[parameter("inputs", "V", param_option=variadic, is_homogeneous=False)],
        outputs=[parameter("outputs", "V", param_option=variadic, is_homogeneous=False)],
        type_constraints=[("V", types, "Any type.")],
        attributes=list(attributes(schema)),
    )
    made.set_type_and_shape_inference_function(infer)
    onnx.defs.register_schema(made)


def _types_of(op_type: str) -> list[str]:
    schema = schema_of(op_type)
    assert schema is not None
    return [t for constraint in schema.type_constraints for t in constraint.allowed_type_strs]
