"""Numbers that loops compute for the host are computed there, whatever the device could do.

onnxruntime leaves arithmetic on shapes on the host, in each graph by itself. A position that the
body of a Loop computes from its iteration number and a number of the graph around it follows from
no shape: the device computes it, and hands it back in every iteration. Here it is computed from
what the host has (`host_values`).
"""

from __future__ import annotations

import onnx_ir as ir

from passes.device.host_facts import ORIGIN, HostFacts, ReadsOnHost, computes_integers
from passes.device.host_reading import HostReadingPass
from passes.device.host_values import HostValues, values_in_loops
from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead

__all__ = ["HostNumbersPass", "ReadsOnHost"]


class HostNumbersPass(HostReadingPass):
    """Compute on the host what loops compute of integers for the host.

    1. Numbers that the host reads are computed from its iteration number, from sizes and from
       captured integers by elementary operators: there, and not on the device.
    2. What the device reads of numbers that the host reads is brought to it by a Range.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the graphs inside of the loops of the main graph, outer ones first."""
        facts, inside = values_in_loops(model, self._reads_on_host)
        if facts is None:
            return ir.passes.PassResult(model, modified=False)
        modified = False
        for graph, values in inside.items():
            modified |= self._rewrite(graph, values, facts)
        if modified:
            for graph, values in inside.items():
                _bring_to_device(graph, values, facts)
            make_names_unique(model)
        remove_dead([node for one in inside.values() for node in reversed(one.made)])
        return ir.passes.PassResult(model, modified)

    def _rewrite(self, graph: ir.Graph, values: HostValues, facts: HostFacts) -> bool:
        """Let the host read what it has; return whether anything changed."""
        modified = False
        for node in list(graph):
            for position, value in enumerate(node.inputs):
                if value is None:
                    continue
                maker = value.producer()
                if maker is None or maker.graph is not graph:
                    continue
                if not computes_integers(maker, facts) or not self._reads_on_host(node, position):
                    continue
                held = values.of(value)
                if held is not None and held is not value:
                    node.replace_input_with(position, held)
                    remove_dead([maker])
                    modified = True
        return modified


def _bring_to_device(graph: ir.Graph, values: HostValues, facts: HostFacts) -> None:
    """Let the device read numbers that the host reads, too, from a Range of one number.

    Its bounds are on the host, and the device writes what lies between them.
    """
    for number in graph.inputs:
        if facts.dtype(number) != ir.DataType.INT64 or facts.typing.rank(number) != 0:
            continue
        uses = [use for use in number.uses() if use.node.graph is graph]
        there = [
            (node, position)
            for node, position in uses
            if not facts.reads_on_host(node, position) and not values.runs_here(node)
        ]
        held = values.of(number) if 0 < len(there) < len(uses) else None
        if held is None:
            continue
        builder = Builder(ORIGIN)
        one = builder.scalar(1)
        bounds = builder.op("Range", [held, builder.op("Add", [held, one]), one])
        copy = builder.op("Squeeze", [bounds, builder.ints(0)])
        copy.type, copy.shape = number.type, ir.Shape([])
        values.put_first(builder)
        for node, position in there:
            node.replace_input_with(position, copy)
