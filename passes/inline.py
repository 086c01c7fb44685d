"""Inlines the model-local functions that hold maps, sequences, or Loops that are maps."""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterator, Mapping

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from passes.errors import RewriteError
from passes.graph.graphs import all_graphs, is_operator, node_paths, walk_nodes
from passes.graph.names import connect_outer_outputs
from passes.graph.opsets import schema_of
from passes.reading.iterations import is_iteration
from passes.sequence_operators import SEQUENCE_OPERATORS

__all__ = [
    "InlineMapFunctionsPass",
    "fits",
    "functions_holding",
    "inline_functions",
    "inline_loops",
    "restore_functions",
]


class InlineMapFunctionsPass(ir.passes.InPlacePass):
    """Inline every function that holds a map or a sequence, itself or through its calls.

    1. Functions that hold none stay, and so do their calls.
    2. Attribute references in an inlined body become the values given at the call, or the
       function's defaults.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline in the main graph, in bodies, and in the functions that stay."""
        chosen = functions_holding(model, _is_of_sequences)
        if chosen:
            inline_functions(model, chosen)
        return ir.passes.PassResult(model, bool(chosen))


def inline_functions(model: ir.Model, chosen: Collection[ir.OperatorIdentifier]) -> None:
    """Inline functions in the main graph, in bodies, and in the functions that stay.

    A chosen function that nothing calls is removed like the others: nobody tells its types. One
    that imports another opset than the model is taken for one of the model's where it `fits`.

    Args:
        model: The model.
        chosen: Which functions, with all that call them.

    Raises:
        RewriteError: A call does not fit its function.
    """
    connect_outer_outputs(model)
    for identifier in chosen:
        function = model.functions[identifier]
        if fits(function, model):
            function.opset_imports.update(_imports_of(function, model))
    inliner = InlinePass(criteria=lambda function: function.identifier() in chosen)
    try:
        inliner(model)
    except (ValueError, ir.passes.PassError) as error:
        cause = error.__cause__ or error
        raise RewriteError(
            f"The model-local functions that hold maps cannot be inlined: {cause}. Make the "
            "functions and the model agree, or inline them where the model is made."
        ) from error
    for identifier in chosen:
        model.functions.pop(identifier, None)


def fits(function: ir.Function, model: ir.Model) -> bool:
    """Whether the operators of a function are the same in the opsets that the model imports."""
    imports = _imports_of(function, model)
    return all(
        _version(node, function.opset_imports) == _version(node, imports)
        for node in walk_nodes(function)
        if node.op_identifier() not in model.functions
    )


def _imports_of(function: ir.Function, model: ir.Model) -> dict[str, int]:
    """Return the opsets that a function imports, by the versions of the model."""
    return {
        domain: model.opset_imports.get(domain, version)
        for domain, version in function.opset_imports.items()
    }


def _version(node: ir.Node, imports: Mapping[str, int]) -> int | None:
    """Return the opset from which on the operator of a node is what it is; None if unknown."""
    imported = imports.get(node.domain)
    schema = None if imported is None else schema_of(node.op_type, imported, node.domain)
    return imported if schema is None else schema.since_version


def functions_holding(
    model: ir.Model, is_wanted: Callable[[ir.Node], bool]
) -> set[ir.OperatorIdentifier]:
    """Return the functions that hold a wanted node, themselves or through their calls."""
    calls: dict[ir.OperatorIdentifier, set[ir.OperatorIdentifier]] = {}
    chosen: set[ir.OperatorIdentifier] = set()
    for identifier, function in model.functions.items():
        calls[identifier] = set()
        for node in walk_nodes(function):
            calls[identifier].add(node.op_identifier())
            if is_wanted(node):
                chosen.add(identifier)
    while grown := {i for i, called in calls.items() if called & chosen} - chosen:
        chosen |= grown
    return chosen


def _is_of_sequences(node: ir.Node) -> bool:
    return is_operator(node, SEQUENCE_OPERATORS)


_NAME_KEY = "seqmap.loop"


def inline_loops(model: ir.Model, fuse: Callable[[ir.Model], object]) -> tuple[bool, set[str]]:
    """Inline the functions in which a Loop or Scan is fused, and those that call them.

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
