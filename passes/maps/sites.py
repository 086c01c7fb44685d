"""A Map node and the record of a map: each written from the other."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_used
from passes.graph.made import operand
from passes.maps.element_source import ElementSource
from passes.maps.index_source import IndexSource
from passes.maps.sequence_source import SequenceSource
from passes.maps.tensor_source import TensorSource
from passes.sequence_operators import DOMAIN, OP_TYPE
from passes.site import MapResult, MapSite

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
    sources, shared = dict(site.elements), dict(site.shared)
    given = [sources.get(value) for value in site.body.inputs]
    read = [shared.get(value) for value in site.body.inputs]
    first = site.elements[0][1]
    like = None if first.counted is first else first.counted
    if like is not None and like not in given:
        given.append(like)
        read.append(None)
    cuts = [None if source is None else source.as_slices for source in given]
    attributes = {
        "body": site.body,
        "kinds": ["shared" if source is None else source.kind for source in given],
        "sources": [
            inputs.position(one if source is None else next(iter(source.values), None))
            for source, one in zip(given, read, strict=True)
        ],
        "axes": [0 if cut is None else cut.axis for cut in cuts],
        "keepdims": [int(cut is not None and cut.keepdims) for cut in cuts],
        "reverses": [int(cut is not None and cut.is_reversed) for cut in cuts],
        "splits": [
            inputs.position(None if cut is None else _standing(builder, cut.split)) for cut in cuts
        ],
        "scalar_splits": [int(cut is not None and cut.split_is_scalar) for cut in cuts],
        "count": inputs.position(None if first.counted is first else first.count(builder, None)),
        "like": -1 if like is None else given.index(like),
        "results": [result.kind for result in site.results],
        "result_outputs": [result.output for result in site.results],
        "result_axes": [result.axis for result in site.results],
        "result_reverses": [int(result.is_reversed) for result in site.results],
    }
    return builder.node(
        OP_TYPE, inputs.values, attributes, outputs=len(site.results), domain=DOMAIN
    )


def _standing(builder: Builder, value: ir.Value | None) -> ir.Value | None:
    """Return a value, recorded anew if it is a constant that stands in no graph."""
    node = None if value is None else value.producer()
    if node is None or node.graph is not None:
        return value
    array = constant_value(value)
    assert array is not None
    return builder.constant(array)


def read_map(node: ir.Node, graph: ir.Graph, path: str) -> MapSite:
    """Read a Map node; an output that nothing reads is no result, unless none is read.

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
                shared.append((inner, operand(node, sources[at])))
            case "index":
                elements.insert(0, (inner, _index(node)))
            case _:
                elements.append((inner, _source(node, at)))
    results = [
        MapResult(output, kind, value, axis, bool(is_reversed))  # type: ignore[arg-type]
        for kind, output, value, axis, is_reversed in zip(
            node.attributes["results"].as_strings(),
            _ints(node, "result_outputs"),
            node.outputs,
            _ints(node, "result_axes"),
            _ints(node, "result_reverses"),
            strict=True,
        )
    ]
    read = [result for result in results if is_used(result.value)]
    return MapSite(node, graph, path, elements, shared, body, read or results)


def _ints(node: ir.Node, name: str) -> Sequence[int]:
    return node.attributes[name].as_ints()


def _source(node: ir.Node, at: int) -> SequenceSource | TensorSource:
    if node.attributes["kinds"].as_strings()[at] == "element":
        return SequenceSource(operand(node, _ints(node, "sources")[at]))
    split = _ints(node, "splits")[at]
    return TensorSource(
        operand(node, _ints(node, "sources")[at]),
        _ints(node, "axes")[at],
        bool(_ints(node, "keepdims")[at]),
        None if split < 0 else operand(node, split),
        bool(_ints(node, "scalar_splits")[at]),
        bool(_ints(node, "reverses")[at]),
    )


def _index(node: ir.Node) -> IndexSource:
    like = node.attributes["like"].as_int()
    count = operand(node, node.attributes["count"].as_int())
    number = constant_value(count)
    return IndexSource(
        lambda _: count,
        None if number is None else int(number.item()),
        None if like < 0 else _source(node, like),
    )
