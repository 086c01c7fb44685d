"""Shapes of tensors that a Loop carries; ONNX's inference keeps none of them.

Each state is taken to have, in every iteration, the shape that it begins with, and inference is
done again. That holds if what the body hands on has that shape too: if it did not, there would be
a first iteration that hands on another. Where a dimension differs it is taken for unknown, and
inference done once more, until nothing differs.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from typing import TypeAlias

import onnx

from passes.typing.protos import is_written, may_own, types_of
from passes.typing.shapes_in_turn import (
    Dims,
    Infer,
    LoopState,
    Place,
    dims_of,
    enter_shape,
    shapes_in_turn,
)

__all__ = ["keep_carried_shapes"]

Types: TypeAlias = ChainMap[str, onnx.TypeProto]

_ROUNDS = 12
_MOST_INFERENCES = 100
"""Loops that begin with what Loops in branches yield take one inference each."""


_States: TypeAlias = dict[Place, LoopState]
_Known: TypeAlias = dict[Place, Dims | None]


def keep_carried_shapes(
    proto: onnx.ModelProto, inferred: onnx.ModelProto, infer: Infer
) -> onnx.ModelProto:
    """Return a model after inference that knows the shapes of what its Loops carry.

    Args:
        proto: The model before inference; it stays as it is.
        inferred: The same after inference.
        infer: Does it again.
    """
    known: _Known = {}
    result, rounds = inferred, 0
    for _ in range(_MOST_INFERENCES):
        states = dict(_states(proto.graph, result.graph, ChainMap(), ()))
        begun = _begun(states, known)
        if begun:
            begun |= shapes_in_turn(proto, result, states, known | begun, infer)
        now = known | (begun or _checked(states, known))
        if now == known:
            return result
        rounds += not begun
        if rounds == _ROUNDS:
            return inferred
        known = now
        trial = onnx.ModelProto()
        trial.CopyFrom(proto)
        for place, state in list(_states(trial.graph, result.graph, ChainMap(), ())):
            dims = known.get(place)
            if dims is not None:
                enter_shape(state, dims)
        try:
            result = infer(trial)
        except onnx.shape_inference.InferenceError:
            return inferred
    return inferred


def _begun(states: _States, known: _Known) -> _Known:
    """Return the initial shapes of loop states for which no shape is assumed yet.

    One that begins with what a Loop before it yields begins with the shape that is assumed there.
    Those of inner Loops wait until outer ones begin: they may begin with what those carry.
    """
    begun: _Known = {}
    yielded: dict[tuple[Place, str], Dims | None] = {}
    for place, state in states.items():
        graph = place[:-3]
        assumed = yielded.get((graph, state.initial))
        first = assumed if state.first is None else state.first
        if place not in known and first is not None and state.may_be(first):
            begun[place] = first
        yielded[graph, state.result] = begun.get(place, known.get(place))
    bodies = {place[:-1] for place in begun}
    return {p: dims for p, dims in begun.items() if bodies.isdisjoint(_around(p))}


def _around(place: Place) -> Iterator[Place]:
    """Yield the bodies that the body of a Loop may stand in."""
    yield from (place[:end] for end in range(len(place) - 3, 0, -2))


def _checked(states: _States, known: _Known) -> _Known:
    """Return what remains of what was taken for known."""
    return {
        place: _common(_common(dims, states[place].first), states[place].following)
        for place, dims in known.items()
    }


def _states(
    graph: onnx.GraphProto, inferred: onnx.GraphProto, outer: Types, place: Place
) -> Iterator[tuple[Place, LoopState]]:
    """Yield the tensors that Loops carry in a graph and in all graphs inside of it."""
    types = outer.new_child(types_of(inferred))
    for at, (node, typed) in enumerate(zip(graph.node, inferred.node, strict=True)):
        if not may_own(node):
            continue
        bodies = zip(node.attribute, typed.attribute, strict=True)
        for number, (attribute, typed_attribute) in enumerate(bodies):
            if not attribute.HasField("g"):
                continue
            body, typed_body = attribute.g, typed_attribute.g
            yield from _states(body, typed_body, types, (*place, at, number))
            if not is_written(node, {"Loop"}):
                continue
            inside = types.new_child(types_of(typed_body))
            for i, name in enumerate(node.input[2 : len(body.input)]):
                first = types.get(name)
                if first is None or not first.HasField("tensor_type"):
                    continue
                yield (
                    (*place, at, number, i),
                    LoopState(
                        graph,
                        body.input[i + 2],
                        name,
                        node.output[i] if i < len(node.output) else "",
                        first.tensor_type.elem_type,
                        dims_of(first),
                        dims_of(inside.get(body.output[i + 1].name)),
                    ),
                )


def _common(one: Dims | None, other: Dims | None) -> Dims | None:
    """Return the dimensions that two shapes have in common, None if there are none."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))
