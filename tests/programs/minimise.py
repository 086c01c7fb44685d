"""Makes a failing program small while it still fails in the same way."""

from __future__ import annotations

import dataclasses
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.programs.interpreter import Interpreter, Unsettled
from tests.programs.judge import STAGES, Outcome, judge
from tests.programs.programs import Program

__all__ = ["minimise", "show"]

MOST_ATTEMPTS = 150


def minimise(program: Program, outcome: Outcome) -> Program:
    """Return a smaller program that fails in the same way in the same mode."""
    attempts = itertools.count()
    tried: set[bytes] = set()
    smaller: Program | None = program
    while smaller is not None:
        program = smaller
        smaller = None
        for candidate in _candidates(program):
            key = candidate.model.SerializeToString() + str(len(candidate.feeds)).encode()
            if key in tried:
                continue
            tried.add(key)
            if next(attempts) > MOST_ATTEMPTS:
                return program
            if _fails(candidate, outcome):
                smaller = candidate
                break
    return program


def show(program: Program) -> str:
    """Return the model as text, and what it is fed."""
    feeds = "\n".join(f"# {_text(feed)}" for feed in program.feeds)
    return f"{feeds}\n{onnx.printer.to_text(program.model)}"


def _text(feed: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{k}={[_one(e) for e in v]}" if isinstance(v, list) else f"{k}={_one(v)}"
        for k, v in feed.items()
    )


def _one(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}{array.tolist() if array.size < 13 else ''}"


def _fails(program: Program, outcome: Outcome) -> bool:
    try:
        onnx.checker.check_model(program.model, full_check=True)
        if outcome.verdict == "killed":
            return _kills(program, outcome)
        found = judge(program, outcome.mode)
    except Exception:
        return False
    return found.verdict == outcome.verdict and _kind(found) == _kind(outcome)


def _kills(program: Program, outcome: Outcome) -> bool:
    """Whether the new model kills a process."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 2)
            STAGES.append(True)
            judge(program, outcome.mode)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        return status != 0 and said.read().strip().endswith("the new model runs")


def _kind(outcome: Outcome) -> str:
    """Return what went wrong without names and numbers."""
    if outcome.verdict in ("wrong", "disputed"):
        return ""
    words = outcome.detail.split(": ", 1)[-1]
    return "".join(c for c in words if c.isalpha())[:28]


def _candidates(program: Program) -> Iterator[Program]:
    """Yield programs that are smaller by one step, the largest steps first."""
    if len(program.feeds) > 1:
        for feed in program.feeds:
            yield dataclasses.replace(program, feeds=(feed,))
    outputs = list(program.model.graph.output)
    if len(outputs) > 1:
        for keep in outputs:
            yield _with(program, lambda g, keep=keep: _set(g.output, [keep]))
    values = _values(program)
    for number, node in reversed(list(enumerate(program.model.graph.node))):
        if node.op_type == "Constant":
            continue
        if all(isinstance(values.get(n), np.ndarray) for n in node.output) or all(
            isinstance(values.get(n), list) for n in node.output
        ):
            yield _cut(program, number, values)
    yield from _smaller_bodies(program)


def _smaller_bodies(program: Program) -> Iterator[Program]:
    """Yield programs in which one of its inputs stands for a node of a body."""
    for path, node in list(_body_nodes(program.model)):
        if len(node.output) == 1:
            yield from (_spliced(program, path, source) for source in node.input if source)


def _body_nodes(model: onnx.ModelProto) -> Iterator[tuple[Any, onnx.NodeProto]]:
    def walk(graph: onnx.GraphProto, path: tuple[Any, ...]) -> Iterator[Any]:
        for i, node in enumerate(graph.node):
            if path and node.op_type not in ("Constant", "Identity"):
                yield (*path, i), node
            for j, attribute in enumerate(node.attribute):
                if attribute.HasField("g"):
                    yield from walk(attribute.g, (*path, i, j))

    yield from walk(model.graph, ())


def _spliced(program: Program, path: tuple[int, ...], source: str) -> Program:
    def change(graph: onnx.GraphProto) -> None:
        inner = graph
        for i, j in zip(path[0:-1:2], path[1:-1:2], strict=True):
            inner = inner.node[i].attribute[j].g
        node = inner.node[path[-1]]
        copy = helper.make_node("Identity", [source], list(node.output))
        node.CopyFrom(copy)

    return _with(program, change)


def _set(field: Any, kept: list[Any]) -> None:
    copies = [type(k).FromString(k.SerializeToString()) for k in kept]
    del field[:]
    field.extend(copies)


def _with(program: Program, change: Any) -> Program:
    model = onnx.ModelProto()
    model.CopyFrom(program.model)
    change(model.graph)
    _drop_dead(model)
    return _fed(program, model, program.feeds)


def _fed(program: Program, model: onnx.ModelProto, feeds: Any) -> Program:
    names = {v.name for v in model.graph.input}
    feeds = tuple({k: v for k, v in feed.items() if k in names} for feed in feeds)
    uniform = tuple(n for n in program.uniform if n in names)
    return dataclasses.replace(program, model=model, feeds=feeds, uniform=uniform)


def _values(program: Program) -> dict[str, Any]:
    """Return what the main graph computes of the first feed."""
    model, feed = program.model, program.feeds[0]
    opset = next(o.version for o in model.opset_import if o.domain == "")
    interpreter = Interpreter(opset, {(f.domain, f.name): f for f in model.functions})
    env: dict[str, Any] = dict(feed)
    for tensor in model.graph.initializer:
        env[tensor.name] = onnx.numpy_helper.to_array(tensor)
        if tensor.data_type == onnx.TensorProto.STRING:
            env[tensor.name] = np.array([s.decode() for s in tensor.string_data], object)
    try:
        interpreter.nodes(model.graph.node, env)
    except Exception:
        return {k: v for k, v in env.items() if not isinstance(v, Unsettled)}
    return env


def _cut(program: Program, number: int, values: Mapping[str, Any]) -> Program:
    """Feed what a node yields, in place of the node; with one feed only."""
    model = onnx.ModelProto()
    model.CopyFrom(program.model)
    node = model.graph.node[number]
    feed = dict(program.feeds[0])
    for name in node.output:
        value = values[name]
        array = value if isinstance(value, np.ndarray) else (value[0] if value else None)
        if array is None:
            return program
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        make = helper.make_tensor_value_info
        if isinstance(value, list):
            make = helper.make_tensor_sequence_value_info
        model.graph.input.append(make(name, kind, [f"{name}_{i}" for i in range(array.ndim)]))
        feed[name] = value
    del model.graph.node[number]
    outputs = {v.name for v in model.graph.output} & set(node.output)
    kept = [v for v in model.graph.output if v.name not in outputs]
    if not kept:
        return program
    _set(model.graph.output, kept)
    _drop_dead(model)
    return _fed(program, model, (feed,))


def _drop_dead(model: onnx.ModelProto) -> None:
    graph = model.graph
    while True:
        read = {v.name for v in graph.output}
        for node in graph.node:
            read |= _reads(node)
        kept = [n for n in graph.node if set(n.output) & read]
        if len(kept) == len(graph.node):
            break
        _set(graph.node, kept)
    _set(graph.input, [v for v in graph.input if v.name in read])
    _set(graph.initializer, [t for t in graph.initializer if t.name in read])
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _drop_dead_inside(attribute.g)
    used = {n.op_type for n in graph.node}
    _set(model.functions, [f for f in model.functions if f.name in used])


def _drop_dead_inside(graph: onnx.GraphProto) -> None:
    while True:
        read = {v.name for v in graph.output}
        for node in graph.node:
            read |= _reads(node)
        kept = [n for n in graph.node if set(n.output) & read]
        if len(kept) == len(graph.node):
            break
        _set(graph.node, kept)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _drop_dead_inside(attribute.g)


def _reads(node: onnx.NodeProto) -> set[str]:
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                found |= _reads(inner)
            found |= {v.name for v in attribute.g.output}
    return found
