"""The tools of a batching rule: operands, new nodes, and the few moves all rules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from passes.batching.body_state import BodyState
from passes.batching.flat.samples import FlatSamples
from passes.batching.form_limits import FormLimits
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.sizes import LengthKey, SampleNumbers
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.typing import ValueType

__all__ = ["Context", "Operand", "Output", "Rule", "unknown_axes"]

Operand = Batched | None
"""An input of a node as a rule sees it; None where the node leaves it out."""


Output: TypeAlias = Batched
"""An output of a rule, in any layout but per-sample; the walk enters its type and its stage."""

Rule = Callable[["Context", ir.Node, Sequence[Operand]], Sequence[Output | None]]
"""``rule(ctx, node, operands) -> outputs``, one for each output of the node, or `Decline`.

Every operand is shared or stacked and at least one is stacked; a rule for packed operands gets
at least one that is packed. Dimensions and ranks are those of one sample. The rule records nodes
with ``ctx.op``; the batch axis is axis 0.
"""


def unknown_axes() -> Decline:
    """Return the `Decline` of a node whose axes are not constant."""
    return Decline(Code.RAGGED, "nothing tells its axes before it runs")


class Context(FormLimits):
    """The surroundings of one node while its rule runs.

    Attributes:
        builder: Records the new nodes.
        opset: Version of ONNX's operators in the model.
        may_be_empty: Whether there may be no samples where the new nodes run.
        batch: Number of samples as an int64 vector ``[1]``.
        asked: What is asked of the rewrite.
        wholes: See `FormNotes`.
        copies: The same.
        type_of: Returns what is known of a value of the body; this one and the others are
            methods of `BodyState`.
        read: Returns a value of the body as shared or stacked.
        declared_dims: Returns its dimensions, numbers that are only declared included.
        have_one_shape: Whether two values have the same dimensions in each sample, by proof.
        lengths_named: Returns the lengths that a dimension of a sample stands for.
        runs_anywhere: Whether a node cannot fail where the body would not run it.
        count_failing: Counts the nodes so far that could fail and run without samples, too.
    """

    def __init__(
        self, builder: Builder, body: BodyState, batch: ir.Value, *, may_be_empty: bool
    ) -> None:
        super().__init__(builder, body, batch)
        self.may_be_empty = may_be_empty
        self.asked, self.wholes, self.copies = body.options.asked, body.wholes, body.copies
        self.type_of, self.read = body.type_of, body.read_batched
        self.declared_dims, self.have_one_shape = body.declared_dims, body.have_one_shape
        self.lengths_named, self.runs_anywhere = body.lengths_named, body.runs_anywhere
        self.count_failing = body.count_failing

    def lengths_by(self, key: LengthKey, make: Callable[[], Lengths]) -> Lengths:
        """Return the lengths that a key stands for: the same object each time.

        Args:
            key: What tells them: which rows flags leave of samples, the length of one sample as a
                sum, or several such sums.
            make: Records the lengths where they are asked for the first time.
        """
        return self._body.lengths_by(self.builder, key, make)

    @property
    def numbers(self) -> SampleNumbers:
        """Reads small integer tensors of the body as sums of lengths and dimensions."""
        return self._body.numbers

    def nested(
        self,
        graph: ir.Graph,
        bindings: Mapping[ir.Value, Batched],
        builder: Builder,
        *,
        keeps_flat: bool = False,
    ) -> list[Batched]:
        """Record all nodes of a graph inside the node, batched, and return its outputs.

        Args:
            graph: A graph that the node owns.
            bindings: What its inputs are; further entries replace values that it captures.
            builder: Where the nodes go.
            keeps_flat: Whether outputs may be flat; otherwise they are stacked or packed.

        Raises:
            Decline: One of the nodes declines.
        """
        return self._body.nested(
            graph,
            bindings,
            builder,
            self.batch,
            may_be_empty=self.may_be_empty,
            keeps_flat=keeps_flat,
        )

    def inside(self, builder: Builder) -> Context:
        """Return the same context for a graph inside of this one."""
        return self.with_batch(builder, self.batch, may_be_empty=self.may_be_empty)

    def with_batch(
        self, builder: Builder, batch: ir.Value, *, may_be_empty: bool = False
    ) -> Context:
        """Return the context of other samples, those of a graph inside of this one among them.

        Args:
            builder: Records the nodes of that graph.
            batch: How many samples, as an int64 vector ``[1]``.
            may_be_empty: Whether there may be none.
        """
        return Context(builder, self._body, batch, may_be_empty=may_be_empty)

    # New nodes.

    def same(
        self,
        node: ir.Node,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> list[Output]:
        """Record the node's own operator on other inputs; every output is stacked.

        Args:
            node: The node of the body.
            inputs: The new inputs.
            attributes: Changes to its attributes; None removes one.
        """
        changed = {**node.attributes, **(attributes or {})}
        new = self.builder.node(
            node.op_type, inputs, changed, outputs=len(node.outputs), domain=node.domain
        )
        for old, out in zip(node.outputs, new.outputs, strict=True):
            if old.name == "":
                out.name = ""
        return [self.stacked(out) for out in new.outputs]

    # Results.

    def stacked(self, value: ir.Value) -> Output:
        """Mark a value ``[B, *s]`` as an output of the rule."""
        return Batched(Layout.STACKED, value)

    def shared(self, value: ir.Value) -> Output:
        """Mark a value that is the same for every sample as an output of the rule."""
        return Batched(Layout.SHARED, value)

    def packed(
        self, value: ir.Value, lengths: Lengths, axis: int = 0, beside: Lengths | None = None
    ) -> Output:
        """Mark a value as an output of the rule whose samples lie one behind the other.

        Args:
            value: ``[T, *rest]``, or ``[*before, T, *rest]``.
            lengths: The lengths of the samples.
            axis: Where it has its axis of size ``T``.
            beside: Their lengths along the last axis, if they differ along that, too.
        """
        return Batched(Layout.PACKED, value, lengths=lengths, axis=axis, beside=beside)

    def flat(self, rows: ir.Value, samples: FlatSamples) -> Output:
        """Mark rows as an output of the rule; samples of several sizes are read off them."""
        return Batched(Layout.FLAT, rows, flat=samples)

    # Operands.

    def operand(self, operands: Sequence[Operand], index: int, name: str = "") -> Batched:
        """Return an operand that must be there."""
        found = self.optional(operands, index)
        if found is None:
            raise Decline(Code.NO_RULE, f"operand {name or index} is left out")
        return found

    def optional(self, operands: Sequence[Operand], index: int) -> Operand:
        """Return an operand, or None where the node leaves it out."""
        return operands[index] if index < len(operands) else None

    def constant(self, operand: Operand) -> np.ndarray | None:
        """Return the value of a shared operand that is a small constant, or None."""
        if operand is None or not operand.is_shared:
            return None
        return constant_value(operand.value)

    def entry(self, vector: Batched, position: int) -> ir.Value:
        """Return an entry of a vector: ``[1]`` if all samples share it, else ``[B]``."""
        if vector.is_shared:
            return self.op("Gather", [vector.value, self.ints(position)], {"axis": 0})
        return self.op("Gather", [vector.value, self.builder.scalar(position)], {"axis": 1})

    def known_axes(
        self, operands: Sequence[Operand], default: Sequence[int] | None
    ) -> Sequence[int]:
        """Return the axes that a Slice or Pad lists as its operand 3, as they are written.

        Args:
            operands: The operands of the node.
            default: The axes where it is left out, None if nothing tells them.

        Raises:
            Decline: They are not known.
        """
        given = self.optional(operands, 3)
        known = None if given is None else self.constant(given)
        axes = default if given is None else None if known is None else known.reshape(-1).tolist()
        if axes is None:
            raise unknown_axes()
        return axes

    def moved_axes(self, axes: Batched, rank: int) -> ir.Value:
        """Return shared axes of a sample as axes of its stack, in the same element type.

        Axes ``[0, -1]`` of a sample of rank 2 are ``[1, 2]``.
        """
        known = self.constant(axes)
        if known is None:
            return self.shifted_axes(axes, rank)
        moved = [self.axis(int(axis), rank) for axis in known.reshape(-1)]
        return self.builder.constant(np.array(moved, known.dtype).reshape(known.shape))

    def require_shared(self, operand: Operand, name: str) -> ir.Value | None:
        """Return the value of an operand that the batched form needs shared.

        Raises:
            Decline: It is stacked.
        """
        if operand is None:
            return None
        if not operand.is_shared:
            raise Decline(Code.BATCHED_OPERAND, f"samples differ in its {name}")
        return operand.value

    def typed(self, value: ir.Value, dtype: ir.DataType, *dims: int) -> Batched:
        """Describe a new shared value, for use as an operand."""
        return Batched(Layout.SHARED, value, ValueType(ir.TensorType(dtype), dims))
