"""Walks a body once and rebuilds it outside, one rule per node.

A node whose operands are all shared is recorded once. A node with a stacked operand goes through
its rule. A node that declines, or that reads a value which is only there sample by sample, stays
in a loop; what it yields is stacked again, as a scan output, where its shape is proven equal, and
what follows is batched.

Work is laid out in stages: ``stage 0, loop 0, stage 1, loop 1, ...``. A node stands in the first
stage that has all it reads, so that there are as few loops as the dependencies allow.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import onnx_ir as ir

from passes.batching import rules, table
from passes.batching.causes import Causes, Inherited
from passes.batching.context import Context, Operand
from passes.batching.demotion import Demotions
from passes.batching.failing import cannot_fail
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed import rules as packed_rules
from passes.batching.promotion import Promotions
from passes.builder import Builder, drop_uses
from passes.decisions import Code, Decline, Reason
from passes.graphs import captured_values, copy_node, is_default_domain, subgraphs
from passes.typing import Typings, ValueType

__all__ = ["Walk", "WalkOptions"]

assert rules
assert packed_rules

NONE: Mapping[ir.Node, Reason | None] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class WalkOptions:
    """The surroundings of a walk.

    Attributes:
        opset: Version of ONNX's operators in the model.
        batch: Number of samples, int64 ``[1]``.
        may_be_empty: Whether there may be no samples where the new nodes run.
        exact: Keep per-sample what rounding could change by more than rounding.
        paths: Names the nodes for messages.
        lengths: The lengths that a symbol stands for, as the first dimension of a value.
        ambiguous: Symbols that may not be one dimension of a sample in the whole body; None if
            no loop may collect lengths.
        lacks: Operators that the target does not have: a dearer form without them is taken.
    """

    opset: int
    batch: ir.Value
    may_be_empty: bool
    exact: bool
    paths: Mapping[ir.Node, str]
    lengths: Mapping[str, Lengths] = dataclasses.field(default_factory=dict)
    ambiguous: Collection[str] | None = None
    lacks: Collection[str] = ()


class Walk:
    """One walk over a body.

    Attributes:
        env: Every value of the body that was reached.
        stages: The nodes of each stage.
        loops: The nodes of the body that stay in each loop, in order.
        promotions: Per-sample values that are read as stacked or packed.
        causes: Why nodes stayed in a loop.
        demotions: Nodes that must stay in a loop too; walk again with them kept.
        fused: How many nodes were batched.
        hoisted: Shared nodes that could fail, and now run once even if there are no samples.
        flips: Discrete nodes that a rounding one feeds.
    """

    def __init__(self, typings: Typings, options: WalkOptions, origin: str) -> None:
        self.env: dict[ir.Value, Batched] = {}
        self.stages: list[Builder] = []
        self.loops: list[list[ir.Node]] = []
        self.promotions = Promotions(typings, options.lengths, options.ambiguous, origin)
        self.causes = Causes()
        self.demotions = Demotions(self.env)
        self.fused = 0
        self.hoisted: list[ir.Node] = []
        self.flips: list[ir.Node] = []
        self._typings = typings
        self._options = options
        self._origin = origin
        self._differing: set[ir.Value] = set()
        self._scratch: list[Builder] = []
        self._by_flags: dict[tuple[Builder, ir.Value], Lengths] = {}

    @property
    def reasons(self) -> list[Reason]:
        """Why nodes stayed in a loop, each cause once."""
        return self.causes.reasons

    def stage(self, index: int) -> Builder:
        """Return the builder of a stage."""
        while len(self.stages) <= index:
            self.stages.append(Builder(self._origin))
            self.loops.append([])
        return self.stages[index]

    def settle(self, value: ir.Value, collected: ir.Value, lengths: ir.Value | None) -> None:
        """Put what a loop has collected of a value into the place of what stood for it.

        A rule may have passed on what it was given.
        """
        placeholder = self.promotions.values[value]
        self.promotions.settle(value, collected, lengths)
        for old, x in self.env.items():
            if x.value is placeholder:
                self.env[old] = dataclasses.replace(x, value=collected)

    def discard(self) -> None:
        """Take back every use of the model's values."""
        self.promotions.discard()
        for stage in self.stages:
            drop_uses(stage.nodes)

    def type_of(self, value: ir.Value) -> ValueType:
        """Return what is known of a value of the body where the new nodes run."""
        known = self._typings.proven[value]
        return known if known.type is not None else self._typings.declared[value]

    def bind(
        self,
        value: ir.Value,
        layout: Layout,
        to: ir.Value | None = None,
        lengths: Lengths | None = None,
        axis: int = 0,
    ) -> None:
        """Enter an input of the body."""
        known = self.type_of(value)
        self.env[value] = Batched(layout, to or value, known, lengths=lengths, axis=axis)

    def bind_apart(self, value: ir.Value, *, differs: bool) -> None:
        """Enter a per-sample input of the body, which can be read in every loop.

        Args:
            value: The input.
            differs: Whether its samples are known to differ in shape.
        """
        self.promotions.add_source(value)
        self.bind(value, Layout.PER_SAMPLE)
        if differs:
            self._differing.add(value)

    def read(self, value: ir.Value) -> Batched:
        """Return a value of the body; one that it does not compute itself is shared."""
        if value not in self.env:
            self.env[value] = Batched(Layout.SHARED, value, self.type_of(value))
        return self.env[value]

    def lengths_named(self, dim: int | str | None) -> Lengths | None:
        """See `passes.batching.context.Context.lengths_named`."""
        return self.promotions.named(dim)

    def lengths_by(
        self, builder: Builder, flags: ir.Value, make: Callable[[], Lengths]
    ) -> Lengths:
        """See `passes.batching.context.Context.lengths_by`."""
        key = builder, flags
        if key not in self._by_flags:
            self._by_flags[key] = make()
        return self._by_flags[key]

    def declared_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """See `passes.batching.context.Context.declared_dims`."""
        return self._typings.numbered_dims(value)

    def have_one_shape(self, one: ir.Value, other: ir.Value) -> bool:
        """See `passes.batching.context.Context.have_one_shape`."""
        return self._typings.proven.have_one_shape(one, other)

    def lacks(self, op_type: str) -> bool:
        """See `passes.batching.context.Context.lacks`."""
        return op_type in self._options.lacks

    def count_failing(self) -> int:
        """See `passes.batching.context.Context.count_failing`."""
        return sum(not cannot_fail(node, self._typings.proven) for node in self.hoisted)

    def run(self, nodes: Iterable[ir.Node], kept: Mapping[ir.Node, Reason | None] = NONE) -> None:
        """Walk over the nodes of a body.

        Args:
            nodes: The nodes, in order.
            kept: Nodes that stay in a loop whatever their rules say, and why, where that is not
                said of another node.
        """
        for node in nodes:
            self._visit(node, kept)

    def _visit(self, node: ir.Node, kept: Mapping[ir.Node, Reason | None]) -> None:
        inputs = [None if v is None else self.read(v) for v in node.inputs]
        captured = [self.read(v) for _, g in subgraphs(node) for v in captured_values(g)]
        operands = [x for x in (*inputs, *captured) if x is not None]
        said = table.find(node, self._options.opset)
        if isinstance(said, table.Never) and said.code is Code.RANDOM:
            self._decline(node, operands, Decline(said.code, said.reason))
            return
        try:
            if node in kept:
                self.causes.keep(node, kept[node])
                self._keep(node, operands)
            elif all(x.is_shared for x in operands) and not self._may_draw(node):
                self._hoist(node, operands, said)
            else:
                self._batch(node, inputs, operands, said)
        except Decline as decline:
            self._decline(node, operands, decline)
        apart = [v for v in node.inputs if v is not None and not self.read(v).is_shared]
        if not captured:
            self.causes.pass_on(node, apart)

    def _may_draw(self, node: ir.Node) -> bool:
        return table.may_draw(node, self._options.opset)

    def _decline(self, node: ir.Node, operands: Sequence[Batched], decline: Decline) -> None:
        """Leave a node in a loop and note why."""
        detail = self._with_given_names(decline.detail, node)
        reason = Reason(decline.code, self._path(node), node.op_type, detail)
        read = [*node.inputs, *(v for _, g in subgraphs(node) for v in captured_values(g))]
        unranked = [v for v in read if v is not None and self.type_of(v).dims is None]
        self.causes.decline(node, reason, decline, unranked)
        self._keep(node, operands)

    def _with_given_names(self, detail: str, node: ir.Node) -> str:
        """Return a detail that calls what a node reads as the body does, not the new graph."""
        for value in node.inputs:
            if value is not None:
                detail = detail.replace(f"'{self.read(value).value.name}'", f"'{value.name}'")
        return detail

    def _path(self, node: ir.Node) -> str:
        return self._options.paths.get(node) or node.name or node.op_type

    def _hoist(
        self, node: ir.Node, operands: Sequence[Batched], said: table.Row | table.Never | None
    ) -> None:
        """Record a node whose operands are all shared."""
        stage = max((x.stage for x in operands), default=0)
        values: dict[ir.Value, ir.Value | None] = {
            old: x.value for old, x in self.env.items() if x.is_shared
        }
        self.stage(stage).nodes.append(copy_node(node, values))
        self._typings.copy(values)
        if node.op_type != "Constant" and not (isinstance(said, table.Row) and said.total):
            self.hoisted.append(node)
        rounding = any(x.rounding for x in operands)
        for old in node.outputs:
            new = values[old]
            assert new is not None
            self.env[old] = Batched(Layout.SHARED, new, self.type_of(old), stage, rounding)

    def _batch(
        self,
        node: ir.Node,
        inputs: Sequence[Operand],
        operands: Sequence[Batched],
        said: table.Row | table.Never | None,
    ) -> None:
        """Run the rule of a node."""
        for x in operands:
            if x.layout is Layout.PER_SAMPLE and not self.promotions.is_possible(x.value):
                raise Inherited(x.value, differs=x.value in self._differing)
        if said is None:
            name = node.op_type if is_default_domain(node) else f"{node.domain}.{node.op_type}"
            raise Decline(Code.NO_RULE, f"{name} has no rule at opset {self._options.opset}")
        if isinstance(said, table.Never):
            raise Decline(said.code, said.reason)
        rule = said.rule
        rounds = said.rounding or table.may_round_inside(node, self._options.opset)
        if any(self._will_be_packed(x) for x in operands):
            packed = table.find_packed(node, self._options.opset)
            if packed is None:
                raise Decline(Code.NO_RULE, "it has no rule for samples of different length")
            if any(self._ragged_axis(x) for x in operands) and not packed.any_axis:
                raise Decline(
                    Code.RAGGED, "its samples may differ in length behind the first axis"
                )
            if any(self._has_rows_of_text(x) for x in operands):
                raise Decline(Code.NO_RULE, "onnxruntime's Gather breaks rows of strings")
            rule, rounds = packed.rule, rounds or packed.rounding
        rounding = any(x.rounding for x in operands)
        if said.discrete and rounding:
            self.flips.append(node)
            if self._options.exact:
                raise Decline(Code.EXACT, "what feeds it may round differently when batched")
        promoted = self.promotions.mark()
        given = [None if x is None else self.promotions.promote(x) for x in inputs]
        stage = max(self._stage_when_stacked(x) for x in operands)
        builder = self.stage(stage)
        mark = builder.mark()
        self._scratch = []
        builder.origin = self._path(node)
        try:
            outputs = rule(self._context(builder), node, given)
        except Decline:
            self.promotions.rollback(promoted)
            forgotten = builder.rollback(mark)
            for x in self.env.values():
                if x.lengths is not None:
                    x.lengths.forget(forgotten)
            for key, lengths in list(self._by_flags.items()):
                if lengths.value.producer() in forgotten:
                    del self._by_flags[key]
            for scratch in self._scratch:
                if scratch is not builder:  # what it had before the mark stays
                    drop_uses(scratch.nodes)
            raise
        finally:
            builder.origin = self._origin
        builder.document(mark, node)
        self.fused += 1
        for old, new in zip(node.outputs, outputs, strict=True):
            if new is not None:
                type_ = self.type_of(old)
                rounded = rounding or rounds
                self.env[old] = Batched(
                    new.layout, new.value, type_, stage, rounded, new.lengths, new.axis
                )

    def _stage_when_stacked(self, operand: Batched) -> int:
        return operand.stage + (operand.layout is Layout.PER_SAMPLE)

    def _will_be_packed(self, x: Batched) -> bool:
        is_apart = x.layout is Layout.PER_SAMPLE
        return x.is_packed or (is_apart and self.promotions.is_packable(x.value))

    def _ragged_axis(self, x: Batched) -> int:
        is_apart = x.layout is Layout.PER_SAMPLE
        return self.promotions.axis(x.value) if is_apart else x.axis

    def _has_rows_of_text(self, x: Batched) -> bool:
        """Whether to gather rows of an operand would copy but the first string of each."""
        is_text = not x.is_shared and x.dtype == ir.DataType.STRING
        return is_text and x.rank > int(self._will_be_packed(x))

    def _context(self, builder: Builder) -> Context:
        return Context(
            builder,
            self._options.opset,
            self._options.batch,
            may_be_empty=self._options.may_be_empty,
            surroundings=self,
        )

    def read_batched(self, value: ir.Value) -> Batched:
        """Return a value of the body as shared or stacked."""
        return self.promotions.promote(self.read(value))

    def nested(
        self,
        graph: ir.Graph,
        bindings: Mapping[ir.Value, Batched],
        builder: Builder,
        batch: ir.Value,
        may_be_empty: bool,
    ) -> list[Batched]:
        """Batch all nodes of a graph inside a node; see `Context.nested`."""
        captured = {v: self.read_batched(v) for v in captured_values(graph)}
        options = dataclasses.replace(
            self._options,
            batch=batch,
            may_be_empty=may_be_empty,
            lengths=self._lengths_inside(captured, bindings),
            ambiguous=None,
        )
        inner = Walk(self._typings, options, self._origin)
        for value, x in {**captured, **bindings}.items():
            inner.env[value] = dataclasses.replace(x, stage=0)
        inner.stages, inner.loops = [builder], [[]]
        self._scratch.append(builder)
        inner.run(graph)
        if any(inner.loops):
            first = inner.reasons[0]
            raise Decline(first.code, f"inside of it, {first.op_type}: {first.detail}")
        self.hoisted.extend(inner.hoisted)
        self.flips.extend(inner.flips)
        return [inner.read(v) for v in graph.outputs]

    def _lengths_inside(
        self, captured: Mapping[ir.Value, Batched], bindings: Mapping[ir.Value, Batched]
    ) -> dict[str, Lengths]:
        """Return what symbols stand for in a graph that may be for other samples."""
        inside = {x.lengths: bindings.get(v, x).lengths for v, x in captured.items()}
        known = {s: inside.get(x) for s, x in self._options.lengths.items()}
        return {symbol: x for symbol, x in known.items() if x is not None}

    def _keep(self, node: ir.Node, operands: Sequence[Batched]) -> None:
        """Leave a node in the first loop that has all it reads."""
        index = max((x.stage for x in operands), default=0)
        self.stage(index)
        self.loops[index].append(node)
        for x in operands:
            if x.layout is Layout.PER_SAMPLE and not self.promotions.is_at_hand(x, index):
                if self.promotions.is_possible(x.value):
                    self.promotions.promote(x)
                else:
                    self.demotions.between(node, x.stage)
            if x.is_stacked and isinstance(x.type.type, ir.SequenceType):
                self.demotions.between(node, -1)
        rounding = any(x.rounding for x in operands)
        if rounding and self._options.exact and self._may_be_discrete(node):
            self.demotions.rounded(node, self._path)
            rounding = False
        for value in node.outputs:
            type_ = self.type_of(value)
            self.env[value] = Batched(Layout.PER_SAMPLE, value, type_, index, rounding)

    def _may_be_discrete(self, node: ir.Node) -> bool:
        said = table.find(node, self._options.opset)
        return not isinstance(said, table.Row) or said.discrete or any(subgraphs(node))
