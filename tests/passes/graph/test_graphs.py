"""What is read of a model without any pass."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.builder import ORIGIN_KEY, Builder
from passes.graph.graphs import default_opset, graphs_in_loops, subgraphs


@pytest.mark.parametrize(
    ("imports", "version"),
    [({}, 1), ({"": 18}, 18), ({"ai.onnx": 13}, 13), ({"": 18, "ai.onnx": 13}, 18), ({"x": 3}, 1)],
)
def test_default_opset(imports: dict[str, int], version: int) -> None:
    graph = ir.Graph([], [], nodes=[], opset_imports=imports)
    assert default_opset(ir.Model(graph, ir_version=8)) == version


def test_an_operator_may_own_a_list_of_graphs() -> None:
    """Operators of other domains do."""
    one, *more = (ir.Graph([], [], nodes=[]) for _ in range(3))
    attributes = [ir.AttrGraph("only", one), ir.AttrGraphs("many", more), ir.AttrInt64("n", 1)]
    node = ir.Node("own", "Switch", [], attributes)
    assert subgraphs(node) == [("only", one), ("many[0]", more[0]), ("many[1]", more[1])]


def test_a_new_node_keeps_the_documentation_that_it_has() -> None:
    builder = Builder("a")
    x = ir.Value(name="x")
    for _ in range(2):
        builder.op("Neg", [x])
    builder.op("Abs", [x])
    builder.nodes[1].doc_string = "own"
    old = ir.node("Neg", [x], doc_string="old", metadata_props={"key": "value"})
    builder.document(0, old)
    assert [node.doc_string for node in builder.nodes] == ["old", "own", None]
    assert all(node.metadata_props["key"] == "value" for node in builder.nodes)


@pytest.mark.parametrize(("name", "origin"), [("layer/map", "layer/map"), ("", "Loop")])
def test_what_takes_the_place_of_a_node_is_called_like_it(name: str, origin: str) -> None:
    builder = Builder.at(ir.node("Loop", [], name=name))
    value = builder.op("Neg", [ir.Value(name="x")])
    node = value.producer()
    assert node is not None
    assert node.name == f"{origin.rpartition('/')[2]}/Neg"
    assert node.metadata_props[ORIGIN_KEY] == origin


def test_graphs_that_run_in_each_iteration() -> None:
    """A branch beside a Loop does not, one in its body does, and so does what stands in that."""
    inner, body, branch, beside = (ir.Graph([], [], nodes=[]) for _ in range(4))

    def node(op_type: str, graph: ir.Graph) -> ir.Node:
        return ir.Node("", op_type, [], [ir.AttrGraph("body", graph)])

    branch.append(node("If", inner))
    body.append(node("If", branch))
    beside.append(node("Loop", body))
    outer = ir.Graph([], [], nodes=[node("If", beside)])
    assert [*graphs_in_loops(outer)] == [body, branch, inner]
    assert [*graphs_in_loops(branch)] == []
    assert [*graphs_in_loops(branch, is_inside=True)] == [inner]
