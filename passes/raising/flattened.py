"""A Loop that stands in the place of two, one in the other, while passes work on it."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.splice import hand_over, remove_dead

__all__ = ["Flattened", "nested_of"]

_KEY = "seqmap.nested"


@dataclasses.dataclass
class Flattened:
    """A Loop that runs in the place of two.

    Attributes:
        nested: The outer one of the two.
        loop: The Loop.
        before: What it reads, and the model does not have.
    """

    nested: ir.Node
    loop: ir.Node
    before: list[ir.Node]

    def put(self) -> None:
        """Put the one Loop into the place of the two, which read on what they read."""
        graph = self.nested.graph
        assert graph is not None
        graph.insert_before(self.nested, [*self.before, self.loop])
        for old, new in zip(self.nested.outputs, self.loop.outputs, strict=True):
            hand_over(old, new)
        graph.remove(self.nested)
        self.loop.meta[_KEY] = self

    def put_back(self) -> ir.Node:
        """Put the two Loops back, and return the outer one; the one Loop stands in no graph."""
        graph = self.loop.graph
        assert graph is not None
        graph.insert_before(self.loop, self.nested)
        for old, new in zip(self.nested.outputs, self.loop.outputs, strict=True):
            name, new.name = new.name, None
            new.replace_all_uses_with(old, replace_graph_outputs=True)
            old.name = name
        graph.remove([*self.before, self.loop])
        return self.nested

    def remove(self, graph: ir.Graph) -> None:
        """Remove the two Loops, which nothing reads any more, from the graph that they left."""
        graph.append(self.nested)
        remove_dead([self.nested])


def nested_of(node: ir.Node) -> Flattened | None:
    """Return the two Loops that a Loop stands in the place of, None where it does not."""
    found = node.meta.get(_KEY)
    return found if isinstance(found, Flattened) and found.loop is node else None
