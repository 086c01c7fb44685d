"""A Map node and the record of a map: each written from the other."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import constant_value
from passes.maps.operator import DOMAIN, OP_TYPE
from passes.site import (
    ElementSource,
    IndexSource,
    MapSite,
    Result,
    SequenceSource,
    TensorSource,
)

__all__ = ["read_map", "write_map"]


class _Inputs:
    """The inputs of a node, each value once."""

    def __init__(self) -> None:
        self.values: list[ir.Value] = []

    def position(self, value: ir.Value | None) -> int:
        """Return the position of an input, -1 of none."""
        if value is None:
            return -1
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


def write_map(builder: Builder, site: MapSite) -> ir.Node:
    """Record a Map node for a map, and what computes its number of samples.

    Args:
        builder: Writes the graph around the map.
        site: The map; its body becomes the body of the node.

    Returns:
        The node; its outputs are the results of the site, in order.
    """
    inputs = _Inputs()
    outer: dict[ir.Value, ElementSource | ir.Value] = dict(site.elements) | dict(site.shared)
    given = [outer[value] for value in site.body.inputs]
    first = site.elements[0][1]
    like = first.like if isinstance(first, IndexSource) else None
    if like is not None and like not in given:
        given.append(like)
    slices = [source if isinstance(source, TensorSource) else None for source in given]
    sources = [inputs.position(_read(source)) for source in given]
    splits = [inputs.position(None if s is None else _standing(builder, s.split)) for s in slices]
    count = inputs.position(first.write_count(builder) if isinstance(first, IndexSource) else None)
    attributes = {
        "body": site.body,
        "kinds": [_kind(source) for source in given],
        "sources": sources,
        "axes": [0 if s is None else s.axis for s in slices],
        "keepdims": [int(s is not None and s.keepdims) for s in slices],
        "reverses": [int(s is not None and s.is_reversed) for s in slices],
        "splits": splits,
        "scalar_splits": [int(s is not None and s.split_is_scalar) for s in slices],
        "count": count,
        "like": -1 if like is None else given.index(like),
        "results": [result.kind for result in site.results],
        "result_outputs": [result.output for result in site.results],
        "result_axes": [result.axis for result in site.results],
        "result_reverses": [int(result.is_reversed) for result in site.results],
    }
    return builder.node(
        OP_TYPE, inputs.values, attributes, outputs=len(site.results), domain=DOMAIN
    )


def _read(source: ElementSource | ir.Value) -> ir.Value | None:
    """Return the value that a source reads; None for the number of the sample."""
    match source:
        case SequenceSource():
            return source.sequence
        case TensorSource():
            return source.tensor
        case IndexSource():
            return None
    return source


def _standing(builder: Builder, value: ir.Value | None) -> ir.Value | None:
    """Return a value, recorded anew if it is a constant that stands in no graph."""
    node = None if value is None else value.producer()
    if node is None or node.graph is not None:
        return value
    array = constant_value(value)
    assert array is not None
    return builder.constant(array)


def _kind(source: ElementSource | ir.Value) -> str:
    match source:
        case SequenceSource():
            return "element"
        case TensorSource():
            return "slice"
        case IndexSource():
            return "index"
    return "shared"


def read_map(node: ir.Node, graph: ir.Graph, path: str) -> MapSite:
    """Read a Map node.

    Args:
        node: The node.
        graph: The graph that it stands in.
        path: Its path, for messages.
    """
    body = node.attributes["body"].as_graph()
    kinds = node.attributes["kinds"].as_strings()
    sources = _ints(node, "sources")
    elements: list[tuple[ir.Value, ElementSource]] = []
    shared: list[tuple[ir.Value, ir.Value]] = []
    for at, (inner, kind) in enumerate(zip(body.inputs, kinds, strict=False)):
        match kind:
            case "shared":
                shared.append((inner, _input(node, sources[at])))
            case "index":
                elements.insert(0, (inner, _index(node)))
            case _:
                elements.append((inner, _source(node, at)))
    results = [
        Result(output, kind, value, axis, bool(is_reversed))  # type: ignore[arg-type]
        for kind, output, value, axis, is_reversed in zip(
            node.attributes["results"].as_strings(),
            _ints(node, "result_outputs"),
            node.outputs,
            _ints(node, "result_axes"),
            _ints(node, "result_reverses"),
            strict=True,
        )
    ]
    return MapSite(node, graph, path, elements, shared, body, results)


def _ints(node: ir.Node, name: str) -> Sequence[int]:
    return node.attributes[name].as_ints()


def _input(node: ir.Node, position: int) -> ir.Value:
    value = node.inputs[position]
    assert value is not None
    return value


def _source(node: ir.Node, at: int) -> SequenceSource | TensorSource:
    if node.attributes["kinds"].as_strings()[at] == "element":
        return SequenceSource(_input(node, _ints(node, "sources")[at]))
    split = _ints(node, "splits")[at]
    return TensorSource(
        _input(node, _ints(node, "sources")[at]),
        _ints(node, "axes")[at],
        bool(_ints(node, "keepdims")[at]),
        None if split < 0 else _input(node, split),
        bool(_ints(node, "scalar_splits")[at]),
        bool(_ints(node, "reverses")[at]),
    )


def _index(node: ir.Node) -> IndexSource:
    like = node.attributes["like"].as_int()
    count = _input(node, node.attributes["count"].as_int())
    number = constant_value(count)
    return IndexSource(
        lambda _: count,
        None if number is None else int(number.item()),
        None if like < 0 else _source(node, like),
    )
