"""Schemas of an opset, whether new nodes fit it, and older forms of operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import onnx
import onnx_ir as ir

from passes.graph.drafts import note
from passes.graph.graphs import constant_value, is_default_domain, is_operator, walk_nodes
from passes.graph.zero_sizes import LEAST_OPSET, to_older_form

__all__ = [
    "CARRIES_SEQUENCES",
    "element_type_by_makers",
    "find_misfit",
    "schema_of",
    "to_opset_form",
]


def schema_of(
    op_type: str, version: int | None = None, domain: str = ""
) -> onnx.defs.OpSchema | None:
    """Return the schema of an operator, None if there is none.

    Args:
        op_type: The operator.
        version: Version of its domain; None for the newest.
        domain: The domain; ``ai.onnx`` is another name of ONNX's own.
    """
    own = "" if domain == "ai.onnx" else domain
    try:
        if version is None:
            return onnx.defs.get_schema(op_type, own)
        return onnx.defs.get_schema(op_type, version, own)
    except onnx.defs.SchemaError:
        return None


def element_type_by_makers(value: ir.Value) -> ir.DataType | None:
    """Return the element type that is declared of a value, or that follows from the schemas.

    A Shape yields int64 whatever it reads, a Relu what its operand is, and a Cast what it casts
    to. None where nothing of that kind is known, as of a Loop.
    """
    while value.type is None:
        node = value.producer()
        if is_operator(node, "Cast"):
            return ir.DataType(node.attributes.get_int("to", 0))
        schema = None if node is None else schema_of(node.op_type, domain=node.domain)
        if node is None or schema is None:
            return None
        made = schema.outputs[min(value.index() or 0, len(schema.outputs) - 1)]
        accepted = _accepted(schema, made.type_str) or {made.type_str}
        if len(accepted) == 1:
            return _BY_NAME.get(*accepted)
        pairs = zip(node.inputs, schema.inputs, strict=False)
        alike = (v for v, formal in pairs if formal.type_str == made.type_str and v is not None)
        found = next(alike, None)
        if found is None or not made.is_homogeneous:
            return None
        value = found
    return value.type.dtype


def find_misfit(nodes: Iterable[ir.Node], opset: int) -> str | None:
    """Return what a node needs that the opset lacks, None if all nodes fit.

    Args:
        nodes: The nodes; those inside of their graphs are looked at too.
        opset: Version of ONNX's operators.
    """
    for node in walk_nodes(nodes):
        if not is_default_domain(node):
            continue
        misfit = _misfit(node, opset)
        if misfit is not None:
            return misfit
    return None


def _misfit(node: ir.Node, opset: int) -> str | None:
    schema = schema_of(node.op_type, opset)
    if schema is None:
        return f"{node.op_type} is no operator of opset {opset}"
    if len(node.inputs) > schema.max_input:
        return f"{node.op_type} has at most {schema.max_input} inputs at opset {opset}"
    for name in node.attributes:
        if name not in schema.attributes:
            return f"{node.op_type} has no attribute '{name}' at opset {opset}"
    known = [(v, f) for v, f in zip(node.inputs, schema.inputs, strict=False) if v is not None]
    for value, formal in known:
        accepted = _accepted(schema, formal.type_str)
        written = _written(value)
        if written is not None and accepted and written not in accepted:
            return f"{node.op_type} does not take {written} at opset {opset}"
    return None


def _accepted(schema: onnx.defs.OpSchema, type_str: str) -> frozenset[str]:
    for constraint in schema.type_constraints:
        if constraint.type_param_str == type_str:
            return frozenset(constraint.allowed_type_strs)
    return frozenset()


def _written(value: ir.Value) -> str | None:
    """Return a type as ONNX's schemas write it."""
    type_ = value.type
    if type_ is None:
        return None
    name = _NAMES.get(type_.dtype)
    if name is None:
        return None
    if isinstance(type_, ir.SequenceType):
        return f"seq(tensor({name}))"
    return f"tensor({name})" if isinstance(type_, ir.TensorType) else None


_NAMES = {
    ir.DataType.BOOL: "bool",
    ir.DataType.FLOAT: "float",
    ir.DataType.DOUBLE: "double",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
    ir.DataType.INT8: "int8",
    ir.DataType.INT16: "int16",
    ir.DataType.INT32: "int32",
    ir.DataType.INT64: "int64",
    ir.DataType.UINT8: "uint8",
    ir.DataType.UINT16: "uint16",
    ir.DataType.UINT32: "uint32",
    ir.DataType.UINT64: "uint64",
    ir.DataType.STRING: "string",
}

_BY_NAME = {f"tensor({name})": dtype for dtype, name in _NAMES.items()}


CARRIES_SEQUENCES = 13
"""The first opset in which Loop and If take and yield sequences."""

_ATTRIBUTE_UNTIL = {
    "Split": ("split", 12),
    "Squeeze": ("axes", 12),
    "Unsqueeze": ("axes", 12),
    "ReduceSum": ("axes", 12),
    **{
        f"Reduce{kind}": ("axes", 17)
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
}
"""Operators whose second input was an attribute, and up to which opset."""

_ALLOWZERO, _CAST_LIKE, _AXES_GIVEN = 14, 15, 18
"""The first opsets in which a 0 in the target of Reshape may be a dimension of 0, with CastLike,
and in which all reductions read their axes."""


def to_opset_form(nodes: list[ir.Node], opset: int, *, but: Collection[ir.Node] = ()) -> None:
    """Give new nodes, and those inside of their graphs, the form that an opset has for them.

    Args:
        nodes: Nodes with at least the form of opset 13, Reshapes with that of opset 14, a
            CastLike, or reductions with that of opset 18; what the form of a node needs more is
            put before it. A second input that became an attribute must be a constant, or the sizes
            of a Split one number for all parts, which it needs no sizes for; other nodes stay as
            they are.
        opset: Version of ONNX's operators.
        but: Those among the nodes that stay as they are.
    """
    if opset >= _AXES_GIVEN:
        return
    for node in list(walk_nodes(node for node in nodes if node not in but)):
        if not is_default_domain(node):
            continue
        if opset < _CAST_LIKE and node.op_type == "CastLike":
            _name_the_type(node)
        _second_input_to_attribute(node, opset)
        if opset < 12 and node.op_type in _CHOSEN_BY and _is_of_two_integers(node):
            _place_before(node, [_compared(node)], nodes)
        if opset < 12 and node.op_type in _OR_EQUAL:
            _place_before(node, _either(node), nodes)
        has_zeros = node.op_type == "Reshape" and "allowzero" in node.attributes
        if has_zeros and LEAST_OPSET <= opset < _ALLOWZERO:
            _place_before(node, to_older_form(node), nodes)
        elif has_zeros and opset < LEAST_OPSET:
            del node.attributes["allowzero"]


def _place_before(node: ir.Node, made: list[ir.Node], nodes: list[ir.Node]) -> None:
    """Put new nodes before one that stands in a graph, or in a list."""
    if node.graph is not None:
        node.graph.insert_before(node, made)
    else:
        at = nodes.index(node)
        nodes[at:at] = made


_CHOSEN_BY = {"Max": "Greater", "Min": "Less"}
"""Operators that take integers from opset 12 on, and what compares two of them."""

_INTEGERS = frozenset({ir.DataType.INT32, ir.DataType.INT64})


def _is_of_two_integers(node: ir.Node) -> bool:
    if len(node.inputs) != 2:
        return False
    dtypes = {element_type_by_makers(v) for v in node.inputs if v is not None} - {None}
    return bool(dtypes) and dtypes <= _INTEGERS


def _compared(node: ir.Node) -> ir.Node:
    """Let the larger, or the smaller, of two integers be chosen; return what compares them."""
    compared = ir.node(_CHOSEN_BY[node.op_type], list(node.inputs))
    compared.outputs[0].name = f"{node.outputs[0].name}/{compared.op_type}"
    note(compared)
    node.resize_inputs(3)
    for at, value in enumerate((compared.outputs[0], *compared.inputs)):
        node.replace_input_with(at, value)
    node.op_type = "Where"
    return compared


_OR_EQUAL = {"GreaterOrEqual": "Greater", "LessOrEqual": "Less"}
"""Comparisons that came with opset 12, and what is theirs without equal numbers."""


def _either(node: ir.Node) -> list[ir.Node]:
    """Let a comparison hold where one of two older ones does; return these."""
    made = [ir.node(name, list(node.inputs)) for name in (_OR_EQUAL[node.op_type], "Equal")]
    for part in made:
        part.outputs[0].name = f"{node.outputs[0].name}/{part.op_type}"
        note(part)
    for at, part in enumerate(made):
        node.replace_input_with(at, part.outputs[0])
    node.op_type = "Or"
    return made


def _second_input_to_attribute(node: ir.Node, opset: int) -> None:
    name, last = _ATTRIBUTE_UNTIL.get(node.op_type, ("", 0))
    if opset > last or len(node.inputs) < 2:
        return
    numbers = constant_value(node.inputs[1])
    if numbers is not None:
        node.attributes[name] = ir.AttrInt64s(name, [int(n) for n in numbers])
        node.resize_inputs(1)
    elif node.op_type == "Split" and _is_one_number(node.inputs[1]):
        node.resize_inputs(1)


def _name_the_type(node: ir.Node) -> None:
    """Make a Cast of a CastLike where the element type that it casts to is known."""
    like = node.inputs[1]
    dtype = None if like is None else element_type_by_makers(like)
    if dtype is not None:
        node.op_type = "Cast"
        node.attributes["to"] = ir.AttrInt64("to", int(dtype))
        node.resize_inputs(1)


def _is_one_number(sizes: ir.Value | None) -> bool:
    """Whether an Expand of a scalar makes the sizes."""
    maker = None if sizes is None else sizes.producer()
    if maker is None or not is_operator(maker, "Expand"):
        return False
    number = maker.inputs[0]
    return number is not None and number.shape is not None and number.shape.rank() == 0
