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

from passes.anywhere import runs_anywhere
from passes.batching import table
from passes.batching.causes import Causes, Demotions, Inherited
from passes.batching.context import Context, Operand, Output
from passes.batching.flat.reading import as_packed, as_stacked
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.evening import evened
from passes.batching.promotion import Promotions
from passes.batching.rule_choice import choose_rule
from passes.batching.sizes import LengthKey, SampleNumbers, sole_lengths
from passes.body_copies import copy_body
from passes.builder import Builder
from passes.decisions import Code, Decline, Reason
from passes.drafts import Memo, drafting
from passes.fuse_options import FuseOptions
from passes.graphs import captured_values, reads_of, subgraphs, walk_nodes
from passes.reading.integers import Linear
from passes.typing import Typings, ValueType

__all__ = ["Walk", "WalkOptions"]

NONE: Mapping[ir.Node, Reason | None] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class WalkOptions:
    """The surroundings of a walk.

    Attributes:
        opset: Version of ONNX's operators in the model.
        batch: Number of samples, int64 ``[1]``.
        may_be_empty: Whether there may be no samples where the new nodes run.
        paths: Names the nodes for messages.
        asked: What the caller asks for.
        lengths: The lengths that a symbol stands for, as the first dimension of a value.
        ambiguous: Symbols that may not be one dimension of a sample in the whole body; None if
            no loop may collect lengths.
    """

    opset: int
    batch: ir.Value
    may_be_empty: bool
    paths: Mapping[ir.Node, str]
    asked: FuseOptions = dataclasses.field(default_factory=FuseOptions)
    lengths: Mapping[str, Lengths] = dataclasses.field(default_factory=dict)
    ambiguous: Collection[str] | None = None


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
        hoisted: Shared nodes, which now run once even if there are no samples.
        flips: Discrete nodes that a rounding one feeds.
        reads_numbers: How many single numbers of a packed sample a node reads, one by one.
        limits: Flags that must hold for padding not to waste too much; a loop runs otherwise.
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
        self.limits: list[ir.Value] = []
        self.reads_numbers = 0
        self._typings = typings
        self._options = options
        self._origin = origin
        self._differing: set[ir.Value] = set()
        self._lengths_by: dict[tuple[Builder, LengthKey], Lengths] = Memo()
        self._around: Walk | None = None
        self._own: set[ir.Value] = set()
        self.numbers = SampleNumbers(typings.proven, self)

    @property
    def reasons(self) -> list[Reason]:
        """Why nodes stayed in a loop, each cause once."""
        return self.causes.reasons

    @property
    def opset(self) -> int:
        """Version of ONNX's operators in the model."""
        return self._options.opset

    def stage(self, index: int) -> Builder:
        """Return the builder of a stage."""
        while len(self.stages) <= index:
            self.stages.append(Builder(self._origin, self.opset))
            self.loops.append([])
        return self.stages[index]

    def settle(self, value: ir.Value, collected: ir.Value, lengths: ir.Value | None) -> None:
        """Put what a loop has collected of a value into the place of what stood for it.

        A rule may have passed on what it was given, or its lengths.
        """
        settled = self.promotions.settle(value, collected, lengths)
        for old, x in self.env.items():
            if x.value in settled:
                self.env[old] = dataclasses.replace(x, value=settled[x.value])

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
        flat: FlatSamples | None = None,
    ) -> None:
        """Enter an input of the body."""
        known = self.type_of(value)
        self.env[value] = Batched(
            layout, to or value, known, lengths=lengths, axis=axis, flat=flat
        )

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

    def held(self, value: ir.Value) -> Batched | None:
        """Return how a value is held; None for one of the body that was not reached.

        A value from outside of the body, which it need not read itself, is shared.
        """
        if value in self.env:
            return self.env[value]
        if self._around is not None:
            return self._around.held(value)
        if value in self._own:
            return None
        return Batched(Layout.SHARED, value, self.type_of(value))

    def lengths_of(self, value: ir.Value) -> tuple[Lengths, int] | None:
        """Return the lengths of a packed value and their axis, None if it is not packed."""
        x = self.held(value)
        if x is None or x.layout is not Layout.PER_SAMPLE:
            return None if x is None or x.lengths is None else (x.lengths, x.axis)
        lengths = self.promotions.lengths(value)
        return None if lengths is None else (lengths, self.promotions.axis(value))

    def lengths_by(self, builder: Builder, key: LengthKey, make: Callable[[], Lengths]) -> Lengths:
        """See `passes.batching.context.Context.lengths_by`."""
        if isinstance(key, Linear):
            whole = sole_lengths(key)
            if whole is not None:
                return whole
        if (builder, key) not in self._lengths_by:
            self._lengths_by[builder, key] = make()
        return self._lengths_by[builder, key]

    def declared_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """See `passes.batching.context.Context.declared_dims`."""
        return self._typings.numbered_dims(value)

    def have_one_shape(self, one: ir.Value, other: ir.Value) -> bool:
        """See `passes.batching.context.Context.have_one_shape`."""
        return self._typings.proven.have_one_shape(one, other)

    def note_single_numbers(self, count: int) -> None:
        """See `passes.batching.context.Context.note_single_numbers`."""
        self.reads_numbers = max(self.reads_numbers, count)

    def limit(self, flag: ir.Value) -> None:
        """See `passes.batching.context.Context.limit_padding`.

        Raises:
            Decline: The node stands in a graph inside of the body.
        """
        if self._around is not None:
            raise Decline(Code.RAGGED, "padding to the longest has no bound inside of a branch")
        self.limits.append(flag)

    def lacks(self, op_type: str) -> bool:
        """See `passes.batching.context.Context.lacks`."""
        return op_type in self._options.asked.lacks

    @property
    def takes_flat(self) -> bool:
        """See `passes.batching.context.Context.takes_flat`."""
        return self._options.asked.takes_flat

    def count_failing(self) -> int:
        """See `passes.batching.context.Context.count_failing`."""
        typing, opset = self._typings.proven, self._options.opset
        return sum(not runs_anywhere(node, typing, opset) for node in self.hoisted)

    def run(self, nodes: Iterable[ir.Node], kept: Mapping[ir.Node, Reason | None] = NONE) -> None:
        """Walk over the nodes of a body.

        Args:
            nodes: The nodes, in order.
            kept: Nodes that stay in a loop whatever their rules say, and why, where that is not
                said of another node.
        """
        own = list(nodes)
        self._own |= {v for node in walk_nodes(own) for v in node.outputs}
        inner = (g for node in walk_nodes(own) for _, g in subgraphs(node))
        self._own |= {v for graph in inner for v in graph.inputs}
        for node in own:
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
                self._hoist(node, operands)
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
        unranked = [v for v in reads_of(node) if self.type_of(v).dims is None]
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

    def _hoist(self, node: ir.Node, operands: Sequence[Batched]) -> None:
        """Record a node whose operands are all shared."""
        stage = max((x.stage for x in operands), default=0)
        values: dict[ir.Value, ir.Value | None] = {
            old: x.value for old, x in self.env.items() if x.is_shared
        }
        self.stage(stage).nodes.extend(copy_body([node], values))
        self._typings.copy(values)
        if node.op_type != "Constant":
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
        chosen = choose_rule(
            node,
            said,
            operands,
            self.promotions,
            self._options.opset,
            takes_flat=self.takes_flat and self.lacks("If"),
        )
        rounding = any(x.rounding for x in operands)
        if chosen.is_discrete and rounding:
            self.flips.append(node)
            if self._options.asked.exact:
                raise Decline(Code.EXACT, "what feeds it may round differently when batched")
        with drafting() as draft:
            given = [None if x is None else self.promotions.promote(x) for x in inputs]
            stage = max(self._stage_when_stacked(x) for x in operands)
            builder = self.stage(stage)
            start, builder.origin = len(builder.nodes), self._path(node)
            try:
                ctx = self._context(builder)
                if not chosen.takes_flat:
                    given = [x if x is None or x.flat is None else _read(ctx, x) for x in given]
                outputs = self._evened(ctx, node, chosen.rule(ctx, node, given))
            finally:
                builder.origin = self._origin
            draft.keep_all()
        builder.document(start, node)
        self.fused += 1
        for old, new in zip(node.outputs, outputs, strict=True):
            if new is not None:
                type_ = self.type_of(old)
                rounded = rounding or chosen.rounds
                self.env[old] = Batched(
                    new.layout,
                    new.value,
                    type_,
                    stage,
                    rounded,
                    new.lengths,
                    new.axis,
                    new.beside,
                    new.flat,
                )

    def _evened(
        self, ctx: Context, node: ir.Node, outputs: Sequence[Output | None]
    ) -> list[Output | None]:
        """Stack each packed output whose samples are proven to be equally long."""
        ranks = (
            None if (dims := self.type_of(v).dims) is None else len(dims) for v in node.outputs
        )
        pairs = zip(outputs, ranks, strict=True)
        return [None if x is None else evened(ctx, x, rank) for x, rank in pairs]

    def _stage_when_stacked(self, operand: Batched) -> int:
        return operand.stage + (operand.layout is Layout.PER_SAMPLE)

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
        inner._around = self
        for value, x in {**captured, **bindings}.items():
            inner.env[value] = dataclasses.replace(x, stage=0)
        inner.stages, inner.loops = [builder], [[]]
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
            is_sequence = x.is_stacked and isinstance(x.type.type, ir.SequenceType)
            if is_sequence or x.beside or x.is_flat:
                self.demotions.between(node, -1)
        rounding = any(x.rounding for x in operands)
        if rounding and self._options.asked.exact and self._may_be_discrete(node):
            self.demotions.rounded(node, self._path)
            rounding = False
        for value in node.outputs:
            type_ = self.type_of(value)
            self.env[value] = Batched(Layout.PER_SAMPLE, value, type_, index, rounding)

    def _may_be_discrete(self, node: ir.Node) -> bool:
        said = table.find(node, self._options.opset)
        return not isinstance(said, table.Row) or said.discrete or any(subgraphs(node))


def _read(ctx: Context, x: Batched) -> Batched:
    """Return flat samples as a stacked or packed value."""
    assert x.flat is not None
    if not x.flat.has_one_shape:
        return as_packed(ctx, x)
    return dataclasses.replace(x, layout=Layout.STACKED, value=as_stacked(ctx, x), flat=None)
