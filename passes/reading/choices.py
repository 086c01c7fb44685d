"""Outer values that an If chooses by asking whether two tensors are equally long."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.graphs import captured_values, is_operator
from passes.graph.made import made_by, skip_identities
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Linear
from passes.reading.sources import Reads

__all__ = ["Choice", "find_choice"]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The outputs of an If where two numbers are equal.

    Attributes:
        tensor: The value, of the graph around the If or further out.
        numbers: The two numbers.
    """

    tensor: ir.Value
    numbers: frozenset[Linear]

    @property
    def is_certain(self) -> bool:
        """Whether the numbers are equal by proof."""
        return len(self.numbers) == 1


def find_choice(value: ir.Value, reads: Reads) -> Choice | None:
    """Return what an If yields where two numbers are equal, if a value is that of such an If.

    TorchScript's exporter writes one for the weights of a bag: a constant where there are not as
    many of them as ids.
    """
    value = skip_identities(value)
    node = value.producer()
    if not is_operator(node, "If"):
        return None
    asked = _equality(node.inputs[0], Evaluator(reads.proven, reads.inside))
    if asked is None:
        return None
    numbers, branch = asked
    tensor = _captured(node.attributes[branch].as_graph(), node.outputs.index(value))
    return None if tensor is None else Choice(tensor, numbers)


def _equality(
    condition: ir.Value | None, evaluator: Evaluator
) -> tuple[frozenset[Linear], str] | None:
    """Return the two numbers that a condition compares, and the branch taken if they are equal."""
    branches = ["then_branch", "else_branch"]
    while condition is not None:
        node = made_by(condition)
        if node is None:
            return None
        match node.op_type:
            case "Equal":
                found = [evaluator.number(v) for v in node.inputs]
                known = frozenset(n for n in found if n is not None)
                return None if None in found else (known, branches[0])
            case "Not":
                branches.reverse()
            case "Cast" if node.attributes.get_int("to", 0) == ir.DataType.BOOL:
                pass
            case _:
                return None
        condition = node.inputs[0]
    return None


def _captured(branch: ir.Graph, output: int) -> ir.Value | None:
    """Return the outer value that an output of a branch is, through Identity."""
    value: ir.Value | None = branch.outputs[output]
    while value is not None and (node := value.producer()) is not None and node.graph is branch:
        if not is_operator(node, "Identity"):
            return None
        value = node.inputs[0]
    return value if value in captured_values(branch) else None
