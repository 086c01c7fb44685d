"""Loops at opsets 11 and 12 end as they do at newer ones, but where these lack an operator."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_nodes
from passes.promises import FuseOptions
from rewriter.backends import open_session
from rewriter.proof.compare import compare
from tests.passes.raising.test_near_misses import BASES, computed

pytestmark = pytest.mark.long

_ATTRIBUTES = {"ReduceSum": "axes", "Split": "split", "Squeeze": "axes", "Unsqueeze": "axes"}
SCATTERED = {
    "carried-add_to_overlapping_rows",
    "carried-add_to_the_one_row_of_a_list_of_places",
    "carried-add_to_what_stands_at_a_place",
    "carried-index_add_onto_zeros",
    "carried-largest_float_that_stood_at_a_place",
    "carried-largest_number_that_stood_at_a_place",
    "carried-take_from_what_stands_at_a_place",
    "cells-chained_read",
    "cells-sum_of_rows",
    "spelled-counts_of_elements",
    "spelled-table_joined_by_rows",
}
"""What is joined by a scatter, which does so from opset 16 on."""
GREATEST = {
    "carried-last_in_a_branch",
    "carried-last_index_where",
    "carried-last_row_where",
    "carried-last_value_of_a_branch",
    "carried-last_where",
    "spelled-last_kept_where",
}
"""What asks for the greatest of integers, which opset 12 has first."""
FLATTENING = {"carried-causal_attention"}
"""What has a Softmax of ragged rows, which takes its operand for a matrix below opset 13."""
STAYING = {11: SCATTERED | GREATEST | FLATTENING, 12: SCATTERED | FLATTENING}


def _older(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """Return a model at an older opset, None where it is none there."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.opset_import[0].version, made.ir_version = opset, 6
    _write_attributes(made.graph, {})
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return made


def _write_attributes(graph: onnx.GraphProto, constants: dict[str, onnx.TensorProto]) -> None:
    """Write constants that operators read since opset 13 as the attributes that they were."""
    constants |= {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
        name = _ATTRIBUTES.get(node.op_type)
        if name and len(node.input) > 1 and node.input[1] in constants:
            numbers = onnx.numpy_helper.to_array(constants[node.input[1]]).reshape(-1)
            node.attribute.append(onnx.helper.make_attribute(name, numbers.tolist()))
            del node.input[1]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _write_attributes(attribute.g, dict(constants))


@pytest.mark.parametrize("opset", [11, 12])
@pytest.mark.parametrize("name", BASES)
def test_a_loop_ends_as_at_newer_opsets(name: str, opset: int) -> None:
    newer, feeds = BASES[name]
    older = _older(newer, opset)
    if older is None:
        pytest.skip("it is no model of that opset")
    after = _rewritten(older)
    assert _loops(after) == max(_loops(_rewritten(newer)), int(name in STAYING[opset]))
    session = open_session(ir.to_proto(after))
    for feed, results in computed(older, feeds):
        difference = compare(results, session.run(feed))
        assert difference.equal, difference.message


def _rewritten(model: onnx.ModelProto) -> ir.Model:
    return FuseSequenceMapPass(FuseOptions(), loops=True)(ir.from_proto(model)).model


def _loops(model: ir.Model) -> int:
    return sum(node.op_type in ("Loop", "Scan") for node in all_nodes(model))
