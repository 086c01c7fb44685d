"""The rules of the evaluator of integers for booleans, which are 0 and 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value
from passes.numbers.integer_reads import NumberReader, Numbers, Rule, zipped
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.vector_reads import lowest

__all__ = ["TRUTH_RULES", "flat_size", "truth"]

_MOST_COMPARED = 64
_COMPARISONS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}


def truth(number: Linear, last: Linear | None) -> bool | None:
    """Whether a number is not 0, if that is certain."""
    if number.number is not None:
        return number.number != 0
    signed = (lowest(number - 1, last), lowest(number * -1 - 1, last))
    return True if any(is_nonnegative(n) for n in signed) else None


def _compare(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    pairs = zipped(evaluator, node)
    if pairs is None:
        return _compared_constants(node)
    truths = [_compared(node.op_type, a, b, evaluator.last) for a, b in pairs]
    return None if None in truths else tuple(Linear(int(t or 0)) for t in truths)


def _compared_constants(node: ir.Node) -> Numbers | None:
    """Compare constants that are no whole numbers."""
    one, other = (constant_value(v) for v in node.inputs)
    if one is None or other is None or "O" in (one.dtype.kind, other.dtype.kind):
        return None
    truths = _COMPARISONS[node.op_type](one, other)
    found = np.ravel(truths).tolist() if truths.size <= _MOST_COMPARED else None
    return None if found is None else tuple(Linear(int(t)) for t in found)


def _compared(op_type: str, a: Linear, b: Linear, last: Linear | None) -> bool | None:
    match op_type:
        case "Greater":
            return _compared("Less", b, a, last)
        case "GreaterOrEqual":
            return _compared("LessOrEqual", b, a, last)
        case "LessOrEqual":
            return _compared("Less", a, b + 1, last)
        case "Less":
            if is_nonnegative(lowest(b - a - 1, last)):
                return True
            return False if is_nonnegative(lowest(a - b, last)) else None
    if not (a - b).terms:
        return a == b
    return False if truth(a - b, last) else None


def _logic(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Join flags: one that decides does so whatever the other one is."""
    deciding = 0 if node.op_type == "And" else 1
    size = flat_size(evaluator.dims(node.outputs[0]))
    if size is None:
        pairs = zipped(evaluator, node)
        size = None if pairs is None else len(pairs)
    if size is None:
        return None
    sides = [_truths(evaluator.of(v), size) for v in node.inputs]
    joined = [_joined(one, other, deciding) for one, other in zip(*sides, strict=True)]
    return None if None in joined else tuple(Linear(flag or 0) for flag in joined)


def flat_size(dims: tuple[int | str | None, ...] | None) -> int | None:
    """Return how many numbers a vector has, or a tensor of any rank that has one."""
    if dims is None:
        return None
    if all(dim == 1 for dim in dims):
        return 1
    return dims[0] if len(dims) == 1 and isinstance(dims[0], int) else None


def _truths(numbers: Numbers | None, size: int) -> list[int | None]:
    """Return as many flags as an operand is broadcast to, None for those that are not known."""
    if numbers is None or len(numbers) not in (1, size):
        return [None] * size
    found = [None if n.number is None else int(bool(n.number)) for n in numbers]
    return found * size if len(found) == 1 else found


def _joined(one: int | None, other: int | None, deciding: int) -> int | None:
    if deciding in (one, other):
        return deciding
    return None if None in (one, other) else 1 - deciding


def _xor(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    pairs = zipped(evaluator, node)
    known = [(a.number, b.number) for a, b in pairs or ()]
    if pairs is None or any(None in pair for pair in known):
        return None
    return tuple(Linear(int(bool(a) != bool(b))) for a, b in known)


def _not(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    found = evaluator.of(node.inputs[0])
    if found is None or any(n.number is None for n in found):
        return None
    return tuple(Linear(int(not n.number)) for n in found)


TRUTH_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(("And", "Or"), _logic),
    "Not": _not,
    "Xor": _xor,
}
