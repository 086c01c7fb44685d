"""A Map node says all that the record of a map says."""

from __future__ import annotations

import dataclasses

import onnx
import onnx_ir as ir
import pytest

from passes.builder import Builder
from passes.graphs import default_opset, node_paths
from passes.maps.sites import read_map, write_map
from passes.reading.read_loops import read_loop
from passes.site import IndexSource, MapSite
from passes.typing import type_both_ways
from tests.property.loops import DIALECTS, draw


def fields(site: MapSite) -> tuple[object, ...]:
    """Return what of a record a node has to say."""
    sources = {
        inner.name: (source.number, source.like) if isinstance(source, IndexSource) else source
        for inner, source in site.elements
    }
    results = [dataclasses.replace(r, value=ir.Value()) for r in site.results]
    kinds = [(r.output, r.kind, r.axis, r.is_reversed) for r in results]
    return sources, [inner.name for inner, _ in site.shared], kinds


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_record_survives_its_node(dialect: str, seed: int) -> None:
    model = ir.from_proto(onnx.parser.parse_model(draw(dialect, seed).text))
    loop = next(node for node in model.graph if node.op_type in ("Loop", "Scan"))
    path = node_paths(model)[loop]
    typings = type_both_ways(model)
    site = read_loop(loop, model.graph, path, typings, model, default_opset(model))
    expected = fields(site)
    node = write_map(Builder(path), site)
    found = read_map(node, model.graph, path)
    assert fields(found) == expected
    assert found.body is site.body
