"""The types of bodies that stand in no model."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.fusing.fusion_facts import FusionFacts
from passes.graph.builder import Builder
from passes.maps.sequence_map import find_sequence_maps, read_sequence_map
from passes.promises import FuseOptions
from passes.reading.types import type_body
from passes.site import GuardCheck
from passes.typing import type_both_ways


def test_new_values_of_one_name_are_told_apart() -> None:
    """Inference goes by names, and nodes that a rewrite wrote share them."""
    model = ir.from_onnx_text('<ir_version: 8, opset_import: ["" : 17]> main () => () {}')
    builder = Builder("loop")
    x = builder.constant(np.zeros((7, 5), np.float32))
    end = Builder("loop").constant(np.array([3], np.int64))
    axis = Builder("loop").constant(np.array([1], np.int64))
    nodes = [v.producer() for v in (end, axis)]
    y = builder.op("Slice", [x, builder.ints(0), end, axis])
    assert end.name == axis.name
    body = ir.Graph([], [y], nodes=[*(n for n in nodes if n), *builder.nodes], name="sample")
    typings = type_both_ways(model)
    type_body(body, typings, model)
    assert typings.proven.dims(y) == (7, 3)


def test_behind_a_guard_an_operator_of_another_domain_keeps_its_declared_rank() -> None:
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 17, "my.domain" : 1]>
        main (seq(float[4]) xs) => (seq(float[4]) ys) {
          ys = SequenceMap (xs) <body = b (float[4] x) => (float[4] y) <float[9] d>
            { d = my.domain.Double (x)  y = Relu (d) }> }""")
    facts = FusionFacts(model, FuseOptions())
    ((graph, node),) = find_sequence_maps(model)
    site = read_sequence_map(node, graph, "map", facts.typings.declared)
    view = facts.checked_typings(GuardCheck.SHAPES, site).proven
    double = site.body.node(0).outputs[0]
    assert view.dims(site.body.inputs[0]) == (4,)
    assert (view.dtype(double), view.rank(double)) == (ir.DataType.FLOAT, 1)
    assert view.dims(double) != (9,)
