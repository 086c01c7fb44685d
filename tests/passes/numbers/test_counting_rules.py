"""Vectors of constants that are added up, and written by place, are known before the model runs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.batching.anywhere import runs_anywhere
from passes.numbers.folding import Folder
from passes.typing import type_values
from rewriter.backends import run

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (int64[N] x, int64 m) => (int64[K] y) {
    n = Constant <value_ints = [3, 1, 2]> ()
    p = Constant <value_ints = [0, 2, 2]> ()
    q = Constant <value_ints = [0, 2, 3]> ()
    b = Constant <value_ints = [-1, 1, 0]> ()
    z = Constant <value_int = 0> ()
    l = Constant <value_int = -1> ()
    NODE }"""
KNOWN = {
    "added up": "y = CumSum (n, z)",
    "added up along the last axis": "y = CumSum (n, l)",
    "as many as are followed": f"c = Constant <value_ints = {[1] * 64}> () y = CumSum (c, z)",
    "added up without the last": "y = CumSum <exclusive = 1> (n, z)",
    "added by place": 'y = ScatterElements <reduction = "add"> (n, p, n)',
    "written by place": "d = Constant <value_ints = [2, 0, 1]> () y = ScatterElements (n, d, p)",
}
OPEN = {
    "from the back": "y = CumSum <reverse = 1> (n, z)",
    "of what is given": "y = CumSum (x, z)",
    "of more than are followed": f"c = Constant <value_ints = {[1] * 65}> () y = CumSum (c, z)",
    "along what is given": "y = CumSum (n, m)",
    "of floats": "f = Cast <to = 1> (n) r = CumSum (f, z) h = Floor (r) y = Cast <to = 7> (h)",
    "written twice": "y = ScatterElements (n, p, n)",
    "the greatest": 'y = ScatterElements <reduction = "max"> (n, p, n)',
    "behind the end": "y = ScatterElements (n, q, n)",
    "from the end": "y = ScatterElements (n, b, n)",
    "places that are given": "y = ScatterElements (n, x, n)",
}


def _last(nodes: str) -> tuple[onnx.ModelProto, ir.Node, Folder, bool]:
    model = onnx.parser.parse_model(TEXT.replace("NODE", nodes))
    graph = ir.from_proto(model)
    typing = type_values(graph, proven=True)
    node = graph.graph.outputs[0].producer()
    assert node is not None
    return model, node, Folder(typing), runs_anywhere(node, typing, 18)


@pytest.mark.parametrize("name", KNOWN)
def test_they_are_known_and_run_anywhere(name: str) -> None:
    model, node, folder, runs = _last(KNOWN[name])
    found = folder.value(node.outputs[0])
    expected = run(model, {"x": np.zeros(3, np.int64), "m": np.array(0)})["y"]
    assert runs
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", OPEN)
def test_others_are_not_known(name: str) -> None:
    _, node, folder, _ = _last(OPEN[name])
    assert folder.value(node.outputs[0]) is None


@pytest.mark.parametrize("name", ["behind the end", "written twice", "places that are given"])
def test_what_may_fail_does_not_run_anywhere(name: str) -> None:
    assert not _last(OPEN[name])[3]
