"""Nodes that are recorded before it is known whether they come into a graph.

A node counts as a user of what it reads from the moment that it is made. So a plan that is not
taken would keep values alive. Instead of taking back each plan by hand, all nodes are noted that
are made while a draft is open, and those that are not kept read nothing any more in the end.
What was remembered of them meanwhile (`Memo`, `recorded`) is forgotten with them.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar

import onnx_ir as ir
from onnx_ir import AttributeType

__all__ = ["Draft", "Memo", "drafting", "drop_uses", "note", "recorded"]

K = TypeVar("K")
V = TypeVar("V")

_OPEN: contextvars.ContextVar[Draft | None] = contextvars.ContextVar("draft", default=None)


class Draft:
    """The nodes that were made while it was open, and not kept so far.

    Attributes:
        nodes: These nodes.
        lists: The lists that the nodes were recorded in.
        entries: What was remembered while it was open: a mapping and a key of it.
    """

    def __init__(self) -> None:
        self.nodes: list[ir.Node] = []
        self.lists: dict[int, list[ir.Node]] = {}
        self.entries: list[tuple[MutableMapping[Any, Any], Any]] = []
        self._kept: list[ir.Node] = []
        self._is_taken = False

    def keep_all(self) -> None:
        """Keep all nodes that were made so far."""
        self._kept += self.nodes
        self.nodes, self._is_taken = [], True

    def keep(self, nodes: Iterable[ir.Node], beside: Iterable[ir.Node] = ()) -> None:
        """Keep nodes with all that are inside of them; the others read nothing any more.

        Args:
            nodes: The nodes.
            beside: Further nodes that may be put into a graph while the draft is open. Those that
                are not read nothing any more once it closes.
        """
        kept, waiting, self._is_taken = set(_with_inner(nodes)), set(_with_inner(beside)), True
        self._kept += [node for node in self.nodes if node in kept]
        drop_uses(node for node in self.nodes if node not in kept and node not in waiting)
        self.nodes = [node for node in self.nodes if node in waiting]

    def keep_placed(self) -> None:
        """Keep the nodes that stand in a graph."""
        self.keep([node for node in self.nodes if node.graph is not None])

    def close(self, around: Draft | None) -> None:
        """Drop what was not kept; what was kept is part of the draft around this one.

        Once a plan was taken, what was put into a graph since then is kept too.
        """
        if not self._is_taken:
            self._forget()
        elif around is not None:
            around.entries += self.entries
            around.lists |= self.lists
        placed = [node for node in self.nodes if node.graph is not None]
        self.keep(placed if self._is_taken else ())
        if around is not None:
            around.nodes += self._kept

    def _forget(self) -> None:
        made = set(self.nodes)
        for nodes in self.lists.values():
            nodes[:] = [node for node in nodes if node not in made]
        for mapping, key in self.entries:
            mapping.pop(key, None)


@contextlib.contextmanager
def drafting() -> Iterator[Draft]:
    """Open a draft; when it closes, what was not kept of it is no user of any value."""
    around, draft = _OPEN.get(), Draft()
    token = _OPEN.set(draft)
    try:
        yield draft
    finally:
        _OPEN.reset(token)
        draft.close(around)


def note(node: ir.Node, nodes: list[ir.Node] | None = None) -> None:
    """Note a node that was made in the open draft, if there is one.

    Args:
        node: The node.
        nodes: The list that it was recorded in; it leaves the list if it is not kept.
    """
    draft = _OPEN.get()
    if draft is not None:
        draft.nodes.append(node)
        if nodes is not None:
            draft.lists[id(nodes)] = nodes


def _note_entry(mapping: MutableMapping[Any, Any], key: object) -> None:
    draft = _OPEN.get()
    if draft is not None:
        draft.entries.append((mapping, key))


class Memo(dict[K, V]):
    """A dictionary that forgets what was entered in a draft that is not kept."""

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            _note_entry(self, key)
        super().__setitem__(key, value)


class recorded(Generic[V]):  # noqa: N801
    """A property that is computed once; it is forgotten with the draft that recorded it."""

    def __init__(self, compute: Callable[[Any], V]) -> None:
        self.__doc__ = compute.__doc__
        self._compute = compute

    def __get__(self, owner: Any, _: type | None = None) -> V:
        name, known = self._compute.__name__, vars(owner)
        if name not in known:
            known[name] = self._compute(owner)
            _note_entry(known, name)
        value: V = known[name]
        return value


def drop_uses(nodes: Iterable[ir.Node]) -> None:
    """Make nodes that no graph holds read nothing, so that values do not count them as users."""
    for node in _with_inner(nodes):
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)


def _with_inner(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield nodes, each followed by those of the graphs in its attributes."""
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == AttributeType.GRAPH and not attribute.is_ref():
                yield from _with_inner(attribute.as_graph())
