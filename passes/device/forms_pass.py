"""What the passes share that write other forms of nodes for a device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from passes.graph.splice import splice_form
from passes.typing import Typing, type_values

__all__ = ["FormsPass", "HasKernel"]

HasKernel: TypeAlias = Callable[[ir.Node, ir.DataType | None], bool]
"""Whether the device computes a node, with this type in the place of what it computes with."""

_Form: TypeAlias = Callable[[ir.Node, Typing, Builder], Sequence[ir.Value] | None]


class FormsPass(ir.passes.InPlacePass):
    """A pass that writes nodes in another form, by what a device has kernels for."""

    def __init__(self, has_kernel: HasKernel) -> None:
        """Set up the pass.

        Args:
            has_kernel: Tells what the device computes.
        """
        super().__init__()
        self._has_kernel = has_kernel

    def _write_forms(self, model: ir.Model, found: Collection[ir.Node], form: _Form) -> bool:
        """Put other forms in the place of nodes; return whether there is one.

        Args:
            model: The model; it is typed, unless there are no nodes.
            found: The nodes.
            form: Records the form of a node, None where it stays.
        """
        if not found:
            return False
        typing = type_values(model, proven=True)
        modified = False
        for node in found:
            modified |= splice_form(node, functools.partial(form, node, typing))
        if modified:
            make_names_unique(model)
        return modified
