"""Writes what operators behind a Map compute of the values that its Loop carried."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NoReturn

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.pattern import Pattern
from passes.decisions import Code
from passes.flat_views import LEAST_OPSET
from passes.graph.builder import Builder
from passes.graph.made import skip_identities
from passes.promises import FuseOptions
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.site import MapSite
from passes.typing import Typing, Typings
from passes.typing.value_types import ValueType

__all__ = ["check_rounding", "describe_patterns", "write_behind"]


def write_behind(
    builder: Builder,
    read: LoopReading,
    yielded: Mapping[ir.Value, ir.Value],
    typings: Typings,
    opset: int,
    options: FuseOptions,
    made: dict[Hashable, ir.Value],
    *,
    is_inside: bool = False,
) -> list[tuple[ir.Value, ir.Value]]:
    """Record what is computed of the results of a Map, and type those that are new.

    Args:
        builder: Has written the Map.
        read: The Loop as it was read.
        yielded: For each result of the map the output of the Map.
        typings: Both typings; they know the body.
        opset: Version of ONNX's operators.
        options: Whether rounding in another order is refused.
        made: What the builder recorded once, for all maps of the Loop.
        is_inside: Whether the Loop stands in a body or a branch.

    Returns:
        Pairs of an output of the Loop and the value that takes its place.

    Raises:
        NotAMapError: Something that a pattern relies on is not proven, it rounds, or it would not
            be faster.
    """
    site, pairs = read.site, []
    outputs = {r.value: site.body.outputs[r.output] for r in site.results}
    collected = {one.pattern.carried.inner for one in read.behind if one.collects is not None}
    for one in read.behind:
        pattern = one.pattern
        _check_options(pattern, opset, options)
        if pattern.gives_flat and not (opset >= LEAST_OPSET and _takes_flat(one.result, options)):
            _refuse_shapes(pattern)
        for term, entry in zip(one.terms, pattern.terms, strict=True):
            is_part = _is_part(outputs[term], site, typings.proven)
            if entry.kind == "stacked" and not (pattern.grows or entry.is_alike or is_part):
                _check_one_shape(outputs[term], pattern, typings)
        types = [typings.proven[outputs[term]] for term in one.terms]
        values = [yielded[term] for term in one.terms]
        joined = Joined(
            builder,
            values,
            types,
            typings.proven,
            read.trips,
            opset,
            branches="If" not in options.lacks,
            loops="Loop" not in options.lacks,
            is_collected=pattern.carried.inner in collected,
            weighs_cost=_weighs_cost(options),
            is_inside=is_inside,
            made=made,
        )
        if pattern.carried.inner in read.shaped:
            pattern.check_shape(joined)
        if one.collects is None:
            value, dims = pattern.write(joined), pattern.dims
        else:
            value = pattern.write_all(joined, is_after=one.collects)
            dims = pattern.dims and (None, *pattern.dims)
        if dims is not None:
            known = ValueType(typings.proven[pattern.carried.initial].type, dims)
            typings.declared.set(value, known)
            typings.proven.set(value, known)
        pairs.append((one.result, value))
    return pairs


def _takes_flat(list_: ir.Value, options: FuseOptions) -> bool:
    """Whether a list that a Loop makes may become rows and sizes: where none can be left."""
    is_end = options.for_tensors and list_.is_graph_output()
    return options.takes_packed_as_flat or is_end or "SequenceInsert" in options.lacks


def _weighs_cost(options: FuseOptions) -> bool:
    """Whether what would be slower than the Loop stays one."""
    return options.auto and not options.lacks


def _check_options(pattern: Pattern, opset: int, options: FuseOptions) -> None:
    """Check that the caller takes what a pattern does.

    Raises:
        NotAMapError: It rounds, or is slower than the Loop, and that is refused.
    """
    title, node = _title(pattern.name, pattern.carried.inner), pattern.carried.next.producer()
    if pattern.rounds:
        check_rounding(options, f"{title} would add in another order", node)
    is_cheap = pattern.cheap_from is not None and opset >= pattern.cheap_from
    if _weighs_cost(options) and pattern.is_dear and not is_cheap:
        raise NotAMapError(Code.COST, f"{title} compares each place with each iteration", node)


def check_rounding(options: FuseOptions, detail: str, node: ir.Node | None) -> None:
    """Check that the caller takes what rounds otherwise than the Loop.

    Args:
        options: What the caller asks.
        detail: What would round, for the report.
        node: The node that it is about.

    Raises:
        NotAMapError: It is refused.
    """
    if options.exact:
        raise NotAMapError(Code.EXACT, detail, node)


def _is_part(value: ir.Value, site: MapSite, typing: Typing) -> bool:
    """Whether a value is what each sample reads of one tensor, in parts of one shape."""
    value = skip_identities(value)
    return any(i is value and source.has_one_shape(typing) for i, source in site.elements)


def _check_one_shape(value: ir.Value, pattern: Pattern, typings: Typings) -> None:
    """Check that a value has one shape in all iterations, as what is stacked must have.

    A Loop that carries a value may broadcast another shape in each iteration.

    Raises:
        NotAMapError: It is not proven.
    """
    whole = typings.proven.is_sequence(pattern.carried.initial)  # which holds any shapes
    rank = typings.proven.rank(value)
    if rank is not None and pattern.fails_where_unlike(typings.proven, rank):
        return
    dims = typings.proven_dims(value) if whole else typings.equal_dims(value)
    if dims is None or None in dims:
        _refuse_shapes(pattern)


def _refuse_shapes(pattern: Pattern) -> NoReturn:
    detail = f"what each iteration gives to '{pattern.carried.inner.name}' is not proven to "
    raise NotAMapError(Code.RAGGED, f"{detail}have one shape", pattern.carried.next.producer())


def describe_patterns(read: LoopReading) -> Sequence[str]:
    """Return what the report says of the carried values that are computed behind the map."""
    lines: dict[str, None] = {}
    for pattern in (one.pattern for one in read.behind):
        line = _title(pattern.name, pattern.carried.inner)
        if pattern.rounds:
            line += ": it rounds in another order than the Loop; --exact keeps the Loop"
        lines[line] = None
    return list(lines)


def _title(name: str, value: ir.Value) -> str:
    return f"{name} '{value.name}'"
