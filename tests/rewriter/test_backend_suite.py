"""ONNX's own backend tests, driven through the rewriter."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.backend.base import BackendRep
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

from passes.errors import RewriteError
from rewriter import backend
from rewriter.model_files.protos import all_graphs
from rewriter.proof.compare import compare

# What the rewriter touches, or might: the default run takes every test that holds one of these.
STRUCTURED = {"Loop", "Scan", "If"}
PARTS = 3
HEADER = '<ir_version: 10, opset_import: ["" : 21]>'


@dataclasses.dataclass(frozen=True)
class SuiteCase:
    """One test of the suite: a model and what it should give."""

    name: str
    model: onnx.ModelProto
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float

    @property
    def is_structured(self) -> bool:
        operators = {node.op_type for graph in all_graphs(self.model) for node in graph.node} | {
            node.op_type for function in self.model.functions for node in function.node
        }
        values = [*self.model.graph.input, *self.model.graph.output]
        return (
            any("Sequence" in operator or "Optional" in operator for operator in operators)
            or bool(operators & STRUCTURED)
            or any(value.type.WhichOneof("value") != "tensor_type" for value in values)
        )


@functools.cache
def node_cases() -> list[SuiteCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return [SuiteCase(t.name, t.model, t.data_sets, t.rtol, t.atol) for t in found]


def simple_cases() -> list[SuiteCase]:
    return [
        SuiteCase(
            test.name, model, list(read_data(Path(test.model_dir), model)), test.rtol, test.atol
        )
        for test in load_model_tests(kind="simple")
        for model in [onnx.load(Path(test.model_dir) / "model.onnx")]
    ]


def fed(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that have no default."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in defaults]


def read_data(folder: Path, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    for data in sorted(folder.glob("test_data_set_*")):
        yield (
            [read_value(data / f"input_{i}.pb", v) for i, v in enumerate(fed(model))],
            [read_value(data / f"output_{i}.pb", v) for i, v in enumerate(model.graph.output)],
        )


def read_value(path: Path, value: onnx.ValueInfoProto) -> Any:
    if value.type.WhichOneof("value") == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def passes_rewritten(case: SuiteCase) -> str:
    """Return what goes wrong when the rewriter prepares the model; empty when nothing does."""
    try:
        session = backend.prepare(case.model)
        for inputs, expected in case.data:
            message = difference(case, expected, session.run(inputs))
            if message:
                return message
    except RewriteError as error:
        return str(error)
    return ""


def passes_on_onnxruntime(case: SuiteCase) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    names = [value.name for value in fed(case.model)]
    try:
        session = onnxruntime.InferenceSession(
            case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return not any(
            difference(case, expected, session.run(None, dict(zip(names, inputs, strict=False))))
            for inputs, expected in case.data
        )
    except Exception:  # onnxruntime's exceptions share no base
        return False


def difference(case: SuiteCase, expected: list[Any], actual: Any) -> str:
    names = [output.name for output in case.model.graph.output]
    return compare(
        dict(zip(names, expected, strict=True)),
        dict(zip(names, actual, strict=True)),
        rtol=case.rtol,
        atol=case.atol,
    ).message


def lost(cases: list[SuiteCase]) -> dict[str, str]:
    """Return the tests that plain onnxruntime passes and the rewriter does not."""
    wrong = {case.name: (case, passes_rewritten(case)) for case in cases}
    return {
        name: message
        for name, (case, message) in wrong.items()
        if message and passes_on_onnxruntime(case)
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_among_sequences_and_control_flow(part):
    cases = [case for case in node_cases() if case.is_structured]
    assert len(cases) > 50
    assert lost(cases[part::PARTS]) == {}


def test_nothing_is_lost_among_a_tenth_of_the_operators():
    assert lost(node_cases()[::10]) == {}


def test_nothing_is_lost_among_simple_models():
    cases = simple_cases()
    assert len(cases) > 20
    assert lost(cases) == {}


@pytest.mark.full
def test_nothing_is_lost_among_all_operators():
    assert lost(node_cases()) == {}


def test_a_wrong_rewrite_would_be_noticed(monkeypatch):
    case = next(
        case for case in node_cases() if case.name == "test_sequence_map_add_1_sequence_1_tensor"
    )
    assert lost([case]) == {}
    broken = onnx.ModelProto()
    broken.CopyFrom(case.model)
    (node,) = broken.graph.node
    node.attribute[0].g.node[0].op_type = "Sub"
    prepare = backend.prepare
    monkeypatch.setattr(backend, "prepare", lambda model: prepare(broken))
    assert list(lost([case])) == [case.name]


class TestInterface:
    RELU = onnx.parser.parse_model(f"{HEADER} g (float[N] x) => (float[N] y) {{ y = Relu(x) }}")

    def test_prepare(self):
        prepared = backend.prepare(self.RELU)
        assert isinstance(prepared, BackendRep)
        array = np.float32([-1, 2])
        for inputs in (array, [array], {"x": array}):
            outputs = prepared.run(inputs)
            assert outputs[0].tolist() == outputs["y"].tolist() == [0, 2]

    def test_options_of_the_rewriter(self):
        with pytest.raises(RewriteError, match="strategy"):
            backend.prepare(self.RELU, strategy="nope")

    def test_run_model(self):
        assert backend.run_model(self.RELU, [np.float32([-1])])[0].tolist() == [0]

    def test_newer_than_onnxruntime_knows(self):
        model = onnx.ModelProto()
        model.CopyFrom(self.RELU)
        model.ir_version = 14
        assert backend.run_model(model, [np.float32([-1])])[0].tolist() == [0]

    @pytest.mark.parametrize(
        ("node", "inputs", "options", "expected"),
        [
            pytest.param("y = Add(a, b)", [np.float32([1]), np.float32([2])], {}, [3], id="two"),
            pytest.param("y = Add(a, a)", [np.float32([1])], {}, [2], id="the-same-twice"),
            pytest.param(
                "y = Clip(a, , b)", [np.float32([9]), np.float32(2)], {}, [2], id="omitted"
            ),
            pytest.param("y = Identity(a)", [np.array(["s"])], {}, ["s"], id="strings"),
            pytest.param(
                "y = ConcatFromSequence <axis = 0> (a)",
                [[np.float32([1]), np.float32([2])]],
                {},
                [1, 2],
                id="sequence",
            ),
            pytest.param(
                "y = ReduceSum <axes = [0]> (a)",
                [np.float32([1, 2])],
                {"opset_version": 11},
                [3],
                id="opset",
            ),
            pytest.param(
                "y = Relu(a)",
                [np.float32([1])],
                {"outputs_info": [(np.float32, (1,))]},
                [1],
                id="outputs-info",
            ),
        ],
    )
    def test_run_node(self, node, inputs, options, expected):
        (output,) = backend.run_node(onnx.parser.parse_node(node), inputs, **options)
        assert output.tolist() == expected

    def test_run_node_with_too_few_inputs(self):
        with pytest.raises(RewriteError, match="the node Add has 2 inputs and 1 were given"):
            backend.run_node(onnx.parser.parse_node("y = Add(a, b)"), [np.float32([1])])

    def test_devices(self):
        assert backend.supports_device("CPU")
        assert backend.supports_device("CPU:0")
        assert not backend.supports_device("NPU")
        assert backend.is_compatible(self.RELU)
