"""Simplifies the bodies of maps before they are fused or expanded."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.decisions import PART_OF, Decision, Verdict
from passes.fold_branches import fold_branches
from passes.graph.builder import given_paths
from passes.graph.graphs import (
    default_opset,
    is_default_domain,
    is_operator,
    is_used,
    subgraphs,
    walk_nodes,
)
from passes.graph.made import before_identities
from passes.graph.names import make_names_unique
from passes.graph.node_copies import forget_dims, node_like, rank_alone
from passes.graph.splice import hand_over, remove_dead
from passes.maps.merge import merge_sequence_maps
from passes.maps.sequence_map import find_sequence_maps, prepare
from passes.numbers.folding import Folder
from passes.promises import ceiling_of
from passes.reading.nodes import become_constant, constant_of
from passes.typing import Typing, type_values

__all__ = ["SimplifyBodiesPass"]

_SIZES = ("Shape", "Size")
"""Operators that ask for what a type may tell."""


class SimplifyBodiesPass(ir.passes.InPlacePass):
    """Simplify the body of every SequenceMap.

    1. An If whose condition depends on rank or proven shape only becomes its branch.
    2. Integers that are the same in every sample become constants.
    3. Outputs of the map that nothing reads are dropped, with what only they needed.
    4. Nodes that read nothing of the sample are hoisted out, unless they could fail: a map over
       no samples never runs them.
    5. A map that feeds a map becomes one map; the sequence between them is gone.
    6. A map that yields its elements as they are becomes its first sequence.

    Attributes:
        decisions: What was done with each map that is gone.
    """

    only_for = (("SequenceMap",),)

    def __init__(self, *, keeps_views: bool = False) -> None:
        """Set up the pass.

        Args:
            keeps_views: Leave alone the maps that only say how flat samples lie.
        """
        super().__init__()
        self._keeps_views = keeps_views
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Simplify all bodies, those inside of others first."""
        self.decisions = []
        modified = prepare(model, opens=True)
        maps = _simple_maps(model)
        if not maps:
            return ir.passes.PassResult(model, modified)
        # Typing a large model takes seconds: only where it decides anything.
        nodes = [node for _, node in maps]
        is_shorter = False
        if any(is_operator(inner, (*_SIZES, "If")) for inner in walk_nodes(nodes)):
            folder = Folder(type_values(model, proven=True, ranks=False))
            is_shorter = fold_branches(nodes, folder)
            for node in nodes:
                is_shorter |= _fold_numbers(node, folder)
        for node in nodes:
            is_shorter |= _drop_unused_outputs(node)
        maps = _simple_maps(model) if is_shorter else maps
        modified |= is_shorter
        if any(_hoistable(node, None, 0) for _, node in maps):
            typing = type_values(model, proven=True)
            for graph, node in maps:
                modified |= _hoist(graph, node, typing, default_opset(model))
        are_named = len(maps) > 1 or any(_yields_elements(node) for _, node in maps)
        paths = given_paths(model) if are_named else {}
        if len(maps) > 1:
            self.decisions = [
                Decision(paths[first], "SequenceMap", Verdict.FUSED, f"{PART_OF}{paths[second]}")
                for first, second in merge_sequence_maps(model, keeps_views=self._keeps_views)
            ]
            modified |= bool(self.decisions)
            maps = _simple_maps(model)
        for graph, node in maps:
            modified |= _drop_unused_outputs(node)
            forwarded = _forward_elements(graph, node)
            modified |= bool(forwarded)
            if forwarded == len(node.outputs):
                form = "its elements pass unchanged"
                path = paths.get(node, node.name or "")
                self.decisions.append(Decision(path, "SequenceMap", Verdict.FUSED, form))
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)


def _simple_maps(model: ir.Model) -> list[tuple[ir.Graph, ir.Node]]:
    """Return every map that may be changed, with its graph; inner ones first."""
    return [(graph, node) for graph, node in find_sequence_maps(model) if not ceiling_of(node)]


def _body(node: ir.Node) -> ir.Graph | None:
    attribute = node.attributes.get("body")
    return None if attribute is None else attribute.as_graph()


def _drop_unused_outputs(node: ir.Node) -> bool:
    """Drop the outputs of a map that nothing reads (3); the first one stays if none is read."""
    body = _body(node)
    if body is None or len(body.outputs) != len(node.outputs):
        return False
    unused = [i for i, v in enumerate(node.outputs) if not is_used(v)]
    if not unused or len(unused) == len(node.outputs):
        return _remove_dead_nodes(body)
    kept = [i for i in range(len(node.outputs)) if i not in unused]
    outputs = [body.outputs[i] for i in kept]
    body.outputs.clear()
    body.outputs.extend(outputs)
    new = node_like(node, node.inputs, node.attributes.values(), len(kept))
    graph = node.graph
    assert graph is not None
    graph.insert_before(node, new)
    for i, value in zip(kept, new.outputs, strict=True):
        hand_over(node.outputs[i], value)
    node.attributes.pop("body")
    graph.remove(node, safe=True)
    _remove_dead_nodes(body)
    return True


def _remove_dead_nodes(body: ir.Graph) -> bool:
    before = len(body)
    remove_dead(list(reversed(list(body))))
    return len(body) != before


def _fold_numbers(node: ir.Node, folder: Folder) -> bool:
    """Make Constants of the nodes in the bodies of a map whose integers are known (2).

    Exporters compute ``Concat([-1], Shape(x)[1:])`` where a type tells ``[-1, 3]``. In the body
    of a Loop such numbers become constants when it is read as a map.

    Args:
        node: The map; what stands in graphs inside of its body is left alone.
        folder: Knows the numbers.

    Returns:
        Whether there are any.
    """
    inside = [inner for _, body in subgraphs(node) for inner in body]
    known = [(one, array) for one in inside if (array := _known_integers(one, folder)) is not None]
    for one, array in known:
        read = [value.producer() for value in one.inputs if value is not None]
        become_constant(one, array)
        remove_dead(maker for maker in read if maker in inside)
    return bool(known)


def _known_integers(node: ir.Node, folder: Folder) -> np.ndarray | None:
    """Return the integers that a node computes in every sample, None if they are not known."""
    is_read = is_default_domain(node) and bool(node.inputs) and len(node.outputs) == 1
    if not is_read or any(True for _ in subgraphs(node)):
        return None
    return constant_of(node, folder)


def _hoistable(node: ir.Node, typing: Typing | None, opset: int) -> list[ir.Node]:
    """Return the nodes of a body that read nothing of the sample (4).

    Args:
        node: The map.
        typing: Tells which of them cannot fail; None takes all of them.
        opset: Version of ONNX's operators.
    """
    body = _body(node)
    if body is None:
        return []
    inside: set[ir.Value] = set(body.inputs)
    found = []
    for inner in body:
        leaves = any(v.is_graph_output() for v in inner.outputs)
        stays = leaves or bool(subgraphs(inner)) or not inside.isdisjoint(inner.inputs)
        if stays or (typing is not None and not runs_anywhere(inner, typing, opset)):
            inside.update(inner.outputs)
        else:
            found.append(inner)
    return found if any(inner.op_type != "Constant" for inner in found) else []


def _hoist(graph: ir.Graph, node: ir.Node, typing: Typing, opset: int) -> bool:
    """Move the nodes of a body that read nothing of the sample in front of the map (4)."""
    body, moved = _body(node), _hoistable(node, typing, opset)
    if body is None or not moved:
        return False
    body.remove(moved)
    forget_dims(moved)
    graph.insert_before(node, moved)
    return True


def _yields_elements(node: ir.Node) -> bool:
    """Whether an output of a map may be the element of its first sequence (6)."""
    body = _body(node)
    return body is not None and any(before_identities(v) in body.inputs[:1] for v in body.outputs)


def _forward_elements(graph: ir.Graph, node: ir.Node) -> int:
    """Replace outputs that are the element of the first sequence by that sequence (6).

    Returns:
        How many outputs were replaced.
    """
    body = _body(node)
    if body is None or not body.inputs or len(body.outputs) != len(node.outputs):
        return 0
    sequence = node.inputs[0]
    forwarded = 0
    for inner, outer in zip(body.outputs, node.outputs, strict=True):
        if sequence is None or before_identities(inner) is not body.inputs[0]:
            continue
        if not is_used(outer):
            continue
        copied = ir.Node("", "Identity", [sequence], name=f"{node.name}/Identity")
        new = copied.outputs[0]
        new.type, name = outer.type, outer.name
        new.shape = outer.shape if outer.is_graph_output() else rank_alone(outer.shape)
        graph.insert_before(node, copied)
        outer.replace_all_uses_with(new, replace_graph_outputs=True)
        outer.name, new.name = None, name
        forwarded += 1
    if forwarded:
        _drop_unused_outputs(node)
        remove_dead([node])
    return forwarded
