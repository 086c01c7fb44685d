"""Draws each map with its neighbours, before and after a rewrite, as plain data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import onnx_ir as ir

from passes.decisions import Decision
from passes.graph.builder import ORIGIN_KEY
from passes.graph.graphs import node_paths, subgraphs, walk_nodes
from rewriter.model_files.model_facts import LOOP_OPERATORS
from rewriter.reporting.picture_nodes import (
    around,
    ends_of,
    first_of,
    kind_of,
    told_node,
    told_value,
    values_read,
)
from rewriter.reporting.printable import printable

__all__ = ["DrawnLater", "Picture", "Region", "pictures", "regions_given"]

_MOST_MAPS = 50
"""Maps that are drawn for one model."""
_MOST_NODES = 60
"""Nodes that are drawn in one pane."""


@dataclasses.dataclass(frozen=True)
class Region:
    """A part of a model.

    Attributes:
        nodes: What is drawn: ``id``, ``label``, ``kind`` (``loop``, ``branch``, ``sequence``,
            ``value``, ``plain``, ``part``), ``title``, ``around`` (it stands beside the map),
            and for a box ``nodes`` and ``edges`` of its own.
        edges: Pairs of ids, and the value between them.
        hidden: How many nodes of the model are not drawn, constants included.
        ends: The values that it reads from outside, and those that leave it.
    """

    nodes: Sequence[Mapping[str, Any]] = ()
    edges: Sequence[tuple[int, int, str]] = ()
    hidden: int = 0
    ends: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the region as plain values, fit for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Picture:
    """One map before and after a rewrite."""

    path: str
    before: Region
    after: Region

    def to_dict(self) -> dict[str, Any]:
        """Return the picture as plain values, fit for JSON."""
        return dataclasses.asdict(self)


class DrawnLater(Sequence[Picture]):
    """Pictures that are drawn when they are first looked at."""

    def __init__(self, draw: Callable[[], tuple[Picture, ...]]) -> None:
        """Set up the pictures.

        Args:
            draw: Draws them, from models that nobody changes.
        """
        self._draw = draw

    @functools.cached_property
    def _drawn(self) -> tuple[Picture, ...]:
        return self._draw()

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Picture, ...]: ...
    def __getitem__(self, index: int | slice) -> Picture | tuple[Picture, ...]:
        return self._drawn[index]

    def __len__(self) -> int:
        return len(self._drawn)

    def __reduce__(self) -> tuple[type, tuple[tuple[Picture, ...]]]:
        """Draw the pictures before they are copied: a copy holds no models."""
        return tuple, (self._drawn,)


def regions_given(model: ir.Model) -> dict[str, Region]:
    """Return what stands around each map and loop of a model, by its path."""
    paths = node_paths(model)
    found = [node for node in paths if node.op_type in LOOP_OPERATORS and not node.domain]
    count = len(paths)
    return {paths[node]: _Drawing(count).region([node]) for node in found[:_MOST_MAPS]}


def pictures(
    given: Mapping[str, Region], model: ir.Model, decisions: Iterable[Decision]
) -> tuple[Picture, ...]:
    """Return a picture for each decision.

    Args:
        given: What `regions_given` found in the model before.
        model: The rewritten model.
        decisions: What was done.
    """
    paths = node_paths(model)
    origins = {node: node.metadata_props.get(ORIGIN_KEY, path) for node, path in paths.items()}
    drawn = [decision.path for decision in decisions if decision.path in given]
    cores: dict[str, list[ir.Node]] = {path: [] for path in drawn}
    for node, at in origins.items():
        for path in _with_outer(at):
            if path in cores:
                cores[path].append(node)
    found = []
    for path in drawn:
        before, core = given[path], cores[path]
        inner = {one for node in core for one in walk_nodes([node]) if one is not node}
        tops = [node for node in core if node not in inner]
        drawing = _Drawing(len(paths))
        after = drawing.region(tops) if tops else drawing.between(model.graph, before.ends)
        found.append(Picture(path, before, after))
    return tuple(found)


def _with_outer(path: str) -> Iterator[str]:
    """Yield a path and those of all that it stands in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


class _Drawing:
    """Collects the nodes and edges of one pane."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._ids: dict[ir.Node | ir.Value, int] = {}
        self._drawn = 0

    def region(self, core: Sequence[ir.Node]) -> Region:
        """Return nodes of one or more graphs and some of what stands one step around them."""
        before, behind = around(core)
        near = [*first_of(before), *first_of(behind)]
        nodes, edges = self._level([*near, *core], near=set(near), inputs=set(core))
        ends = ends_of([*before, *behind, *core])
        return Region(nodes, edges, self._count - self._drawn, ends)

    def between(self, graph: ir.Graph, ends: Collection[str]) -> Region:
        """Return the nodes of a graph that now join the ends of a region nothing is left of."""
        inner = [
            node
            for node in graph
            if any(value.name in ends for value in [*values_read(node), *node.outputs])
        ]
        nodes, edges = self._level(inner, near=set(inner), inputs=set(inner))
        return Region(nodes, edges, self._count - self._drawn)

    def _level(
        self,
        every: Sequence[ir.Node],
        *,
        near: set[ir.Node],
        inputs: Collection[ir.Node] = (),
    ) -> tuple[list[dict[str, Any]], list[tuple[int, int, str]]]:
        """Draw nodes that stand beside each other, and the edges between them.

        Args:
            every: The nodes.
            near: Those that stand beside the map.
            inputs: Those whose inputs are drawn where nothing computes them.
        """
        drawn: list[dict[str, Any]] = []
        shown = [node for node in every if node.op_type != "Constant"]
        shown = shown[:_MOST_NODES]
        self._drawn += len(shown)
        for node in shown:
            self._ids[node] = len(self._ids)
        # The nodes of a level come before what they hold, for there is room for some only.
        drawn += [self._node(node, node in near) for node in shown]
        drawn += self._inputs([node for node in shown if node in inputs])
        edges: dict[tuple[int, int], str] = {}
        inside = {one["id"] for one in drawn}
        for node in shown:
            number = self._ids.get(node)
            if number is None:
                continue
            for value in values_read(node):
                source = self._source(value)
                if source is not None and source in inside and source != number:
                    edges.setdefault((source, number), told_value(value))
        return drawn, [(one, two, title) for (one, two), title in edges.items()]

    def _node(self, node: ir.Node, is_near: bool) -> dict[str, Any]:
        record = {
            "id": self._ids[node],
            "label": printable(node.op_type),
            "kind": kind_of(node),
            "title": told_node(node),
            "around": is_near,
        }
        graphs = [] if is_near else subgraphs(node)
        if not graphs:
            return record
        boxes = [self._box(name, graph) for name, graph in graphs]
        if len(boxes) == 1:
            inner = {"nodes": boxes[0]["nodes"], "edges": boxes[0]["edges"]}
            if not inner["nodes"]:
                inner["label"] = f"{record['label']}, {boxes[0]['label']}"
        else:
            inner = {"nodes": boxes, "edges": []}
        return record | inner

    def _box(self, name: str, graph: ir.Graph) -> dict[str, Any]:
        number = len(self._ids)
        self._ids[ir.Value(name=f"box {number}")] = number
        record = {"id": number, "label": name, "kind": "part", "title": name, "around": False}
        level = [node for node in graph if node.op_type != "Constant"]
        if len(level) > _MOST_NODES - self._drawn:
            label = f"{name}: {sum(1 for _ in walk_nodes(graph))} nodes"
            return record | {"label": label, "nodes": [], "edges": []}
        inputs = [self._value(value) for value in graph.inputs]
        nodes, edges = self._level(level, near=set())
        ids = {one["id"] for one in inputs}
        for node in graph:
            for value in values_read(node):
                source = self._ids.get(value)
                if source is not None and source in ids and node in self._ids:
                    edges.append((source, self._ids[node], told_value(value)))
        return record | {"nodes": [*inputs, *nodes], "edges": list(dict.fromkeys(edges))}

    def _inputs(self, shown: Sequence[ir.Node]) -> list[dict[str, Any]]:
        """Draw the inputs of the graph that nodes read."""
        values = dict.fromkeys(
            value
            for node in shown
            if node in self._ids
            for value in values_read(node)
            if value.producer() is None and value.const_value is None and value.name
        )
        return [self._value(value) for value in values if value not in self._ids]

    def _value(self, value: ir.Value) -> dict[str, Any]:
        number = self._ids[value] = len(self._ids)
        title = told_value(value)
        label = printable(value.name or "")
        return {"id": number, "label": label, "kind": "value", "title": title, "around": False}

    def _source(self, value: ir.Value) -> int | None:
        producer = value.producer()
        return self._ids.get(value if producer is None else producer)
