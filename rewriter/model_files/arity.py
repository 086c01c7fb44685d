"""Does a node have the inputs, outputs, attributes and bodies that its operator takes?"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import onnx
import onnx.defs
import onnx_ir as ir

from passes.graph.graphs import node_paths, subgraphs, walk_nodes
from passes.graph.opsets import schema_of
from rewriter.errors import ModelError

__all__ = ["Arity", "BodyArity", "Imports", "check_arity", "check_model", "version_of"]

_Option = onnx.defs.OpSchema.FormalParameterOption
_TYPES = onnx.AttributeProto.AttributeType
Imports = Mapping[str, int]
"""The versions of the domains that a model imports."""
_MEND = "mend the model where it is made"


@dataclasses.dataclass(frozen=True)
class BodyArity:
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
    """The numbers of inputs, outputs and attributes of one node.

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
    bodies: Mapping[str, BodyArity]


def check_model(model: ir.Model) -> None:
    """Refuse a model of the IR with a node that its operator does not fit.

    Raises:
        ModelError: The first fault that is found.
    """
    parts: list[tuple[Imports, Iterable[ir.Node]]] = [(model.opset_imports, model.graph)]
    parts += [(f.opset_imports, f) for f in model.functions.values()]
    for imports, nodes in parts:
        for node in walk_nodes(nodes):
            if node.op_identifier() in model.functions:
                continue
            try:
                check_arity(_arity(node, node.op_type, imports))
            except ModelError:
                label = f"{node.op_type} {node_paths(model)[node]!r}"
                check_arity(_arity(node, label, imports))


def _arity(node: ir.Node, label: str, imports: Imports) -> Arity:
    return Arity(
        label,
        node.op_type,
        node.domain,
        version_of(imports, node.domain),
        [value is not None for value in node.inputs],
        _written([value.name != "" for value in node.outputs]),
        {a.name: None if a.is_ref() else a.type.value for a in node.attributes.values()},
        {
            name: BodyArity(
                len(body.inputs),
                sum(value.name not in body.initializers for value in body.inputs),
                len(body.outputs),
            )
            for name, body in subgraphs(node)
        },
    )


def _written(marks: list[bool]) -> list[bool]:
    """Drop the outputs that are left out at the end, which the IR does not write."""
    while marks and not marks[-1]:
        marks = marks[:-1]
    return marks


def version_of(imports: Imports, domain: str) -> int | None:
    """Return the version of a domain that is imported, None if it is not."""
    return imports.get("" if domain == "ai.onnx" else domain)


def check_arity(node: Arity) -> None:
    """Refuse a node that ONNX's schema of its operator does not fit.

    Operators without a schema, of other domains or of versions that are not known, pass.

    Raises:
        ModelError: An input, output or attribute that must be there is missing, there are too
            many, or a body takes or yields another number of values than the node.
    """
    signature = _signature(node.op_type, node.opset, node.domain) if node.opset else None
    if signature is None:
        return
    _check_number(node, "input", len(node.inputs), *signature.inputs)
    _check_number(node, "output", len(node.outputs), *signature.outputs)
    _check_given(node, "input", node.inputs, signature.needed_inputs)
    _check_given(node, "output", node.outputs, signature.needed_outputs)
    for name in signature.needed_attributes:
        if name not in node.attributes:
            raise ModelError(f"{node.label} lacks its attribute {name!r}: {_MEND}")
    for name, given in node.attributes.items():
        wanted = signature.types.get(name)
        if None not in (given, wanted) and given not in (wanted, _TYPES.UNDEFINED):
            raise ModelError(
                f"the attribute {name!r} of {node.label} is not of the type "
                f"{_TYPES.Name(cast(int, wanted))}: {_MEND}"
            )
    for name, body in node.bodies.items():
        _check_body(node, name, body, signature.since)


@dataclasses.dataclass(frozen=True)
class _Signature:
    """The schema of an operator, read once.

    Attributes:
        since: The version of the operator.
        inputs: How many there are at least and at most.
        outputs: The same of the outputs.
        needed_inputs: The names of those that cannot be left out, by position.
        needed_outputs: The same of the outputs.
        needed_attributes: The attributes that must be there.
        types: The types of all attributes.
    """

    since: int
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed_inputs: Mapping[int, str]
    needed_outputs: Mapping[int, str]
    needed_attributes: Sequence[str]
    types: Mapping[str, int]


@functools.cache
def _signature(op_type: str, opset: int, domain: str) -> _Signature | None:
    schema = schema_of(op_type, opset, domain)
    if schema is None or schema.deprecated:
        return None
    attributes = schema.attributes
    return _Signature(
        schema.since_version,
        (_least(schema.inputs), schema.max_input),
        (_least(schema.outputs), schema.max_output),
        _needed(schema.inputs),
        _needed(schema.outputs),
        [name for name, attribute in attributes.items() if attribute.required],
        {name: _TYPES.Value(str(a.type).rpartition(".")[2]) for name, a in attributes.items()},
    )


def _needed(parameters: Sequence[onnx.defs.OpSchema.FormalParameter]) -> dict[int, str]:
    return {i: p.name for i, p in enumerate(parameters) if p.option == _Option.Single}


def _least(parameters: Sequence[onnx.defs.OpSchema.FormalParameter]) -> int:
    """Return how many inputs or outputs a node must have, optional ones at the end left out."""
    least = 0
    for index, parameter in enumerate(parameters):
        if parameter.option == _Option.Single:
            least = index + 1
        elif parameter.option == _Option.Variadic:
            least += parameter.min_arity if least == index else 0
    return least


def _check_number(node: Arity, side: str, number: int, least: int, most: int) -> None:
    if least <= number <= most:
        return
    wanted = least if number < least else most
    bound = "" if least == most else "at least " if number < least else "at most "
    verb = "takes" if side == "input" else "yields"
    given = _count(number, side)
    raise ModelError(f"{node.label} has {given}, and the operator {verb} {bound}{wanted}: {_MEND}")


def _check_given(node: Arity, side: str, given: Sequence[bool], needed: Mapping[int, str]) -> None:
    for index, is_given in enumerate(given):
        if not is_given and index in needed:
            raise ModelError(
                f"{node.label} leaves out its {side} {index} ({needed[index]}), which is not "
                f"optional: {_MEND}"
            )


def _check_body(node: Arity, name: str, body: BodyArity, since: int) -> None:
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
    "Loop": lambda inputs, outputs, since: (max(inputs, 2), outputs + 1),
    "Scan": lambda inputs, outputs, since: (inputs - (since < 9), outputs),
    "SequenceMap": lambda inputs, outputs, since: (inputs, outputs),
}


def _count(number: int, side: str) -> str:
    return f"{number} {side}" + "s" * (number != 1)
