"""SequenceMap and the operators on sequences, by the words of the specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rewriter.evaluator.reference_operator import ControlFlow, Operator, Value

__all__ = ["SEQUENCE_OPERATORS", "split_tensor"]


class SequenceMap(ControlFlow):
    """The body once for each tensor of the first sequence; of nothing comes nothing."""

    def _run(
        self,
        first: Value,
        *others: Value,
        body: Any,
        context: Mapping[str, Value],
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Value, ...]:
        samples = len(self.sequence(first))
        names = body.input_names
        if len(names) != 1 + len(others):
            raise self.error(f"the body has {len(names)} inputs, the map {1 + len(others)}")
        for k, other in enumerate(others, 1):
            if isinstance(other, list) and len(other) < samples:
                raise self.error(
                    f"input {k} holds {len(other)} tensors, the first input {samples}"
                )
        results: list[list[Value]] = [[] for _ in body.output_names]
        feeds = self.captured("body", context)
        for i in range(samples):
            mine = [value[i] if isinstance(value, list) else value for value in (first, *others)]
            feeds.update(zip(names, mine, strict=True))
            outputs = self.evaluate(body, feeds, attributes, bindings)
            for name, result, value in zip(body.output_names, results, outputs, strict=True):
                if not isinstance(value, np.ndarray):
                    raise self.error(f"the body's output {name!r} is not a tensor")
                result.append(value)
        return tuple(results)


class SequenceAt(Operator):
    """A tensor by its position, ``-n`` to ``n - 1``."""

    def _run(self, sequence: Value, position: np.ndarray) -> tuple[Value, ...]:
        n = len(self.sequence(sequence))
        return (sequence[self.position(position, -n, n - 1)],)


class SequenceInsert(Operator):
    """A tensor more, at position ``-n`` to ``n``; at the back without one."""

    def _run(
        self, sequence: Value, tensor: Value, position: np.ndarray | None = None
    ) -> tuple[Value, ...]:
        n = len(self.sequence(sequence))
        where = n if position is None else self.position(position, -n, n)
        result = list(sequence)
        result.insert(where, tensor)
        return (result,)


class SequenceErase(Operator):
    """A tensor less, the one at position ``-n`` to ``n - 1``; the last without one."""

    def _run(self, sequence: Value, position: np.ndarray | None = None) -> tuple[Value, ...]:
        n = len(self.sequence(sequence))
        last = np.array(-1) if position is None else position
        result = list(sequence)
        del result[self.position(last, -n, n - 1)]
        return (result,)


class ConcatFromSequence(Operator):
    """The tensors of a sequence joined along an axis they have, or along a new one."""

    def _run(self, sequence: Value, axis: int, new_axis: int = 0) -> tuple[Value, ...]:
        if not self.sequence(sequence):
            raise self.error("the sequence is empty, so the result has no shape")
        join = np.stack if new_axis else np.concatenate
        try:
            return (join(sequence, axis=axis),)
        except ValueError as error:  # numpy's AxisError is one, too
            raise self.error(str(error)) from error


class SplitToSequence(Operator):
    """A tensor cut along an axis, into ones, into chunks of one size, or by given lengths."""

    def _run(
        self,
        tensor: np.ndarray,
        split: np.ndarray | None = None,
        axis: int = 0,
        keepdims: int = 1,
    ) -> tuple[Value, ...]:
        return (split_tensor(self, tensor, split, axis, keepdims),)


def split_tensor(
    operator: Operator, tensor: np.ndarray, split: np.ndarray | None, axis: int, keepdims: int
) -> list[np.ndarray]:
    """Return the tensors that SplitToSequence cuts a tensor into.

    Args:
        operator: The operator, which says where it fails.
        tensor: The tensor.
        split: A scalar for the size of each part, or a vector of sizes; None for parts of size 1.
        axis: Where it is cut; negative counts from the back.
        keepdims: Without ``split``: whether the axis stays.

    Raises:
        EvaluationError: The axis or the sizes do not fit the tensor.
    """
    rank = tensor.ndim
    if not -rank <= axis < rank:
        raise operator.error(f"axis {axis} is outside of {-rank} to {rank - 1}")
    size = tensor.shape[axis]
    before: tuple[Any, ...] = (slice(None),) * (axis % rank)
    if split is None and not keepdims:
        # The ellipsis keeps an element of rank 0 an array.
        return [tensor[(*before, i, ...)] for i in range(size)]
    result, start = [], 0
    for length in _lengths(operator, split, size):
        result.append(tensor[(*before, slice(start, start + length))])
        start += length
    return result


def _lengths(operator: Operator, split: np.ndarray | None, size: int) -> list[int]:
    if split is None:
        return [1] * size
    if split.ndim == 0:
        length = operator.integer(split, "split")
        if length <= 0:
            raise operator.error(f"split is {length}, not a positive number")
        return [min(length, size - start) for start in range(0, size, length)]
    lengths: list[int] = split.tolist()
    if split.ndim != 1 or min(lengths, default=0) < 0 or sum(lengths) != size:
        raise operator.error(f"the lengths {lengths} do not divide an axis of {size}")
    return lengths


SEQUENCE_OPERATORS: tuple[type[Operator], ...] = (
    SequenceMap,
    SequenceAt,
    SequenceInsert,
    SequenceErase,
    ConcatFromSequence,
    SplitToSequence,
)
