"""Shapes that the Loops of a long chain begin with, found by one walk along it.

Where other nodes stand between two Loops, inference of the whole model tells what the second one
begins with only once the first one is taken to keep its shape: a chain would take one inference
for each. Here each part of the chain, from one Loop to the next, is inferred alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import onnx

from passes.typing.protos import graphs_of, types_of

__all__ = ["Dims", "Infer", "LoopState", "Place", "dims_of", "enter_shape", "shapes_in_turn"]

Infer: TypeAlias = Callable[[onnx.ModelProto], onnx.ModelProto]
Dims: TypeAlias = tuple[int | str | None, ...]
Place: TypeAlias = tuple[int, ...]

_MADE_BY_INFERENCE = re.compile(r"unk__\d+")


@dataclasses.dataclass(frozen=True)
class LoopState:
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


def shapes_in_turn(
    proto: onnx.ModelProto,
    inferred: onnx.ModelProto,
    states: Mapping[Place, LoopState],
    begun: Mapping[Place, Dims | None],
    infer: Infer,
) -> dict[Place, Dims]:
    """Return the shapes that further Loops of the main graph begin with, if all others hold.

    Only shapes with all dimensions known are returned: inference of the whole model may know
    more of the others.

    Args:
        proto: The model before inference; it stays as it is.
        inferred: The same after inference.
        states: The tensors that Loops carry.
        begun: The shapes that some are taken to have.
        infer: Does inference.
    """
    top = {place: state for place, state in states.items() if len(place) == _TOP}
    first = min((place[0] for place in begun if place in top), default=None)
    loops = sorted({place[0] for place in top if first is not None and place[0] >= first})
    found: dict[Place, Dims] = {}
    if len(loops) < 2 or proto.functions:
        return found
    chain = _Chain(proto, types_of(inferred.graph))
    for at, end in itertools.pairwise(loops):
        known = {**begun, **found}
        entered = [(place, top[place], known.get(place)) for place in top if place[0] == at]
        try:
            chain.infer_part(at, end, entered, infer)
        except onnx.shape_inference.InferenceError:
            return found
        for place in (p for p in top if p[0] == end and p not in known):
            dims = chain.dims(top[place].initial)
            if dims and None not in dims and top[place].may_be(dims):
                found[place] = dims
    return found


_TOP = 3
"""Entries of the place of what a Loop of the main graph carries."""


class _Chain:
    """The main graph of a model, and the types that are known of its values so far."""

    def __init__(self, proto: onnx.ModelProto, types: dict[str, onnx.TypeProto]) -> None:
        self._proto = proto
        self._types = types
        nodes = proto.graph.node
        self._constants = {n.output[0]: n for n in nodes if n.op_type == "Constant" and n.output}
        self._initializers = {tensor.name: tensor for tensor in proto.graph.initializer}

    def dims(self, name: str) -> Dims | None:
        """Return what is known of the dimensions of a value."""
        return dims_of(self._types.get(name))

    def infer_part(
        self,
        start: int,
        end: int,
        states: Iterable[tuple[Place, LoopState, Dims | None]],
        infer: Infer,
    ) -> None:
        """Infer the types of some nodes, the first of which is a Loop.

        Args:
            start: Where they begin.
            end: Where they end.
            states: What the Loop carries, and the shape that it is taken to have.
            infer: Does inference.
        """
        part = onnx.ModelProto(ir_version=self._proto.ir_version)
        part.opset_import.extend(self._proto.opset_import)
        graph, nodes = part.graph, self._proto.graph.node[start:end]
        made = {name for node in nodes for name in node.output}
        for name in dict.fromkeys(_names_read(nodes)):
            if name in made:
                continue
            if name in self._constants:
                graph.node.append(self._constants[name])
            elif name in self._initializers:
                graph.initializer.append(self._initializers[name])
            elif name in self._types:
                _declare_known(graph.input.add(name=name), self._types[name])
        at = len(graph.node)
        graph.node.extend(nodes)
        for (_, number, i), state, dims in states:
            if dims is not None:
                inner = graph.node[at].attribute[number].g.input[i + 2]
                enter_shape(dataclasses.replace(state, graph=graph, inner=inner), dims)
        types = types_of(infer(part).graph)
        self._types |= {name: types[name] for name in made if name in types}


def _names_read(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Yield the names that nodes and their bodies read."""
    for node in nodes:
        yield from node.input
        for graph in graphs_of(node):
            yield from _names_read(graph.node)
            yield from (value.name for value in graph.output)


def _declare_known(value: onnx.ValueInfoProto, type_: onnx.TypeProto) -> None:
    """Give a value a type; a symbol that inference made may be another one elsewhere."""
    value.type.CopyFrom(type_)
    for dim in value.type.tensor_type.shape.dim if type_.HasField("tensor_type") else ():
        if _MADE_BY_INFERENCE.fullmatch(dim.dim_param):
            dim.Clear()


def dims_of(type_: onnx.TypeProto | None) -> Dims | None:
    """Return dimensions; 0 and the symbols that inference makes anew each time say nothing."""
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return None
    dims = (d.dim_value or d.dim_param or None for d in type_.tensor_type.shape.dim)
    return tuple(
        None if isinstance(d, str) and _MADE_BY_INFERENCE.fullmatch(d) else d for d in dims
    )


def enter_shape(state: LoopState, dims: Dims) -> None:
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
