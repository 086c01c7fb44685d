"""Steps of twice as many rows each: a Loop takes them where the Loop as given stands beside."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.builder import BATCHED_KEY
from passes.graph.graphs import all_nodes
from rewriter.pipeline import rewrite
from tests.passes.carried.carried import feeds
from tests.passes.loops import model, same
from tests.passes.raising.test_few_iterations import CASES

MOST_NODES = 100


@pytest.mark.parametrize("name", CASES)
def test_very_many_steps_take_few_nodes(name: str) -> None:
    """What is loaded is no longer a step for each power of two."""
    case = CASES[name]
    before = model(case.text("counted"), case.opset)
    after = rewrite(before).model
    nodes = [node for node in all_nodes(ir.from_proto(after)) if node.op_type != "Constant"]
    assert len(nodes) < MOST_NODES
    assert sum(BATCHED_KEY in node.metadata_props for node in nodes) == 1
    fed = [feeds(n) for n in (0, 1, 2, 7, 8, 9, 14, 15, 16, 17, 31, 33, 63, 64, 65, 200)]
    assert same(before, after, *fed) == len(fed)


@pytest.mark.parametrize("options", [{"target": "portable"}, {"strategy": "fuse"}])
def test_no_loop_comes_where_none_stands_beside(options: dict[str, str]) -> None:
    case = CASES["running_maximum"]
    before = model(case.text("counted"), case.opset)
    result = rewrite(before, **options)
    assert result.report.after.loops == 0
    assert same(before, result.model, feeds(5), feeds(40)) == 2
