"""Linear models of ``ai.onnx.ml``, and what scales features, by operators that devices have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from passes.device.exact_forms import Needs
from passes.graph.builder import Builder
from passes.graph.made import operand
from passes.typing import Typing

__all__ = ["TABULAR", "tabular_form"]

TabularForm: TypeAlias = Callable[[ir.Node, int | None, Builder], list[ir.Value] | None]
"""Records the form of a node that reads rows of so many features, None where it stays."""


def _floats(node: ir.Node, name: str) -> np.ndarray:
    return np.array(node.attributes.get_floats(name, ()), np.float32)


def _text(node: ir.Node, name: str) -> str:
    return node.attributes.get_string(name, "NONE")


def _scaled(node: ir.Node, features: int | None, builder: Builder) -> list[ir.Value] | None:
    """The features less the offsets, times the scales: one number for all, or one for each."""
    offset, scale, rows = _floats(node, "offset"), _floats(node, "scale"), operand(node, 0)
    if offset.size != scale.size or not offset.size:
        return None
    if offset.size > 1 and features != offset.size:
        if features is not None:
            return None
        # An error where there are others.
        rows = builder.op("Reshape", [rows, builder.ints(0, offset.size)])
    moved = builder.op("Sub", [rows, builder.constant(offset)])
    return [builder.op("Mul", [moved, builder.constant(scale)])]


def _scores(node: ir.Node, features: int | None, builder: Builder) -> ir.Value | None:
    """Record the linear functions of the features: one column for each."""
    weights, intercepts = _floats(node, "coefficients"), _floats(node, "intercepts")
    count = intercepts.size
    if not count or weights.size % count or features not in (None, weights.size // count):
        return None
    table = builder.constant(weights.reshape(count, -1))
    added = builder.constant(intercepts)
    return builder.op("Gemm", [operand(node, 0), table, added], {"transB": 1})


def _regressed(node: ir.Node, features: int | None, builder: Builder) -> list[ir.Value] | None:
    targets = node.attributes.get_int("targets", 1)
    is_plain = _text(node, "post_transform") == "NONE"
    if not is_plain or _floats(node, "intercepts").size != targets:
        return None
    scores = _scores(node, features, builder)
    return None if scores is None else [scores]


_TRANSFORMS: Mapping[str, tuple[str, Mapping[str, int]] | None] = {
    "NONE": None,
    "LOGISTIC": ("Sigmoid", {}),
    "SOFTMAX": ("Softmax", {"axis": -1}),
}


def _classified(node: ir.Node, features: int | None, builder: Builder) -> list[ir.Value] | None:
    """The label of the first greatest score, and what is made of the scores.

    onnxruntime compares each score with the greatest one before: the first one stays if it is NaN,
    and no other NaN is taken.
    """
    labels = np.array(node.attributes.get_ints("classlabels_ints", ()), np.int64)
    transform = _text(node, "post_transform")
    is_known = transform in _TRANSFORMS and labels.size == _floats(node, "intercepts").size
    scores = _scores(node, features, builder) if is_known and labels.size > 1 else None
    if scores is None:
        return None
    parts = [
        builder.op("Slice", [scores, builder.ints(start), builder.ints(end), builder.ints(1)])
        for start, end in ((0, 1), (1, labels.size))
    ]
    compared = [
        builder.op("Where", [builder.op("Equal", [part, part]), part, builder.constant(bound)])
        for part, bound in zip(parts, np.array([np.inf, -np.inf], np.float32), strict=True)
    ]
    both = builder.op("Concat", compared, {"axis": 1})
    best = builder.op("ArgMax", [both], {"axis": 1, "keepdims": 0})
    if labels.tolist() != list(range(labels.size)):
        best = builder.op("Gather", [builder.constant(labels), best], {"axis": 0})
    by = _TRANSFORMS[transform]
    return [best, scores if by is None else builder.op(by[0], [scores], by[1])]


_FORMS: Mapping[tuple[str, str], tuple[TabularForm, tuple[str, ...]]] = {
    ("ai.onnx.ml", "LinearClassifier"): (
        _classified,
        ("Gemm", "Slice", "Equal", "Where", "Concat", "ArgMax", "Gather", "Sigmoid", "Softmax"),
    ),
    ("ai.onnx.ml", "LinearRegressor"): (_regressed, ("Gemm",)),
    ("ai.onnx.ml", "Scaler"): (_scaled, ("Reshape", "Sub", "Mul")),
}


TABULAR: Mapping[tuple[str, str], Needs] = {
    key: tuple((op, ir.DataType.FLOAT) for op in operators)
    for key, (_, operators) in _FORMS.items()
}
"""The operators that have a form, and the kernels of it for floats."""


def tabular_form(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """Record the form of a node that reads rows of floats; None where it stays."""
    rows = operand(node, 0)
    dims = typing.dims(rows)
    if typing.dtype(rows) != ir.DataType.FLOAT or dims is None or len(dims) != 2:
        return None
    write, _ = _FORMS[node.domain, node.op_type]
    return write(node, dims[1] if isinstance(dims[1], int) else None, builder)
