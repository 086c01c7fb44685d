"""Writes a Loop as given beside what takes its place, into branches of an If."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.fusing.fusion_plan import FusionPlan
from passes.graph.builder import ORIGIN_KEY, Builder, needed_nodes
from passes.graph.drafts import drop_uses, note
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.looped_branches import take_loops
from passes.graph.made import operand
from passes.graph.node_copies import rank_alone
from passes.graph.splice import hand_over
from passes.typing import Typings

__all__ = ["FewIterations", "LoopCopy"]


@dataclasses.dataclass(frozen=True)
class LoopCopy:
    """A copy of a Loop, and of what its model makes of its outputs.

    Attributes:
        nodes: The copy.
        yielded: What it yields.
        reader: A node that no graph holds, and that reads what takes the place of these values,
            whatever that is by now.
    """

    nodes: Sequence[ir.Node]
    yielded: Sequence[ir.Value]
    reader: ir.Node

    def take(self, *spent: ir.Node) -> dict[ir.Value | None, ir.Value]:
        """Return for each value that is read by now what the copy yields.

        Args:
            spent: Nodes that read nothing any more, as the reader does not.
        """
        copied = dict(zip(self.reader.inputs, self.yielded, strict=True))
        drop_uses([self.reader, *spent])
        return copied


@dataclasses.dataclass(frozen=True)
class FewIterations:
    """A Loop that runs as given for few iterations, or for such of many rows.

    Attributes:
        few: For how many; 0 if their number is not asked for.
        enough: Whether there are more: a boolean scalar.
        asked: What computes that.
        limits: Flags of the batched form that must hold for it to be the faster one.
        early: Those parts of them that follow from sizes alone, and are asked with the number.
        copies: A copy of the Loop for each of the two questions that is asked.
        path: The path of the Loop.
        opset: Version of ONNX's operators.
        is_copied: Whether it is copies of its body that run, and no Loop.
    """

    few: int
    enough: ir.Value
    asked: Sequence[ir.Node]
    limits: Sequence[ir.Value]
    early: Sequence[ir.Value]
    copies: Sequence[LoopCopy]
    path: str
    opset: int
    is_copied: bool = False

    @property
    def nodes(self) -> list[ir.Node]:
        """All nodes that were recorded."""
        copied = [node for copy in self.copies for node in (*copy.nodes, copy.reader)]
        return [*self.asked, *copied]

    def without_few(self, plan: FusionPlan) -> FusionPlan:
        """Return a plan that does not ask for what is asked here: how many samples, what sizes."""
        if self.limits:
            return dataclasses.replace(plan.with_any_number(), asks_sizes=False)
        return plan.with_any_number() if self._asks_for(plan) else plan

    def _asks_for(self, plan: FusionPlan) -> bool:
        """Whether what is asked here leaves a map nothing to ask of the number of samples.

        It does where no more samples of the map run otherwise, or both run copies of the body.
        """
        choice = plan.choice
        is_within = choice.few <= self.few or (self.is_copied and choice.is_copied)
        return choice.few > 0 and is_within

    def write(self, plan: FusionPlan, before: Collection[ir.Node], typings: Typings) -> None:
        """Put what stands in the place of the Loop into a branch for more iterations.

        It stays as it is where something of it is read that the Loop does not yield. Recorded
        nodes that are not placed go with their draft.

        Args:
            plan: What its last map became, which says so.
            before: What stood in the graph before its maps were fused.
            typings: Both typings; they gain what is read in the place of the values.
        """
        graph, written = plan.site.graph, set(plan.site.originals[0].written)
        region = [node for node in graph if node in written or node not in before]
        copies = list(self.copies)
        if self.limits:
            region = self._write_limits(region, copies.pop(), typings)
        if self.early:
            region = self._write_early(region, copies.pop(), typings)
        if not self.few:
            return
        region += _joins(copies[0], region)
        needed = needed_nodes([*region, *self.asked], [self.enough])
        rest = [node for node in region if node not in needed]
        graph.insert_after(region[-1], self.asked)
        if self._branch(rest, self.enough, copies.pop(), typings) is None:
            graph.remove(self.asked)
            return
        plan.decision.few, plan.decision.few_copied = self.few, self.is_copied
        known = plan.choice.few_note
        if (self.limits or self._asks_for(plan)) and known in plan.decision.notes:
            plan.decision.notes.remove(known)
        how = "by copies of its body" if self.is_copied else "in the Loop as given"
        run = "iteration runs" if self.few == 1 else "iterations run"
        plan.decision.notes.append(f"up to {self.few} {run} {how}, which is faster")

    def _write_early(
        self, region: Sequence[ir.Node], copy: LoopCopy, typings: Typings
    ) -> list[ir.Node]:
        """Let the Loop as given run where sizes alone say that a limit does not hold.

        Returns:
            What stands in the place of the region.
        """
        needed = needed_nodes(region, self.early)
        asked = [node for node in region if node in needed]
        rest = [node for node in region if node not in needed]
        builder = Builder(self.path)
        flag = functools.reduce(lambda a, b: builder.op("And", [a, b]), self.early)
        asked += builder.nodes
        graph = region[-1].graph
        assert graph is not None
        graph.insert_after(region[-1], builder.nodes)
        node = self._branch(rest, flag, copy, typings)
        if node is None:
            graph.remove(builder.nodes, safe=True)
            return list(region)
        return [*asked, node]

    def _write_limits(
        self, region: Sequence[ir.Node], copy: LoopCopy, typings: Typings
    ) -> list[ir.Node]:
        """Let the Loop as given run where a limit does not hold, in the place of one of ours.

        Returns:
            What stands in the place of the region.
        """
        bounded = _bounded_by(self.limits, region)
        if bounded is None:
            copy.take()
            return list(region)
        condition = bounded.inputs[0]
        assert condition is not None
        asked = needed_nodes(region, [condition])
        rest = [node for node in region if node not in asked and node is not bounded]
        first = [node for node in region if node in asked]
        opened = _opened(bounded)
        node = self._branch([*opened, *rest], condition, copy, typings, bounded)
        return [*first, *opened, *rest] if node is None else [*first, node]

    def _branch(
        self,
        region: Sequence[ir.Node],
        condition: ir.Value,
        copy: LoopCopy,
        typings: Typings,
        *spent: ir.Node,
    ) -> ir.Node | None:
        """Put nodes into a branch; return the If, None where that is not possible."""
        graph = region[-1].graph
        assert graph is not None
        inside = set(walk_nodes(region))
        copied = copy.take(*spent)
        yielded = [v for node in region for v in node.outputs if _is_read_outside(v, inside)]
        if not yielded or not set(yielded) <= set(copied):
            return None
        outputs = [_in_place_of(value, inside) for value in yielded]
        typings.copy(dict(zip(yielded, outputs, strict=True)))
        graph.remove(region)
        branches = {
            "then_branch": (region, yielded),
            "else_branch": (copy.nodes, [copied[value] for value in yielded]),
        }
        for _, values in branches.values():
            for value in values:
                value.shape = None
        node = ir.Node(
            "",
            "If",
            [condition],
            [
                ir.AttrGraph(name, ir.Graph((), values, nodes=nodes, name=name.split("_")[0]))
                for name, (nodes, values) in branches.items()
            ],
            outputs=outputs,
            name=f"{self.path.rsplit('/', 1)[-1]}/If",
            metadata_props={ORIGIN_KEY: self.path},
        )
        note(node)
        graph.append(node)
        graph.sort()
        if not self.is_copied:
            take_loops(region, self.path, self.opset)
        return node


def _joins(copy: LoopCopy, region: Sequence[ir.Node]) -> list[ir.Node]:
    """Return what makes of a list of some nodes a tensor that a copy yields, too."""
    made = (value.producer() for value in copy.reader.inputs if value is not None)
    return [
        node
        for node in made
        if is_operator(node, "ConcatFromSequence")
        and node not in region
        and operand(node, 0).producer() in region
    ]


def _bounded_by(limits: Sequence[ir.Value], region: Sequence[ir.Node]) -> ir.Node | None:
    """Return the If that asks for limits; None where there is none."""
    flags = set(limits)
    for node in region:
        if node.op_type == "And" and set(node.inputs) <= flags:
            flags.update(node.outputs)
        if node.op_type == "If" and node.inputs[0] in flags:
            return node
    return None


def _opened(node: ir.Node) -> list[ir.Node]:
    """Put what an If yields first in its place; return the nodes, which are in its graph now."""
    graph, branch = node.graph, node.attributes["then_branch"].as_graph()
    assert graph is not None
    values, nodes = list(branch.outputs), list(branch)
    branch.outputs.clear()
    branch.remove(nodes)
    graph.insert_before(node, nodes)
    for old, new in zip(node.outputs, values, strict=True):
        hand_over(old, new)
    graph.remove(node, safe=True)
    return nodes


def _is_read_outside(value: ir.Value, inside: set[ir.Node]) -> bool:
    return value.is_graph_output() or any(use.node not in inside for use in value.uses())


def _in_place_of(value: ir.Value, inside: set[ir.Node]) -> ir.Value:
    """Return a value that is read instead of another one, outside of some nodes."""
    shape = value.shape if value.is_graph_output() else rank_alone(value.shape)
    new = ir.Value(name=value.name, type=value.type, shape=shape, doc_string=value.doc_string)
    new.metadata_props.update(value.metadata_props)
    graph = value.graph
    assert graph is not None
    for use in list(value.uses()):
        if use.node not in inside:
            use.node.replace_input_with(use.idx, new)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = new
    value.name = None
    return new
