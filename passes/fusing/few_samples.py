"""Writes a map as one Loop, in the form that is fastest for few samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import Builder
from passes.loops.escape import SPLITTABLE
from passes.loops.forms import Form
from passes.loops.plan import LoopPlan, write_results
from passes.site import ElementSource, MapSite, SequenceSource, TensorSource
from passes.typing import Typings

__all__ = ["FewSamples"]


class FewSamples:
    """A map as one Loop: blocks pay for long lists only, and so do bounds that are computed.

    Attributes:
        may_be_none: Whether the Loop is right for no samples too.
    """

    def __init__(self, site: MapSite, plan: LoopPlan, typings: Typings) -> None:
        """Choose the form.

        Args:
            site: The map.
            plan: How a loop over any number of samples collects its results.
            typings: Both typings of the model.
        """
        self._site = site
        self._typings = typings
        outputs = {
            i: dataclasses.replace(one, form=Form.INSERTION) if one.form is Form.BLOCKS else one
            for i, one in plan.outputs.items()
        }
        self._plan = dataclasses.replace(plan, outputs=outputs)
        self.may_be_none = all(
            result.kind == "sequence" or outputs[result.output].form is Form.SCAN_OUTPUT
            for result in site.results
        )

    def write(self, builder: Builder, count: ir.Value) -> Sequence[ir.Value]:
        """Record the Loop and return the value of each result.

        Args:
            builder: Writes the graph that the map stands in.
            count: The number of samples, an int64 scalar.
        """
        elements = [
            (inner, self._read_from(builder, source)) for inner, source in self._site.elements
        ]
        site = dataclasses.replace(self._site, elements=elements)
        return write_results(builder, site, self._typings, self._plan, count)

    def _read_from(self, builder: Builder, source: ElementSource) -> ElementSource:
        """Return a sequence for the slices that SplitToSequence cut."""
        if not isinstance(source, TensorSource) or source.split is None or self._site.was_loop:
            return source
        if self._typings.declared.dtype(source.tensor) not in SPLITTABLE:
            return source
        parts = [source.tensor, source.split]
        return SequenceSource(builder.op("SplitToSequence", parts, {"axis": source.axis}))
