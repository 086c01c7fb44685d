"""How a value was made: the node of ONNX's own behind it, and what that node reads.

ONNX's checker has seen the model: the operands that an operator requires are there.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_default_domain, is_operator, reads_of
from passes.graph.scopes import Scope, stands_in
from passes.graph.whole_slices import takes_all

__all__ = [
    "REDUCTIONS",
    "axes_of",
    "before_identities",
    "either_order",
    "made_by",
    "only_number",
    "operand",
    "operands",
    "optional_operand",
    "repeated_number",
    "shaped",
    "skip_identities",
    "takes_whole_shape",
    "that_run",
    "through",
]


def made_by(
    value: ir.Value | None, *op_types: str, body: ir.Graph | Scope | None = None
) -> ir.Node | None:
    """Return the node of ONNX's own that makes a value, through what changes nothing.

    Args:
        value: The value; nothing makes one that is left out.
        op_types: The operators that are asked for; any by default.
        body: The node has to stand in this graph itself.
    """
    node = None if value is None else skip_identities(value).producer()
    if node is None or not is_default_domain(node):
        return None
    is_asked = not op_types or node.op_type in op_types
    return node if is_asked and (body is None or stands_in(body, node)) else None


def shaped(value: ir.Value | None, body: ir.Graph | Scope | None = None) -> ir.Value | None:
    """Return the tensor all of whose dimensions a value holds, None where it is something else.

    Args:
        value: The value.
        body: The Shape has to stand in this graph itself.
    """
    node = made_by(value, "Shape", body=body)
    if node is None or not takes_whole_shape(node):
        return None
    return skip_identities(operand(node, 0))


def takes_whole_shape(node: ir.Node) -> bool:
    """Whether a Shape yields all dimensions; exporters write the first that it has, too."""
    return not node.attributes.get_int("start", 0) and "end" not in node.attributes


def through(
    value: ir.Value, op_types: Collection[str], body: ir.Graph | Scope | None = None
) -> ir.Value:
    """Return what some operators, one behind the other, made a value of: their first operand.

    Args:
        value: The value.
        op_types: The operators of ONNX's own.
        body: The nodes have to stand in this graph itself.
    """
    while (node := made_by(value, *op_types, body=body)) is not None:
        value = operand(node, 0)
    return skip_identities(value)


def operand(node: ir.Node, at: int) -> ir.Value:
    """Return an operand that the operator requires."""
    value = node.inputs[at]
    assert value is not None
    return value


def optional_operand(node: ir.Node, at: int) -> ir.Value | None:
    """Return an operand, None where the node leaves it out."""
    return node.inputs[at] if at < len(node.inputs) else None


def operands(node: ir.Node) -> list[ir.Value]:
    """Return the operands of a node in order, less those that are left out."""
    return [value for value in node.inputs if value is not None]


def either_order(node: ir.Node | None) -> list[tuple[ir.Value, ir.Value]]:
    """Return the two operands of a node in both orders; none of no node."""
    return [] if node is None else list(itertools.permutations(operands(node), 2))


def only_number(value: ir.Value | None) -> int | float | None:
    """Return the number that a constant of one element holds; None for all else."""
    array = constant_value(value)
    return None if array is None or array.size != 1 else array.item()


def repeated_number(value: ir.Value | None) -> int | float | None:
    """Return the number that every entry of a value holds, None where none is known.

    It is a constant, or one that ConstantOfShape or Expand repeats.
    """
    node = made_by(value, "ConstantOfShape", "Expand")
    if node is None:
        array = constant_value(value)
    elif node.op_type == "Expand":
        return repeated_number(operand(node, 0))
    else:
        given = node.attributes.get_tensor("value")
        array = np.zeros(1) if given is None else given.numpy()
    entries = set() if array is None else set(array.reshape(-1).tolist())
    return entries.pop() if len(entries) == 1 else None


REDUCTIONS = frozenset(
    {
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
        *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
    }
)
"""Operators that join all numbers along axes to one."""


def axes_of(node: ir.Node) -> list[int] | None:
    """Return the axes of a Squeeze, an Unsqueeze or a reduction, by attribute or by operand.

    None where they are not known, or not given.
    """
    if len(node.inputs) < 2:
        given = node.attributes.get_ints("axes")
        return None if given is None else list(given)
    array = constant_value(node.inputs[1])
    return None if array is None else array.reshape(-1).tolist()


def before_identities(value: ir.Value) -> ir.Value:
    """Return what a value, or a sequence, is before Identity nodes handed it on."""
    while is_operator(node := value.producer(), "Identity") and node.inputs[0] is not None:
        value = node.inputs[0]
    return value


def skip_identities(value: ir.Value) -> ir.Value:
    """Return what a value is, through Identity and what casts, turns and cuts nothing."""
    while (node := value.producer()) is not None and is_default_domain(node):
        is_same = node.op_type == "Identity" or _casts_nothing(node) or _turns_nothing(node)
        if not (is_same or _cuts_nothing(node)):
            break
        value = operand(node, 0)
    return value


def _casts_nothing(node: ir.Node) -> bool:
    """Whether a node is a Cast, or a CastLike, to the element type that its operand has."""
    if node.op_type == "CastLike":
        given, wanted = map(_element_type, operands(node))
        return given is not None and given == wanted
    if node.op_type != "Cast":
        return False
    return _element_type(operand(node, 0)) == node.attributes.get_int("to", 0)


def _turns_nothing(node: ir.Node) -> bool:
    """Whether a node is a Transpose that leaves all axes where they are."""
    if node.op_type != "Transpose":
        return False
    order = node.attributes.get_ints("perm", None)
    return order is not None and list(order) == list(range(len(order)))


def _cuts_nothing(node: ir.Node) -> bool:
    """Whether a node is a Slice that takes all of its operand."""
    return node.op_type == "Slice" and takes_all(node)


def _element_type(value: ir.Value) -> int | None:
    """Return the declared element type, or that which the operator gives its results."""
    while value.type is None and is_operator(node := value.producer(), _AS_FIRST):
        value = operand(node, 0)
    if isinstance(value.type, ir.TensorType):
        return int(value.type.dtype)
    node = value.producer()
    if is_operator(node, "Constant"):
        array = constant_value(value)
        return None if array is None else int(ir.DataType.from_numpy(array.dtype))
    if is_operator(node, _OF_FLAGS):
        return int(ir.DataType.BOOL)
    return node.attributes.get_int("to") if is_operator(node, "Cast") else None


_AS_FIRST = frozenset(
    {"Add", "Div", "MatMul", "Max", "Min", "Mul", "Neg", "ReduceMax", "ReduceSum", "Sub", "Sum"}
    | {"Concat", "Expand", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
    | {"Exp", "Relu", "Sigmoid", "Softmax", "Tanh"}
)
"""Operators whose results have the element type of the first operand."""
_OF_FLAGS = frozenset(
    {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"}
    | {"Not", "Or", "Xor"}
)
"""Operators whose results are booleans."""


def that_run(nodes: Iterable[ir.Node]) -> list[ir.Node]:
    """Return the nodes that runtimes run: they fold what reads constants alone, and Identities."""
    nodes, folded = list(nodes), set[ir.Node | None]()
    for node in nodes:
        if is_operator(node, "Constant") or all(_is_folded(v, folded) for v in reads_of(node)):
            folded.add(node)
    return [node for node in nodes if node not in folded and not _hands_on(node)]


def _hands_on(node: ir.Node) -> bool:
    return is_operator(node, "Identity") and not node.outputs[0].is_graph_output()


def _is_folded(value: ir.Value, folded: Collection[ir.Node | None]) -> bool:
    made = value.producer()
    return value.is_initializer() or made in folded or is_operator(made, "Constant")
