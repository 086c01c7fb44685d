"""Moves with graphs inside of the body: If, Loop, Scan, a nested map, and sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tests.property.pool import Pool, Skip, Value

__all__ = ["MOVES"]


def branches(p: Pool) -> None:
    """If on a shared condition, one per sample, or one that depends on a rank only."""
    x = p.pick("f")
    other = p.pick("f", lambda v: v.dtype == x.dtype and v.rank == x.rank)
    kind = p.choose(["shared", "sample", "rank"])
    if kind == "shared":
        flags = [v for v in p.values if v.kind == "b" and not v.varies and v.rank == 0]
        flag = p.choose(flags) if flags else p.constant(p.chance(0.5), np.bool_)
    elif kind == "rank":
        size = p.one("Size", [p.one("Shape", [x])])
        flag = p.one("Equal", [size, p.constant(p.number(1, 3), np.int64)])
    else:
        y = p.pick("f", lambda v: v.exact and v.dtype == np.float32)
        total = p.one("ReduceSum", [y], keepdims=0)
        flag = p.one("Greater", [total, p.constant(0, y.dtype)])
    ops = p.choose(
        [
            ("Neg", "Identity"),
            ("Relu", "Abs"),
            ("Exp", "Tanh"),
            ("ReduceSum", "ReduceMax"),
            ("Transpose", "Neg"),
            ("Neg", "Add"),
        ]
    )
    graphs = [_branch(p, op, x, other) for op in ops]
    p.add(
        "If",
        [flag],
        captures=[x, other],
        exact="Exp" not in ops,
        then_branch=graphs[0],
        else_branch=graphs[1],
    )


def _branch(p: Pool, op: str, x: Value, other: Value) -> onnx.GraphProto:
    out = p.fresh("b")
    inputs = [x.name, other.name] if op == "Add" else [other.name if op == "Abs" else x.name]
    return _graph([helper.make_node(op, inputs, [out])], "branch", [], [(out, None)])


def _graph(
    nodes: Sequence[onnx.NodeProto],
    name: str,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[tuple[str, onnx.TypeProto | None]],
) -> onnx.GraphProto:
    infos = [onnx.ValueInfoProto(name=n, type=t) for n, t in outputs]
    return helper.make_graph(list(nodes), name, list(inputs), infos)


def _type(value: Value, drop: int = 0) -> onnx.TypeProto:
    dims = [None] * (value.rank - drop)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), dims)


def _input(name: str, type_: onnx.TypeProto) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=type_)


def parts(p: Pool) -> None:
    """If of each sample whose branches can fail, or yield rows in different number."""
    x = p.pick("f", lambda v: v.rank >= 1 and v.dtype == np.float32)
    y = p.pick("f", lambda v: v.dtype == x.dtype and v.rank == x.rank)
    flags = [v for v in p.values if v.kind == "b" and v.varies and v.rank == 0]
    if flags and p.chance(0.5):
        flag = p.choose(flags)
    else:
        size = p.one("Size", [p.pick("f", lambda v: v.exact)])
        flag = p.one("Less", [size, p.constant(p.number(1, 5), np.int64)])
    bounds = [p.ints(n) for n in (0, p.number(0, 2), p.choose([0, -1]))]
    graphs = [_part(p, p.choose([x, y]), bounds) for _ in range(2)]
    captures = [x, y, *bounds]
    p.add("If", [flag], captures=captures, then_branch=graphs[0], else_branch=graphs[1])


def _part(p: Pool, x: Value, bounds: Sequence[Value]) -> onnx.GraphProto:
    """Return a branch that reads a value; it may fail for samples that do not take it."""
    out, more = p.fresh("b"), p.fresh("b")
    first, end, at = (v.name for v in bounds)
    kind = p.choose(["Neg", "Identity", "Slice", "Gather", "Concat", "Relu", "Sum"])
    nodes = {
        "Slice": [helper.make_node("Slice", [x.name, first, end, first], [out])],
        "Gather": [helper.make_node("Gather", [x.name, at], [out], axis=0)],
        "Concat": [helper.make_node("Concat", [x.name, x.name], [out], axis=0)],
        "Sum": [
            helper.make_node("ReduceSum", [x.name, first], [more], keepdims=1),
            helper.make_node("Add", [x.name, more], [out]),
        ],
    }.get(kind, [helper.make_node(kind, [x.name], [out])])
    return _graph(nodes, "part", [], [(out, None)])


def steps(p: Pool) -> None:
    """Loop over the rows of a value by their numbers; it may end early."""
    x = p.pick("f", lambda v: v.rank >= 1 and v.dtype == np.float32 and None not in v.dims[1:])
    if p.opset < 13:
        raise Skip
    if p.chance(0.7):
        count = p.one("Gather", [p.one("Shape", [x]), p.constant(0, np.int64)], axis=0)
    else:
        count = p.pick("i", lambda v: v.rank == 0 and v.dtype == np.int64)
    start = p.one("ReduceSum", [x, p.ints(0)], keepdims=0)
    other = p.pick("f", lambda v: v.dtype == x.dtype and v.rank == 0) if p.chance(0.2) else None
    bound = p.constant(p.number(0, 6), np.float32)
    i, go, state, row, new, out, total, go_on = (p.fresh("l") for _ in range(8))
    nodes = [
        helper.make_node("Gather", [x.name, i], [row], axis=0),
        helper.make_node(p.choose(["Add", "Max", "Sub"]), [state, row], [new]),
        helper.make_node("Mul", [row, other.name], [out])
        if other is not None
        else helper.make_node(p.choose(["Identity", "Neg", "Abs"]), [p.choose([new, row])], [out]),
    ]
    if p.chance(0.4):
        nodes.append(helper.make_node("ReduceSum", [new], [total], keepdims=0))
        nodes.append(helper.make_node("Less", [total, bound.name], [go_on]))
    else:
        nodes.append(helper.make_node("Identity", [go], [go_on]))
    flag = helper.make_tensor_type_proto(9, [])
    # With no steps, onnxruntime yields 0 for a dimension that the body does not declare.
    kept = helper.make_tensor_type_proto(1, x.dims[1:])
    body = _graph(
        nodes,
        "body",
        [_input(i, helper.make_tensor_type_proto(7, [])), _input(go, flag), _input(state, kept)],
        [(go_on, flag), (new, kept), (out, kept)],
    )
    captures = [v for v in (x, other, bound) if v is not None]
    p.add(
        "Loop", [count, p.constant(True, np.bool_), start], outputs=2, captures=captures, body=body
    )


def loop(p: Pool) -> None:
    """Loop that carries a value and collects scan outputs; trips shared or per sample."""
    x = p.pick("f", lambda v: v.dtype == np.float32)

    def fits(v: Value) -> bool:
        pairs = zip(x.samples, v.samples, strict=True)
        return v.dtype == x.dtype and all(_fits(a.shape, b.shape) for a, b in pairs)

    step = p.pick("f", fits)
    if p.chance(0.6):
        count = p.constant(p.number(0, 3), np.int64)
    else:
        count = p.pick("i", lambda v: v.rank == 0 and v.dtype == np.int64)
    i, go, state, new, go_on, out = (p.fresh("l") for _ in range(6))
    nodes = [
        helper.make_node("Identity", [go], [go_on]),
        helper.make_node(p.choose(["Add", "Mul"]), [state, step.name], [new]),
        helper.make_node(p.choose(["Identity", "Neg"]), [new], [out]),
    ]
    flag = helper.make_tensor_type_proto(9, [])
    body = _graph(
        nodes,
        "body",
        [
            _input(i, helper.make_tensor_type_proto(7, [])),
            _input(go, flag),
            _input(state, _type(x)),
        ],
        [(go_on, flag), (new, _type(x)), (out, _type(x))],
    )
    always = p.constant(True, np.bool_) if p.chance(0.7) else None
    p.add("Loop", [count, always, x], outputs=2, captures=[step], body=body)


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(a, b) == a
    except ValueError:
        return False


def scan(p: Pool) -> None:
    """Scan over the first or last axis of a value with a running sum."""
    # onnxruntime dies of a Scan over elements of no numbers.
    x = p.pick(
        "f", lambda v: v.rank >= 1 and v.dtype == np.float32 and all(s.size for s in v.samples)
    )
    at = p.choose([0, 0, x.rank - 1])
    if p.opset < 18:
        raise Skip
    start = p.one(p.choose(["ReduceSum", "ReduceMax"]), [x, p.ints(at)], keepdims=0)
    state, row, new, out = (p.fresh("s") for _ in range(4))
    op = p.choose(["Add", "Max", "Mul"])
    nodes = [
        helper.make_node(op, [state, row], [new]),
        helper.make_node(p.choose(["Identity", "Neg", "Relu"]), [new], [out]),
    ]
    smaller = _type(x, drop=1)
    body = _graph(
        nodes,
        "body",
        [_input(state, smaller), _input(row, smaller)],
        [(new, smaller), (out, smaller)],
    )
    options = {
        "scan_input_axes": [at] if at or p.chance(0.3) else None,
        "scan_input_directions": p.choose([None, [1]]),
        "scan_output_axes": p.choose([None, [x.rank - 1]]),
    }
    p.add("Scan", [start, x], outputs=2, body=body, num_scan_inputs=1, **options)


def sequences(p: Pool) -> None:
    """A sequence inside of the body, read by position, joined, or mapped over."""
    x = p.pick("f", lambda v: v.rank >= 1 and v.dtype == np.float32)
    at = p.number(0, x.rank - 1)
    keep = p.number(0, 1)
    cut = p.fresh("q")
    nodes = [helper.make_node("SplitToSequence", [x.name], [cut], axis=at, keepdims=keep)]
    out = p.fresh()
    kind = p.choose(["at", "join", "map", "map", "length", "construct"])
    captures = [x]
    constants = []
    if kind == "at":
        constants = [p.constant(p.choose([0, -1]), np.int64)]
        nodes.append(helper.make_node("SequenceAt", [cut, constants[0].name], [out]))
    elif kind == "length":
        nodes.append(helper.make_node("SequenceLength", [cut], [out]))
    elif kind == "construct":
        nodes = [helper.make_node("SequenceConstruct", [x.name, x.name], [cut])]
        nodes.append(helper.make_node("ConcatFromSequence", [cut], [out], axis=at, new_axis=keep))
    else:
        joined = cut
        if kind == "map":
            joined, element, result = p.fresh("q"), p.fresh("e"), p.fresh("r")
            rank = x.rank - 1 + keep
            type_ = helper.make_tensor_type_proto(1, [None] * rank)
            inner = [helper.make_node(p.choose(["Neg", "Relu", "Transpose"]), [element], [result])]
            if p.chance(0.4):
                inner = [helper.make_node("Mul", [element, x.name], [result])]
                keep = 1
                nodes[0] = helper.make_node(
                    "SplitToSequence", [x.name], [cut], axis=at, keepdims=1
                )
                type_ = helper.make_tensor_type_proto(1, [None] * x.rank)
            body = _graph(inner, "nested", [_input(element, type_)], [(result, type_)])
            nodes.append(helper.make_node("SequenceMap", [cut], [joined], body=body))
        new_axis = 1 - keep if p.chance(0.8) else 1
        nodes.append(
            helper.make_node("ConcatFromSequence", [joined], [out], axis=at, new_axis=new_axis)
        )
    p.add_all(nodes, [*captures, *constants], [out])


MOVES = [(6, branches), (4, parts), (4, loop), (5, steps), (4, scan), (4, sequences)]
