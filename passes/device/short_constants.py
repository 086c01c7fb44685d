"""Constants beyond 32 bits, for a device that computes int64 in 32 bits.

A place that nothing reaches may be written as ``2^61 - 1``, the end of what has no end as
``2^63 - 1``. The lower half of either is ``-1``, in front of everything. The nearest int32 stands
behind all sizes and places, as they do.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.device.host_reading import HostReadingPass
from passes.graph.builder import Builder
from passes.graph.graphs import all_nodes, constant_value, is_operator
from passes.graph.names import make_names_unique

__all__ = ["ShortConstantsPass"]

_LIMITS = np.iinfo(np.int32)
# Behind the number of iterations and the condition, which the host reads.
_FIRST_STATE = 2


class ShortConstantsPass(HostReadingPass):
    """Let what reads an int64 constant on the device read the nearest numbers of 32 bits.

    A Cast keeps its own: a runtime computes it of constants beforehand, in 64 bits.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph and subgraphs."""
        modified = bool([one for one in list(all_nodes(model)) if self._shorten(one)])
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _shorten(self, node: ir.Node) -> bool:
        """Hand a node shorter constants; return whether it read a longer one."""
        builder = Builder.at(node)
        for position, value in enumerate(node.inputs):
            known = constant_value(value)
            if known is None or known.dtype != np.int64:
                continue
            short = known.clip(_LIMITS.min, _LIMITS.max)
            if (short != known).any() and self._is_of_device(node, position):
                node.replace_input_with(position, builder.constant(short))
        if builder.nodes:
            assert node.graph is not None
            node.graph.insert_before(node, builder.nodes)
        return bool(builder.nodes)

    def _is_of_device(self, node: ir.Node, position: int) -> bool:
        """Whether the device reads an input, or what a Loop carries from there on."""
        if is_operator(node, "Loop"):
            return position >= _FIRST_STATE
        return not is_operator(node, "Cast") and not self._reads_on_host(node, position)
