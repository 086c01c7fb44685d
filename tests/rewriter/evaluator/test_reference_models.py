"""Models as the evaluator takes them, and ONNX's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

from rewriter.evaluator.reference import EvaluationError, ReferenceEvaluator
from tests.rewriter.evaluator.evaluating import (
    A,
    C,
    assert_close,
    assert_same,
    f32,
    parse,
)
from tests.rewriter.evaluator.reference_cases import CASES


class TestModels:
    def test_of_any_kind(self, tmp_path):
        case = CASES["map-captures"]
        model = parse(case.text)
        before = model.SerializeToString()
        onnx.save(model, tmp_path / "m.onnx")
        (tmp_path / "m.onnxtxt").write_text(onnx.printer.to_text(model))
        for one in (
            model,
            ir.from_proto(model),
            tmp_path / "m.onnx",
            str(tmp_path / "m.onnx"),
            tmp_path / "m.onnxtxt",
        ):
            assert_same(ReferenceEvaluator(one).run(None, case.feeds), case.expected)
        assert model.SerializeToString() == before

    def test_of_graphsurgeon(self):
        import onnx_graphsurgeon as gs

        model = parse("g (float[N] x) => (float[N] y) { y = Neg(x) }")
        assert_same(ReferenceEvaluator(gs.import_onnx(model)).run(None, {"x": A}), [-A])

    @pytest.fixture
    def external(self, tmp_path):
        model = parse("g (float[N] x) => (float[N] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }")
        model.graph.initializer[0].raw_data = f32(1, 2, 3).tobytes()
        del model.graph.initializer[0].float_data[:]
        onnx.save(
            model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
            size_threshold=0,
        )  # fmt: skip
        return tmp_path / "m.onnx"

    def test_external_weights(self, external):
        for model in (external, ir.load(external)):
            assert_same(ReferenceEvaluator(model).run(None, {"x": C}), [f32(5, 7, 9)])

    def test_external_weights_not_read(self, external):
        model = onnx.load(external, load_external_data=False)
        with pytest.raises(EvaluationError, match="'w' lie in another file: give the path"):
            ReferenceEvaluator(model)

    def test_external_weights_missing(self, external):
        (external.parent / "w.bin").unlink()
        with pytest.raises(EvaluationError, match=r"the weights in .* cannot be read: "):
            ReferenceEvaluator(external)


HELD = {
    "SequenceMap", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
    "SequenceConstruct", "SequenceEmpty", "ConcatFromSequence", "SplitToSequence", "Loop", "Scan",
    "If", "Optional", "OptionalGetElement", "OptionalHasElement",
}  # fmt: skip


def operators(nodes: Any) -> set[str]:
    found = set()
    for node in nodes:
        found.add(node.op_type)
        for attribute in node.attribute:
            found |= operators(attribute.g.node)
    return found


def official_cases() -> list[Any]:
    """Return ONNX's own tests of what is replaced; its Scan of opset 8 is not."""
    with np.errstate(all="ignore"):
        cases = collect_testcases(None)
    return [c for c in cases if operators(c.model.graph.node) & HELD and c.name != "test_scan_sum"]


@pytest.mark.filterwarnings("ignore")
def test_official_node_tests():
    cases = official_cases()
    assert len(cases) > 50
    for case in cases:
        names = [value.name for value in case.model.graph.input]
        for inputs, outputs in case.data_sets:
            feeds = dict(zip(names, inputs, strict=True))
            assert_close(ReferenceEvaluator(case.model).run(None, feeds), outputs, case.name)


@pytest.mark.parametrize(
    "case",
    [c for c in load_model_tests(kind="simple") if "sequence_model" in c.name],
    ids=lambda case: case.name,
)
def test_official_sequence_models(case):
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"
    feeds = {
        value.name: onnx.numpy_helper.to_array(onnx.load_tensor(file))
        for i, value in enumerate(model.graph.input)
        if (file := data / f"input_{i}.pb").exists()
    }
    outputs = [
        onnx.numpy_helper.to_array(onnx.load_tensor(file)) for file in data.glob("output_*.pb")
    ]
    assert_close(ReferenceEvaluator(model).run(None, feeds), outputs, case.name)
