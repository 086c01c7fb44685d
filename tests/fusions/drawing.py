"""A graph that is drawn node by node, with the shape of each value."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["SAMPLES", "Drawing"]

SAMPLES = 101
"""The size that stands for the number of samples in a shape."""
DTYPES = ("float32",) * 4 + ("float16", "float64")


class Drawing:
    """A graph that grows.

    Attributes:
        rng: Where the choices come from.
        dtype: The element type of all numbers that are no integers.
        nodes: The nodes of the graph that is being drawn, in order.
        weights: The initializers of the main graph.
        inputs: The inputs of the main graph.
        shapes: The shape of each value; `SAMPLES` is the number of samples.
    """

    def __init__(self, seed: int) -> None:
        """Start an empty graph."""
        self.rng = random.Random(seed)
        self.dtype = np.dtype(self.rng.choice(DTYPES))
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def name(self) -> str:
        """Return a name that nothing has yet."""
        name = f"v{len(self.shapes)}"
        self.shapes[name] = ()
        return name

    def input(self, *shape: int) -> str:
        """Return a new input of floats."""
        name = self.name()
        self.inputs.append(name)
        self.shapes[name] = shape
        return name

    def op(self, op_type: str, inputs: Sequence[str], *shape: int, **attributes: Any) -> str:
        """Add a node; return its output, of some shape."""
        return self.ops(op_type, inputs, [shape], **attributes)[0]

    def ops(
        self,
        op_type: str,
        inputs: Sequence[str],
        shapes: Sequence[Sequence[int]],
        **attributes: Any,
    ) -> list[str]:
        """Add a node of several outputs."""
        outputs = []
        for shape in shapes:
            outputs.append(self.name())
            self.shapes[outputs[-1]] = tuple(shape)
        self.nodes.append(helper.make_node(op_type, inputs, outputs, **attributes))
        return outputs

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return a constant: an initializer, or the output of a node."""
        array, name = np.asarray(value, dtype or self.dtype), self.name()
        self.shapes[name] = array.shape
        tensor = numpy_helper.from_array(array, name)
        if self.rng.random() < 0.5:
            self.weights.append(tensor)
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def ints(self, *values: int) -> str:
        """Return a constant vector of integers."""
        return self.constant(values, np.int64)

    def numbers(self, *shape: int) -> str:
        """Return constant floats; an axis of samples has size 1."""
        sizes = [1 if size == SAMPLES else size for size in shape]
        seed = self.rng.randrange(2**31)
        return self.constant(np.random.default_rng(seed).normal(size=sizes))

    def like(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node whose output has the shape of its first input."""
        return self.op(op_type, inputs, *self.shapes[inputs[0]], **attributes)

    @contextlib.contextmanager
    def apart(self) -> Iterator[list[onnx.NodeProto]]:
        """Draw the nodes of another graph; yields them."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    @property
    def element_type(self) -> int:
        """The number of the element type."""
        return helper.np_dtype_to_tensor_dtype(self.dtype)

    def info(self, name: str, element_type: int | None = None) -> onnx.ValueInfoProto:
        """Describe a value."""
        sizes = ["N" if size == SAMPLES else size for size in self.shapes[name]]
        return helper.make_tensor_value_info(name, element_type or self.element_type, sizes)
