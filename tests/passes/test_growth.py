"""Maps inside of each other: a guard holds a body twice, which they may not multiply."""

from __future__ import annotations

import itertools

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import rewriter
from passes import site
from passes.graph.graphs import walk_nodes

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'


def nested_maps(depth: int) -> onnx.ModelProto:
    """Return maps inside of each other, which all read one sequence of unknown shapes."""
    body = "y0 = Relu (x0)"
    for level in range(1, depth):
        body = f"""s{level} = SequenceMap (xs) <body = b{level} (float[] x{level - 1})
                       => (float[] y{level - 1}) {{ {body} }}>
                   c{level} = ConcatFromSequence <axis = 0> (s{level})
                   y{level} = Add (c{level}, x{level})"""
    last = depth - 1
    return onnx.parser.parse_model(f"""{HEADER} g (seq(float[]) xs) => (seq(float[]) ys) {{
        ys = SequenceMap (xs) <body = b (float[] x{last}) => (float[] y{last}) {{ {body} }}> }}""")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two guards inside of each other are too many: the tests take a second instead of ten."""
    monkeypatch.setattr(site, "MOST_GUARDED", 30)


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
def test_maps_inside_of_each_other_do_not_multiply(strategy: str) -> None:
    sizes = []
    for depth in (3, 4, 5):
        new = rewriter.optimize(ir.from_proto(nested_maps(depth)), strategy=strategy)
        sizes.append(sum(1 for _ in walk_nodes(new.graph)))
    first, second = (after - before for before, after in itertools.pairwise(sizes))
    assert second <= first


def test_the_report_says_why_a_map_has_no_guard() -> None:
    report = rewriter.explain(nested_maps(3))
    outer = next(one for one in report.decisions if one.path == "SequenceMap_0")
    assert outer.verdict == "expanded"
    assert "nodes behind guards" in outer.reasons[0].detail
    assert "--uniform" in outer.reasons[0].remedy


@pytest.mark.long
def test_maps_without_guards_compute_what_they_did() -> None:
    model = nested_maps(3)
    assert rewriter.validate(model, rewriter.optimize(model), cases=3).ok
