"""The Map operator for the evaluator, so that a model can run after each pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from passes.sequence_operators import DOMAIN
from rewriter.evaluator.reference_loops import nothing, stacked
from rewriter.evaluator.reference_operator import ControlFlow, Value
from rewriter.evaluator.reference_sequences import split_tensor
from rewriter.evaluator.reference_types import element_types, type_of

__all__ = ["Map"]


class Map(ControlFlow):
    """The body once for each sample; see `passes.maps.operator` for the attributes."""

    op_domain = DOMAIN
    op_schema = None

    body: Any
    kinds: list[str]
    sources: list[int]
    axes: list[int]
    keepdims: list[int]
    reverses: list[int]
    splits: list[int]
    count: int
    results: list[str]
    result_outputs: list[int]
    result_axes: list[int]
    result_reverses: list[int]

    def _run(
        self,
        *inputs: Value,
        context: Mapping[str, Value],
        attributes: Any = None,
        bindings: Any = None,
        **_: Any,
    ) -> tuple[Value, ...]:
        elements = [self._elements(at, inputs) for at in range(len(self.kinds))]
        samples = self._samples(elements, inputs)
        outer = self.captured("body", context)
        made: list[list[Value]] = [[] for _ in self.body.output_names]
        for sample in range(samples):
            mine = [
                np.array(sample, np.int64)
                if kind == "index"
                else value
                if kind == "shared"
                else value[sample]
                for kind, value in zip(self.kinds, elements, strict=True)
            ]
            feeds = {**outer, **dict(zip(self.body.input_names, mine, strict=False))}
            outputs = self.evaluate(self.body, feeds, attributes, bindings)
            for values, value in zip(made, outputs, strict=True):
                values.append(value)
        types = None if samples else self._types(inputs, outer)
        return tuple(
            self._result(at, made[output], None if types is None else types[output])
            for at, output in enumerate(self.result_outputs)
        )

    def _elements(self, at: int, inputs: tuple[Value, ...]) -> Value:
        """Return what an input of the body is for all samples: a list, or one shared value."""
        if self.kinds[at] == "index":
            return None
        value = inputs[self.sources[at]]
        if self.kinds[at] != "slice":
            return value
        split = None if self.splits[at] < 0 else inputs[self.splits[at]]
        cut = split_tensor(self, value, split, self.axes[at], self.keepdims[at])
        return cut[::-1] if self.reverses[at] else cut

    def _samples(self, elements: list[Value], inputs: tuple[Value, ...]) -> int:
        if self.count >= 0:
            return self.integer(inputs[self.count], "count")
        first = next(i for i, kind in enumerate(self.kinds) if kind in ("element", "slice"))
        return len(elements[first])

    def _types(self, inputs: tuple[Value, ...], outer: dict[str, Value]) -> list[Any]:
        types = []
        for at, kind in enumerate(self.kinds[: len(self.body.input_names)]):
            value: Value = None if kind == "index" else inputs[self.sources[at]]
            if kind == "index":
                value = np.array(0, np.int64)
            elif kind == "slice" and self.splits[at] < 0:
                rest = np.delete(value.shape, self.axes[at])
                if self.keepdims[at]:
                    rest = np.insert(rest, self.axes[at] % value.ndim, 1)
                value = np.empty(rest, value.dtype)
            types.append(type_of(value) if kind != "element" else None)
        return element_types(self.body, types, outer, self.functions())

    def _result(self, at: int, values: list[Value], type_: Any) -> Value:
        """Make an output of what the body yielded for all samples."""
        kind, axis = self.results[at], self.result_axes[at]
        if kind == "sequence":
            return values
        if type_ is not None:
            if kind == "concatenated":
                stack = nothing(self, type_, 0)  # what stands behind the Map may add to no rows
                shape = list(stack.shape[1:])
                shape[axis] = 0
                return np.empty(shape, stack.dtype)
            return nothing(self, type_, axis)
        if kind == "stacked":
            return stacked(self, values[::-1] if self.result_reverses[at] else values, axis)
        return np.concatenate(values, axis)
