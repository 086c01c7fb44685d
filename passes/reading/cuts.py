"""Slices of tensors by the same bounds: where they lie is computed once, for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import skip_identities
from passes.numbers.integer_reads import INTEGERS, size_along
from passes.numbers.integers import Linear
from passes.reading.choices import find_choice
from passes.reading.sources import Reads
from passes.typing.value_types import is_number

__all__ = ["Cut", "find_cuts"]


@dataclasses.dataclass
class Cut:
    """Slices along the first axis of tensors of one length, all by the same bounds.

    Attributes:
        start: Where they begin, in the body.
        end: Where they end.
        is_wide: Whether both are int64.
        tensors: What each of them reads, outside of the body.
        positions: Their rows, once they are recorded.
    """

    start: ir.Value
    end: ir.Value
    is_wide: bool = True
    tensors: dict[ir.Node, ir.Value] = dataclasses.field(default_factory=dict)
    positions: ir.Value | None = None

    def write_even(self, builder: Builder, start: ir.Value, length: ir.Value) -> ir.Value:
        """Record ``length`` rows from a start on; later calls return them again."""
        if self.positions is None:
            first = _widened(builder, start)
            rows = builder.arange(length)
            self.positions = builder.op("Add", [rows, first])
        return self.positions

    def write(self, builder: Builder, start: ir.Value, end: ir.Value) -> ir.Value:
        """Record the rows between two bounds, as Slice has it; later calls return them again.

        Args:
            builder: Writes the body.
            start: The start as the body has it.
            end: The end.
        """
        if self.positions is None:
            shape = builder.op("Shape", [next(iter(self.tensors.values()))])
            count = builder.op("Gather", [shape, builder.scalar(0)], {"axis": 0})
            rows = builder.arange(count)
            bounds = [start, end] if self.is_wide else [_widened(builder, v) for v in (start, end)]
            self.positions = builder.op("Slice", [rows, *bounds, builder.ints(0)])
        return self.positions

    def take_choices(self, reads: Reads) -> None:
        """Read what an If yields where tensors are equally long, instead of what it yields.

        Only where it asks about tensors that are cut here, which are taken as equally long.
        """
        choices = {node: find_choice(tensor, reads) for node, tensor in self.tensors.items()}
        plain = [tensor for node, tensor in self.tensors.items() if choices[node] is None]
        for node, choice in choices.items():
            if choice is None:
                continue
            tensors = (choice.tensor, *plain)
            sizes = {size_along(reads.evaluator, tensor, 0) for tensor in tensors}
            if choice.numbers <= sizes:
                self.tensors[node] = choice.tensor

    def unproven(self, reads: Reads) -> list[tuple[ir.Value, ir.Value]]:
        """Return the pairs of tensors that are not proven to be equally long."""
        first, *others = dict.fromkeys(self.tensors.values())
        size = size_along(reads.evaluator, first, 0)
        sizes = [(other, size_along(reads.evaluator, other, 0)) for other in others]
        return [(first, o) for o, n in sizes if n is None or size is None or n != size]


def _widened(builder: Builder, bound: ir.Value) -> ir.Value:
    return builder.op("Cast", [bound], {"to": ir.DataType.INT64})


def find_cuts(
    nodes: Iterable[ir.Node], reads: Reads, *, as_long: bool, least: int = 2
) -> dict[ir.Node, Cut]:
    """Return the Slices that share their bounds with others.

    Args:
        nodes: The nodes of a body, in order.
        reads: What reading by the iteration number depends on.
        as_long: Take tensors that are cut alike as equally long, without proof.
        least: How many Slices must share their bounds.
    """
    cuts: dict[object, Cut] = {}
    for node in nodes:
        tensor = _cut_tensor(node, reads)
        start, end = node.inputs[1:3] if tensor is not None else (None, None)
        if tensor is None or start is None or end is None:
            continue
        size = None if as_long else size_along(reads.evaluator, tensor, 0) or tensor
        key = _bound(start, reads), _bound(end, reads), size
        dtypes = {reads.evaluator.dtype(v) for v in (start, end)}
        cut = Cut(start, end, is_wide=dtypes == {ir.DataType.INT64})
        cuts.setdefault(key, cut).tensors[node] = tensor
    if as_long:
        for cut in cuts.values():
            cut.take_choices(reads)
    return {
        node: cut for cut in cuts.values() if len(cut.tensors) >= least for node in cut.tensors
    }


def _bound(value: ir.Value, reads: Reads) -> Linear | ir.Value:
    number = reads.evaluator.number(value)
    return skip_identities(value) if number is None else number


def _cut_tensor(node: ir.Node, reads: Reads) -> ir.Value | None:
    """Return the tensor outside of the body that a node cuts forwards along its first axis."""
    if not is_operator(node, "Slice") or len(node.inputs) < 3:
        return None
    evaluator, tensor = reads.evaluator, reads.outside(node.inputs[0])
    choice = None if tensor is None else find_choice(tensor, reads)
    if choice is not None and choice.is_certain:
        tensor = choice.tensor
    bounds = node.inputs[1:3]
    if not all(_is_one_integer(v, reads) for v in bounds) or _are_constants(bounds, reads):
        return None
    for value, wanted in zip(node.inputs[3:], (0, 1), strict=False):
        number = None if value is None else evaluator.number(value)
        if value is not None and (number is None or number.number != wanted):
            return None
    is_text = tensor is None or not is_number(reads.declared.dtype(tensor))
    return None if is_text else tensor


def _are_constants(bounds: Iterable[ir.Value | None], reads: Reads) -> bool:
    """Whether bounds are the same in all iterations: the Slice is one for all samples."""
    numbers = [reads.evaluator.number(value) for value in bounds]
    return all(number is not None and number.number is not None for number in numbers)


def _is_one_integer(value: ir.Value | None, reads: Reads) -> bool:
    evaluator = reads.evaluator
    is_one = evaluator.dims(value) == (1,) or evaluator.number(value) is not None
    return is_one and evaluator.dtype(value) in INTEGERS
