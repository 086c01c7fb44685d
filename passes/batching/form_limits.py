"""What a rule asks of the target and of costs, and where a loop shall run instead of its form."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.body_state import BodyState
from passes.batching.form_notes import MANY_ROWS, PADDED
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.operators import BatchAxis
from passes.graph.builder import Builder

__all__ = ["FormLimits"]

_WASTE, _FREE = 4, 4096
"""So many times what samples hold they may take when they are padded, and so much in any case."""


class FormLimits(BatchAxis):
    """The part of a context that limits the form of a body, or notes what it costs.

    Attributes:
        nodes: How many nodes a sample takes in a loop, without constants.
        products: How many products of matrices a sample takes.
        is_carried: Whether operators behind the map compute what a Loop carried.
        takes_flat: Whether samples that differ along several axes are batched; see `FuseOptions`.
        takes_packed_as_flat: Whether packed samples may become flat ones: where no guard asks for
            their lengths.
    """

    def __init__(self, builder: Builder, body: BodyState, batch: ir.Value) -> None:
        super().__init__(builder, body.options.opset, batch)
        self._body = body
        options = body.options
        self.nodes, self.products = options.nodes, options.products
        self.is_carried = options.is_carried
        self.takes_flat = options.asked.takes_flat
        self.takes_packed_as_flat = options.asked.takes_packed_as_flat

    def lacks(self, op_type: str) -> bool:
        """Whether the target has no such operator, so that a dearer form is better than none."""
        return op_type in self._body.options.asked.lacks

    @property
    def for_device(self) -> bool:
        """Whether a device beside the host runs the model, which starts nodes on nothing soon."""
        return self._body.options.asked.for_device

    def note_single_numbers(self, count: int) -> None:
        """Note that a rule reads so many single numbers of each sample, which a loop copies."""
        self._body.reads_numbers = max(self._body.reads_numbers, count)

    def note_meeting(self) -> None:
        """Let a form that asks whether tensors are equally long come first, if there is one."""
        self._body.note_meeting()

    def note_padding(self, *operands: Batched) -> None:
        """Let the report say what it takes to pad samples to the longest, whatever that is."""
        for x in operands:
            if x.is_packed:
                self._body.note_padding(x)

    def limit_padding(self, *operands: Batched) -> None:
        """Let a loop run where padding takes too many times what the samples hold.

        Samples of lengths ``[1, 2, 9]`` take 27 places for 12 rows. Where a target has no loop,
        nothing is asked, and the report says so.

        Args:
            operands: What is padded, one for each axis.

        Raises:
            Decline: Nothing can be asked here.
        """
        if self.lacks("Loop") or self.lacks("If"):
            self.note_padding(*operands)
        self.limit_padding_of(*(x.lengths for x in operands if x.lengths is not None))

    def limit_padding_of(self, *axes: Lengths) -> None:
        """Let a loop run as `limit_padding` does, for one object of lengths for each axis."""
        if self.lacks("Loop") or self.lacks("If"):
            return
        own, most = axes[0].value, self.op("Mul", [self.batch, axes[0].longest])
        for other in axes[1:]:
            own = self.op("Mul", [own, other.value])
            most = self.op("Mul", [most, other.longest])
        held = self.op("ReduceSum", [own], {"keepdims": 1})
        bound = self.op("Add", [self.op("Mul", [held, self.ints(_WASTE)]), self.ints(_FREE)])
        self._body.limit(self.squeeze(self.op("LessOrEqual", [most, bound]), [0]), PADDED)

    @property
    def asks_what_pays(self) -> bool:
        """Whether a loop may run where it is faster, and an If may ask for it."""
        can_ask = not (self.lacks("Loop") or self.lacks("If"))
        return self._body.options.asked.auto and can_ask

    def limit_rows(self, lengths: Lengths, each: int, *, without: int, few: int) -> None:
        """Let a loop run where samples have so many rows that it is faster.

        Args:
            lengths: Those of the samples. Where sizes tell about how many rows they have, that
                is asked first.
            each: So many may a sample have.
            without: So many of these are not there: they pay for what runs once.
            few: Up to how many samples a loop is faster, whatever they hold.

        Raises:
            Decline: Nothing can be asked here.
        """
        paid = self.op("Mul", [self.batch, self.ints(each)])
        bound = self.op("Sub", [paid, self.ints(without)])
        flag = self.squeeze(self.op("LessOrEqual", [lengths.total, bound]), [0])
        if lengths.likely is not None:
            early = self.squeeze(self.op("LessOrEqual", [lengths.likely, bound]), [0])
            self._body.early.append(early)
            flag = self.op("And", [early, flag])
        self._body.limit(flag, MANY_ROWS)
        self._body.few = max(self._body.few, few)
