"""The values of a body that is being drawn, each with what it is for every sample.

Whatever is added runs at once, alone, on onnxruntime: a node that fails on one of the samples is
not taken. So an operator may be drawn without a proof that its constraints hold.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

__all__ = ["IR_VERSION", "Array", "Pool", "Skip", "Value", "run_nodes"]

Array = np.ndarray[Any, Any]
IR_VERSION = 10
MOST_ELEMENTS = 1500
MOST = 1e4
"""Numbers stay below this, so that exact values stay exact in 32 bits."""
MOST_ROUGH = 1e8
MOST_HALF = 2048
MOST_SHOWN = 16

onnxruntime.set_default_logger_severity(4)


class Skip(Exception):
    """What was drawn does not fit here."""


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the body.

    Attributes:
        name: Its name.
        samples: What it is for each sample.
        varies: Whether it can differ from sample to sample.
        exact: Whether a discrete operator may read it: no rounding can have touched it, or the
            program is a rough one.
    """

    name: str
    samples: tuple[Array, ...]
    varies: bool = True
    exact: bool = True

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.samples[0].dtype

    @property
    def kind(self) -> str:
        """One letter: f, i, u, b or O."""
        return self.dtype.kind

    @property
    def rank(self) -> int:
        """The rank, -1 where samples differ in it."""
        ranks = {s.ndim for s in self.samples}
        return ranks.pop() if len(ranks) == 1 else -1

    @property
    def dims(self) -> tuple[int | None, ...]:
        """The dimensions, None where samples differ; only if they have one rank."""
        columns = zip(*(s.shape for s in self.samples), strict=True)
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in columns)

    @property
    def is_uniform(self) -> bool:
        return len({s.shape for s in self.samples}) == 1


class Pool:
    """A body that grows node by node.

    Attributes:
        rng: Draws.
        opset: Version of ONNX's operators.
        values: What can be read, oldest first.
        nodes: What was added.
        constants: Constants that are not nodes, by name: in the body or in the main graph.
        wild: Whether infinities and NaN are let in.
        rough: Whether discrete operators may read what rounding has touched.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        opset: int,
        *,
        prefix: str,
        wild: bool = False,
        rough: bool = False,
    ) -> None:
        self.rng = rng
        self.opset = opset
        self.values: list[Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, tuple[str, Array]] = {}
        self.wild = wild
        self.rough = rough
        self._prefix = prefix
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """Return a name that nothing has."""
        self._count += 1
        return f"{self._prefix}{stem}{self._count}"

    # Drawing.

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choose(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        """Draw an integer, both bounds included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, kinds: str = "fiubO", fits: Callable[[Value], bool] = bool) -> Value:
        """Draw a value of some kinds (letters) and of one rank; newer ones are likelier."""
        found = [v for v in self.values if v.kind in kinds and v.rank >= 0 and fits(v)]
        if not found:
            raise Skip
        varying = [v for v in found if v.varies]
        if varying and self.chance(0.8):
            found = varying
        weights = np.arange(1, len(found) + 1, dtype=float) ** 1.5
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    # Growing.

    def mark(self) -> tuple[int, int, frozenset[str]]:
        return len(self.values), len(self.nodes), frozenset(self.constants)

    def rollback(self, mark: tuple[int, int, frozenset[str]]) -> None:
        """Forget what was added since a mark."""
        del self.values[mark[0] :], self.nodes[mark[1] :]
        self.constants = {k: v for k, v in self.constants.items() if k in mark[2]}

    def constant(self, array: Any, dtype: Any = None) -> Value:
        """Add a constant: a node, an initializer of the body or a captured initializer."""
        array = np.asarray(array, dtype)
        name = self.fresh("c")
        place = self.choose(["node", "node", "body", "main"])
        if place == "node":
            tensor = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants[name] = (place, array)
        count = len(self.values[0].samples)
        value = Value(name, (array,) * count, varies=False)
        self.values.append(value)
        return value

    def ints(self, *numbers: int) -> Value:
        return self.constant(np.array(numbers, np.int64))

    def add(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        *,
        outputs: int = 1,
        exact: bool = True,
        captures: Sequence[Value] = (),
        domain: str = "",
        **attributes: Any,
    ) -> list[Value]:
        """Add a node and run it for every sample.

        Args:
            op_type: The operator.
            inputs: Its inputs, None where one is left out.
            outputs: How many outputs it has.
            exact: Whether exact operands give exact results.
            captures: What its subgraphs read of the body.
            domain: Its domain.
            **attributes: Its attributes; None leaves one out.

        Raises:
            Skip: It fails on a sample, or yields what no later node could work with.
        """
        names = [self.fresh() for _ in range(outputs)]
        given = ["" if v is None else v.name for v in inputs]
        present = {k: v for k, v in attributes.items() if v is not None}
        node = helper.make_node(op_type, given, names, domain=domain, **present)
        operands = [v for v in (*inputs, *captures) if v is not None]
        return self.add_all([node], operands, names, exact=exact)

    def add_all(
        self,
        nodes: Sequence[onnx.NodeProto],
        operands: Sequence[Value],
        names: Sequence[str],
        *,
        exact: bool = True,
    ) -> list[Value]:
        """Add nodes that read ``operands`` and of which ``names`` can be read."""
        made = self._run(nodes, operands, names, exact)
        self.nodes.extend(nodes)
        self.values.extend(made)
        return made

    def one(self, op_type: str, inputs: Sequence[Value | None], **options: Any) -> Value:
        """Add a node with one output and return that."""
        return self.add(op_type, inputs, **options)[0]

    def _run(
        self,
        nodes: Sequence[onnx.NodeProto],
        operands: Sequence[Value],
        names: Sequence[str],
        exact: bool,
    ) -> list[Value]:
        varies = any(v.varies for v in operands)
        exact = self.rough or (exact and all(v.exact for v in operands))
        known = {v.name: v for v in operands}
        session = _session(nodes, list(known.values()), names, self.opset)
        shapes = _inferred(nodes, list(known.values()), names, self.opset)
        count = len(self.values[0].samples)
        columns: list[list[Array]] = [[] for _ in names]
        for i in range(count if varies else 1):
            feeds = {v.name: v.samples[i] for v in known.values()}
            made = _attempt(session, feeds)
            for column, array, shape in zip(columns, made, shapes, strict=True):
                if not isinstance(array, np.ndarray) or not _fits(array.shape, shape):
                    raise Skip
                column.append(array)
        values = []
        for name, column in zip(names, columns, strict=True):
            samples = tuple(column) if varies else (column[0],) * count
            finite = self._check(samples)
            values.append(Value(name, samples, varies, exact and finite))
        return values

    def _check(self, samples: Sequence[Array]) -> bool:
        """Return whether all numbers are finite, and small enough to be exact."""
        finite = True
        for array in samples:
            if array.size > MOST_ELEMENTS:
                raise Skip
            if array.dtype.kind not in "fiu" or not array.size:
                continue
            numbers = array.astype(np.float64)
            good = np.isfinite(numbers)
            if not good.all():
                if not self.wild:
                    raise Skip
                finite = False
            largest = np.abs(numbers[good]).max(initial=0)
            if array.dtype == np.float16 and largest > MOST_HALF:
                finite = False
            if largest > (MOST_ROUGH if self.rough else MOST):
                raise Skip
        return finite


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    names: Sequence[str],
    opset: int,
) -> onnx.ModelProto:
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph(list(nodes), "alone", list(inputs), outputs)
    return helper.make_model(
        graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", opset)]
    )


def _inferred(
    nodes: Sequence[onnx.NodeProto], operands: Sequence[Value], names: Sequence[str], opset: int
) -> list[list[int | None] | None]:
    """Return the shape that ONNX infers of each name, None where it is not known.

    Raises:
        Skip: It finds an error, although onnxruntime may not.
    """
    inputs = [
        helper.make_tensor_value_info(
            v.name,
            helper.np_dtype_to_tensor_dtype(v.dtype),
            None if v.rank < 0 else v.dims,
        )
        for v in operands
    ]
    model = _model(nodes, inputs, names, opset)
    for value in operands:
        if not value.varies and value.kind == "i" and value.samples[0].size <= MOST_SHOWN:
            tensor = numpy_helper.from_array(value.samples[0], value.name)
            model.graph.initializer.append(tensor)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise Skip(str(error)) from error
    found: list[list[int | None] | None] = []
    for output in inferred.graph.output:
        known = output.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in known.shape.dim]
        found.append(dims if known.HasField("shape") else None)
    return found


def _fits(shape: Sequence[int], inferred: Sequence[int | None] | None) -> bool:
    """Whether a result has the shape that ONNX infers; onnxruntime takes more than it allows."""
    if inferred is None:
        return True
    return len(shape) == len(inferred) and all(
        wanted in (None, size) for size, wanted in zip(shape, inferred, strict=True)
    )


def _session(
    nodes: Sequence[onnx.NodeProto], operands: Sequence[Value], names: Sequence[str], opset: int
) -> onnxruntime.InferenceSession:
    inputs = [
        helper.make_tensor_value_info(
            v.name,
            helper.np_dtype_to_tensor_dtype(v.dtype),
            None if v.varies else v.samples[0].shape,
        )
        for v in operands
    ]
    model = _model(nodes, inputs, names, opset)
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), _plain_options(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise Skip(str(error)) from error


@functools.cache
def _plain_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def _attempt(session: onnxruntime.InferenceSession, feeds: dict[str, Array]) -> list[Any]:
    try:
        return list(session.run(None, feeds))
    except Exception as error:
        raise Skip(str(error)) from error


def run_nodes(
    nodes: Sequence[onnx.NodeProto], operands: Sequence[Value], names: Sequence[str], opset: int
) -> list[list[Array]]:
    """Run the nodes of a body alone, unoptimised, for each sample.

    Returns:
        For each sample the values of ``names``.
    """
    session = _session(nodes, operands, names, opset)
    count = len(operands[0].samples)
    return [_attempt(session, {v.name: v.samples[i] for v in operands}) for i in range(count)]
