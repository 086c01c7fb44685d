"""The record of a Loop over samples: its body, and how it collects each output."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from passes.maps.element_source import ElementSource
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["Form", "Held", "LoopBody", "OutputPlan", "dims_of_samples"]


class Form(enum.StrEnum):
    """How a Loop collects one output of the body."""

    SCAN_OUTPUT = "scan output"
    BLOCKS = "blocks"
    INSERTION = "insertion"


@dataclasses.dataclass(frozen=True)
class LoopBody:
    """The body of a Loop that runs once for each sample.

    Attributes:
        nodes: The nodes, copied into the Loop.
        outputs: Their values that leave the Loop.
        elements: Each value that differs per sample, and where its element is read.
        shared: Each value that is one for all samples, and the value outside that it is.
    """

    nodes: Sequence[ir.Node]
    outputs: Sequence[ir.Value]
    elements: Sequence[tuple[ir.Value, ElementSource]]
    shared: Mapping[ir.Value, ir.Value]

    @classmethod
    def of(cls, site: MapSite) -> LoopBody:
        """Return the whole body of a map."""
        return cls(list(site.body), list(site.body.outputs), site.elements, dict(site.shared))


@dataclasses.dataclass(frozen=True)
class OutputPlan:
    """How one output of the body is collected.

    Attributes:
        form: The form.
        dtype: Its element type, if known.
        dims: Its dimensions, None for each that may differ by sample.
        axis: With blocks: the axis that is concatenated.
        proven: Its dimensions again, None for each that is only declared: no written type may
            have that number.
        is_shared: Whether it is one value for all samples.
        is_tensor: Whether a tensor of it is read, which has dimensions even without samples.
        begin: With insertion: the dimensions of an element without numbers that stands in front,
            so that a concatenation has a shape even without samples; None for no such element.
    """

    form: Form
    dtype: ir.DataType | None
    dims: tuple[int | str | None, ...] | None
    axis: int = 0
    proven: tuple[int | str | None, ...] | None = None
    is_shared: bool = False
    is_tensor: bool = False
    begin: tuple[int, ...] | None = None

    @property
    def declared_axes(self) -> list[int]:
        """The axes whose number is only declared."""
        dims, proven = self.dims or (), self.proven or (None,) * len(self.dims or ())
        pairs = enumerate(zip(dims, proven, strict=True))
        return [axis for axis, (d, p) in pairs if isinstance(d, int) and p is None]


@dataclasses.dataclass(frozen=True)
class Held:
    """One collected output: a stacked tensor, a packed one with lengths, or a sequence.

    Attributes:
        form: Which of the three.
        value: The tensor or sequence.
        lengths: With blocks: size of each sample along the axis, int64 ``[B]``.
        axis: With blocks: the axis.
    """

    form: Form
    value: ir.Value
    lengths: ir.Value | None = None
    axis: int = 0


def dims_of_samples(
    value: ir.Value, results: Iterable[MapResult], typings: Typings
) -> tuple[int | str | None, ...] | None:
    """Return the declared dimensions of an output of a body; its rank by a result otherwise.

    Args:
        value: The output of the body.
        results: What is made of it.
        typings: Both typings of the model.
    """
    dims = typings.declared.dims(value)
    for result in results:
        outer = typings.declared.dims(result.value)
        if dims is None and outer is not None:
            dims = (None,) * (len(outer) - (result.kind == "stacked"))
    return dims
