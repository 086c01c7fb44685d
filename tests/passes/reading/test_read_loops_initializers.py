"""Initializers of branches in Loops are read where they were moved."""

from __future__ import annotations

import pathlib

import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs

EXPORTED = pathlib.Path(__file__).parents[3] / "models" / "exported"
NAMES = sorted(path.name for path in EXPORTED.glob("dy_embedding_bag*.onnx"))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_in_the_model(name: str) -> None:
    model = ir.load(EXPORTED / name)
    FuseSequenceMapPass(loops=True)(model)
    made = set(model.graph.inputs)
    for graph in all_graphs(model):
        made |= {*graph.inputs, *graph.initializers.values()}
        made |= {output for node in graph for output in node.outputs}
    read = {value for graph in all_graphs(model) for node in graph for value in node.inputs}
    assert read - made - {None} == set()
    model.clone()
