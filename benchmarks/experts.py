"""Experts: models of them as exporters write them, and what they are fed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

__all__ = ["added_expert_model", "expert_model", "expert_rows"]


def expert_model(width: int) -> onnx.ModelProto:
    """Return experts that each multiply their own tokens by their own matrix."""
    matrix = f"float[{width}, {width}]"
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[T, {width}] x, int64[E] counts, '
        f"float[E, {width}, {width}] w) => (float[T, {width}] out) {{ "
        "xs = SplitToSequence <axis = 0> (x, counts) "
        "ws = SplitToSequence <axis = 0, keepdims = 0> (w) "
        f"ys = SequenceMap (xs, ws) <body = one (float[N, {width}] a, {matrix} b) => "
        f"(float[N, {width}] y) {{ y = MatMul (a, b) }}> "
        "out = ConcatFromSequence <axis = 0> (ys) }"
    )


def added_expert_model(
    width: int, scatter: str = "ScatterND", count: str = "E"
) -> onnx.ModelProto:
    """Return experts that add what they make of their tokens to the rows of these."""
    add = {
        "ScatterND": "at = Transpose <perm = [1, 0]> (found) "
        'sum1 = ScatterND <reduction = "add"> (sum0, at, y)',
        "ScatterElements": "size = Shape (y) one = Constant <value_ints = [1]> () "
        "column = Unsqueeze (tokens, one) at = Expand (column, size) "
        'sum1 = ScatterElements <axis = 0, reduction = "add"> (sum0, at, y)',
    }[scatter]
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[T, {width}] x, '
        f"float[{count}, T] gate, float[{count}, {width}, {width}] w) "
        f"=> (float[T, {width}] out) {{ "
        "size = Shape (x) none = ConstantOfShape (size) go = Constant <value = bool {1}> () "
        "experts = Shape <end = 1> (gate) n = Squeeze (experts) "
        f"out = Loop (n, go, none) <body = one (int64 i, bool c, float[T, {width}] sum0) => "
        f"(bool again, float[T, {width}] sum1) {{ again = Identity (c) "
        "own = Gather <axis = 0> (gate, i) zero = Constant <value_float = 0.0> () "
        "flags = Greater (own, zero) found = NonZero (flags) "
        "first = Constant <value_ints = [0]> () tokens = Squeeze (found, first) "
        "rows = Gather <axis = 0> (x, tokens) matrix = Gather <axis = 0> (w, i) "
        f"y = MatMul (rows, matrix) {add} }}> }}"
    )


def _experts(experts: int, tokens: int, width: int, *, is_even: bool) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shares = np.ones(experts) if is_even else 1 / np.arange(1, experts + 1)
    counts = rng.multinomial(tokens, shares / shares.sum())
    numbers = [
        rng.standard_normal(s).astype(np.float32)
        for s in ((tokens, width), (experts, width, width))
    ]
    return {"x": numbers[0], "counts": counts.astype(np.int64), "w": numbers[1]}


def _added_experts(experts: int, tokens: int, width: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    gate = np.zeros((experts, tokens), np.float32)
    for _ in range(2):
        gate[rng.integers(0, experts, tokens), np.arange(tokens)] = 1
    x, w = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((tokens, width), (experts, width, width))
    )
    return {"x": x, "gate": gate, "w": w}


def expert_rows() -> Iterator[tuple[str, onnx.ModelProto, dict[str, Any]]]:
    """Yield what is measured: its name, the model as given, and what it is fed."""
    for experts, tokens, is_even in itertools.product((8, 64), (512, 4096), (True, False)):
        load = "even" if is_even else "skewed"
        for width in (64, 256):
            name = f"{experts} experts of {width}, {tokens:,} tokens, {load}"
            yield name, expert_model(width), _experts(experts, tokens, width, is_even=is_even)
    for experts, tokens in itertools.product((8, 64), (64, 512, 4096)):
        name = f"{experts} experts of 64 added by index, {tokens:,} tokens"
        yield name, added_expert_model(64), _added_experts(experts, tokens, 64)
