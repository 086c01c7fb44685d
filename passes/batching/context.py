"""The tools of a batching rule: operands, new nodes, and the few moves all rules share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

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

__all__ = ["Context", "Operand", "Output", "Rule"]

Operand = Batched | None
"""An input of a node as a rule sees it; None where the node leaves it out."""


class Output:
    """An output of a rule: a value in any layout but per-sample.

    Attributes:
        is_exact: Whether it has the bits of the operator alone, though others of its rule may not.
        dims: The dimensions of one sample, where they are better known than by its type.
    """

    def __init__(
        self,
        value: ir.Value,
        layout: Layout,
        lengths: Lengths | None = None,
        axis: int = 0,
        beside: Lengths | None = None,
        flat: FlatSamples | None = None,
        is_exact: bool = False,
        dims: tuple[int | None, ...] | None = None,
    ) -> None:
        self.is_exact = is_exact
        self.dims = dims
        self.value = value
        self.layout = layout
        self.lengths = lengths
        self.axis = axis
        self.beside = beside
        self.flat = flat

    def batched(self, type_: ValueType, stage: int, *, rounding: bool) -> Batched:
        """Return the record of a value of a body that a rule has yielded.

        Args:
            type_: Its type.
            stage: See `Batched`.
            rounding: See `Batched`.
        """
        held = (self.lengths, self.axis, self.beside, self.flat)
        return Batched(self.layout, self.value, self._known(type_), stage, rounding, *held)

    def _known(self, type_: ValueType) -> ValueType:
        """Return a type with the dimensions that are better known here."""
        dims = self.flat.known_dims if self.dims is None and self.flat else self.dims
        if dims is None:
            return type_
        given = type_.dims or (None,) * len(dims)
        pairs = zip(dims, given, strict=True)
        return dataclasses.replace(type_, dims=tuple(g if d is None else d for d, g in pairs))


Rule = Callable[["Context", ir.Node, Sequence[Operand]], Sequence["Output | None"]]
"""``rule(ctx, node, operands) -> outputs``, one for each output of the node, or `Decline`.

Every operand is shared or stacked and at least one is stacked; a rule for packed operands gets
at least one that is packed. Dimensions and ranks are those of one sample. The rule records nodes
with ``ctx.op``; the batch axis is axis 0.
"""


class Context(FormLimits):
    """The surroundings of one node while its rule runs.

    Attributes:
        builder: Records the new nodes.
        opset: Version of ONNX's operators in the model.
        may_be_empty: Whether there may be no samples where the new nodes run.
        batch: Number of samples as an int64 vector ``[1]``.
    """

    def __init__(
        self, builder: Builder, body: BodyState, batch: ir.Value, *, may_be_empty: bool
    ) -> None:
        super().__init__(builder, body, batch)
        self.may_be_empty = may_be_empty

    @property
    def wholes(self) -> MutableMapping[ir.Value, ir.Value]:
        """Packed values that hold the first rows of a shared tensor, and that tensor."""
        return self._body.wholes

    def type_of(self, value: ir.Value) -> ValueType:
        """Return what is known of a value of the body."""
        return self._body.type_of(value)

    def read(self, value: ir.Value) -> Batched:
        """Return how a value of the body is held: shared or stacked."""
        return self._body.read_batched(value)

    def declared_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """Return the dimensions of a value of the body, numbers that are only declared included.

        This is for uses only where a sample that breaks the declaration ends in an error.
        """
        return self._body.declared_dims(value)

    def have_one_shape(self, one: ir.Value, other: ir.Value) -> bool:
        """Whether two values of the body have the same dimensions in each sample, by proof."""
        return self._body.have_one_shape(one, other)

    def runs_anywhere(self, node: ir.Node) -> bool:
        """Whether a node yields a result for samples for which the body does not run it, too."""
        return self._body.runs_anywhere(node)

    def count_failing(self) -> int:
        """Count the nodes so far that run once, even if there are no samples, and could fail."""
        return self._body.count_failing()

    def lengths_named(self, dim: int | str | None) -> Lengths | None:
        """Return the lengths that a dimension of a sample stands for, None if for none."""
        return self._body.lengths_named(dim)

    def lengths_by(self, key: LengthKey, make: Callable[[], Lengths]) -> Lengths:
        """Return lengths that something tells: one object for one key.

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
        return Output(value, Layout.STACKED)

    def shared(self, value: ir.Value) -> Output:
        """Mark a value that is the same for every sample as an output of the rule."""
        return Output(value, Layout.SHARED)

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
        return Output(value, Layout.PACKED, lengths, axis, beside)

    def flat(self, rows: ir.Value, samples: FlatSamples) -> Output:
        """Mark rows as an output of the rule off which samples of several sizes are read."""
        return Output(rows, Layout.FLAT, flat=samples)

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
