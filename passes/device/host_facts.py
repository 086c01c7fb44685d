"""Facts about the host: which values lie there, and how integers get into graphs in loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import (
    all_nodes,
    constant_value,
    default_opset,
    is_default_domain,
    is_operator,
    subgraphs,
)
from passes.typing import Typing, type_values

__all__ = [
    "HOST_ONLY",
    "INTEGERS",
    "ORIGIN",
    "HostFacts",
    "ReadsOnHost",
    "as_dimension",
    "as_row",
    "as_rows",
    "computes_integers",
    "graph_of",
    "host_facts",
    "is_constant",
    "is_put_on_host",
]

ReadsOnHost = Callable[[ir.Node, int], bool]
"""Whether a node, wherever it runs, reads the input at a position in the memory of the host."""

INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})
HOST_ONLY = ir.DataType.UINT64
"""A type that GatherND has no kernel for on the device."""
ORIGIN = "host numbers"
"""What the names of nodes begin with that give the host numbers of its own."""
_ARITHMETIC = frozenset(
    {"Abs", "Add", "And", "Cast", "Concat", "Div", "Equal", "Gather", "Greater", "Identity"}
    | {"Less", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "ReduceMax", "ReduceMin"}
    | {"ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze", "Where"}
)


@dataclasses.dataclass(frozen=True)
class HostFacts:
    """Facts about a model and the host.

    Attributes:
        typing: Types of all values.
        reads_on_host: Tells what the host reads.
        iterations: The iteration numbers of all Loops.
        opset: Version of ONNX's operators.
        handed: What was made to hand a value on, by the value and how.
    """

    typing: Typing
    reads_on_host: ReadsOnHost
    iterations: set[ir.Value]
    opset: int
    handed: dict[tuple[ir.Value, str], ir.Value] = dataclasses.field(default_factory=dict)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a tensor, new ones included; None of any other value."""
        return None if self.typing.is_sequence(value) else self.typing.dtype(value) or value.dtype


def host_facts(model: ir.Model, reads_on_host: ReadsOnHost) -> HostFacts:
    """Return what is known of a model.

    Args:
        model: The model.
        reads_on_host: Tells what the host reads.
    """
    loops = (node for node in all_nodes(model) if is_default_domain(node))
    numbers = {
        graph.inputs[0] for node in loops if node.op_type == "Loop" for _, graph in subgraphs(node)
    }
    return HostFacts(type_values(model), reads_on_host, numbers, default_opset(model))


def computes_integers(node: ir.Node, facts: HostFacts) -> bool:
    """Return whether a node is arithmetic on integers or truth values."""
    return is_operator(node, _ARITHMETIC) and facts.dtype(node.outputs[0]) in INTEGERS


def graph_of(value: ir.Value) -> ir.Graph | None:
    """Return the graph that a value belongs to."""
    node = value.producer()
    found = value.graph if node is None else node.graph
    return found if isinstance(found, ir.Graph) else None


def is_constant(value: ir.Value) -> bool:
    """Return whether a value is a small constant."""
    return constant_value(value) is not None


def as_dimension(builder: Builder, number: ir.Value) -> ir.Value:
    """Record a tensor ``[0, number]`` without elements; its shape is on the host wherever it is.

    Args:
        builder: Records the nodes.
        number: A count, a scalar.
    """
    vector = builder.op("Unsqueeze", [number, builder.ints(0)])
    shape = builder.op("Concat", [builder.ints(0), vector], {"axis": 0})
    for made in (vector, shape):
        made.type = ir.TensorType(ir.DataType.INT64)
    return builder.op("ConstantOfShape", [shape])


def as_rows(builder: Builder, value: ir.Value) -> ir.Value:
    """Record integers put onto the host by an operator that no device computes.

    Args:
        builder: Records the nodes.
        value: The integers, of rank 1 or more.
    """
    wide = builder.op("Cast", [value], {"to": ir.DataType.INT64.value})
    host = builder.op("Cast", [wide], {"to": HOST_ONLY.value})
    first = builder.op("Unsqueeze", [host, builder.ints(0)])
    rows = builder.op("GatherND", [first, builder.ints(0)])
    rows.type = ir.TensorType(HOST_ONLY)
    return rows


def is_put_on_host(node: ir.Node) -> bool:
    """Return whether a node was written so that the host runs it: ``as_rows``, or a read of it."""
    return is_operator(node, "GatherND") and (node.name or "").startswith(f"{ORIGIN}/")


def as_row(builder: Builder, value: ir.Value) -> ir.Value:
    """Record the same of integers of any rank, as the one row of a table."""
    return as_rows(builder, builder.op("Unsqueeze", [value, builder.ints(0)]))
