"""Loops that run on the host as a whole, where each iteration would copy values to the device.

A device without a kernel for Loop leaves it to the host, which hands the device what it computes
of an iteration and takes the results back: for each element of a list, which the host holds. The
host computes a light iteration sooner than the copies take.

onnxruntime reads in a node which layer of the model it belongs to, and in the configuration of a
session where a layer runs. Without that entry the loop runs as if it were not annotated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

from passes.fusing.measured_costs import HEAVY
from passes.graph.graphs import graphs_inside, is_operator, walk_nodes
from passes.graph.names import make_names_unique

__all__ = ["HOST_LAYER", "LAYER_KEY", "CopyingLoops", "HostLoopsPass", "stays_on_host"]

CopyingLoops = Callable[[ir.Model], Collection[ir.Node]]
"""Lists the Loops and Scans of a model that the host runs and that copy in each iteration."""
HOST_LAYER = ("session.layer_assignment_settings", "cpu(=seqmap_host)")
"""The entry of the session's configuration that keeps such loops on the host."""
LAYER_KEY = "layer_ann"
"""Where onnxruntime reads the annotation of a node."""
_LAYER = "seqmap_host"
_MOST_WEIGHTS = 2**20
"""With more weights in an iteration, a row takes the host longer than a copy waits."""


class HostLoopsPass(ir.passes.InPlacePass):
    """Keep a whole Loop or Scan on the host.

    1. The device has no kernel for it, and values are copied in each iteration.
    2. The weights that its heavy operators read are few.
    """

    only_for = (("Loop", "Scan"),)

    def __init__(self, copying: CopyingLoops) -> None:
        """Set up the pass.

        Args:
            copying: Lists the loops that copy.
        """
        super().__init__()
        self._copying = copying

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Annotate loops; one around them may copy for it, and is kept then, too."""
        kept = list[ir.Node]()
        while found := [node for node in self._copying(model) if _is_light(node)]:
            for node in walk_nodes(found):
                # What onnxruntime makes of an operator that it opens has that operator's layer.
                node.metadata_props[LAYER_KEY] = _LAYER
            kept += found
        if kept and _give_own_weights(model, [n for n in kept if n.graph is not model.graph]):
            make_names_unique(model)
        return ir.passes.PassResult(model, bool(kept))


def _give_own_weights(model: ir.Model, loops: Sequence[ir.Node]) -> bool:
    """Give loops in branches weights of their own, where the device reads the same.

    onnxruntime holds weights of the main graph that only branches read on one of both sides, and
    copies them in no branch: what reads them on the other side fails.

    Returns:
        Whether there are such.
    """
    inside, copies = dict.fromkeys(walk_nodes(loops)), dict[ir.Value, ir.Value]()
    for node in inside:
        for at, value in enumerate(node.inputs):
            if value is None or value.const_value is None or not value.is_initializer():
                continue
            is_shared = any(use.node not in inside for use in value.uses())
            if value.graph is not model.graph or not is_shared:
                continue
            if value not in copies:
                copies[value] = _copied(model, value)
            node.replace_input_with(at, copies[value])
    return bool(copies)


def _copied(model: ir.Model, value: ir.Value) -> ir.Value:
    """Return weights of the main graph once more; their numbers are not read."""
    copy = ir.Value(
        name=f"{value.name}/host",
        type=value.type,
        shape=value.shape,
        const_value=value.const_value,
    )
    model.graph.register_initializer(copy)
    return copy


def stays_on_host(node: ir.Node) -> bool:
    """Return whether a node is annotated to stay on the host with all that is inside of it."""
    return node.metadata_props.get(LAYER_KEY) == _LAYER


def _is_light(loop: ir.Node) -> bool:
    """Return whether the host computes an iteration soon; a layer that its author named stays."""
    if LAYER_KEY in loop.metadata_props:
        return False
    heavy = [node for graph in graphs_inside(loop) for node in graph if is_operator(node, HEAVY)]
    weights = {value for node in heavy for value in node.inputs if value is not None}
    sizes = (value.const_value.size for value in weights if value.const_value is not None)
    return sum(sizes) <= _MOST_WEIGHTS
