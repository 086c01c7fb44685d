"""A Map node says all that the record of a map says."""

from __future__ import annotations

import dataclasses

import onnx
import onnx_ir as ir
import pytest

from passes.graph.builder import Builder
from passes.graph.graphs import default_opset, node_paths
from passes.maps.index_source import IndexSource
from passes.maps.sites import read_map, write_map
from passes.reading.read_loops import read_loop
from passes.site import MapSite
from passes.typing import type_both_ways
from tests.property.loops import DIALECTS, draw


def fields(site: MapSite) -> tuple[object, ...]:
    """Return what of a record a node has to say."""
    sources = {
        inner.name: (source.known, source.like) if isinstance(source, IndexSource) else source
        for inner, source in site.elements
    }
    results = [dataclasses.replace(r, value=ir.Value()) for r in site.results]
    kinds = [(r.output, r.kind, r.axis, r.is_reversed) for r in results]
    return sources, [inner.name for inner, _ in site.shared], kinds


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_record_survives_its_node(dialect: str, seed: int) -> None:
    model = ir.from_proto(onnx.parser.parse_model(draw(dialect, seed).text))
    loop = next(node for node in model.graph if node.op_type in ("Loop", "Scan"))
    path = node_paths(model)[loop]
    typings = type_both_ways(model)
    site = read_loop(loop, model.graph, path, typings, model, default_opset(model)).site
    expected = fields(site)
    node = write_map(Builder(path), site)
    found = read_map(node, model.graph, path)
    assert fields(found) == expected
    assert found.body is site.body


def test_what_is_not_there_is_minus_one() -> None:
    """A model may be printed with its Map nodes, and read back."""
    model = ir.from_proto(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (int64 n, float[N] x) => (float[M] y) { t = Constant <value = bool {1}> ()
          y = Loop (n, t) <body = b (int64 i, bool c) => (bool d, float s)
            { d = Identity (c) s = Gather (x, i) }> }""")
    )
    loop = model.graph.node(1)
    typings = type_both_ways(model)
    site = read_loop(loop, model.graph, "y", typings, model, 18).site
    node = write_map(Builder("y"), site)
    kinds, places = node.attributes["kinds"].as_strings(), node.attributes["sources"].as_ints()
    sources = zip(kinds, places, strict=True)
    assert {source for kind, source in sources if kind == "index"} <= {-1}
    assert set(node.attributes["splits"].as_ints()) == {-1}
