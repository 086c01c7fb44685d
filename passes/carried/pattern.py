"""A carried value that a map and a few operators behind it compute without a loop."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.drafts import note
from passes.graph.graphs import is_operator, name_of, reads_of
from passes.graph.if_outputs import read_for
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = [
    "ASK_SHAPE",
    "FLOATS",
    "Pattern",
    "ReadPattern",
    "Term",
    "added",
    "added_constant",
    "added_integers",
    "branch_of",
    "dependent_values",
    "path_through",
]

ASK_SHAPE = frozenset({"Shape", "Size"})
"""Operators that read the shape of their operand only."""

FLOATS = frozenset({ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})


@dataclasses.dataclass(frozen=True)
class Term:
    """A value of one iteration that the operators behind the map need of all iterations.

    Attributes:
        value: The value of the body.
        kind: How the values of all iterations are joined.
        axis: The axis along which they are stacked or concatenated.
        is_alike: Whether it has one shape in all iterations by the way it is made.
    """

    value: ir.Value
    kind: Literal["stacked", "concatenated"] = "stacked"
    axis: int = 0
    is_alike: bool = False


class _Traits:
    """What a pattern says of itself.

    Attributes:
        name: What the report calls it.
        rounds: Whether it rounds otherwise than the Loop.
        grows: Whether the Loop copies in every iteration what it has appended so far.
        needs_sizes: Whether the sizes of what iterations give count where there are none.
        gives_flat: Whether it gives rows and sizes, which become a sequence in a loop.
        few: Up to how many iterations the Loop is faster.
        is_dear: Whether it may take many times the time and memory of the Loop.
        cheap_from: The opset from which on it does not; None where there is none.
        dims: What is known of its dimensions by the way it is made; None for nothing.
        keeps_shape: Whether it has one shape in all iterations: as it is made, or where no term is
            larger.
        gives_next: Whether what is collected is read in the place of the value at the end of an
            iteration, too: to compute that anew from the value at the start is dear.
        between: What the tensor is behind some of the writes of an iteration, of the same shape.
        instead: Nodes of the body that may read another value than they do with the same result:
            what they read, and that value.
    """

    name: str
    rounds: bool = False
    grows: bool = False
    needs_sizes: bool = True
    gives_flat: bool = False
    few: int = 0
    is_dear: bool = False
    cheap_from: int | None = None
    dims: tuple[int | None, ...] | None = None
    keeps_shape: Literal["", "as it is made", "by its terms"] = ""
    gives_next: bool = False
    between: tuple[ir.Value, ...] = ()
    instead: Mapping[ir.Node, tuple[ir.Value, ir.Value]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Pattern(_Traits, abc.ABC):
    """A carried value that is not a recurrence.

    Attributes:
        carried: Where it stands.
        terms: What is needed of all iterations.
        nodes: What computes terms that the body itself does not compute, in order; they read
            values of the body, and stand in no graph.
        speculated: Those of them that stood in a branch, each with the node that it is a copy of:
            they run in iterations in which the model would not have run them.
    """

    carried: Carried
    terms: tuple[Term, ...]
    _: dataclasses.KW_ONLY
    nodes: tuple[ir.Node, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()

    @abc.abstractmethod
    def write(self, joined: Joined) -> ir.Value:
        """Record the value behind the last iteration.

        Raises:
            NotAMapError: A shape that this relies on is not proven.
        """

    def check_shape(self, joined: Joined) -> None:
        """Check that the shape is the same in all iterations, which other nodes ask for.

        Raises:
            NotAMapError: That is not proven.
        """
        if not self.keeps_shape:
            detail = f"the shape of '{self.carried.inner.name}' is read, and may change"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        for at in range(len(self.terms)) if self.keeps_shape == "by its terms" else ():
            joined.needs_shape(at, self.carried, always=True)

    def fails_where_unlike(self, typing: Typing, rank: int) -> bool:
        """Whether the model fails where the first term, of some rank, has more than one shape."""
        return False

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the values of all iterations can be stacked.

        Args:
            is_after: The values at the end of each iteration, and not at its start.
        """
        return False

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the values of all iterations, stacked along axis 0.

        A pattern that `can_collect` them has this method of its own.
        """
        raise NotImplementedError(f"{self.name}: the values of all iterations")


class ReadPattern(Pattern):
    """What iterations read of a tensor that they write to."""

    def write(self, joined: Joined) -> ir.Value:
        """Nothing reads it behind the last iteration."""
        raise NotImplementedError

    def can_collect(self, *, is_after: bool) -> bool:
        """What iterations read can be stacked."""
        return not is_after


class NumberedPattern(Pattern):
    """A value that the number of the iteration alone tells."""

    @abc.abstractmethod
    def at(self, joined: Joined, numbers: ir.Value) -> ir.Value:
        """Record the values at the start of some iterations."""

    def write(self, joined: Joined) -> ir.Value:
        """Record the value behind the last iteration."""
        builder = joined.builder
        return self.at(joined, builder.op("Squeeze", [joined.trips.write(builder)]))

    def can_collect(self, *, is_after: bool) -> bool:
        """All of its values are known."""
        return True

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the values of all iterations, stacked along axis 0."""
        return self.at(joined, joined.iterations(is_after=is_after))


def added(
    op_type: str,
    inputs: Sequence[ir.Value],
    attributes: Mapping[str, Any] | None = None,
    *,
    outputs: int = 1,
) -> ir.Node:
    """Make a node, with one output by default, that an iteration needs and that its body lacks."""
    node = ir.node(op_type, inputs, attributes, num_outputs=outputs)
    for at, value in enumerate(node.outputs):
        number = [str(at)] if at else []
        value.name = "/".join([*(name_of(v) for v in inputs[:1]), op_type, *number])
    note(node)
    return node


def added_constant(array: np.ndarray) -> ir.Node:
    """Make a constant that an iteration needs."""
    return added("Constant", [], {"value": ir.tensor(array)})


def added_integers(*numbers: int) -> ir.Node:
    """Make a constant int64 vector that an iteration needs."""
    return added_constant(np.array(numbers, np.int64))


def branch_of(name: str, nodes: Sequence[ir.Node], values: Sequence[ir.Value]) -> ir.Graph:
    """Make a graph of nodes that an iteration needs and that stand in none; it yields values."""

    def write(builder: Builder) -> Sequence[ir.Value]:
        builder.nodes.extend(nodes)
        return values

    return Builder("branch").subgraph(name, [], write)


def dependent_values(body: ir.Graph | Scope, *start: ir.Value) -> set[ir.Value]:
    """Return the values of a body that depend on some of its inputs, these included.

    What depends on their shape or type only is left out. Of a branch ``start`` is also what it
    reads from around it.
    """
    if not isinstance(body, Scope):
        return _dependents(body, (), start)
    if (body, start) not in body.dependents:
        body.dependents[body, start] = frozenset(_dependents(body, body.given, start))
    return set(body.dependents[body, start])


def _dependents(
    nodes: Iterable[ir.Node], given: Collection[ir.Value], start: Iterable[ir.Value]
) -> set[ir.Value]:
    found = set(start)
    for node in nodes:
        if is_operator(node, ASK_SHAPE):
            continue
        reads = node.inputs[:1] if is_operator(node, "CastLike") else reads_of(node)
        if not found.isdisjoint(reads):
            outputs = (v for v in node.outputs if not found.isdisjoint(read_for(v)))
            found.update(v for v in outputs if v not in given)
    return found


def path_through(
    node: ir.Node, dependent: Collection[ir.Value]
) -> tuple[int, list[ir.Value]] | None:
    """Return which operand of a node depends on a carried value, and the others.

    None if it is not exactly one.
    """
    inputs = [v for v in node.inputs if v is not None]
    on_path = [i for i, v in enumerate(inputs) if v in dependent]
    if len(on_path) != 1 or len(inputs) != len(node.inputs):
        return None
    others = [v for i, v in enumerate(inputs) if i != on_path[0]]
    return on_path[0], others
