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
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.anywhere import runs_anywhere
from passes.batching.body_state import BodyState, WalkOptions
from passes.batching.causes import Causes, Demotions, Inherited
from passes.batching.context import Context, Operand
from passes.batching.flat.moves import stacked_or_packed
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.rule_choice import choose_rule, may_be_discrete, run_rule, widens
from passes.decisions import Code, Decline, Reason
from passes.graph.builder import Builder
from passes.graph.drafts import drafting
from passes.graph.graphs import captured_values, reads_of, subgraphs, walk_nodes
from passes.graph.node_copies import copy_body
from passes.typing import Typings

__all__ = ["BatchInterpreter"]

NONE: Mapping[ir.Node, Reason | None] = types.MappingProxyType({})
NO_DECLINES: Mapping[ir.Node, Decline] = types.MappingProxyType({})


class BatchInterpreter(BodyState):
    """One walk over a body.

    Attributes:
        stages: The nodes of each stage.
        loops: The nodes of the body that stay in each loop, in order.
        causes: Why nodes stayed in a loop.
        demotions: Nodes that must stay in a loop too; walk again with them kept.
        fused: How many nodes were batched.
        flips: Discrete nodes that a rounding one feeds.
    """

    def __init__(
        self,
        typings: Typings,
        options: WalkOptions,
        origin: str,
        given: Mapping[ir.Node, Decline] = NO_DECLINES,
    ) -> None:
        """Start with nothing read.

        Args:
            typings: Both typings of the body.
            options: The surroundings of the walk.
            origin: Path of the map.
            given: What earlier walks declined, see `Causes`.
        """
        super().__init__(typings, options, origin)
        self.stages: list[Builder] = []
        self.loops: list[list[ir.Node]] = []
        self.causes = Causes(self, given)
        self.demotions = Demotions(self.env)
        self.fused = 0
        self.flips: list[ir.Node] = []

    @property
    def reasons(self) -> list[Reason]:
        """Why nodes stayed in a loop, each cause once."""
        return self.causes.reasons

    def stage(self, index: int) -> Builder:
        """Return the builder of a stage."""
        while len(self.stages) <= index:
            self.stages.append(Builder(self._origin, self.options.opset))
            self.loops.append([])
        return self.stages[index]

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
        is_one_for_all = all(x.is_shared for x in operands)
        said = table.find(node, self.options.opset)
        if isinstance(said, table.Unsupported) and said.code is Code.RANDOM:
            self.causes.decline(node, Decline(said.code, said.reason))
            self._keep(node, operands)
            return
        try:
            if node in kept:
                self.causes.keep(node, kept[node])
                self._keep(node, operands)
            elif is_one_for_all and not table.may_draw(node, self.options.opset):
                self._hoist(node, operands)
            else:
                self._batch(node, inputs, operands, said)
        except Decline as decline:
            self.causes.decline(node, decline)
            self._keep(node, operands)
        if self.causes.reasons and not captured:
            apart = [v for v in node.inputs if v is not None and not self.read(v).is_shared]
            self.causes.pass_on(node, apart)

    def _hoist(self, node: ir.Node, operands: Sequence[Batched]) -> None:
        """Record a node with shared operands only."""
        stage = max((x.stage for x in operands), default=0)
        values: dict[ir.Value, ir.Value | None] = {
            old: self.read(old).value for old in reads_of(node)
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
        said: table.Row | table.Unsupported | None,
    ) -> None:
        """Run the rule of a node."""
        for x in operands:
            if x.layout is Layout.PER_SAMPLE and not self.promotions.is_possible(x.value):
                raise Inherited(x.value, differs=x.value in self._differing)
        asked, opset = self.options.asked, self.options.opset
        takes_flat = asked.takes_packed_as_flat
        chosen = choose_rule(node, said, operands, self.promotions, opset, takes_flat=takes_flat)
        rounding = any(x.rounding for x in operands)
        if chosen.is_discrete and rounding and not widens(node, self.type_of):
            self.flips.append(node)
            if asked.exact:
                raise Decline(Code.EXACT, "what feeds it may round differently when batched")
        with drafting() as draft:
            given = [self._promoted(x) for x in inputs]
            stage = max(self._stage_when_stacked(x) for x in operands)
            builder = self.stage(stage)
            start, builder.origin = len(builder.nodes), self.path_of(node)
            try:
                outputs = run_rule(self._context(builder), chosen, node, given, self.env)
            finally:
                builder.origin = self._origin
            draft.keep_all()
        builder.document(start, node)
        self.fused += 1
        for old, new in zip(node.outputs, outputs, strict=True):
            if new is not None:
                rounded = rounding or (chosen.rounds and not new.is_exact)
                typed = new.with_type(self.type_of(old))
                self.env[old] = dataclasses.replace(typed, stage=stage, rounding=rounded)
                self._name_numbers(old, typed.type.dims or ())
                self.share_constant(old, builder)

    def _promoted(self, operand: Operand) -> Operand:
        """Return what a rule reads in the place of a value that is there sample by sample."""
        if operand is None or operand.layout is not Layout.PER_SAMPLE:
            return operand
        return self.promotions.promote(operand)

    def _stage_when_stacked(self, operand: Batched) -> int:
        return operand.stage + (operand.layout is Layout.PER_SAMPLE)

    def _context(self, builder: Builder) -> Context:
        return Context(builder, self, self.options.batch, may_be_empty=self.options.may_be_empty)

    def count_failing(self) -> int:
        """See `BodyState.count_failing`."""
        return sum(not self.runs_anywhere(node) for node in self.hoisted)

    def runs_anywhere(self, node: ir.Node) -> bool:
        """See `BodyState.runs_anywhere`."""
        return runs_anywhere(node, self._typings.proven, self.options.opset)

    def nested(
        self,
        graph: ir.Graph,
        bindings: Mapping[ir.Value, Batched],
        builder: Builder,
        batch: ir.Value,
        *,
        may_be_empty: bool,
        keeps_flat: bool,
    ) -> list[Batched]:
        """Batch all nodes of a graph inside a node; see `Context.nested`."""
        captured = {v: self.read_batched(v) for v in captured_values(graph)}
        options = dataclasses.replace(
            self.options,
            batch=batch,
            may_be_empty=may_be_empty,
            lengths=self._lengths_inside(captured, bindings),
            ambiguous=None,
        )
        inner = BatchInterpreter(self._typings, options, self._origin)
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
        ctx = inner._context(builder)
        outputs = [inner.read(v) for v in graph.outputs]
        if any(x.beside is not None for x in outputs):
            raise Decline(Code.RAGGED, "what it yields differs in length along two axes")
        return outputs if keeps_flat else [stacked_or_packed(ctx, x) for x in outputs]

    def _lengths_inside(
        self, captured: Mapping[ir.Value, Batched], bindings: Mapping[ir.Value, Batched]
    ) -> dict[str, Lengths]:
        """Return what symbols stand for in a graph that may be for other samples."""
        inside = {x.lengths: bindings.get(v, x).lengths for v, x in captured.items()}
        known = {s: inside.get(x) for s, x in self.options.lengths.items()}
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
        rounding, opset = any(x.rounding for x in operands), self.options.opset
        is_asked = rounding and self.options.asked.exact
        if is_asked and may_be_discrete(node, opset, self.type_of):
            self.demotions.rounded(node, self.path_of)
            rounding = False
        for value in node.outputs:
            type_ = self.type_of(value)
            self.env[value] = Batched(Layout.PER_SAMPLE, value, type_, index, rounding)
