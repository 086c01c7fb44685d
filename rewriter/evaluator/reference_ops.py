"""Simple operators of the evaluator: those without sequences and loops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from onnx.reference.ops.op_scatter_elements import scatter_elements

from rewriter.evaluator.reference_operator import ControlFlow, Operator, Value

__all__ = ["BASIC_OPERATORS"]


class Optional(Operator):
    """An optional is what it holds, or None."""

    def _run(self, value: Value = None, type: Any = None) -> tuple[Value, ...]:
        return (value,)


class OptionalGetElement(Operator):
    """The value of an optional; an error if it holds nothing."""

    def _run(self, value: Value) -> tuple[Value, ...]:
        if value is None:
            raise self.error("the optional holds nothing")
        return (value,)


class Identity(Operator):
    """A tensor, a sequence or an optional, absent ones too."""

    def _run(self, value: Value) -> tuple[Value, ...]:
        return (value.copy() if isinstance(value, np.ndarray | list) else value,)


class Equal(Operator):
    """Equality; strings may be of numpy's own type on one side, objects on the other."""

    def _run(self, a: np.ndarray, b: np.ndarray) -> tuple[Value, ...]:
        if "U" in (a.dtype.kind, b.dtype.kind):
            a, b = a.astype(object), b.astype(object)
        return (np.asarray(np.equal(a, b)),)


class Expand(Operator):
    """A tensor as large as a shape asks; onnx's own multiplies, which no text can be."""

    def _run(self, data: np.ndarray, shape: np.ndarray) -> tuple[Value, ...]:
        try:
            dims = np.broadcast_shapes(data.shape, tuple(shape.tolist()))
        except ValueError as error:
            raise self.error(f"shape {data.shape} does not expand to {shape.tolist()}") from error
        return (np.broadcast_to(data, dims).copy(),)


class GatherElements(Operator):
    """Elements by position; one out of range is an error, where ONNX's own counts around."""

    def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[Value, ...]:
        size = data.shape[axis]
        if indices.size and not (-size <= indices.min() and indices.max() < size):
            raise self.error(f"an index is outside of {-size} to {size - 1}")
        held = [slice(n) for n in indices.shape]
        held[axis] = slice(None)
        return (np.take_along_axis(data[tuple(held)], indices.astype(np.int64), axis),)


class GatherND(Operator):
    """Slices by position; ONNX's own cannot tell the shape of what is read for no samples."""

    def _run(
        self, data: np.ndarray, indices: np.ndarray, batch_dims: int = 0
    ) -> tuple[Value, ...]:
        if data.shape[:batch_dims] != indices.shape[:batch_dims]:
            raise self.error("data and indices differ in their batch axes")
        places = np.moveaxis(indices, -1, 0)
        sizes = np.array(data.shape[batch_dims : batch_dims + len(places)], np.int64)
        limits = sizes.reshape(-1, *(1,) * (places.ndim - 1))
        if places.size and ((places < -limits) | (places >= limits)).any():
            raise self.error(f"an index is outside of axes of {sizes.tolist()}")
        index = (*np.indices(indices.shape[:-1])[:batch_dims], *places)
        if not index:  # each of no coordinates takes all
            return (np.broadcast_to(data, (*indices.shape[:-1], *data.shape)).copy(),)
        return (data[(*index, ...)],)  # the ellipsis keeps an element an array


class ScatterElements(Operator):
    """Elements written by position; onnx's own loses a NaN that the largest or least meets."""

    _EXTREMES: ClassVar[Mapping[str, np.ufunc]] = {"max": np.maximum, "min": np.minimum}

    def _run(
        self,
        data: np.ndarray,
        indices: np.ndarray,
        updates: np.ndarray,
        axis: int = 0,
        reduction: str = "none",
    ) -> tuple[Value, ...]:
        if reduction not in self._EXTREMES:
            made = scatter_elements(data, indices, updates, axis, reduction)  # type: ignore[no-untyped-call]
            return (made,)
        found = data.copy()
        places: list[np.ndarray] = [*np.indices(indices.shape)]
        places[axis] = indices
        with np.errstate(invalid="ignore"):  # numpy warns of a NaN
            self._EXTREMES[reduction].at(found, tuple(places), updates)
        return (found,)


class ReduceMean(Operator):
    """The mean; of no numbers, for which the specification has none, it is 0 as in onnxruntime."""

    def _run(
        self,
        data: np.ndarray,
        axes: np.ndarray | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> tuple[Value, ...]:
        axes = getattr(self, "axes", None) if axes is None else axes  # opset 17 has an attribute
        chosen = () if axes is None else tuple(int(axis) for axis in np.reshape(axes, -1))
        if not chosen and noop_with_empty_axes:
            return (data,)
        over = chosen or tuple(range(data.ndim))
        is_empty = any(data.shape[axis] == 0 for axis in over)
        mean = np.sum if is_empty else np.mean
        return (np.asarray(mean(data, axis=over, keepdims=bool(keepdims), dtype=data.dtype)),)


class ArgMax(Operator):
    """The position of the largest number; onnx's own fails where no position is asked for."""

    def best(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Return the first positions along an axis that has some."""
        return np.asarray(np.argmax(data, axis), np.int64)

    def _run(
        self, data: np.ndarray, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> tuple[Value, ...]:
        if not data.ndim:
            return (np.zeros((), np.int64),)
        size, rest = data.shape[axis], np.delete(data.shape, axis)
        if not size and rest.all():
            raise self.error(f"axis {axis} of shape {data.shape} has no position")
        if not size:
            found = np.empty(rest, np.int64)
        elif select_last_index:
            found = size - 1 - self.best(np.flip(data, axis), axis)
        else:
            found = self.best(data, axis)
        return (np.expand_dims(found, axis) if keepdims else found,)


class ArgMin(ArgMax):
    """The position of the least number."""

    def best(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Return the first positions along an axis that has some."""
        return np.asarray(np.argmin(data, axis), np.int64)


class Flatten(Operator):
    """A matrix; onnx's own cannot tell the columns of a matrix without rows."""

    def _run(self, data: np.ndarray, axis: int) -> tuple[Value, ...]:
        if not -data.ndim <= axis <= data.ndim:
            raise self.error(f"there is no axis {axis} in shape {data.shape}")
        at = axis + data.ndim if axis < 0 else axis
        rows, columns = data.shape[:at], data.shape[at:]
        return (data.reshape(math.prod(rows), math.prod(columns)),)


class STFT(Operator):
    """Fourier transforms of the frames of signals ``[N, length]`` or ``[N, length, 1 or 2]``.

    ONNX's own takes a list of signals without parts for one signal, and fails on a single frame.
    """

    def _run(
        self,
        signal: np.ndarray,
        frame_step: np.ndarray,
        window: np.ndarray | None = None,
        frame_length: np.ndarray | None = None,
        onesided: int = 1,
    ) -> tuple[Value, ...]:
        step = int(np.asarray(frame_step).item())
        size = signal.shape[1] if frame_length is None else int(np.asarray(frame_length).item())
        size = size if window is None else len(window)
        count = (signal.shape[1] - size) // step + 1
        if step < 1 or signal.shape[1] < size:
            raise self.error(f"no frame of {size} lies in a signal of {signal.shape[1]}")
        is_complex = signal.ndim == 3 and signal.shape[2] == 2
        if is_complex and onesided:
            raise self.error("a complex signal has no mirrored half to leave out")
        numbers = (
            signal[..., 0] + 1j * signal[..., 1]
            if is_complex
            else signal.reshape(*signal.shape[:2])
        )
        places = step * np.arange(count)[:, None] + np.arange(size)
        frames = numbers[:, places] * (1 if window is None else window)
        found = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
        return (np.stack([found.real, found.imag], -1).astype(signal.dtype),)


class If(ControlFlow):
    """One of two bodies."""

    iterates = False

    def _run(
        self,
        condition: np.ndarray,
        then_branch: Any,
        else_branch: Any,
        context: Mapping[str, Value],
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Value, ...]:
        if condition.size != 1:
            raise self.error(f"the condition has shape {condition.shape}, not one element")
        name, body = ("else_branch", else_branch)
        if condition.item():
            name, body = ("then_branch", then_branch)
        feeds = self.captured(name, context)
        return tuple(self.evaluate(body, feeds, attributes, bindings))


BASIC_OPERATORS: tuple[type[Operator], ...] = (
    ArgMax,
    ArgMin,
    Optional,
    OptionalGetElement,
    Identity,
    Equal,
    Expand,
    Flatten,
    GatherElements,
    GatherND,
    If,
    ReduceMean,
    ScatterElements,
    STFT,
)
