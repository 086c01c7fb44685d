"""Sessions of runtimes that make a function of a model, on a runtime that lacks operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from rewriter.backends.ordered import Function, OrderedSession, open_ordered
from rewriter.backends.session import BackendError


class Runtime:
    """Refuses the operators that it lacks, fails where a dimension is open; counts its work."""

    def __init__(self, *lacks: str, needs_numbers: bool = False) -> None:
        self.lacks = lacks
        self.needs_numbers = needs_numbers
        self.made: list[list[str]] = []

    def __call__(self, model: onnx.ModelProto) -> Function:
        operators = [node.op_type for node in model.graph.node]
        self.made.append(operators)
        for op_type in operators:
            if op_type in self.lacks:
                raise ValueError(f"lacks {op_type}")
        dims = [d for v in model.graph.input for d in v.type.tensor_type.shape.dim]
        fails = self.needs_numbers and any(not dim.HasField("dim_value") for dim in dims)
        evaluator = ReferenceEvaluator(model)
        names = [value.name for value in model.graph.input]

        def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
            if fails:
                raise ValueError("open dimensions")
            return evaluator.run(None, dict(zip(names, arrays, strict=True)))

        return run


def parse(dims: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float{dims} x) => (float[M] y) {{
        s = Shape (x) n = ReduceProd (s) y = Reshape (x, n) }}"""
    )


DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def opened(
    dims: str, make: Callable[[onnx.ModelProto], Function], **more: object
) -> OrderedSession:
    return OrderedSession(parse(dims), "the runtime", make, **more)


@pytest.mark.parametrize("dims", ["[N,K]", "[2,3]", "[]"])
@pytest.mark.parametrize(
    "runtime",
    [Runtime("Shape"), Runtime(needs_numbers=True)],
    ids=["refuses the model", "fails on it"],
)
def test_made_for_the_shapes_where_the_model_itself_is_not_run(
    dims: str, runtime: Runtime
) -> None:
    if dims == "[]":
        model = parse("[N]")
        model.graph.input[0].type.tensor_type.ClearField("shape")
        session = OrderedSession(model, "the runtime", runtime)
    else:
        session = opened(dims, runtime)
    for _ in range(2):
        assert session.run({"x": DATA})["y"].tolist() == [0, 1, 2, 3, 4, 5]
    if dims != "[2,3]":
        assert session.run({"x": DATA.T})["y"].tolist() == [0, 3, 1, 4, 2, 5]


def test_made_once_for_each_shape() -> None:
    runtime = Runtime("Shape")
    session = opened("[N,K]", runtime)
    for array in (DATA, DATA, DATA.T, DATA):
        session.run({"x": array})
    assert runtime.made == [["Shape", "ReduceProd", "Reshape"], ["Reshape"], ["Reshape"]]


def test_the_model_itself_is_run_where_it_can_be() -> None:
    runtime = Runtime()
    session = opened("[N,K]", runtime)
    session.run({"x": DATA})
    session.run({"x": DATA.T})
    assert len(runtime.made) == 1


def test_what_is_lacked_for_certain_shapes_too() -> None:
    session = opened("[N,K]", Runtime("Reshape", "Shape"))
    with pytest.raises(
        BackendError, match="the runtime refuses the model: lacks Reshape"
    ) as caught:
        session.run({"x": DATA})
    assert caught.value.is_limit


def test_a_model_of_known_shapes_is_refused_at_once() -> None:
    with pytest.raises(BackendError, match="lacks Reshape"):
        opened("[2,3]", Runtime("Reshape"))


@pytest.mark.parametrize("dims", ["[N,K]", "[2,3]"])
def test_operators_that_are_not_to_be_run(dims: str) -> None:
    never = frozenset({"Shape"})
    session = opened(dims, Runtime(), never=never)
    assert session.run({"x": DATA})["y"].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(BackendError, match="the runtime is not asked to run Reshape"):
        opened(dims, Runtime(), never=frozenset({"Reshape"})).run({"x": DATA})


def test_inputs_that_do_not_fit_fail() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x, float[K] y) => (float[M] z) {
        z = Add (x, y) }"""
    )
    session = OrderedSession(model, "the runtime", Runtime())
    with pytest.raises(BackendError, match="the runtime fails: ") as caught:
        session.run({"x": np.zeros(2, np.float32), "y": np.zeros(3, np.float32)})
    assert not caught.value.is_limit


def test_a_runtime_may_be_called_otherwise_than_its_target() -> None:
    session = open_ordered(parse("[2,3]"), None, "tvm", "Apache TVM (nightly)", Runtime())
    assert session.run({"x": DATA})["y"].tolist() == DATA.ravel().tolist()
    smoothed = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[1,1,4,4] x) => (float[1,1,2,2] y) {
        n = Constant <value_ints = [1, 1, 2, 2]> ()
        y = Resize <antialias = 1, mode = "linear"> (x, , , n) }"""
    )
    with pytest.raises(BackendError, match="antialias"):
        open_ordered(smoothed, None, "tvm", "Apache TVM (nightly)", Runtime())
