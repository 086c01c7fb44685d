"""Proves a rule at an opset that has no SequenceMap yet: a Loop or Scan may be a map there."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import onnx_ir as ir

from passes.batching.body_state import WalkOptions
from passes.batching.layouts import Batched, Layout
from passes.batching.walk import BatchInterpreter
from passes.graph.builder import Builder
from passes.graph.graphs import node_paths
from passes.graph.names import make_names_unique
from passes.graph.opsets import to_opset_form
from passes.typing import Typings, type_values
from passes.typing.value_types import UNKNOWN
from tests.passes.batching.harness import (
    Array,
    Case,
    Operand,
    assert_equal,
    run_model,
    single_model,
    typed_outputs,
)

__all__ = ["declines_directly", "prove_directly"]


@dataclasses.dataclass
class _Walked:
    """A body that was walked with its mapped operands stacked.

    Attributes:
        walk: The walk.
        prelude: Counts the samples.
        graph: A graph with the new inputs and initializers, and no nodes yet.
        body: The body itself.
    """

    walk: BatchInterpreter
    prelude: Builder
    graph: ir.Graph
    body: ir.Graph


def _walked(case: Case) -> _Walked:
    single = ir.from_proto(typed_outputs(single_model(case), case))
    declared = type_values(single)
    typings = Typings(declared, declared)
    outer = {v.name or "": _outer(v, case) for v in _inputs(single.graph)}
    given = {n: v for n, v in outer.items() if case.operands[n].kind != "constant"}
    graph = ir.Graph(
        list(given.values()),
        [],
        nodes=[],
        initializers=[v for n, v in outer.items() if n not in given],
        opset_imports={"": case.opset},
        name="batched",
    )
    prelude = Builder("map")
    first = next(n for n, o in case.operands.items() if o.kind == "mapped")
    shape = prelude.op("Shape", [outer[first]])
    options = WalkOptions(
        opset=case.opset,
        batch=prelude.op("Slice", [shape, prelude.ints(0), prelude.ints(1)]),
        may_be_empty=True,
        paths=node_paths(single),
    )
    walk = BatchInterpreter(typings, options, "map")
    for value in _inputs(single.graph):
        is_mapped = case.operands[value.name or ""].kind == "mapped"
        layout = Layout.STACKED if is_mapped else Layout.SHARED
        walk.bind(value, Batched(layout, outer[value.name or ""], UNKNOWN))
    walk.run(single.graph)
    return _Walked(walk, prelude, graph, single.graph)


def _inputs(graph: ir.Graph) -> list[ir.Value]:
    return [*graph.inputs, *graph.initializers.values()]


def _outer(value: ir.Value, case: Case) -> ir.Value:
    """Return what stands for an input or a constant of the body outside of it."""
    assert value.shape is not None
    is_mapped = case.operands[value.name or ""].kind == "mapped"
    shape = ir.Shape([None, *value.shape]) if is_mapped else value.shape
    return ir.Value(name=value.name, type=value.type, shape=shape, const_value=value.const_value)


def declines_directly(case: Case) -> list[tuple[str, str]]:
    """Return operator and code of each node that stayed per-sample."""
    return [(r.op_type, r.code.value) for r in _walked(case).walk.reasons]


def _batched_model(case: Case) -> onnx.ModelProto:
    """Return the body with a batch axis: its inputs and outputs are the stacked values."""
    walked = _walked(case)
    walk, graph = walked.walk, walked.graph
    assert not walk.reasons, walk.reasons
    nodes = [*walked.prelude.nodes, *(n for stage in walk.stages for n in stage.nodes)]
    to_opset_form(nodes, case.opset)
    graph.extend(nodes)
    for value in walked.body.outputs:
        found = walk.env[value]
        assert found.is_stacked
        found.value.name, found.value.type = value.name, value.type
        graph.outputs.append(found.value)
    model = ir.Model(graph, ir_version=10)
    make_names_unique(model)
    return ir.to_proto(model)


def _fed(operand: Operand, batch: int) -> Array:
    if operand.kind != "mapped":
        return operand.of(0)
    first = operand.of(0)
    rows = [operand.of(k) for k in range(batch)]
    return np.stack(rows) if rows else np.empty((0, *first.shape), first.dtype)


def prove_directly(case: Case, batch: int) -> None:
    """Assert that the body with a batch axis equals the body run alone for each sample."""
    single = typed_outputs(single_model(case), case)
    wanted = [
        run_model(single, {n: o.of(k) for n, o in case.operands.items()})
        for k in range(max(batch, 1))
    ]
    feeds = {n: _fed(o, batch) for n, o in case.operands.items()}
    outputs = run_model(_batched_model(case), feeds)
    for position, (name, got) in enumerate(zip(case.outputs, outputs, strict=True)):
        assert got.shape == (batch, *wanted[0][position].shape), name
        for k in range(batch):
            assert_equal(got[k], wanted[k][position], case, f"{name} of sample {k}")
