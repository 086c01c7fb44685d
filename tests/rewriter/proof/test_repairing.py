"""A map that is written wrongly is found, and takes a safer form."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes import expand
from passes.batching import table
from passes.batching.context import Context, Operand, Output, Rule
from passes.errors import RewriteError
from passes.promises import Ceiling, ceiling_of, mark_ceilings, safer_forms
from rewriter import order, pipeline
from rewriter.proof.blaming import Ceilings
from rewriter.proof.proving import VerificationError
from tests.rewriter.cli_models import ROWS, last_line, seqmap, write

Capture = pytest.CaptureFixture[str]
HEADER = '<ir_version: 8, opset_import: ["" : 18]>\n'
OPERATORS = ("Relu", "Abs", "Softsign", "Neg", "Sigmoid", "Tanh", "Exp", "Erf")


def independent(*operators: str, type_: str = "float") -> str:
    """Return a model with a map of its own for each operator, called by its name."""
    outputs = ", ".join(f"seq({type_}[4]) out_{op}" for op in operators)
    maps = "\n".join(
        f"[{op}] out_{op} = SequenceMap (xs) <body = b ({type_}[4] p) => ({type_}[4] q)"
        f" {{ q = {op} (p) }}>"
        for op in operators
    )
    split = "xs = SplitToSequence <axis = 0, keepdims = 0> (x)"
    return f"{HEADER}agraph ({type_}[N,4] x) => ({outputs}) {{ {split}\n{maps} }}"


RAGGED = (
    HEADER
    + """
agraph (seq(float[L]) xs) => (seq(float[L]) ys) {
  [ragged] ys = SequenceMap (xs) <body = b (float[L] p) => (float[L] q)
    { r = Softsign (p)  s = Relu (r)  t = Abs (s)  u = Tanh (t)  q = Neg (u) }>
}
"""
)
LOOP = (
    HEADER
    + """
agraph (float[N,4] x) => (float[N,4] y) {
  none = Constant <value_int = 0> ()
  shape = Shape (x)
  count = Gather (shape, none)
  yes = Constant <value = bool {1}> ()
  [loop] y = Loop (count, yes) <body = b (int64 i, bool go) => (bool goes_on, float[4] q)
    { goes_on = Identity (go)  p = Gather (x, i)  q = Softsign (p) }>
}
"""
)


LISTED = (
    HEADER
    + """
agraph (float[L] a, float[M] b) => (seq(float[N]) ys) {
  xs = SequenceConstruct (a, b)
  [map] ys = SequenceMap (xs) <body = b (float[P] p) => (float[P] q) { q = Relu (p) }>
}
"""
)
CHAIN = (
    HEADER
    + """
agraph (float[N,4] x) => (seq(float[4]) ys) {
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  [first] ws = SequenceMap (xs) <body = a (float[4] p) => (float[4] q) { q = Relu (p) }>
  [map] ys = SequenceMap (ws) <body = b (float[4] r) => (float[4] s) { s = Abs (r) }>
}
"""
)


def shifted(rule: Rule) -> Rule:
    """Return a rule that is wrong: each result is 1 more than it should be."""

    def wrong(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[Output]:
        outputs = []
        for out in rule(ctx, node, operands):
            assert out is not None
            more = ctx.op("Add", [out.value, ctx.op("CastLike", [ctx.ints(1), out.value])])
            outputs.append(dataclasses.replace(out, value=more))
        return outputs

    return wrong


def without_kernel(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[Output]:
    """A rule that is right, but writes what onnxruntime cannot run: Sinh of doubles."""
    (operand,) = operands
    assert operand is not None
    sign = ctx.op("Sinh", [operand.value])
    zero = ctx.op("Sub", [sign, sign])
    return [ctx.stacked(ctx.op("Add", [zero, ctx.op("Neg", [operand.value])]))]


@pytest.fixture
def break_rules(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Register other rules for operators; the test's end takes them away."""

    def register(*op_types: str, rule: Rule | None = None, packed_only: bool = False) -> None:
        for op_type in op_types:
            key = ("", op_type)
            (row,), packed = table._rows[key], table._packed[key]
            if not packed_only:
                others = {k: list(v) for k, v in table._rows.items() if k != key}
                monkeypatch.setattr(table, "_rows", others)
                table.register(op_type, rule or shifted(row.rule), total=row.total)
            rest = {k: v for k, v in table._packed.items() if k != key}
            monkeypatch.setattr(table, "_packed", rest)
            table.register_packed(op_type, shifted(packed.rule), any_axis=packed.any_axis)

    return register


def repairs_of(result: rewriter.Result) -> list[tuple[str, str]]:
    assert result.report.verification is not None
    return [(one["path"], one["form"]) for one in result.report.verification["repairs"]]


def verdicts_of(result: rewriter.Result) -> dict[str, str]:
    return {decision.path: decision.verdict.value for decision in result.report.decisions}


@pytest.mark.long
class TestSearch:
    def test_nothing_is_repaired_where_nothing_is_wrong(self) -> None:
        result = rewriter.rewrite(parsed(independent("Relu", "Abs")), verify=True)
        assert repairs_of(result) == []
        assert result.report.warnings == ()

    @pytest.mark.parametrize("wrong", ["Relu", "Softsign", "Erf"])
    def test_the_map_to_blame_is_found_among_several(
        self, break_rules: Callable[..., None], wrong: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        break_rules(wrong)
        tries = counted(monkeypatch)
        result = rewriter.rewrite(parsed(independent(*OPERATORS)), strategy="fuse", verify=True)
        assert repairs_of(result) == [(wrong, "expanded")]
        verdicts = verdicts_of(result)
        assert verdicts.pop(wrong) == "expanded"
        assert set(verdicts.values()) == {"fused"}
        assert len(tries) <= math.log2(len(OPERATORS)) + 5

    def test_several_maps_are_to_blame(self, break_rules: Callable[..., None]) -> None:
        break_rules("Abs", "Tanh")
        result = rewriter.rewrite(parsed(independent(*OPERATORS)), strategy="fuse", verify=True)
        assert sorted(repairs_of(result)) == [("Abs", "expanded"), ("Tanh", "expanded")]

    def test_a_loop_stays_as_given(self, break_rules: Callable[..., None]) -> None:
        break_rules("Softsign")
        result = rewriter.rewrite(parsed(LOOP), verify=True)
        assert repairs_of(result) == [("loop", "as given")]
        (decision,) = result.report.decisions
        assert (decision.verdict, decision.reasons[0].code) == ("kept", "repaired")

    def test_a_map_in_a_function(self, break_rules: Callable[..., None]) -> None:
        break_rules("Softsign")
        model = parsed(
            HEADER.replace("]", ', "f" : 1]')
            + """agraph (float[N,4] x) => (float[N,4] y) { y = f.rows (x) }
            <domain: "f", opset_import: ["" : 18]> rows (x) => (y) {
              xs = SplitToSequence <axis = 0, keepdims = 0> (x)
              [map] ys = SequenceMap (xs) <body = b (float[4] p) => (float[4] q)
                { q = Softsign (p) }>
              y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
            }"""
        )
        result = rewriter.rewrite(model, strategy="fuse", verify=True)
        assert repairs_of(result) == [("f.rows/map", "expanded")]


class TestForms:
    def test_packed_becomes_guarded(self, break_rules: Callable[..., None]) -> None:
        break_rules("Softsign", packed_only=True)
        result = rewriter.rewrite(parsed(RAGGED), strategy="fuse", verify=True)
        assert repairs_of(result) == [("ragged", "guarded")]
        (decision,) = result.report.decisions
        assert (decision.verdict, decision.form) == ("guarded", "batched if all shapes are equal")

    def test_guarded_becomes_expanded(self, break_rules: Callable[..., None]) -> None:
        break_rules("Softsign")
        result = rewriter.rewrite(parsed(RAGGED), strategy="fuse", verify=True)
        assert repairs_of(result) == [("ragged", "expanded")]
        assert verdicts_of(result) == {"ragged": "expanded"}

    def test_expanded_becomes_as_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write_by_count = expand.write_by_count

        def wrong(builder: Any, site: Any, typings: Any, plan: Any) -> list[ir.Value]:
            values = write_by_count(builder, site, typings, plan)
            return [builder.op("Neg", [value]) for value in values]

        monkeypatch.setattr(expand, "write_by_count", wrong)
        result = rewriter.rewrite(parsed(ROWS), strategy="expand", verify=True)
        assert repairs_of(result) == [("rows", "as given")]
        (decision,) = result.report.decisions
        assert decision.form == "plain Loop"

    def test_what_fails_at_the_runtime_only(self, break_rules: Callable[..., None]) -> None:
        break_rules("Neg", rule=without_kernel)
        given = parsed(independent("Neg", type_="double"))
        fused = rewriter.rewrite(given, strategy="fuse").model
        assert "onnxruntime refuses the model" in rewriter.validate(given, fused).summary
        result = rewriter.rewrite(given, strategy="fuse", verify=True)
        assert repairs_of(result) == [("Neg", "expanded")]


class TestPython:
    def test_without_verification_nothing_is_repaired(
        self, break_rules: Callable[..., None]
    ) -> None:
        break_rules("Softsign")
        given = parsed(independent("Softsign"))
        assert not rewriter.validate(given, rewriter.optimize(given, strategy="fuse")).ok
        assert rewriter.validate(given, rewriter.optimize(given, strategy="fuse", verify=True)).ok

    def test_a_defect_outside_of_all_maps_is_an_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        break_expansion(monkeypatch)
        with pytest.raises(VerificationError, match=r"^the rewritten model differs on ") as caught:
            rewriter.rewrite(parsed(ROWS), strategy="expand", verify=True)
        assert caught.value.check.mismatch is not None
        assert caught.value.report.decisions

    def test_nothing_verified_is_an_error(self) -> None:
        given = parsed(
            f"{HEADER}agraph (float[2] x, float[3] y) => (float[?] z) {{ z = Add(x, y) }}"
        )
        with pytest.raises(VerificationError, match=r"^not verified: none of 8 inputs"):
            rewriter.optimize(given, verify=True)


class TestCommand:
    @pytest.fixture
    def several(self, tmp_path: Path, break_rules: Callable[..., None]) -> Path:
        break_rules("Softsign")
        return write(tmp_path / "in.onnx", independent("Relu", "Softsign", "Abs"))

    def test_it_is_repaired_with_a_warning(
        self, several: Path, tmp_path: Path, capsys: Capture
    ) -> None:
        out, folder = tmp_path / "out.onnx", tmp_path / "out.onnx.mismatch"
        assert seqmap("optimize", several, out, "--strategy", "fuse") == 0
        printed = capsys.readouterr()
        (line,) = printed.err.splitlines()
        assert line.startswith("seqmap: warning: Softsign was written wrongly (")
        assert line.endswith(f"and is expanded instead; see {folder}")
        assert f"warnings:\n  {line.removeprefix('seqmap: warning: ')}\n" in printed.out
        assert last_line(printed.out) == ("passed", "optimize")
        assert rewriter.validate(several, out).ok
        replayed = ("validate", folder / "before.onnx", folder / "after.onnx")
        assert seqmap(*replayed, "--inputs", folder / "feeds.npz") == 3

    def test_json_and_report_hold_it(self, several: Path, tmp_path: Path, capsys: Capture) -> None:
        report = tmp_path / "report.json"
        words = ("--strategy", "fuse", "--json", "--quiet", "--report", report)
        assert seqmap("optimize", several, tmp_path / "out.onnx", *words) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["report"] == json.loads(report.read_text())
        (repair,) = record["verification"]["repairs"]
        assert (repair["path"], repair["form"]) == ("Softsign", "expanded")
        assert record["report"]["verification"] == record["verification"]
        assert record["mismatch"] == f"{tmp_path / 'out.onnx'}.mismatch"

    def test_no_repair_keeps_the_status(
        self, several: Path, tmp_path: Path, capsys: Capture
    ) -> None:
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", several, out, "--strategy", "fuse", "--no-repair") == 3
        assert not out.exists()
        assert "differs on " in capsys.readouterr().err
        assert (tmp_path / "out.onnx.mismatch" / "after.onnx").exists()

    def test_a_defect_outside_of_all_maps_keeps_the_status(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        break_expansion(monkeypatch)
        source, out = write(tmp_path / "in.onnx", ROWS), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out, "--strategy", "expand") == 3
        assert not out.exists()


@pytest.mark.long
class TestCeilings:
    def test_forms_of_every_map(self) -> None:
        model = ir.from_proto(parsed(RAGGED))
        assert safer_forms(model) == {
            "ragged": (Ceiling.GUARDED, Ceiling.EXPANDED, Ceiling.AS_GIVEN)
        }
        assert safer_forms(ir.from_proto(parsed(LOOP))) == {"loop": (Ceiling.AS_GIVEN,)}

    @pytest.mark.parametrize(
        ("text", "free", "bound"),
        [
            pytest.param(LISTED, {"map": "unrolled"}, {"map": "expanded"}, id="unrolled"),
            pytest.param(
                CHAIN,
                {"first": "fused", "map": "fused"},
                {"first": "fused", "map": "expanded"},
                id="merged",
            ),
        ],
    )
    def test_a_map_with_a_ceiling_is_neither_unrolled_nor_merged(
        self, text: str, free: dict[str, str], bound: dict[str, str]
    ) -> None:
        given = parsed(text)
        assert verdicts_of(rewriter.rewrite(given, strategy="fuse")) == free
        ceilings = {"map": Ceiling.EXPANDED}
        assert verdicts_of(rewriter.rewrite(given, strategy="fuse", ceilings=ceilings)) == bound

    def test_a_path_that_is_none_is_refused(self) -> None:
        model = ir.from_proto(parsed(LOOP))
        with pytest.raises(RewriteError, match="there is no map 'rows' in the model"):
            mark_ceilings(model, {"rows": Ceiling.EXPANDED})

    @pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
    @pytest.mark.parametrize("ceiling", list(Ceiling))
    def test_every_form_is_right_and_leaves_no_mark(self, ceiling: Ceiling, strategy: Any) -> None:
        for text in (RAGGED, ROWS):
            given = parsed(text)
            (path,) = safer_forms(ir.from_proto(given))
            result = rewriter.rewrite(given, strategy=strategy, ceilings={path: ceiling})
            assert rewriter.validate(given, result.model).ok
            nodes = ir.from_proto(result.model).graph.all_nodes()
            assert not any(ceiling_of(node) for node in nodes)


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Ceiling]]:
    """Record the ceilings of every rewrite."""
    tries: list[Mapping[str, Ceiling]] = []
    run = pipeline._run

    def counting(taken: Any, options: Any, on_pass: Any, ceilings: Ceilings) -> Any:
        tries.append(ceilings)
        return run(taken, options, on_pass, ceilings)

    monkeypatch.setattr(pipeline, "_run", counting)
    return tries


def break_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pass change what stands in no map."""

    class SubtractingPass(order.ExpandSequenceMapPass):
        def call(self, model: ir.Model) -> ir.passes.PassResult:
            result = super().call(model)
            for node in model.graph.all_nodes():
                node.op_type = "Sub" if node.op_type == "Add" else node.op_type
            return result

    monkeypatch.setattr(order, "ExpandSequenceMapPass", SubtractingPass)
