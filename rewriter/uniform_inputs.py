"""Which sequence inputs of a model a map depends on: those that --uniform can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from passes.decisions import Decision, Reason
from passes.graphs import node_paths, subgraphs, walk_nodes
from rewriter.remedies import naming

__all__ = ["sequence_sources", "with_named_inputs"]

_Names = frozenset[str]
_NONE: _Names = frozenset()


def sequence_sources(model: ir.Model) -> dict[str, _Names]:
    """Return the sequence inputs that each node with a body depends on, by the path of the node.

    All sequence inputs stand beside the empty path.

    Args:
        model: The model as given.
    """
    sources = {
        value: frozenset({value.name})
        for value in model.graph.inputs
        if value.name and isinstance(value.type, ir.SequenceType)
    }
    if not sources:
        return {}
    every = _NONE.union(*sources.values())
    found: dict[ir.Node, _Names] = {}
    _follow(model.graph, sources, found)
    paths = node_paths(model)
    return {"": every} | {paths[node]: names for node, names in found.items()}


def _follow(
    graph: ir.Graph, sources: dict[ir.Value, _Names], found: dict[ir.Node, _Names]
) -> None:
    for node in graph:
        bodies = [body for _, body in subgraphs(node)]
        read = [value for inner in walk_nodes([node]) for value in inner.inputs]
        for body in bodies:
            read.extend(list(body.outputs))
        names = _NONE.union(*(sources.get(value, _NONE) for value in read if value is not None))
        for body in bodies:
            sources |= dict.fromkeys(list(body.inputs), names)
            _follow(body, sources, found)
        if bodies:
            found[node] = names
        sources |= dict.fromkeys(list(node.outputs), names)


def with_named_inputs(
    decisions: Sequence[Decision], sources: Mapping[str, _Names], promised: Collection[str]
) -> list[Decision]:
    """Name the inputs in remedies that say ``--uniform``, or leave these remedies out.

    Args:
        decisions: What was done with the maps.
        sources: What `sequence_sources` says of the model as given. Of a map that it does not
            know, as one in a function, all of the model's sequence inputs are named.
        promised: The inputs that are promised to be uniform already.
    """
    every = sources.get("", _NONE)
    return [
        _named(decision, sorted(sources.get(decision.path, every) - set(promised)))
        for decision in decisions
    ]


def _named(decision: Decision, names: Sequence[str]) -> Decision:
    return dataclasses.replace(
        decision,
        reasons=[_advised(reason, names) for reason in decision.reasons],
    )


def _advised(reason: Reason, names: Sequence[str]) -> Reason:
    advice = naming(reason.remedy, names)
    return reason if advice == reason.remedy else dataclasses.replace(reason, advice=advice)
