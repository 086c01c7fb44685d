"""A pass that fails on a map does not fail the rewrite: that map takes a safer form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx_ir as ir
import pytest

import rewriter
from passes.batching import table
from passes.batching.context import Context, Operand, Output, Rule
from passes.promises import Ceiling
from passes.raising.raiser import Raiser
from rewriter import pipeline
from rewriter.errors import FaultWarning, InvalidResultError
from rewriter.model_files import checking
from tests.rewriter.cli_models import seqmap, write
from tests.rewriter.proof.test_repairing import LOOP, OPERATORS, independent, parsed

Capture = pytest.CaptureFixture[str]
GiveRule = Callable[..., None]


def fails(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[Output]:
    raise KeyError("rows")


def writes_nonsense(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[Output]:
    (operand,) = operands
    assert operand is not None
    return [ctx.stacked(ctx.op("Relu", [operand.value], unknown=1))]


@pytest.fixture
def give_rule(monkeypatch: pytest.MonkeyPatch) -> GiveRule:
    """Register another rule for operators; the test's end takes it away."""

    def register(rule: Rule, *op_types: str) -> None:
        for op_type in op_types:
            key = ("", op_type)
            ((row,),) = (table._rows[key],)
            others = {k: list(v) for k, v in table._rows.items() if k != key}
            monkeypatch.setattr(table, "_rows", others)
            table.register(op_type, rule, total=row.total)

    return register


@pytest.mark.long
@pytest.mark.parametrize("rule", [fails, writes_nonsense])
@pytest.mark.parametrize("wrong", [("Relu",), ("Neg", "Tanh"), ("Erf",), OPERATORS])
def test_only_the_maps_to_blame_are_left_out(
    give_rule: GiveRule, rule: Rule, wrong: Sequence[str]
) -> None:
    give_rule(rule, *wrong)
    with pytest.warns(FaultWarning) as said:
        result = rewriter.rewrite(parsed(independent(*OPERATORS)), strategy="fuse", verify=True)
    verdicts = {one.path: one.verdict.value for one in result.report.decisions}
    assert {path for path, verdict in verdicts.items() if verdict != "fused"} == set(wrong)
    assert len(said) == len(result.report.warnings)
    if len(wrong) < 4:
        assert all(any(path in str(one.message) for one in said) for path in wrong)


def fails_otherwise(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[Output]:
    raise ValueError("columns")


@pytest.mark.parametrize("turned", [False, True])
def test_each_map_is_told_with_its_own_fault(give_rule: GiveRule, turned: bool) -> None:
    names = ("Tanh", "Neg") if turned else ("Neg", "Tanh")
    give_rule(fails, names[0])
    give_rule(fails_otherwise, names[1])
    with pytest.warns(FaultWarning) as said:
        rewriter.rewrite(parsed(independent(*OPERATORS)), strategy="fuse")
    told = sorted(str(one.message).split(" and is")[0] for one in said)
    assert told == sorted(
        [
            f"{names[0]} could not be rewritten (KeyError: 'rows')",
            f"{names[1]} could not be rewritten (ValueError: columns)",
        ]
    )


def test_a_loop_stays_as_given(give_rule: GiveRule) -> None:
    give_rule(fails, "Softsign")
    with pytest.warns(FaultWarning, match=r"loop could not be rewritten \(KeyError: 'rows'\)"):
        result = rewriter.rewrite(parsed(LOOP), verify=True)
    assert [d.verdict.value for d in result.report.decisions] == ["kept"]


def test_explain_says_the_same(give_rule: GiveRule) -> None:
    give_rule(fails, "Softsign")
    with pytest.warns(FaultWarning):
        report = rewriter.explain(parsed(LOOP))
    assert len(report.warnings) == 1
    assert [d.verdict.value for d in report.decisions] == ["kept"]


def test_a_fault_outside_of_all_maps_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_it(*_: object) -> None:
        raise ZeroDivisionError("outside")

    monkeypatch.setattr(pipeline, "_pictures", raise_it)
    with pytest.raises(ZeroDivisionError, match="outside"), warnings.catch_warnings():
        rewriter.rewrite(parsed(LOOP))


def test_an_invalid_result_that_no_map_explains_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def objects(model: object) -> None:
        if isinstance(model, ir.Model) and "y" in {v.name for v in model.graph.outputs}:
            calls.append(model)
            if len(calls) % 2:
                raise rewriter.ModelError("onnx.checker refuses the model")

    calls: list[object] = []
    monkeypatch.setattr(checking, "check", objects)
    with pytest.raises(InvalidResultError, match="the rewritten model is not valid"):
        rewriter.rewrite(parsed(LOOP))


def test_who_listens_to_the_passes_hears_those_of_the_safer_rewrite(give_rule: GiveRule) -> None:
    give_rule(fails, "Softsign")
    heard, alone = list[str](), list[str]()
    with pytest.warns(FaultWarning):
        result = rewriter.rewrite(parsed(LOOP), on_pass=lambda name, _: heard.append(name))
    given = {"loop": Ceiling.AS_GIVEN}
    rewriter.rewrite(parsed(LOOP), ceilings=given, on_pass=lambda name, _: alone.append(name))
    assert heard == alone != []
    assert [d.verdict.value for d in result.report.decisions] == ["kept"]
    assert len(result.report.warnings) == 1


def test_a_loop_that_cannot_be_raised_is_printed_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("rows")

    path = write(tmp_path / "in.onnx", LOOP)
    assert seqmap("explain", path, "--raised") == 0
    assert "Map" in capsys.readouterr().out
    monkeypatch.setattr(Raiser, "_put_maps", fail)
    assert seqmap("explain", path, "--raised") == 0
    printed = capsys.readouterr()
    assert "seqmap.Map" not in printed.out and "Loop" in printed.out
    assert "loop could not be rewritten (KeyError: 'rows') and is as given" in printed.err


def test_the_command_line_warns_and_writes(
    give_rule: GiveRule, tmp_path: Path, capsys: Capture
) -> None:
    give_rule(fails, "Softsign")
    out = tmp_path / "out.onnx"
    assert seqmap("optimize", write(tmp_path / "in.onnx", LOOP), out) == 0
    assert out.exists()
    assert "loop could not be rewritten" in capsys.readouterr().err
