"""The largest and the least integer by TopK, along any axes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from passes.runtimes.defects.integers import extremum
from passes.runtimes.types import Types
from rewriter.evaluator.reference import ReferenceEvaluator

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (int64[N,3,4] x, int64[K] k, int64[] w) => (int64[] y)
<int64[1] last = {{-1}}, int64[2] two = {{0, 2}}, int64[0] none = {{}}> {{ {} }}"""
FORMS = {
    "all axes": "y = ReduceMax (x)",
    "all axes, gone": "y = ReduceMin <keepdims = 0> (x)",
    "the last axis": "y = ReduceMax (x, last)",
    "two axes": "y = ReduceMin <keepdims = 0> (x, two)",
    "no axes, which are all": "y = ReduceMax (x, none)",
}
LEFT = {
    "no axes, which are none": "y = ReduceMax <noop_with_empty_axes = 1> (x, none)",
    "axes that are fed": "y = ReduceMax (x, k)",
    "no known rank": "y = ReduceMax (w)",
    "axes of no known rank": "y = ReduceMax (w, last)",
    "what TopK leaves": "t, i = TopK (k, last) y = ReduceMax (t)",
}


def _form(lines: str) -> tuple[ir.Model, Builder, list[ir.Value] | None]:
    model = ir.from_onnx_text(TEXT.format(lines))
    *_, node = model.graph
    builder = Builder("form")
    return model, builder, extremum(node, Types(model), builder)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("rows", [1, 5])
def test_form(name: str, rows: int) -> None:
    model, builder, made = _form(FORMS[name])
    x = np.random.default_rng(rows).integers(-(2**40), 2**40, (rows, 3, 4))
    (wanted,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": x})
    assert made is not None
    *_, node = model.graph
    model.graph.insert_before(node, builder.nodes)
    model.graph.outputs[0] = made[0]
    made[0].type, made[0].shape = node.outputs[0].type, None
    model.graph.remove(node)
    make_names_unique(model)
    (found,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": x})
    np.testing.assert_array_equal(found, wanted)


ALWAYS_SOME = {
    "one of a constant": "d = Concat <axis = 0> (k, two) y = ReduceMax (d)",
    "one of a known size": "y = ReduceMax (x, last)",
    "one of a part of a part": """c = Concat <axis = -1> (k, two) d = Concat <axis = 0> (c, k)
        y = ReduceMin (d)""",
}
PERHAPS_NONE = {
    "an open size": "y = ReduceMax (k)",
    "nothing and an open size": "d = Concat <axis = 0> (k, none) y = ReduceMax (d)",
    "a constant along another axis": "c = Concat <axis = 1> (x, x) y = ReduceMax (c, two)",
}


@pytest.mark.parametrize("name", [*ALWAYS_SOME, *PERHAPS_NONE])
def test_a_size_that_is_surely_there_is_not_asked_for(name: str) -> None:
    lines = {**ALWAYS_SOME, **PERHAPS_NONE}[name]
    _, builder, made = _form(lines)
    assert made is not None
    assert any(node.op_type == "Shape" for node in builder.nodes) == (name in PERHAPS_NONE)


@pytest.mark.parametrize("name", LEFT)
def test_left_as_it_is(name: str) -> None:
    assert _form(LEFT[name])[2] is None
