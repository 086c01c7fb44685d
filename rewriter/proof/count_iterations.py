"""Makes a model tell how often the bodies of its loops run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from passes.graph.graphs import all_graphs, constant_value, is_default_domain, subgraphs
from passes.graph.names import make_names_unique
from rewriter.model_files import models
from rewriter.model_files.kinds import AnyModel

__all__ = ["ITERATIONS", "may_iterate", "with_iterations"]

ITERATIONS = "seqmap.iterations"
"""The name of the output that tells."""


def may_iterate(source: AnyModel) -> bool:
    """Whether a model holds a map or a loop whose body may run, for all that is known."""
    nodes = (node for graph in all_graphs(models.take(source).model) for node in graph)
    return any(
        node.op_type in ("SequenceMap", "Scan")
        or (node.op_type == "Loop" and not _never_begins(node))
        for node in nodes
    )


def _never_begins(loop: ir.Node) -> bool:
    """Whether a constant says that a Loop has no first iteration."""
    condition = loop.inputs[1] if len(loop.inputs) > 1 else None
    known = None if condition is None else constant_value(condition)
    return known is not None and not known.any()


def with_iterations(source: AnyModel) -> ir.Model:
    """Return a model with one more output: how often bodies of its Loops and Scans run.

    A loop in the body of another one is not counted again.

    Args:
        source: A model without SequenceMap.
    """
    model = models.take(source).model
    InlinePass()(model)
    total = _total(_counts(model.graph), model.graph)
    total.name = ITERATIONS
    model.graph.outputs.append(total)
    make_names_unique(model)
    return model


def _counts(graph: ir.Graph) -> list[ir.Value]:
    """Record, for each loop and each If of a graph, how often a body runs in it."""
    found = []
    for node in list(graph):
        if not is_default_domain(node):
            continue
        if node.op_type in ("Loop", "Scan"):
            found.append(_appended(graph, "Size", [_collected(node)]))
        elif node.op_type == "If":
            for _, branch in subgraphs(node):
                branch.outputs.append(_total(_counts(branch), branch))
            found.append(_typed(_added_output(node)))
    return found


def _collected(node: ir.Node) -> ir.Value:
    """Make a loop collect a number in each iteration; return what it has collected."""
    body = node.attributes["body"].as_graph()
    body.outputs.append(_constant(body, 0))
    for name in ("scan_output_axes", "scan_output_directions"):
        if name in node.attributes:
            values = [*node.attributes[name].as_ints(), 0]
            node.attributes[name] = ir.AttrInt64s(name, values)
    value = _added_output(node)
    value.type = ir.TensorType(ir.DataType.INT64)
    return value


def _added_output(node: ir.Node) -> ir.Value:
    node.resize_outputs(len(node.outputs) + 1)
    return node.outputs[-1]


def _total(counts: Iterable[ir.Value], graph: ir.Graph) -> ir.Value:
    """Record the sum of numbers, 0 of none."""
    total = _constant(graph, 0)
    for count in counts:
        total = _appended(graph, "Add", [total, count])
    return total


def _constant(graph: ir.Graph, number: int) -> ir.Value:
    tensor = ir.tensor(np.array(number, np.int64))
    return _appended(graph, "Constant", [], [ir.AttrTensor("value", tensor)])


def _appended(
    graph: ir.Graph, op_type: str, inputs: list[ir.Value], attributes: Iterable[ir.Attr] = ()
) -> ir.Value:
    """Append a node that yields one number."""
    node = ir.Node("", op_type, inputs, attributes)
    graph.append(node)
    return _typed(node.outputs[0])


def _typed(value: ir.Value) -> ir.Value:
    value.type, value.shape = ir.TensorType(ir.DataType.INT64), ir.Shape(())
    return value
