"""Completes decisions at the end: Loops that are left, and inputs that --uniform can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict
from passes.graph.builder import BATCHED_KEY, ORIGIN_KEY
from passes.graph.graphs import COPIED_KEY, all_nodes, node_paths, subgraphs, walk_nodes
from passes.loops.forms import SPLITTABLE
from passes.reading.iterations import is_given, is_iteration
from passes.sequences.carried import carries_tensors
from rewriter.reporting.remedies import naming

__all__ = [
    "sequence_sources",
    "with_built_sequences",
    "with_carried_tensors",
    "with_left_loops",
    "with_named_inputs",
    "with_reasons_of_readers",
    "without_replaced",
]


def without_replaced(decisions: Sequence[Decision], model: ir.Model) -> list[Decision]:
    """Leave out that a Loop stays where it is gone, or where a later decision tells of it.

    Args:
        decisions: What was done, in order.
        model: The rewritten model.
    """
    left, later = set(node_paths(model).values()), set[str]()
    final: list[Decision] = []
    for decision in reversed(decisions):
        is_replaced = decision.path in later or decision.path not in left
        if decision.verdict is not Verdict.KEPT or not is_replaced:
            final.append(decision)
        later.add(decision.path)
    return final[::-1]


def with_reasons_of_readers(decisions: Sequence[Decision]) -> list[Decision]:
    """Give maps that only say how flat samples lie the reasons of those that read these.

    Args:
        decisions: What was done with the maps.
    """
    found = []
    for one in decisions:
        reading = [d for d in decisions if any(_is_of(d, path) for path in one.readers)]
        told = [r for d in reading for r in d.reasons if r.code is not Code.SURPLUS_IGNORED]
        kept = [dataclasses.replace(r, dependents=()) for r in dict.fromkeys(told)]
        found.append(dataclasses.replace(one, reasons=kept) if kept else one)
    return found


def _is_of(decision: Decision, path: str) -> bool:
    """Whether a node is a map, or stands in the body of one."""
    return f"{path}/".startswith(f"{decision.path}/")


def with_left_loops(
    decisions: Sequence[Decision], model: ir.Model, strategy: str
) -> list[Decision]:
    """Add a decision for each Loop and Scan of the model's own that has none: it stays.

    Those that were in a body are told of with the map that the body is of. Copies of one are told
    of once.

    Args:
        decisions: What was done with the maps.
        model: The rewritten model.
        strategy: ``expand`` looks at no Loop.
    """
    told = {decision.path for decision in decisions}
    kept = {one.path for one in decisions if one.verdict is Verdict.KEPT}
    reason = Reason(Code.STRATEGY if strategy == "expand" else Code.NOT_A_MAP)
    paths = {
        node.meta.get(COPIED_KEY, path): node
        for node, path in node_paths(model).items()
        if is_given(node) and path not in told
    }
    left = [
        Decision(path, node.op_type, Verdict.KEPT, "as it is", [reason])
        for path, node in paths.items()
        if path not in kept
    ]
    origins = dict.fromkeys(
        node.metadata_props.get(ORIGIN_KEY, "") for node in all_nodes(model) if is_iteration(node)
    )
    return [*(_with_inner(decision, origins) for decision in decisions), *left]


def with_carried_tensors(decisions: Sequence[Decision], model: ir.Model) -> list[Decision]:
    """Say of each Loop that stays, but for its lists, that tensors are in their place.

    Args:
        decisions: What was done with the maps.
        model: The rewritten model.
    """
    changed = {path for node, path in node_paths(model).items() if carries_tensors(node)}
    return [
        dataclasses.replace(one, form=_WITH_TENSORS)
        if one.verdict is Verdict.KEPT and one.path in changed
        else one
        for one in decisions
    ]


def _with_inner(decision: Decision, origins: Iterable[str]) -> Decision:
    """Say which Loops and Scans of a body that was batched are left: each runs for all samples.

    Args:
        decision: What was done with the map.
        origins: The paths of all Loops and Scans that are left.
    """
    inside = f"{decision.path}/"
    notes = [
        f"'{origin}' in it stays: it runs once for all samples, one step after another"
        for origin in origins
        if origin.startswith(inside)
    ]
    if decision.verdict not in (Verdict.FUSED, Verdict.GUARDED, Verdict.FISSIONED) or not notes:
        return decision
    return dataclasses.replace(decision, notes=[*decision.notes, *notes])


_WITH_TENSORS = "with tensors in the place of its lists"
_FORM = "a Loop is left, which builds the sequence of its results"


def with_built_sequences(decisions: Sequence[Decision], model: ir.Model) -> list[Decision]:
    """Say of every fused map whose result is still built by a Loop that it is, and why.

    Args:
        decisions: What was done with the maps.
        model: The rewritten model.
    """
    built = {
        node.metadata_props.get(ORIGIN_KEY, ""): sequence
        for node in node_paths(model)
        if node.op_type == "Loop" and BATCHED_KEY not in node.metadata_props
        for sequence in (value.type for value in node.outputs)
        if isinstance(sequence, ir.SequenceType) and sequence.elem_type.dtype not in SPLITTABLE
    }
    return [
        _told(decision, sequence)
        if decision.verdict is Verdict.FUSED and (sequence := built.get(decision.path))
        else decision
        for decision in decisions
    ]


def _told(decision: Decision, sequence: ir.SequenceType) -> Decision:
    dtype = sequence.elem_type.dtype.name.lower()
    detail = f"{Code.UNSPLITTABLE_TYPE.meaning}: its results are {dtype}"
    return dataclasses.replace(
        decision,
        form="; ".join(form for form in (decision.form, _FORM) if form),
        reasons=[*decision.reasons, Reason(Code.UNSPLITTABLE_TYPE, detail=detail)],
    )


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
