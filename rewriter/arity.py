"""Does a node have the inputs, outputs, attributes and bodies that its operator takes?"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import onnx
import onnx.defs

from rewriter.errors import ModelError

__all__ = ["Arity", "Body", "check_arity"]

_Option = onnx.defs.OpSchema.FormalParameterOption
_TYPES = onnx.AttributeProto.AttributeType
_MEND = "mend the model where it is made"


@dataclasses.dataclass(frozen=True)
class Body:
    """How many values a body takes and yields.

    Attributes:
        inputs: Its inputs.
        required: Those without a default among its initializers.
        outputs: Its outputs.
    """

    inputs: int
    required: int
    outputs: int


@dataclasses.dataclass(frozen=True)
class Arity:
    """What is counted of one node.

    Attributes:
        label: The operator and the path of the node, for messages.
        op_type: The operator.
        domain: Its domain.
        opset: The version of the domain, None where it is not imported.
        inputs: Which inputs are given, those left out False.
        outputs: The same of the outputs.
        attributes: The type of every attribute, by name; None for a reference.
        bodies: Its bodies, by attribute.
    """

    label: str
    op_type: str
    domain: str
    opset: int | None
    inputs: Sequence[bool]
    outputs: Sequence[bool]
    attributes: Mapping[str, int | None]
    bodies: Mapping[str, Body]


def check_arity(node: Arity) -> None:
    """Refuse a node that ONNX's schema of its operator does not fit.

    Operators without a schema, of other domains or of versions that are not known, pass.

    Raises:
        ModelError: An input, output or attribute that must be there is missing, there are too
            many, or a body takes or yields another number of values than the node.
    """
    schema = _schema(node.op_type, node.opset, node.domain) if node.opset else None
    if schema is None or schema.deprecated:
        return
    _check_number(node, "input", len(node.inputs), schema.min_input, schema.max_input)
    _check_number(node, "output", len(node.outputs), schema.min_output, schema.max_output)
    _check_given(node, "input", node.inputs, schema.inputs)
    _check_given(node, "output", node.outputs, schema.outputs)
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in node.attributes:
            raise ModelError(f"{node.label} lacks its attribute {name!r}: {_MEND}")
        wanted = str(attribute.type).rpartition(".")[2]
        if node.attributes.get(name) not in (None, _TYPES.Value(wanted), _TYPES.UNDEFINED):
            raise ModelError(
                f"the attribute {name!r} of {node.label} is not of the type {wanted}: {_MEND}"
            )
    for name, body in node.bodies.items():
        _check_body(node, name, body, schema.since_version)


@functools.cache
def _schema(op_type: str, opset: int, domain: str) -> onnx.defs.OpSchema | None:
    domain = "" if domain == "ai.onnx" else domain
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def _check_number(node: Arity, side: str, number: int, least: int, most: int) -> None:
    if least <= number <= most:
        return
    wanted = least if number < least else most
    bound = "" if least == most else "at least " if number < least else "at most "
    verb = "takes" if side == "input" else "yields"
    given = _count(number, side)
    raise ModelError(f"{node.label} has {given}, and the operator {verb} {bound}{wanted}: {_MEND}")


def _check_given(
    node: Arity,
    side: str,
    given: Sequence[bool],
    parameters: Sequence[onnx.defs.OpSchema.FormalParameter],
) -> None:
    for index, (is_given, parameter) in enumerate(zip(given, parameters, strict=False)):
        if not is_given and parameter.option == _Option.Single:
            raise ModelError(
                f"{node.label} leaves out its {side} {index} ({parameter.name}), which is not "
                f"optional: {_MEND}"
            )


def _check_body(node: Arity, name: str, body: Body, since: int) -> None:
    wanted = _WANTED.get(node.op_type)
    if wanted is None or node.domain not in ("", "ai.onnx"):
        return
    inputs, outputs = wanted(len(node.inputs), len(node.outputs), since)
    has = f"the {name} of {node.label} has"
    if inputs not in (body.inputs, body.required):
        given = _count(body.inputs, "input")
        raise ModelError(f"{has} {given}, and the node gives it {inputs}: {_MEND}")
    if outputs != body.outputs:
        given = _count(body.outputs, "output")
        raise ModelError(f"{has} {given}, and the node needs {outputs}: {_MEND}")


# What a body takes and yields, from the inputs and outputs of its node and the schema's version.
_WANTED: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    "If": lambda inputs, outputs, since: (0, outputs),
    "Loop": lambda inputs, outputs, since: (inputs, outputs + 1),
    "Scan": lambda inputs, outputs, since: (inputs - (since < 9), outputs),
    "SequenceMap": lambda inputs, outputs, since: (inputs, outputs),
}


def _count(number: int, side: str) -> str:
    return f"{number} {side}" + "s" * (number != 1)
