"""Loops and Scans of model-local functions: inlined where one of them is a map."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping

import onnx_ir as ir

from passes.graphs import all_graphs, node_paths, walk_nodes
from passes.inline import functions_holding, inline_functions
from passes.reading.iterations import is_iteration

__all__ = ["inline_loops", "restore_functions"]

_NAME_KEY = "seqmap.loop"


def inline_loops(model: ir.Model, fuse: Callable[[ir.Model], object]) -> tuple[bool, set[str]]:
    """Inline the functions of which a Loop or Scan is fused, and those that call them.

    A function knows neither its types nor who calls it, so that its Loops are read where it is
    called. Which of them are maps is tried on a copy of the model; all other functions stay.

    Args:
        model: The model.
        fuse: Fuses the Loops and Scans of a model that stand in no function.

    Returns:
        Whether a function was inlined; and the paths, as ``fuse`` met them, of the Loops and
        Scans of the functions that stay.
    """
    holding = functions_holding(model, is_iteration)
    if not holding:
        return False, set()
    trial = model.clone()
    for name, node in _named_loops(trial):
        node.metadata_props[_NAME_KEY] = name
    inline_functions(trial, holding)
    before = _count(trial)
    fuse(trial)
    after = _count(trial)
    fused = {name for name, count in before.items() if after[name] < count}
    wanted = {node for name, node in _named_loops(model) if name in fused}
    chosen = functions_holding(model, wanted.__contains__)
    if chosen:
        inline_functions(model, chosen)
    left = {name for name, _ in _named_loops(model)}
    paths = node_paths(trial)
    nodes = walk_nodes(trial.graph)
    return bool(chosen), {paths[n] for n in nodes if n.metadata_props.get(_NAME_KEY) in left}


def _named_loops(model: ir.Model) -> Iterator[tuple[str, ir.Node]]:
    for identifier, function in model.functions.items():
        loops = (node for node in walk_nodes(function) if is_iteration(node))
        for number, node in enumerate(loops):
            yield f"{identifier} {number}", node


def _count(model: ir.Model) -> collections.Counter[str]:
    """Count how often each Loop of a function stands in the main graph."""
    nodes = walk_nodes(model.graph)
    return collections.Counter(
        n.metadata_props[_NAME_KEY] for n in nodes if _NAME_KEY in n.metadata_props
    )


def restore_functions(
    model: ir.Model,
    functions: Mapping[ir.OperatorIdentifier, ir.Function],
    imports: Mapping[str, int],
) -> None:
    """Give a model the functions that are called, and the imports that are needed, no others."""
    called = {node.op_identifier() for graph in all_graphs(model) for node in graph}
    needed = called & functions.keys()
    while (
        found := {inner.op_identifier() for one in needed for inner in walk_nodes(functions[one])}
        & functions.keys() - needed
    ):
        needed |= found
    if not needed <= model.functions.keys():
        kept = {i: f for i, f in functions.items() if i in needed or i in model.functions}
        model.functions.clear()
        model.functions.update(kept)
    called.update(n.op_identifier() for one in needed for n in walk_nodes(functions[one]))
    domains = {identifier[0] for identifier in called}
    for domain in model.opset_imports.keys() - imports.keys() - domains:
        del model.opset_imports[domain]
