"""The record of a Loop over samples: its body, and how it collects each output."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.maps.element_source import ElementSource
from passes.maps.tensor_source import TensorSource
from passes.site import MapResult, MapSite
from passes.typing import Typings, ValueType

__all__ = [
    "SPLITTABLE",
    "Form",
    "LoopBody",
    "OutputPlan",
    "can_split",
    "dims_of_samples",
    "slices_of",
]

SPLITTABLE = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.BOOL,
        ir.DataType.STRING,
    }
)
"""Element types for which onnxruntime has SplitToSequence."""

_MOST_PIECES = 64


def can_split(dtype: ir.DataType | None, count: int | None) -> bool:
    """Whether a tensor is cut into a sequence without insertion.

    Args:
        dtype: Its element type, if known.
        count: Number of elements of the sequence, if known.
    """
    return dtype in SPLITTABLE or (count is not None and 0 < count <= _MOST_PIECES)


class Form(enum.StrEnum):
    """How a Loop collects one output of the body: stacked, packed, or in a sequence."""

    SCAN_OUTPUT = "scan output"
    BLOCKS = "blocks"
    INSERTION = "insertion"

    @property
    def layout(self) -> Layout:
        """How the samples are held then."""
        return _LAYOUTS[self]


_LAYOUTS = {
    Form.SCAN_OUTPUT: Layout.STACKED,
    Form.BLOCKS: Layout.PACKED,
    Form.INSERTION: Layout.SEQUENCE,
}


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

    def collected(self, value: ir.Value, lengths: Lengths | None = None) -> Batched:
        """Return the record of what a Loop has collected.

        Args:
            value: The tensor or sequence.
            lengths: With blocks: the size of each sample along the axis.
        """
        type_ = None if self.dtype is None else ir.TensorType(self.dtype)
        return Batched(
            self.form.layout,
            value,
            ValueType(type_, self.dims),
            lengths=lengths,
            axis=self.axis,
        )

    @property
    def declared_axes(self) -> list[int]:
        """The axes whose number is only declared."""
        dims, proven = self.dims or (), self.proven or (None,) * len(self.dims or ())
        pairs = enumerate(zip(dims, proven, strict=True))
        return [axis for axis, (d, p) in pairs if isinstance(d, int) and p is None]


def slices_of(x: Batched) -> TensorSource:
    """Return where a loop reads samples that are stacked or packed."""
    if x.lengths is None:
        return TensorSource.of_stacked(x.value)
    return TensorSource(x.value, x.axis, split=x.lengths.value, is_whole=True)


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
