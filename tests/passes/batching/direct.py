"""Proves a rule at an opset that has no SequenceMap yet: a Loop or Scan may be a map there."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from passes.batching.layouts import Layout
from passes.batching.walk import Walk, WalkOptions
from passes.builder import Builder
from passes.graphs import node_paths
from passes.names import make_names_unique
from passes.typing import type_both_ways
from tests.passes.batching.harness import Case, _assert_equal, _typed_outputs, run_model, single_model

__all__ = ["batched_model", "prove_directly"]


def batched_model(case: Case) -> onnx.ModelProto:
    """Return the body with a batch axis: its inputs and outputs are the stacked values."""
    single = ir.from_proto(_typed_outputs(single_model(case), case))
    typings = type_both_ways(single)
    outer = {
        name: ir.Value(name=f"{name}_all", type=ir.TensorType(operand.dtype), shape=ir.Shape([None] * (
            operand.samples[0].ndim + (operand.kind == "mapped"))))
        for name, operand in case.operands.items()
        if operand.kind != "constant"
    }
    initializers = []
    for old in single.graph.initializers.values():
        new = ir.Value(name=old.name, type=old.type, shape=old.shape, const_value=old.const_value)
        outer[old.name or ""] = new
        initializers.append(new)
    inputs = [v for n, v in outer.items() if case.operands[n].kind != "constant"]
    graph = ir.Graph(
        inputs,
        [],
        nodes=[],
        initializers=initializers,
        opset_imports={"": case.opset},
        name="batched",
    )
    prelude = Builder("map")
    first = next(n for n, o in case.operands.items() if o.kind == "mapped")
    shape = prelude.op("Shape", [outer[first]])
    batch = prelude.op("Slice", [shape, prelude.ints(0), prelude.ints(1)])
    options = WalkOptions(
        opset=case.opset,
        batch=batch,
        may_be_empty=True,
        relies_on_declared=True,
        exact=False,
        paths=node_paths(single),
    )
    walk = Walk(typings, options, "map")
    for value in (*single.graph.inputs, *single.graph.initializers.values()):
        stacked = case.operands[value.name or ""].kind == "mapped"
        layout = Layout.STACKED if stacked else Layout.SHARED
        walk.bind(value, layout, outer[value.name or ""])
    walk.run(single.graph)
    assert not walk.reasons, walk.reasons
    graph.extend([*prelude.nodes, *(node for stage in walk.stages for node in stage.nodes)])
    for value in single.graph.outputs:
        found = walk.env[value]
        assert found.is_stacked
        found.value.name, found.value.type = value.name, value.type
        graph.outputs.append(found.value)
    model = ir.Model(graph, ir_version=single.ir_version)
    make_names_unique(model)
    return ir.to_proto(model)


def prove_directly(case: Case, batch: int) -> None:
    """Assert that the body with a batch axis equals the body run alone for each sample."""
    proto = batched_model(case)
    single = _typed_outputs(single_model(case), case)
    wanted = [
        run_model(single, {n: o.of(k) for n, o in case.operands.items()})
        for k in range(max(batch, 1))
    ]
    feeds = {
        f"{name}_all": np.stack([operand.of(k) for k in range(batch)])
        if operand.kind == "mapped" and batch
        else np.empty((0, *operand.samples[0].shape), operand.samples[0].dtype)
        if operand.kind == "mapped"
        else operand.of(0)
        for name, operand in case.operands.items()
    }
    names = [i.name for i in proto.graph.input]
    outputs = run_model(proto, dict(zip(names, feeds.values(), strict=False)))
    for position, (name, got) in enumerate(zip(case.outputs, outputs, strict=True)):
        assert got.shape == (batch, *wanted[0][position].shape), name
        for k in range(batch):
            _assert_equal(got[k], wanted[k][position], case, f"{name} of sample {k}")
