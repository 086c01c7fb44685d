"""What all passes promise: they work alone, twice changes nothing more, and they tell the truth."""

from __future__ import annotations

import pathlib

import onnx
import onnx_ir as ir
import pytest

import passes
from tests.passes.invariants import stray_uses

ROOT = pathlib.Path(__file__).parents[2]
MODELS = sorted((ROOT / "models").glob("*/*.onnxtxt"))
PASSES = {
    name: kind
    for name in passes.__all__
    if isinstance(kind := getattr(passes, name), type) and issubclass(kind, ir.passes.PassBase)
}


def load(path: pathlib.Path) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(path.read_text("utf-8")))


def content(model: ir.Model) -> bytes:
    return ir.to_proto(model).SerializeToString(deterministic=True)


def test_there_are_passes_and_models() -> None:
    assert {"TypeValuesPass", "FuseSequenceMapPass", "ExpandSequenceMapPass"} <= PASSES.keys()
    assert len(MODELS) > 20
    assert all(issubclass(kind, ir.passes.InPlacePass) for kind in PASSES.values())


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", PASSES)
def test_modified_is_true_and_a_second_time_nothing_is(name: str, path: pathlib.Path) -> None:
    model = load(path)
    given = content(model)
    result = PASSES[name]()(model)
    assert result.model is model
    once = content(model)
    assert result.modified == (once != given)
    # What a Map was raised from waits outside of the model, and reads what it needs.
    assert name == "RaiseLoopsPass" or stray_uses(model) == []
    again = PASSES[name]()(model)
    assert (again.modified, content(model) == once) == (False, True)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", PASSES)
def test_one_model_is_always_rewritten_alike(name: str, path: pathlib.Path) -> None:
    first, second = load(path), load(path)
    PASSES[name]()(first)
    PASSES[name]()(second)
    assert content(first) == content(second)


FUNCTION = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
g ({kind} x) => ({kind} y) {{ y = own.each (x) }}
<domain: "own", opset_import: ["" : 18]>
each (a) => (b) {{ b = {node} (a) }}"""
EACH = "SequenceMap <body = m (float[2] e) => (float[2] f) { f = Neg (e) }>"


@pytest.mark.parametrize("name", ["FuseSequenceMapPass", "ExpandSequenceMapPass"])
@pytest.mark.parametrize(
    ("kind", "node", "opened"), [("seq(float[2])", EACH, True), ("float[2]", "Neg", False)]
)
def test_a_pass_alone_opens_functions_that_hold_maps(
    name: str, kind: str, node: str, opened: bool
) -> None:
    model = ir.from_proto(onnx.parser.parse_model(FUNCTION.format(kind=kind, node=node)))
    assert PASSES[name]()(model).modified == opened
    assert ("each" in [one.op_type for one in model.graph]) != opened
    assert not any(one.op_type == "SequenceMap" for one in model.graph.all_nodes())


def test_they_compose() -> None:
    model = load(ROOT / "models" / "text" / "nested_map.onnxtxt")
    order = ("InlineMapFunctionsPass", "SimplifyBodiesPass", "FuseSequenceMapPass")
    passed = ir.passes.Sequential(*(PASSES[name]() for name in order))(model)
    assert passed.modified
    assert "SequenceMap" not in {node.op_type for node in model.graph.all_nodes()}
    onnx.checker.check_model(ir.to_proto(passed.model), full_check=True)
