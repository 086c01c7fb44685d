"""Several passes share one typing of a model, and what they write is entered."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest

from passes.graph.builder import Builder
from passes.reading import kept_typing
from passes.reading.kept_typing import KeptTyping
from passes.runtimes import (
    Authored,
    ElementSymbolsPass,
    LoopStatesPass,
    OneBranchPass,
    SidestepDefectsPass,
)

pytestmark = pytest.mark.quick
HEADER = '<ir_version: 9, opset_import: ["" : 18]>'


@pytest.fixture(name="inferred")
def _inferred(monkeypatch: pytest.MonkeyPatch) -> list[ir.Model]:
    """Return a list that gains each model whose types are inferred as a whole."""
    seen: list[ir.Model] = []
    whole = kept_typing.type_values

    def counted(model: ir.Model, **how: Any) -> object:
        seen.append(model)
        return whole(model, **how)

    monkeypatch.setattr(kept_typing, "type_values", counted)
    return seen


def test_a_model_is_typed_when_its_types_are_asked_for_and_once(inferred: list[ir.Model]) -> None:
    model = ir.from_onnx_text(f"{HEADER} g (float[N,4] x) => (float[N,4] y) {{ y = Neg (x) }}")
    kept = KeptTyping()
    kept.enter(list(model.graph), model)
    kept.copy({model.graph.inputs[0]: model.graph.outputs[0]})
    assert not inferred
    assert kept.of(model).dims(model.graph.outputs[0]) == ("x.0", 4)
    assert kept.of(model) is kept.of(model)
    assert inferred == [model]


@pytest.mark.parametrize(("ranks", "expected"), [(True, (None, None)), (False, None)])
def test_the_rank_that_a_new_node_declares_is_no_proof_without_ranks(
    ranks: bool, expected: tuple[None, ...] | None
) -> None:
    model = ir.from_onnx_text(
        f"{HEADER} g (float[N,4] x, int64[k] s) => (float[N,4] y) {{ y = Neg (x) }}"
    )
    kept = KeptTyping(ranks=ranks)
    kept.of(model)
    builder = Builder("new")
    made = builder.op("Reshape", list(model.graph.inputs))
    made.type, made.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([7, 3])
    kept.enter(builder.nodes, model)
    assert kept.of(model).dims(made) == expected


def test_the_last_passes_type_a_model_once(inferred: list[ir.Model]) -> None:
    model = ir.from_onnx_text(f"""{HEADER} g (float[N,2] x, bool f, int64 d) => (y, n) {{
        a = Exp (x)
        y = If (f) <then_branch = yes () => (float[A,B] p) {{ p = Abs (a) }},
                    else_branch = no () => (float[C,D] q) {{ q = Neg (x) }}>
        s = Shape (x)
        n = Div (s, d) }}""")
    written, typing = Authored(ir.Model(ir.Graph([], [], nodes=[]), ir_version=9)), KeptTyping()
    assert OneBranchPass(written, typing)(model).modified
    LoopStatesPass(written, typing)(model)
    SidestepDefectsPass(authored=written, typing=typing)(model)
    assert inferred == [model]


def test_a_sequence_of_hidden_type_has_a_type_for_the_passes_behind() -> None:
    model = ir.from_onnx_text(f"""{HEADER} g (seq(float[H,W]) s, int64 i, int64 j) => (y) {{
        a = SequenceAt (s, i)  b = SequenceAt (s, j)  y = Add (a, b) }}""")
    written, typing = Authored(ir.Model(ir.Graph([], [], nodes=[]), ir_version=9)), KeptTyping()
    assert ElementSymbolsPass(written, typing)(model).modified
    (hidden,) = {node.inputs[0] for node in model.graph if node.op_type == "SequenceAt"}
    assert hidden is not None
    assert hidden is not model.graph.inputs[0]
    assert typing.of(model).dtype(hidden) == ir.DataType.FLOAT
