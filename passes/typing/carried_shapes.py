"""Shapes of tensors that a Loop carries; ONNX's inference keeps none of them.

Each state is taken to have, in every iteration, the shape that it begins with, and inference is
done again. That holds if what the body hands on has that shape too: if it did not, there would be
a first iteration that hands on another. Where a dimension differs it is taken for unknown, and
inference done once more, until nothing differs.
"""

from __future__ import annotations

import dataclasses
import re
from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import TypeAlias

import onnx

from passes.typing.protos import is_written, types_of

__all__ = ["keep_carried_shapes"]

Infer: TypeAlias = Callable[[onnx.ModelProto], onnx.ModelProto]
Dims: TypeAlias = tuple[int | str | None, ...]
Place: TypeAlias = tuple[int, ...]
Types: TypeAlias = ChainMap[str, onnx.TypeProto]

_ROUNDS = 12
_MOST_INFERENCES = 100
"""A chain of Loops with other nodes between takes one inference each."""
_MADE_BY_INFERENCE = re.compile(r"unk__\d+")


@dataclasses.dataclass(frozen=True)
class _LoopState:
    """A tensor that a Loop carries.

    Attributes:
        graph: The graph that the Loop stands in.
        inner: The input of the body.
        initial: The name of what it begins with.
        result: The name of what the Loop yields; empty for nothing.
        dtype: Element type.
        first: What inference knows of the dimensions that it begins with.
        following: The same for what the body hands on.
    """

    graph: onnx.GraphProto
    inner: onnx.ValueInfoProto
    initial: str
    result: str
    dtype: int
    first: Dims | None
    following: Dims | None

    def may_be(self, dims: Dims) -> bool:
        """Whether the body declares no other rank than that of some dimensions."""
        shape = self.inner.type.tensor_type
        return not shape.HasField("shape") or len(shape.shape.dim) == len(dims)


_States: TypeAlias = dict[Place, _LoopState]
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
                _enter(state, dims)
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
) -> Iterator[tuple[Place, _LoopState]]:
    """Yield the tensors that Loops carry in a graph and in all graphs inside of it."""
    types = outer.new_child(types_of(inferred))
    for at, (node, typed) in enumerate(zip(graph.node, inferred.node, strict=True)):
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
                    _LoopState(
                        graph,
                        body.input[i + 2],
                        name,
                        node.output[i] if i < len(node.output) else "",
                        first.tensor_type.elem_type,
                        _dims(first),
                        _dims(inside.get(body.output[i + 1].name)),
                    ),
                )


def _dims(type_: onnx.TypeProto | None) -> Dims | None:
    """Return dimensions; 0 and the symbols that inference makes anew each time say nothing."""
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return None
    dims = (d.dim_value or d.dim_param or None for d in type_.tensor_type.shape.dim)
    return tuple(
        None if isinstance(d, str) and _MADE_BY_INFERENCE.fullmatch(d) else d for d in dims
    )


def _common(one: Dims | None, other: Dims | None) -> Dims | None:
    """Return the dimensions that two shapes have in common, None if there are none."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def _enter(state: _LoopState, dims: Dims) -> None:
    """Declare the shape of a state, inside of the body where it declares nothing, and behind."""
    _declare(state.inner, state.dtype, dims)
    if not state.result:
        return
    declared = (*state.graph.output, *state.graph.value_info)
    for value in [v for v in declared if v.name == state.result] or [
        state.graph.value_info.add(name=state.result)
    ]:
        _declare(value, state.dtype, dims)


def _declare(value: onnx.ValueInfoProto, dtype: int, dims: Dims) -> None:
    tensor = value.type.tensor_type
    tensor.elem_type = tensor.elem_type or dtype
    if not tensor.HasField("shape"):
        tensor.shape.SetInParent()
        for _ in dims:
            tensor.shape.dim.add()
    if len(tensor.shape.dim) != len(dims):
        return
    for dim, known in zip(tensor.shape.dim, dims, strict=True):
        if dim.WhichOneof("value"):
            continue
        if isinstance(known, int):
            dim.dim_value = known
        elif known is not None:
            dim.dim_param = known
