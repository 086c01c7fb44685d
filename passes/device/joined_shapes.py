"""Shapes that an iteration joins stay on the host, for a device that computes int64 in 32 bits.

Shape leaves its result on the host. A device that joins int64 itself is handed each of them, in
each iteration of a Loop that the host runs. It has no kernels for doubles, which hold all sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.device.forms_pass import FormsPass
from passes.device.moved_forms import between_casts
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator, subgraphs
from passes.graph.made import operand, operands
from passes.typing import Typing

__all__ = ["JoinedShapesPass"]

_OTHER = ir.DataType.DOUBLE
_MOST = 2**53
"""Up to here a double has every whole number."""
_BEHIND = ("Slice", "Squeeze")


class JoinedShapesPass(FormsPass):
    """Join shapes as doubles, and cut what is joined as doubles.

    1. The node is in the body of a Loop or Scan that the device has no kernel for.
    2. It is a Concat of shapes and constants, or cuts what such a Concat yields.
    3. Nothing else reads what it reads: no value is copied that was not.
    4. The device joins int64, and has no kernel for doubles. What cuts int64 would be written
       in another form for it.
    """

    only_for = (("Concat",), ("Shape",))

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the bodies of Loops and Scans."""
        found = dict[ir.Node, None]()
        for graph in self._bodies(model.graph, is_inside=False):
            for node in graph:
                if self._is_kept(node, found):
                    found[node] = None
        return ir.passes.PassResult(model, self._write_forms(model, found, _as_doubles))

    def _bodies(self, graph: ir.Graph, *, is_inside: bool) -> Iterator[ir.Graph]:
        for node in graph:
            is_loop = is_operator(node, ("Loop", "Scan")) and not self._has_kernel(node, None)
            for _, inner in subgraphs(node):
                if is_inside or is_loop:
                    yield inner
                yield from self._bodies(inner, is_inside=is_inside or is_loop)

    def _is_kept(self, node: ir.Node, found: dict[ir.Node, None]) -> bool:
        if is_operator(node, "Concat"):
            kept = [value for value in operands(node) if not _is_small(value)]
            is_joined = self._has_kernel(node, ir.DataType.INT64)
            is_joined &= all(is_operator(value.producer(), "Shape") for value in kept)
        elif is_operator(node, _BEHIND):
            kept = [operand(node, 0)]
            is_joined = kept[0].producer() in found
        else:
            return False
        if not kept or not is_joined or any(len(value.uses()) > 1 for value in kept):
            return False
        return not self._has_kernel(node, _OTHER)


def _is_small(value: ir.Value) -> bool:
    known = constant_value(value)
    return known is not None and bool((abs(known.astype(float)) < _MOST).all())


def _as_doubles(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    return between_casts(node, ir.DataType.INT64, _OTHER, builder)
