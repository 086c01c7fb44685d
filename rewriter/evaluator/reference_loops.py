"""Loop and Scan for the evaluator, by the words of the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from rewriter.evaluator.reference_operator import ControlFlow, Value
from rewriter.evaluator.reference_types import element_types, type_of

__all__ = ["LOOP_OPERATORS", "nothing", "stacked"]


class Loop(ControlFlow):
    """The body while the condition holds, at most M times."""

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any]) -> None:
        super().__init__(onnx_node, run_params)
        if not any(onnx_node.input[:2]):
            raise self.error("it never ends: give M or cond")

    def _run(
        self,
        trips: np.ndarray | None,
        condition: np.ndarray | None,
        *carried: Value,
        body: Any,
        context: Mapping[str, Value],
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Value, ...]:
        names, states = body.input_names, list(carried)
        if len(names) != 2 + len(states):
            raise self.error(
                f"the body has {len(names)} inputs, {2 + len(states)} are needed: "
                "the iteration, the condition and the carried values"
            )
        iteration_type, condition_type = body.input_types[:2]
        limit = None if trips is None else self.integer(trips, "M")
        going = np.array(True) if condition is None else self._truth(condition)
        scans: list[list[Value]] = [[] for _ in body.output_names[1 + len(states) :]]
        outer = self.captured("body", context)
        step = 0
        while going and (limit is None or step < limit):
            iteration = _as_declared(np.array(step, np.int64), iteration_type)
            told = [iteration, _as_declared(going, condition_type)]
            mine = dict(zip(names, [*told, *states], strict=True))
            outputs = self.evaluate(body, {**outer, **mine}, attributes, bindings)
            if condition is not None:  # the body's condition counts only beside one from outside
                going = self._truth(outputs[0])
            states = outputs[1 : 1 + len(states)]
            for scan, value in zip(scans, outputs[1 + len(states) :], strict=True):
                scan.append(value)
            step += 1
        if step or not scans:
            return (*states, *(stacked(self, scan, 0) for scan in scans))
        types = [
            type_of(np.array(0, np.int64)),
            type_of(np.array(True)),
            *(type_of(state, sizes=False) for state in states),
        ]
        elements = element_types(body, types, outer, self.functions())[1 + len(states) :]
        return (*states, *(nothing(self, element, 0) for element in elements))

    def _truth(self, value: np.ndarray) -> np.ndarray:
        if value.size != 1:
            raise self.error(f"the condition has shape {value.shape}, not one element")
        return value


def _as_declared(number: np.ndarray, type_: onnx.TypeProto) -> np.ndarray:
    """Return a number or truth of shape `[]` or `[1]`, whichever a body declares."""
    if not type_.tensor_type.HasField("shape"):
        return number
    return number.reshape((1,) * len(type_.tensor_type.shape.dim))


class Scan(ControlFlow):
    """The body once for each slice of the scan inputs, in the form of opset 9 and later."""

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any]) -> None:
        super().__init__(onnx_node, run_params)
        if run_params["opsets"].get("", 9) < 9:
            raise self.error("the form of opset 8 is not known: convert the model to opset 9")
        graph = next(a.g for a in onnx_node.attribute if a.name == "body")
        self._declared = [*zip(graph.input, graph.output, strict=False)]

    def _run(
        self,
        *inputs: Value,
        body: Any,
        num_scan_inputs: int,
        context: Mapping[str, Value],
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Value, ...]:
        carried = len(inputs) - num_scan_inputs
        names = body.input_names
        if carried < 0 or not num_scan_inputs or len(names) != len(inputs):
            raise self.error(
                f"{len(inputs)} inputs do not fit num_scan_inputs={num_scan_inputs} "
                f"and a body of {len(names)} inputs"
            )
        states = list(inputs[:carried])
        for state, declared in zip(states, self._declared, strict=False):
            self._check_state(state, declared)
        out = len(body.output_names) - carried
        tensors: list[np.ndarray] = [
            self._lead(tensor, axis, backward)
            for tensor, axis, backward in zip(
                inputs[carried:],
                scan_input_axes or [0] * num_scan_inputs,
                scan_input_directions or [0] * num_scan_inputs,
                strict=True,
            )
        ]
        steps = {tensor.shape[0] for tensor in tensors}
        if len(steps) > 1:
            raise self.error(f"the scan inputs have different lengths, {sorted(steps)}")
        scans: list[list[Value]] = [[] for _ in range(out)]
        outer = self.captured("body", context)
        for step in range(steps.pop()):
            # The ellipsis keeps an element of rank 0 an array.
            mine = [*states, *(tensor[step, ...] for tensor in tensors)]
            feeds = {**outer, **dict(zip(names, mine, strict=True))}
            outputs = self.evaluate(body, feeds, attributes, bindings)
            states = outputs[:carried]
            for scan, value in zip(scans, outputs[carried:], strict=True):
                scan.append(value)
        axes = list(scan_output_axes or [0] * out)
        if len(tensors[0]):
            backward = list(scan_output_directions or [0] * out)
            results = (
                stacked(self, scan[::-1] if back else scan, axis)
                for scan, axis, back in zip(scans, axes, backward, strict=True)
            )
            return (*states, *results)
        slices = (np.empty(tensor.shape[1:], tensor.dtype) for tensor in tensors)
        types = [type_of(value) for value in (*states, *slices)]
        elements = element_types(body, types, outer, self.functions())[carried:]
        return (*states, *(nothing(self, e, a) for e, a in zip(elements, axes, strict=True)))

    def _check_state(self, state: Value, declared: Sequence[onnx.ValueInfoProto]) -> None:
        """Refuse a state that is no value of the types that the body declares for it.

        A Loop may carry such values: there the types of its body are no more than hints.
        """
        for value in declared:
            dims = value.type.tensor_type.shape.dim
            for axis, (size, dim) in enumerate(zip(np.shape(state), dims, strict=False)):
                if dim.HasField("dim_value") and dim.dim_value != size:
                    raise self.error(
                        f"state {value.name!r} has shape {np.shape(state)}, and the body declares "
                        f"{dim.dim_value} for axis {axis}"
                    )

    def _lead(self, tensor: np.ndarray, axis: int, backward: int) -> np.ndarray:
        """Return a scan input with the scanned axis first, in the order of the steps."""
        if not -tensor.ndim <= axis < tensor.ndim:
            raise self.error(f"axis {axis} is not one of a scan input of rank {tensor.ndim}")
        moved = np.moveaxis(tensor, axis, 0)
        return moved[::-1] if backward else moved


LOOP_OPERATORS: tuple[type[ControlFlow], ...] = (Loop, Scan)


def stacked(operator: ControlFlow, elements: Sequence[Value], axis: int) -> np.ndarray:
    """Return tensors of one shape and element type, stacked along a new axis."""
    for element in elements:
        if not isinstance(element, np.ndarray):
            raise operator.error("a scan output is a sequence or an optional, not a tensor")
    shapes = {element.shape for element in elements}
    types = {"string" if e.dtype.kind in "OU" else e.dtype.name for e in elements}
    if len(shapes) > 1 or len(types) > 1:
        raise operator.error(
            "a scan output changes from step to step: "
            f"shapes {sorted(shapes)}, element types {sorted(types)}"
        )
    try:
        return np.stack(elements, axis=axis)
    except ValueError as error:
        raise operator.error(str(error)) from error


def nothing(operator: ControlFlow, element: onnx.TypeProto.Tensor, axis: int) -> np.ndarray:
    """Return the scan output of no steps: its other dimensions are 0 where they are not known."""
    if not element.elem_type:
        raise operator.error("no steps, and a scan output has no type: declare it in the body")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element.elem_type)
    shape = [d.dim_value for d in element.shape.dim]
    if not -len(shape) - 1 <= axis <= len(shape):
        raise operator.error(f"axis {axis} is not one of a scan output of rank {len(shape) + 1}")
    shape.insert(axis % (len(shape) + 1), 0)
    return np.empty(shape, dtype)
