"""Random maps, branches, scans and functions: nodes that hold graphs of their own."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.programs.interpreter import Unsettled
from tests.programs.moves_sequences import draw_sequence
from tests.programs.moves_tensors import condition, draw_tensor
from tests.programs.scopes import Scope, Stuck, Val, World, inner_world

__all__ = ["draw_body", "draw_function", "draw_if", "draw_map", "draw_scan", "results_of"]

DEEPEST = 3
LEVELS = ("element", "rank", "numbers", "some")


def draw_body(scope: Scope, nodes: int, more: Callable[[Scope], None] | None = None) -> None:
    """Add some nodes to a body, now and then with graphs of their own."""
    draw = scope.draw
    for _ in range(nodes):
        for _ in range(6):
            if draw.budget <= 0:
                return
            try:
                roll = draw.rng.random()
                if roll < 0.72:
                    draw_tensor(scope)
                elif roll < 0.86:
                    draw_sequence(scope)
                elif scope.depth < DEEPEST:
                    (more or draw_nested)(scope)
            except Stuck:
                continue
            draw.budget -= 1
            break


def draw_nested(scope: Scope) -> None:
    """Add a node that holds a graph."""
    from tests.programs.dialects import draw_loop

    moves: list[Callable[[Scope], Any]] = [draw_map, draw_map, draw_if, draw_loop, draw_scan]
    scope.draw.pick(moves)(scope)


def results_of(scope: Scope, most: int, *, sequences: bool = False) -> list[Val]:
    """Return outputs of a body: values that it made itself, later ones more often."""
    made = {n for node in scope.nodes for n in node.output}
    found = [v for v in scope.own if v.name in made and (sequences or not v.is_sequence)]
    if not found:
        x = scope.tensor()
        found = [scope.identity(x)]
    draw = scope.draw
    chosen = [found[-1]]
    for _ in range(draw.number(0, most - 1)):
        other = draw.pick(found)
        if other not in chosen:
            chosen.append(other)
    if draw.chance(0.5):
        chosen.reverse()
    return chosen


def info_of(scope: Scope, name: str, val: Val, *, none: bool = False) -> onnx.ValueInfoProto:
    """Return the declaration of an input of a body."""
    level = scope.draw.pick([*LEVELS, "nothing"] if none else LEVELS)
    return scope.info(Val(name, val.dtype, val.is_sequence), level)


def draw_map(scope: Scope) -> Any:
    """Add a map over a sequence, and perhaps more of them, and tensors."""
    draw = scope.draw
    if draw.opset < 17:
        raise Stuck
    first = scope.sequence()
    lengths = [len(v) for v in scope.values(first)]
    fitting = [v for v in scope.sequences() if [len(s) for s in scope.values(v)] == lengths]
    others = [
        draw.pick(fitting) if draw.chance(0.6) else scope.tensor()
        for _ in range(draw.pick([0, 0, 0, 1, 1, 2]))
    ]
    formals = [first, *others]
    scope.rank(first)
    worlds: list[World] = []
    names = [draw.fresh("e") for _ in formals]
    for world in scope.worlds:
        for i in range(len(world[first.name])):
            given = [world[v.name] for v in formals]
            picked = [g[i] if v.is_sequence else g for g, v in zip(given, formals, strict=True)]
            worlds.append(inner_world(world, dict(zip(names, picked, strict=True))))
    body = scope.child(worlds)
    inputs = []
    typed = draw.chance(0.6)
    for name, val in zip(names, formals, strict=True):
        given = Val(name, val.dtype, False, val.grain)
        body.add_input(given)
        level = draw.pick(LEVELS) if typed else "nothing"
        inputs.append(body.info(given, level))
    draw_body(body, draw.number(1, 5))
    results = results_of(body, 3)
    for val in results:
        body.rank(val)
    graph = body.graph(inputs, results, None if draw.chance(0.6) else "nothing")
    found = scope.op(
        "SequenceMap",
        *formals,
        outputs=len(results),
        sequences=[True],
        dtypes=[v.dtype for v in results],
        keep=False,
        body=graph,
    )
    draw.features["map"] += 1
    draw.features[f"map at depth {scope.depth}"] += 1
    return _keep(scope, found, results)


def _keep(scope: Scope, found: Any, like: Sequence[Val]) -> Any:
    """Let outputs be read, with the grain of what they hold."""
    vals = found if isinstance(found, list) else [found]
    kept = [Val(v.name, v.dtype, v.is_sequence, w.grain) for v, w in zip(vals, like, strict=True)]
    for val in kept:
        is_vague = any(isinstance(v, Unsettled) for v in scope.values(val))
        (scope.vague if is_vague else scope.own).append(val)
    return kept


def draw_if(scope: Scope) -> Any:
    """Add a branch on data, on a shape or on a length."""
    draw = scope.draw
    test = condition(scope)
    if test.dtype != np.bool_:
        raise Stuck
    split: dict[bool, list[World]] = collections.defaultdict(list)
    for world in scope.worlds:
        split[bool(world[test.name].reshape(()))].append(world.new_child({}))
    branches = []
    for side in (True, False):
        worlds = split[side] or [w.new_child({}) for w in scope.worlds]
        branch = scope.child(worlds)
        draw_body(branch, draw.number(0 if side else 1, 3))
        branches.append(branch)
    first = results_of(branches[0], 2, sequences=draw.opset >= 13)
    second = [_like(branches[1], v, branches[0]) for v in first]
    if len({v.name for v in second}) < len(second):
        raise Stuck
    graphs = [b.graph([], r) for b, r in zip(branches, (first, second), strict=True)]
    found = scope.op(
        "If",
        test,
        outputs=len(first),
        sequences=[v.is_sequence for v in first],
        dtypes=[v.dtype for v in first],
        keep=False,
        then_branch=graphs[0],
        else_branch=graphs[1],
    )
    draw.features["if"] += 1
    rough = [
        Val("", v.dtype, v.is_sequence, None if None in (v.grain, w.grain) else FINE)
        for v, w in zip(first, second, strict=True)
    ]
    return _keep(scope, found, rough)


FINE = 4


def _like(branch: Scope, val: Val, other: Scope) -> Val:
    """Return an output of a branch that may stand for one of the other branch."""
    made = {n for node in branch.nodes for n in node.output}
    rank = other.rank(val)
    found = [
        v for v in branch.visible() if v.dtype == val.dtype and v.is_sequence == val.is_sequence
    ]
    found = [v for v in found if _rank(branch, v) == rank]
    chosen = branch.draw.pick(found)
    return chosen if chosen.name in made else branch.identity(chosen)


def _rank(scope: Scope, val: Val) -> int | None:
    try:
        return scope.rank(val)
    except Stuck:
        return None


def draw_scan(scope: Scope) -> Any:
    """Add a Scan: several inputs, axes and directions, with states or without."""
    draw = scope.draw
    first = scope.tensor(least=1)
    axis = draw.number(0, scope.rank(first) - 1)
    sizes = [v.shape[axis] for v in scope.values(first)]
    picked = [(first, axis)]
    for other in scope.tensors(least=1):
        picked += [
            (other, at)
            for at in range(scope.rank(other))
            if [v.shape[at] for v in scope.values(other)] == sizes and draw.chance(0.15)
        ]
    picked = picked[:3]
    if any(0 in s for v, _ in picked for s in scope.shapes(v)):
        raise Stuck  # onnxruntime may end the process
    states = [scope.tensor() for _ in range(draw.pick([0, 0, 1, 1, 2]))]
    for state in states:
        scope.rank(state)
    names = [draw.fresh("s") for _ in range(len(states) + len(picked))]
    backward = [draw.number(0, 1) for _ in picked]
    worlds = []
    for world, size in zip(scope.worlds, sizes, strict=True):
        for i in range(size):
            parts = [np.asarray(np.take(world[v.name], i, a)) for v, a in picked]
            given = [*(world[s.name] for s in states), *parts]
            worlds.append(inner_world(world, dict(zip(names, given, strict=True))))
    body = scope.child(worlds)
    formals = [*states, *(v for v, _ in picked)]
    vals = [
        body.add_input(Val(n, v.dtype, False, v.grain))
        for n, v in zip(names, formals, strict=True)
    ]
    inputs = [info_of(body, v.name, v) for v in vals]
    draw_body(body, draw.number(1, 4))
    results = results_of(body, 2)
    after = [_next_state(body, v) for v in vals[: len(states)]]
    results = [r for r in results if r not in after]
    if not results and not after:
        raise Stuck
    ranks = [body.rank(r) + 1 for r in results]
    axes = [draw.number(0, r - 1) for r in ranks]
    axes = [a - r if draw.chance(0.3) else a for a, r in zip(axes, ranks, strict=True)]
    attributes: dict[str, Any] = {
        "scan_input_axes": [a - scope.rank(v) if draw.chance(0.3) else a for v, a in picked],
        "scan_input_directions": backward,
    }
    if results:
        attributes["scan_output_axes"] = axes
        attributes["scan_output_directions"] = [draw.number(0, 1) for _ in results]
    if draw.chance(0.2) and not any(axes) and not any(a for _, a in picked):
        attributes = {}
    graph = body.graph(inputs, [*after, *results])
    found = scope.op(
        "Scan",
        *formals,
        outputs=len(after) + len(results),
        keep=False,
        body=graph,
        num_scan_inputs=len(picked),
        **attributes,
    )
    draw.features["scan"] += 1
    draw.features[f"scan of {len(states)} states"] += 1
    if any(backward):
        draw.features["scan backward"] += 1
    rough = [Val("", v.dtype, False, None) for v in after]
    return _keep(scope, found, [*rough, *results])


def _next_state(body: Scope, state: Val) -> Val:
    """Return what a state becomes: itself, or a value of the same shape."""
    draw = body.draw
    if draw.chance(0.5):
        return body.identity(state)
    return grown(body, state)


def grown(body: Scope, state: Val) -> Val:
    """Return a state with something added to it."""
    shapes = [v.shape for v in body.values(state)]
    found = [
        v
        for v in body.own
        if not v.is_sequence
        and v.dtype == state.dtype
        and v != state
        and all(_fits(v_.shape, s) for v_, s in zip(body.values(v), shapes, strict=True))
    ]
    if state.dtype.kind not in "fi" or state.dtype.itemsize < 4:
        return body.identity(state)
    other = body.draw.pick(found) if found else body.constant(1, state.dtype)
    return body.op("Add", state, other, keep=False)  # type: ignore[no-any-return]


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def draw_function(scope: Scope) -> Any:
    """Add a function of the model, and call it once or twice."""
    draw = scope.draw
    if draw.opset < 17:
        raise Stuck
    formals = [draw.pick(scope.visible()) for _ in range(draw.number(1, 3))]
    if draw.chance(0.7) and scope.sequences():
        formals[0] = scope.sequence()
    names = [f"p{i}" for i in range(len(formals))]
    worlds = [
        inner_world(w, {n: w[v.name] for n, v in zip(names, formals, strict=True)}, apart=True)
        for w in scope.worlds
    ]
    body = Scope(draw, worlds, None, f"f{len(draw.functions)}_")
    body.depth = 1
    for name, val in zip(names, formals, strict=True):
        body.add_input(Val(name, val.dtype, val.is_sequence, val.grain))
    try:
        draw_map(body)
    except Stuck:
        draw_nested(body)
    draw_body(body, draw.number(0, 3))
    results = results_of(body, 2, sequences=True)
    name = f"fun{len(draw.functions)}"
    opsets = [helper.make_opsetid("", draw.opset), helper.make_opsetid("local", 1)]
    draw.functions["local", name] = helper.make_function(
        "local", name, names, [v.name for v in results], body.nodes, opsets
    )
    draw.features["function"] += 1
    for _ in range(draw.number(1, 2)):
        found = scope.op(
            name,
            *formals,
            outputs=len(results),
            sequences=[v.is_sequence for v in results],
            dtypes=[v.dtype for v in results],
            domain="local",
            keep=False,
        )
        kept = _keep(scope, found, results)
    return kept
