"""Random whole models: inputs, nodes of every kind, outputs, feeds, and how to rewrite them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.programs.dialects import draw_loop
from tests.programs.interpreter import Ambiguous, Unsettled, run_model
from tests.programs.moves_control import draw_function, draw_if, draw_map, draw_nested, draw_scan
from tests.programs.moves_sequences import draw_sequence
from tests.programs.moves_tensors import draw_tensor, random_array
from tests.programs.operators import Failure
from tests.programs.scopes import Draw, Scope, Stuck, Val, World

__all__ = ["Program", "draw_program"]

OPSETS = (11, 12, 13, 14, 15, 16, *(17, 18, 18, 19, 20, 21, 22, 23, 24, 25, 26) * 2)
DTYPES = (
    *["float32"] * 8,
    *["float64"] * 2,
    *["int64"] * 3,
    *["int32", "float16", "bool", "string"] * 1,
    "int8",
    "int16",
    "uint8",
)
FEEDS = 3
OPEN = ("rank", "rank", "symbols", "numbers", "some")


@dataclasses.dataclass(frozen=True)
class Program:
    """A model, what it is fed, and what holds of its inputs.

    Attributes:
        seed: What it was drawn from.
        model: The model.
        feeds: What it is fed.
        uniform: Its sequence inputs of which all elements have one shape in each feed.
        features: What occurs in it.
    """

    seed: int
    model: onnx.ModelProto
    feeds: tuple[Mapping[str, Any], ...]
    uniform: tuple[str, ...] = ()
    features: Mapping[str, int] = dataclasses.field(default_factory=dict)


@functools.lru_cache(maxsize=4)
def draw_program(seed: int) -> Program:
    """Draw a program; the same for the same seed."""
    for attempt in range(50):
        rng = np.random.default_rng((seed, attempt))
        try:
            return _draw(seed, Draw(rng, int(rng.choice(OPSETS)), budget=int(rng.integers(6, 30))))
        except Stuck:
            continue
    raise AssertionError(f"seed {seed} yields nothing")


def _draw(seed: int, draw: Draw) -> Program:
    worlds: list[World] = [collections.ChainMap({}) for _ in range(FEEDS)]
    scope = Scope(draw, worlds)
    feeds: list[dict[str, Any]] = [{} for _ in range(FEEDS)]
    declared: dict[str, list[Any]] = {}
    uniform = _draw_inputs(scope, feeds, declared)
    _draw_nodes(scope)
    # Inputs that are positions, conditions and counts came with what reads them.
    outputs = _draw_outputs(scope)
    inputs = [_input_info(scope, v, feeds, declared) for v in scope.own if v.name in declared]
    graph = helper.make_graph(
        scope.nodes,
        "main",
        inputs,
        [scope.info(v, draw.pick(OPEN)) for v in outputs],
        scope.initializers,
    )
    opsets = [helper.make_opsetid("", draw.opset)]
    if draw.functions:
        opsets.append(helper.make_opsetid("local", 1))
    called = {n.op_type for n in scope.nodes}
    draw.functions = {k: f for k, f in draw.functions.items() if f.name in called}
    model = helper.make_model(
        graph,
        opset_imports=opsets,
        functions=list(draw.functions.values()),
        ir_version=_ir_version(draw),
    )
    settle_types(model, feeds)
    for feed in feeds:
        _note_shapes(draw, feed)
    draw.features[f"opset {draw.opset}"] += 1
    return Program(seed, model, tuple(feeds), tuple(uniform), dict(draw.features))


def _ir_version(draw: Draw) -> int:
    least = {11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}
    return least.get(draw.opset, 11)


def _note_shapes(draw: Draw, feed: Mapping[str, Any]) -> None:
    for value in feed.values():
        arrays = value if isinstance(value, list) else [value]
        if isinstance(value, list):
            draw.features[f"sequence of {min(len(value), 3)}"] += 1
        for array in arrays:
            if 0 in array.shape:
                draw.features["zero-size dimension"] += 1
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                draw.features["NaN or inf"] += 1
            name = "string" if array.dtype == object else array.dtype.name
            draw.features[f"type {name}"] += 1


# Inputs.


def _draw_dims(draw: Draw) -> list[tuple[int, ...]]:
    """Return dimensions, each with its size in every feed."""
    found: list[tuple[int, ...]] = []
    for _ in range(3):
        size = draw.number(1, 4)
        found.append((size,) * FEEDS)
    found.append(tuple(draw.pick([0, 1, 2, 3, 5]) for _ in range(FEEDS)))
    found.append(tuple(draw.number(1, 4) for _ in range(FEEDS)))
    if draw.chance(0.08):
        found.append((0,) * FEEDS)
    return found


def _draw_inputs(
    scope: Scope, feeds: list[dict[str, Any]], declared: dict[str, list[Any]]
) -> list[str]:
    """Add inputs; return those sequences of which all elements have one shape."""
    draw = scope.draw
    dims = _draw_dims(draw)
    counts = [tuple(draw.pick([0, 1, 2, 3, 5]) for _ in range(FEEDS)) for _ in range(2)]
    uniform = []
    main = draw.pick(DTYPES)
    for number in range(draw.number(1, 4)):
        dtype = np.dtype(object if (name := _dtype(draw, main)) == "string" else name)
        rank = draw.pick([0, 1, 1, 2, 2, 3]) if number else draw.pick([1, 2, 2, 3])
        shape = [draw.pick(dims) for _ in range(rank)]
        odd = dtype.kind == "f" and draw.chance(0.12)
        name = f"in{number}"
        is_sequence = draw.chance(0.5)
        kind = draw.pick(["numbers", "symbols", "some", "rank"])
        if is_sequence:
            kind = draw.pick([kind, "nothing"])
            ragged = [draw.chance(0.35) for _ in range(rank)]
            lengths = draw.pick(counts)
            for at, feed in enumerate(feeds):
                elements = []
                for _ in range(lengths[at]):
                    dims_now = [
                        draw.number(0 if draw.chance(0.15) else 1, 4) if r else d[at]
                        for r, d in zip(ragged, shape, strict=True)
                    ]
                    elements.append(_array(scope, dtype, tuple(dims_now), odd=odd))
                feed[name] = elements
            if all(len({e.shape for e in feed[name]}) <= 1 for feed in feeds):
                uniform.append(name)
        else:
            for at, feed in enumerate(feeds):
                feed[name] = _array(scope, dtype, tuple(d[at] for d in shape), odd=odd)
        declared[name] = [kind, rank]
        for world, feed in zip(scope.worlds, feeds, strict=True):
            world[name] = feed[name]
        scope.add_input(Val(name, dtype, is_sequence, 2 if dtype.kind == "f" else None))
    for number in range(draw.number(0, 2)):
        # A number, a count or a truth.
        name = f"n{number}"
        dtype = np.dtype(draw.pick(["int64", "int64", "bool"]))
        for world, feed in zip(scope.worlds, feeds, strict=True):
            value = draw.number(0, 3) if dtype.kind == "i" else draw.chance(0.5)
            world[name] = feed[name] = np.array(value, dtype)
        declared[name] = ["numbers", 0]
        scope.add_input(Val(name, dtype))
    return uniform


def _dtype(draw: Draw, main: str) -> str:
    return main if draw.chance(0.6) else draw.pick(DTYPES)


def _array(scope: Scope, dtype: Any, shape: tuple[int, ...], *, odd: bool) -> np.ndarray:
    found = random_array(scope, dtype, shape)
    if odd and found.size:
        found = found.copy()
        at = scope.draw.number(0, found.size - 1)
        found.reshape(-1)[at] = scope.draw.pick([np.nan, np.inf, -np.inf])
    return found


def _input_info(
    scope: Scope, val: Val, feeds: Sequence[Mapping[str, Any]], declared: Mapping[str, list[Any]]
) -> onnx.ValueInfoProto:
    level, rank = declared[val.name]
    draw = scope.draw
    code = helper.np_dtype_to_tensor_dtype(val.dtype)
    dims: list[Any] | None = []
    arrays = [a for f in feeds for a in (f[val.name] if val.is_sequence else [f[val.name]])]
    for axis in range(rank):
        sizes = {a.shape[axis] for a in arrays}
        is_number = level == "numbers" or (level == "some" and draw.chance(0.5))
        if is_number and len(sizes) == 1:
            dims.append(sizes.pop())
        elif level == "rank":
            dims.append(None)
        else:
            dims.append(f"{val.name}_{axis}" if draw.chance(0.8) else draw.pick(["N", "M"]))
    if level == "nothing":
        dims = None
    make = (
        helper.make_tensor_sequence_value_info
        if val.is_sequence
        else helper.make_tensor_value_info
    )
    return make(val.name, code, dims)


# Nodes.


def _draw_nodes(scope: Scope) -> None:
    draw = scope.draw
    steps = draw.number(3, 10)
    for _ in range(steps):
        for _ in range(8):
            if draw.budget <= 0:
                return
            try:
                _step(scope)
            except Stuck:
                continue
            draw.budget -= 1
            break
    if not any(f.startswith(("map", "loop", "scan", "if")) for f in draw.features):
        for _ in range(10):
            with contextlib.suppress(Stuck):
                return draw_nested(scope)
        raise Stuck


def _step(scope: Scope) -> None:
    roll = scope.draw.rng.random()
    if roll < 0.22:
        draw_tensor(scope)
    elif roll < 0.5:
        draw_sequence(scope)
    elif roll < 0.72 and scope.draw.opset >= 17:
        draw_map(scope)
    elif roll < 0.86:
        draw_loop(scope)
    elif roll < 0.91:
        draw_if(scope)
    elif roll < 0.96:
        draw_scan(scope)
    else:
        draw_function(scope)


def _draw_outputs(scope: Scope) -> list[Val]:
    """Choose the outputs: what nothing reads, and some of the rest."""
    draw = scope.draw
    made = {n for node in scope.nodes for n in node.output}
    read = {n for node in scope.nodes for n in node.input}
    found = [v for v in scope.own + scope.vague if v.name in made]
    if not found:
        raise Stuck
    last = [v for v in found if v.name not in read and draw.chance(0.75)]
    others = [v for v in found if v.name in read and draw.chance(0.2)]
    chosen = [*last, *others][-8:] or [found[-1]]
    for val in chosen:
        draw.features["sequence output" if val.is_sequence else "tensor output"] += 1
    if len(chosen) > 1:
        draw.features["several outputs"] += 1
    return chosen


# Types.


def settle_types(model: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]]) -> None:
    """Fill in the declared shapes, as far as each is to be declared, and true."""
    seen: dict[tuple[str, str], list[tuple[int, ...]]] = collections.defaultdict(list)
    unknown: set[tuple[str, str]] = set()

    def observe(graph: str, name: str, value: Any) -> None:
        if isinstance(value, Unsettled):
            unknown.add((graph, name))
        else:
            arrays = value if isinstance(value, list) else [value]
            seen[graph, name].extend(a.shape for a in arrays)

    for feed in feeds:
        try:
            run_model(model, feed, observe)
        except (Failure, Ambiguous):
            continue
    for graph in _graphs(model):
        for info in [*graph.input, *graph.output]:
            level = info.doc_string
            if not level:
                continue
            info.doc_string = ""
            if level == "nothing":
                info.ClearField("type")
                continue
            key = graph.name, info.name
            level = "rank" if key in unknown else level
            if level == "scalar":
                info.type.tensor_type.shape.SetInParent()
                continue
            _settle(info, level, [] if level == "element" else seen[key])
    # The rank of an output has to be known.
    kept = [v for v in model.graph.output if _has_rank(v)]
    if not kept:
        raise Stuck
    del model.graph.output[:]
    model.graph.output.extend(kept)


def _has_rank(info: onnx.ValueInfoProto) -> bool:
    kind = info.type
    tensor = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind
    return bool(tensor.tensor_type.HasField("shape"))


def _settle(info: onnx.ValueInfoProto, level: str, shapes: list[tuple[int, ...]]) -> None:
    ranks = {len(s) for s in shapes}
    kind = info.type
    tensor = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind
    tensor.tensor_type.ClearField("shape")
    if len(ranks) != 1:
        return
    shape = tensor.tensor_type.shape
    shape.SetInParent()
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        dim = shape.dim.add()
        known = len(set(sizes)) == 1 and (level == "numbers" or (level == "some" and axis % 2))
        if known:
            dim.dim_value = sizes[0]
        elif level != "rank":
            dim.dim_param = f"{info.name}_{axis}"


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    found = [model.graph]
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while nodes:
        node = nodes.pop()
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found.append(attribute.g)
                nodes.extend(attribute.g.node)
    return found
