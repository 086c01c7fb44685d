"""Random Loops as exporters write them, and Loops that no exporter writes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.programs.moves_control import _keep, draw_body, grown, results_of
from tests.programs.scopes import Scope, Stuck, Val, inner_world

__all__ = ["DIALECTS", "draw_loop"]

DIALECTS = ("torchscript", "dynamo", "onnxscript", "tensorflow", "scripted list", "free")
LARGEST_INT = 2**63 - 1


@dataclasses.dataclass
class _Carried:
    """A state of a Loop.

    Attributes:
        kind: ``counter``, ``invariant``, ``append``, ``added`` or ``sequence``.
        initial: What it begins with.
        val: It, in the body.
        after: What it becomes.
    """

    kind: str
    initial: Val
    val: Val
    after: Val | None = None


class _Loop:
    """A Loop that is being drawn."""

    def __init__(self, scope: Scope, dialect: str) -> None:
        self.scope, self.draw, self.dialect = scope, scope.draw, dialect
        if self.draw.opset < 13 and dialect in ("torchscript", "dynamo", "scripted list"):
            raise Stuck  # Loop knows no sequences
        self.source, self.count = self._source()
        self.trips = [int(v.reshape(())) for v in scope.values(self.count)]
        if any(not 0 <= n <= 9 for n in self.trips):
            raise Stuck
        self.states: list[_Carried] = []

    def _source(self) -> tuple[Val | None, Val]:
        """Return what is read step by step, and the number of steps."""
        scope, draw = self.scope, self.draw
        if self.dialect == "scripted list" or (scope.sequences() and draw.chance(0.15)):
            seq = scope.sequence()
            scope.rank(seq)
            return seq, scope.op("SequenceLength", seq)
        if draw.chance(0.1):
            found = [v for v in scope.tensors("i") if v.dtype == np.int64 and not scope.rank(v)]
            if found:
                return None, draw.pick(found)
        if draw.chance(0.1):
            return None, scope.constant(draw.number(0, 4), np.int64)
        x = scope.tensor(least=1)
        shape = scope.op("Shape", x)
        zero = scope.constant(0, np.int64)
        return x, scope.op("Gather", shape, zero, axis=0)

    def state(self, kind: str, initial: Val) -> _Carried:
        name = self.draw.fresh("c")
        grain = initial.grain if kind in ("invariant", "counter") else None
        val = Val(name, initial.dtype, initial.is_sequence, grain)
        self.states.append(_Carried(kind, initial, val))
        return self.states[-1]


def draw_loop(scope: Scope) -> Any:
    """Add a Loop in one of the forms."""
    draw = scope.draw
    dialect = draw.pick(DIALECTS)
    loop = _Loop(scope, dialect)
    zero = scope.constant(0, np.int64)
    by_counter = dialect == "dynamo" or (dialect == "free" and draw.chance(0.2))
    counter = loop.state("counter", zero) if by_counter else None
    wide = None
    if dialect == "tensorflow":
        wide = loop.state("counter", scope.constant(0, np.int32))
    appends = dialect in ("torchscript", "dynamo", "scripted list") or (
        dialect == "free" and draw.opset >= 13 and draw.chance(0.3)
    )
    if dialect in ("tensorflow", "free"):
        for _ in range(draw.number(0, 2)):
            try:
                initial = scope.tensor()
                scope.rank(initial)
                kind = "invariant" if draw.chance(0.6 if dialect == "free" else 0.9) else "added"
                loop.state(kind, initial)
            except Stuck:
                break
    if dialect == "free" and draw.opset >= 14 and scope.sequences() and draw.chance(0.3):
        loop.state("sequence", scope.sequence())
    body, inputs = _body(loop)
    element = _read(loop, body, counter)
    if element is not None and element not in body.own:
        body.add_input(element)
    draw_body(body, draw.number(1, 5))
    return _close(loop, body, inputs, counter, wide, appends)


def _body(loop: _Loop) -> tuple[Scope, list[onnx.ValueInfoProto]]:
    scope, draw = loop.scope, loop.draw
    number, go = draw.fresh("i"), draw.fresh("k")
    worlds = []
    for world, trips in zip(scope.worlds, loop.trips, strict=True):
        for i in range(trips):
            given: dict[str, Any] = {number: np.array(i, np.int64), go: np.array(True)}
            for state in loop.states:
                initial = world[state.initial.name]
                if state.kind == "counter":
                    initial = np.asarray(initial + i, initial.dtype)
                given[state.val.name] = initial
            worlds.append(inner_world(world, given))
    body = scope.child(worlds)
    iteration = Val(number, np.dtype(np.int64))
    condition = Val(go, np.dtype(np.bool_))
    body.add_input(iteration)
    if draw.chance(0.1):
        body.add_input(condition)
    inputs = [body.info(iteration, "scalar"), body.info(condition, "scalar")]
    for state in loop.states:
        body.add_input(state.val)
        level = "element" if state.kind == "sequence" else None
        inputs.append(body.info(state.val, level))
    return body, inputs


def _read(loop: _Loop, body: Scope, counter: _Carried | None) -> Val | None:
    """Read what this step works on."""
    draw, x = loop.draw, loop.source
    if x is None:
        return None
    number = counter.val if counter is not None and draw.chance(0.8) else body.own[0]
    if x.is_sequence:
        return body.op("SequenceAt", x, number, grain=x.grain)  # type: ignore[no-any-return]
    match draw.number(0, 3):
        case 0 | 1:
            return body.op("Gather", x, number, axis=0, grain=x.grain)  # type: ignore[no-any-return]
        case 2:
            start = body.axes_form("Unsqueeze", 13, number, [0], keep=False)
            one, axis = body.constant([1], np.int64), body.constant([0], np.int64)
            end = body.op("Add", start, one, keep=False)
            rows = body.op("Slice", x, start, end, axis, grain=x.grain)
            if draw.chance(0.6):
                return body.axes_form("Squeeze", 13, rows, [0], grain=x.grain)
            return rows  # type: ignore[no-any-return]
    start = body.axes_form("Unsqueeze", 13, number, [0], keep=False)
    rows = body.op("Gather", x, start, axis=0, grain=x.grain)
    return body.axes_form("Squeeze", 13, rows, [0], grain=x.grain)


def _close(
    loop: _Loop,
    body: Scope,
    inputs: list[onnx.ValueInfoProto],
    counter: _Carried | None,
    wide: _Carried | None,
    appends: bool,
) -> Any:
    scope, draw = loop.scope, loop.draw
    results = results_of(body, 3)
    appended = None
    dialect = loop.dialect
    if appends:
        appended = results.pop()
        body.rank(appended)
        code = helper.np_dtype_to_tensor_dtype(appended.dtype)
        empty = scope.op("SequenceEmpty", sequences=[True], dtypes=[appended.dtype], dtype=code)
        name = draw.fresh("acc")
        state = Val(name, appended.dtype, True)
        for world in body.worlds:
            world[name] = []
        grown_seq = body.op(
            "SequenceInsert", state, appended, sequences=[True], grain=appended.grain
        )
        carried = _Carried("append", empty, state, grown_seq)
        loop.states.append(carried)
        inputs.append(body.info(state, "element"))
    for state in loop.states:
        if state.kind in ("invariant", "sequence"):
            state.after = body.identity(state.val)
        elif state.kind == "counter":
            one = body.constant(1, state.val.dtype)
            state.after = body.op("Add", state.val, one, keep=False)
        elif state.kind == "added":
            state.after = grown(body, state.val)
    go = _condition(loop, body, counter, wide)
    afters = [s.after for s in loop.states]
    kept = results if (dialect in ("onnxscript", "tensorflow", "free") or draw.chance(0.3)) else []
    kept = [r for r in kept if r not in afters]
    if not kept and not loop.states:
        raise Stuck
    for val in kept:
        body.rank(val)
    outs = [v for v in [go, *afters, *kept] if v is not None]
    if len({v.name for v in outs}) < len(outs):
        raise Stuck
    graph = body.graph(inputs, outs)
    graph.output[0].doc_string = "scalar"
    for info in graph.output:
        if info.type.HasField("sequence_type"):
            info.doc_string = "element"
    limit, first = _ends(loop, counter)
    found = scope.op(
        "Loop",
        limit,
        first,
        *(s.initial for s in loop.states),
        outputs=len(outs) - 1,
        sequences=[v.is_sequence for v in outs[1:]],
        dtypes=[v.dtype for v in outs[1:]],
        keep=False,
        body=graph,
    )
    draw.features[f"loop {dialect}"] += 1
    draw.features[f"loop at depth {scope.depth}"] += 1
    like = [
        Val(
            "",
            s.val.dtype,
            s.val.is_sequence,
            appended.grain if s.kind == "append" and appended else s.val.grain,
        )
        for s in loop.states
    ]
    return _keep(scope, found, [*like, *kept])


def _condition(loop: _Loop, body: Scope, counter: _Carried | None, wide: _Carried | None) -> Val:
    """Return whether there is another step."""
    draw = loop.draw
    if wide is not None:
        limit = body.op("Cast", loop.count, to=onnx.TensorProto.INT32, keep=False)
        assert wide.after is not None
        return body.op("Less", wide.after, limit, keep=False)  # type: ignore[no-any-return]
    if counter is not None:
        assert counter.after is not None
        pair = [counter.after, loop.count]
        if draw.chance(0.3):
            return body.op("Greater", *pair[::-1], keep=False)  # type: ignore[no-any-return]
        return body.op("Less", *pair, keep=False)  # type: ignore[no-any-return]
    if draw.chance(0.5):
        return body.constant(True, np.bool_)  # type: ignore[no-any-return]
    name = next(n for n in body.worlds[0].maps[0] if n.startswith("k_"))
    return body.op("Identity", Val(name, np.dtype(np.bool_)), keep=False)  # type: ignore[no-any-return]


def _ends(loop: _Loop, counter: _Carried | None) -> tuple[Val | None, Val | None]:
    """Return the trip count and the first condition."""
    scope, draw = loop.scope, loop.draw
    if counter is not None:
        more = scope.op("Less", scope.constant(0, np.int64), loop.count, keep=False)
        limit = draw.pick([None, None, scope.constant(LARGEST_INT, np.int64), loop.count])
        return limit, more
    if loop.dialect == "tensorflow":
        zero = scope.constant(0, np.int64)
        return loop.count, scope.op("Less", zero, loop.count, keep=False)
    if loop.dialect == "onnxscript" or draw.chance(0.2):
        return loop.count, None
    if draw.chance(0.05):
        return loop.count, scope.constant(False, np.bool_)
    return loop.count, scope.constant(True, np.bool_)
