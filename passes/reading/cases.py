"""Follows a boolean through Ifs, case by case.

TorchScript writes each ``continue`` as flags that Ifs hand on, and asks for one flag to choose
another. In a case, each condition on the way is true or false; none is both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand, skip_identities

__all__ = ["values_in_cases"]

_MOST_CASES = 64

_Case: TypeAlias = Mapping[ir.Value, bool]


def values_in_cases(value: ir.Value) -> list[ir.Value | bool] | None:
    """Return what a boolean that an If yields is in each case, in order, each once.

    Returns:
        Booleans that are no If's, and True or False where it is known; None for too many cases.
    """
    found = list(itertools.islice(_leaves(value, {}), _MOST_CASES + 1))
    if len(found) > _MOST_CASES:
        return None
    return list(dict.fromkeys(leaf for leaf, _ in found))


def _leaves(value: ir.Value, case: _Case) -> Iterator[tuple[ir.Value | bool, _Case]]:
    """Yield what a boolean is, with what that takes for granted beside what is given."""
    value = _before_casts(value)
    constant = constant_value(value)
    node = value.producer()
    if value in case:
        yield case[value], case
    elif constant is not None and constant.size == 1:
        yield bool(constant.item()), case
    elif is_operator(node, "If"):
        at = node.outputs.index(value)
        for is_true, inner in _decided(operand(node, 0), case):
            branch = node.attributes["then_branch" if is_true else "else_branch"].as_graph()
            yield from _leaves(branch.outputs[at], inner)
    else:
        yield value, case


def _decided(value: ir.Value, case: _Case) -> Iterator[tuple[bool, _Case]]:
    """Yield whether a condition is true, with what that takes for granted."""
    for leaf, inner in _leaves(value, case):
        if isinstance(leaf, bool):
            yield leaf, inner
            continue
        node = leaf.producer()
        if is_operator(node, "Not"):
            for is_true, further in _decided(operand(node, 0), inner):
                yield not is_true, further
        elif is_operator(node, ("And", "Or")):
            yield from _decided_by_two(node, inner)
        else:
            yield True, {**inner, leaf: True}
            yield False, {**inner, leaf: False}


def _decided_by_two(node: ir.Node, case: _Case) -> Iterator[tuple[bool, _Case]]:
    """Yield whether an And or an Or of two conditions is true; the first may decide it alone."""
    decides = node.op_type == "Or"
    for first, inner in _decided(operand(node, 0), case):
        if first == decides:
            yield first, inner
        else:
            yield from _decided(operand(node, 1), inner)


def _before_casts(value: ir.Value) -> ir.Value:
    """Return what is true where a boolean is: a cast to a boolean changes nothing of that."""
    value = skip_identities(value)
    while is_operator(node := value.producer(), "Cast"):
        if node.attributes.get_int("to", 0) != ir.DataType.BOOL:
            break
        value = skip_identities(operand(node, 0))
    return value
