"""The proven typing of a model that several passes ask for, inferred once.

Nodes that a pass wrote are typed by themselves, so that the model is not typed again for them.
"""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Collection, Mapping
from typing import TypeAlias

import onnx_ir as ir

from passes.graph.drafts import drafting
from passes.graph.graphs import captured_values, reads_of
from passes.graph.names import make_names_unique
from passes.graph.node_copies import copy_nodes
from passes.reading.types import type_apart
from passes.typing import Typing, type_values

__all__ = ["KeptTyping", "type_new_nodes"]

_Dims: TypeAlias = tuple[int | str | None, ...]


def type_new_nodes(
    nodes: Collection[ir.Node], typing: Typing, model: ir.Model, *, ranks: bool = True
) -> None:
    """Enter the types of new nodes, from those of what they read; all else stays as it is.

    Args:
        nodes: The nodes, in whatever order and graphs; none stands inside of another.
        typing: The proven typing of the model without them; it gains theirs.
        model: Only names change.
        ranks: Keep the ranks that the nodes declare.
    """
    make_names_unique(model)  # inference goes by name
    values: dict[ir.Value, ir.Value | None] = {}
    own = typing.derived()
    with drafting():  # the copies are gone once they are typed
        body = ir.Graph([], [], nodes=copy_nodes(_in_order(nodes), values), name="new")
        for value in captured_values(body):
            own.set(value, typing[value])
        known = {dim for _, type_ in own.items() for dim in type_.dims or ()}
        type_apart(body, own, model, ranks=ranks)
    for value, copy in values.items():
        if copy is None:
            continue
        found = own[copy]
        # A symbol that inference makes here stands for something else in the model.
        found = dataclasses.replace(found, dims=_of_known(found.dims, known))
        before = typing[value]
        typing.set(value, found if before.dims is None else before.filled_from(found))
        if own.is_said_empty(copy):
            typing.set_empty(value)


def _of_known(dims: _Dims | None, known: Collection[object]) -> _Dims | None:
    return dims and tuple(d if isinstance(d, int) or d in known else None for d in dims)


def _in_order(nodes: Collection[ir.Node]) -> list[ir.Node]:
    """Return nodes so that each stands behind those that it reads."""
    wanted = dict.fromkeys(nodes)
    reads = {node: [m for v in reads_of(node) if (m := v.producer()) in wanted] for node in wanted}
    return list(graphlib.TopologicalSorter(reads).static_order())


class KeptTyping:
    """The proven typing of one model, inferred when it is first asked for.

    It holds while nodes only move; what a pass writes has to be entered.
    """

    def __init__(self, *, ranks: bool = True) -> None:
        """Begin with nothing known.

        Args:
            ranks: Keep the ranks of what is only declared; see `type_values`.
        """
        self._ranks = ranks
        self._typing: Typing | None = None

    def of(self, model: ir.Model) -> Typing:
        """Return the typing of a model, which is the same one each time."""
        if self._typing is None:
            self._typing = type_values(model, proven=True, ranks=self._ranks)
        return self._typing

    def enter(self, made: Collection[ir.Node], model: ir.Model) -> None:
        """Enter the types of new nodes, which compute what others did before."""
        if self._typing is not None and made:
            type_new_nodes(made, self._typing, model, ranks=self._ranks)

    def copy(self, values: Mapping[ir.Value, ir.Value | None]) -> None:
        """Note that new values take the place of others, whose types hold of them."""
        if self._typing is not None:
            self._typing.copy(values)
