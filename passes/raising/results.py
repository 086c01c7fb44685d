"""The types of what a Map yields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.site import MapResult, MapSite
from passes.typing import Typing, Typings
from passes.typing.value_types import ValueType

__all__ = ["type_results", "type_rows"]


def type_results(site: MapSite, written: Mapping[ir.Value, ir.Value], typings: Typings) -> None:
    """Enter the types of what stands in the place of the results of a map.

    Args:
        site: The map; the values of its body are typed.
        written: For each value of the Loop the one that stands in its place.
        typings: Both typings.
    """
    for typing in {id(t): t for t in (typings.declared, typings.proven)}.values():
        for result in site.results:
            known = _known(site, result, typing)
            _declare(site.body.outputs[result.output], typings)
            if known is not None:
                typing.set(result.value, known.filled_from(typing[result.value]))
    typings.copy(written)


def _declare(value: ir.Value, typings: Typings) -> None:
    """Write the type of an output of a body; a Map without samples yields its dimensions."""
    known = typings.declared[value]
    numbers = (
        None if known.dims is None else [d if isinstance(d, int) else None for d in known.dims]
    )
    value.type = known.type
    value.shape = None if numbers is None else ir.Shape(numbers)


def _known(site: MapSite, result: MapResult, typing: Typing) -> ValueType | None:
    """Return the type of a result that is a tensor, as far as the body tells it."""
    output = typing[site.body.outputs[result.output]]
    if result.kind == "sequence" or output.dims is None:
        return None
    dims = [d if typing.is_one_number(d) else None for d in output.dims]
    if result.kind == "stacked":
        dims.insert(result.axis % (len(dims) + 1), site.elements[0][1].dimension(typing))
    elif dims:
        dims[result.axis % len(dims)] = None
    return ValueType(output.type, tuple(dims))


def type_rows(site: MapSite, written: Mapping[ir.Value, ir.Value], typings: Typings) -> None:
    """Enter the types of the tensors that are cut to make the sequences that a map yields.

    Args:
        site: The map; the values of its body are typed.
        written: For each result the value that stands in its place.
        typings: Both typings.
    """
    for result in site.results:
        node = written[result.value].producer()
        if not is_operator(node, "SplitToSequence"):
            continue
        tensor, axis = operand(node, 0), node.attributes.get_int("axis", 0)
        is_new_axis = len(node.inputs) < 2 and not node.attributes.get_int("keepdims", 1)
        kind: Literal["stacked", "concatenated"] = "stacked" if is_new_axis else "concatenated"
        as_tensor = dataclasses.replace(result, kind=kind, axis=axis)
        for typing in {id(t): t for t in (typings.declared, typings.proven)}.values():
            known = _known(site, as_tensor, typing)
            if known is not None:
                typing.set(tensor, known.filled_from(typing[tensor]))
