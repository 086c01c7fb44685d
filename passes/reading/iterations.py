"""A Loop or a Scan, read into one form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.graph.builder import ORIGIN_KEY
from passes.graph.graphs import is_operator, reads_of, subgraphs, walk_nodes
from passes.maps.tensor_source import TensorSource

__all__ = [
    "Carried",
    "Collected",
    "Iteration",
    "is_behind",
    "is_given",
    "is_iteration",
    "is_new",
    "read_iteration",
    "reads_new_nodes",
]


@dataclasses.dataclass(frozen=True)
class Carried:
    """A value that an iteration hands on to the next.

    Attributes:
        inner: The value at the start of an iteration, an input of the body.
        initial: The value at the start of the first one.
        next: The value at the end of an iteration, in the body.
        result: The value at the end of the last one; None where it is left out.
    """

    inner: ir.Value
    initial: ir.Value
    next: ir.Value
    result: ir.Value


@dataclasses.dataclass(frozen=True)
class Collected:
    """An output of the body that is stacked.

    Attributes:
        inner: The output of one iteration.
        result: The output of the node.
        axis: The new axis.
        is_reversed: Whether the first iteration comes last.
    """

    inner: ir.Value
    result: ir.Value
    axis: int = 0
    is_reversed: bool = False


@dataclasses.dataclass(frozen=True)
class Iteration:
    """A Loop or a Scan in one form.

    Attributes:
        node: The node.
        body: Its body.
        number: The iteration number, an input of the body; None for a Scan.
        trips: The greatest number of iterations; None where it is left out.
        condition: Whether there is a first iteration; None where it is left out.
        goes_on: Input of the body: whether this iteration runs; None for a Scan.
        next_goes_on: Output of the body: whether the next one runs; None for a Scan.
        states: The carried values.
        scanned: Inputs of the body that are slices of tensors.
        collected: What is stacked.
    """

    node: ir.Node
    body: ir.Graph
    number: ir.Value | None
    trips: ir.Value | None
    condition: ir.Value | None
    goes_on: ir.Value | None
    next_goes_on: ir.Value | None
    states: list[Carried]
    scanned: list[tuple[ir.Value, TensorSource]]
    collected: list[Collected]


def is_iteration(node: ir.Node) -> bool:
    """Whether a node is a Loop or a Scan of ONNX."""
    return is_operator(node, ("Loop", "Scan"))


def is_given(node: ir.Node) -> bool:
    """Whether a node is a Loop or Scan of the model's own."""
    return is_iteration(node) and not is_new(node)


def is_new(node: ir.Node) -> bool:
    """Whether a rewrite wrote a node."""
    return ORIGIN_KEY in node.metadata_props


def reads_new_nodes(node: ir.Node) -> bool:
    """Whether a Loop holds or reads what a rewrite wrote: its types are not known yet."""
    inside = [inner for _, graph in subgraphs(node) for inner in walk_nodes(graph)]
    return any(is_new(n) for n in (*_producers(node), *inside))


def is_behind(node: ir.Node, is_one: Callable[[ir.Node], bool]) -> bool:
    """Whether a Loop depends on a node of some kind."""
    seen: set[ir.Node] = set()
    waiting = _producers(node)
    while waiting:
        found = waiting.pop()
        if is_one(found):
            return True
        if found not in seen:
            seen.add(found)
            waiting += _producers(found)
    return False


def _producers(node: ir.Node) -> list[ir.Node]:
    """Return the nodes that make what a node reads, in its bodies too."""
    return [made for value in reads_of(node) if (made := value.producer()) is not None]


def read_iteration(node: ir.Node) -> Iteration | None:
    """Read a Loop, or a Scan without a batch axis (opset 9 on); None if it is not well-formed."""
    attribute = node.attributes.get("body")
    if attribute is None or attribute.is_ref():
        return None
    body = attribute.as_graph()
    return _read_loop(node, body) if node.op_type == "Loop" else _read_scan(node, body)


def _read_loop(node: ir.Node, body: ir.Graph) -> Iteration | None:
    given = list(node.inputs)
    given += [None] * (2 - len(given))
    initial = [v for v in given[2:] if v is not None]
    count = len(initial)
    if len(body.inputs) != count + 2 or len(node.inputs) > count + 2:
        return None
    if len(body.outputs) != 1 + len(node.outputs) or len(node.outputs) < count:
        return None
    inner, after = body.inputs[2:], body.outputs[1:]
    states = [
        Carried(i, v, n, o)
        for i, v, n, o in zip(inner, initial, after, node.outputs, strict=False)
    ]
    collected = [Collected(i, o) for i, o in zip(after, node.outputs, strict=True)][count:]
    return Iteration(
        node,
        body,
        number=body.inputs[0],
        trips=given[0],
        condition=given[1],
        goes_on=body.inputs[1],
        next_goes_on=body.outputs[0],
        states=states,
        scanned=[],
        collected=collected,
    )


def _read_scan(node: ir.Node, body: ir.Graph) -> Iteration | None:
    scanned = node.attributes.get_int("num_scan_inputs", 0)
    given = [v for v in node.inputs if v is not None]
    count = len(given) - scanned
    if len(given) != len(node.inputs) or len(body.inputs) != len(given):
        return None
    if scanned < 1 or count < 0 or len(body.outputs) != len(node.outputs):
        return None
    stacked = len(node.outputs) - count
    if stacked < 0:
        return None
    in_axes, backward = _numbers(node, "scan_input", scanned)
    out_axes, prepended = _numbers(node, "scan_output", stacked)
    return Iteration(
        node,
        body,
        number=None,
        trips=None,
        condition=None,
        goes_on=None,
        next_goes_on=None,
        states=[
            Carried(i, v, n, o)
            for i, v, n, o in zip(body.inputs, given, body.outputs, node.outputs, strict=False)
        ][:count],
        scanned=[
            (inner, TensorSource(tensor, axis, keepdims=False, is_reversed=bool(back)))
            for inner, tensor, axis, back in zip(
                body.inputs[count:], given[count:], in_axes, backward, strict=True
            )
        ],
        collected=[
            Collected(inner, result, axis, bool(back))
            for inner, result, axis, back in zip(
                body.outputs[count:], node.outputs[count:], out_axes, prepended, strict=True
            )
        ],
    )


def _numbers(node: ir.Node, prefix: str, count: int) -> tuple[list[int], list[int]]:
    """Return the axes and the directions of the scanned inputs or outputs."""
    axes = list(node.attributes.get_ints(f"{prefix}_axes", ()) or [0] * count)
    directions = list(node.attributes.get_ints(f"{prefix}_directions", ()) or [0] * count)
    return axes, directions
