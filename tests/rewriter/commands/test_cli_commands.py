"""The subcommands beside ``optimize``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from passes.batching import table
from passes.decisions import Code
from rewriter.commands import demo, ops
from tests.rewriter.cli_models import (
    LAST_LINE,
    RAGGED,
    ROWS,
    TWO,
    WRONG,
    last_line,
    seqmap,
    write,
)

MODELS = Path(__file__).parents[3] / "models"
Capture = pytest.CaptureFixture[str]


class TestExplain:
    @pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
    @pytest.mark.parametrize("text", [ROWS, RAGGED], ids=["rows", "ragged"])
    def test_agrees_with_optimize_and_touches_nothing(
        self, tmp_path: Path, capsys: Capture, text: str, strategy: str
    ) -> None:
        source = write(tmp_path / "in.onnx", text)
        bytes_before, stat_before = source.read_bytes(), source.stat()
        words = ("--strategy", strategy, "--json")
        assert seqmap("explain", source, *words) == 0
        explained = json.loads(capsys.readouterr().out)["report"]
        assert source.read_bytes() == bytes_before
        assert source.stat().st_mtime_ns == stat_before.st_mtime_ns
        assert os.listdir(tmp_path) == ["in.onnx"]
        assert seqmap("optimize", source, tmp_path / "out.onnx", "--no-verify", *words) == 0
        assert json.loads(capsys.readouterr().out)["report"] == explained
        assert len(explained["maps"]) == 1

    def test_prints_where_what_and_why(self, tmp_path: Path, capsys: Capture) -> None:
        assert seqmap("explain", write(tmp_path / "in.onnxtxt", TWO), "--strategy", "expand") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("holds 1 SequenceMap; rewritten: a loop; not verified")
        assert lines[1] == "maps (strategy expand):"
        assert lines[2].startswith("  sums (SequenceMap)  expanded: ")
        codes = [line.strip().partition(":")[0] for line in lines if line.startswith("      ")]
        assert codes == ["strategy", "ragged", "surplus-ignored", "remedy", "remedy"]
        assert lines[6].startswith("      remedy: --strategy auto (tried: guarded: ")
        assert lines[7].startswith("      remedy: --strategy auto --uniform xs")

    def test_prints_the_raised_model(self, tmp_path: Path, capsys: Capture) -> None:
        source = MODELS / "exported" / "ts_rows_linear_stack.onnx"
        assert seqmap("explain", source, "--raised") == 0
        text = capsys.readouterr().out
        assert "seqmap.Map (" in text
        assert " = Loop" not in text
        model = onnx.parser.parse_model(text[: text.rindex("}") + 1])
        assert [op.domain for op in model.opset_import] == ["", "seqmap"]
        assert seqmap("explain", source, "--raised", "--json") == 0
        (dialect,) = json.loads(capsys.readouterr().out)["raised"].values()
        assert "TorchScript" in dialect

    def test_says_what_it_relies_on(self, tmp_path: Path, capsys: Capture) -> None:
        declared = TWO.replace("float[L]", "float[3]")
        source = write(tmp_path / "in.onnxtxt", declared)
        words = ("explain", source, "--strategy", "expand")
        assert seqmap(*words, "--json") == 0
        report = json.loads(capsys.readouterr().out)["report"]
        (assumption,) = report["assumptions"]
        assert "declared element types hold" in assumption
        assert report["maps"][0]["assumptions"] == [assumption]
        assert seqmap(*words, "-v") == 0
        assert f"assumptions:\n  {assumption}\n" in capsys.readouterr().out


class TestValidate:
    def test_the_sizes_of_both_files_are_told(
        self, capsys: Capture, rows: Path, tmp_path: Path
    ) -> None:
        out, page = tmp_path / "out.onnx", tmp_path / "page.html"
        words = ("--no-verify", "--json", "--report", page)
        assert seqmap("optimize", rows, out, *words) == 0
        told = f"<span>file {rows.stat().st_size} B → {out.stat().st_size} B</span>"
        assert told in page.read_text("utf-8")
        report = json.loads(capsys.readouterr().out)["report"]
        sizes = {one: report[one]["file_bytes"] for one in ("given", "new")}
        assert sizes == {"given": rows.stat().st_size, "new": out.stat().st_size}
        assert seqmap("explain", rows, "-v") == 0
        row = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("  file "))
        assert row.split() == ["file", str(rows.stat().st_size), "B", str(out.stat().st_size), "B"]

    def test_equal(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", rows, out, "--no-verify", "-q") == 0
        assert seqmap("validate", rows, out, "--seed", "3", "--cases", "4") == 0
        assert last_line(capsys.readouterr().out) == ("passed", "validate")

    def test_different(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        wrong = write(tmp_path / "wrong.onnx", WRONG)
        assert seqmap("validate", rows, wrong) == 3
        printed = capsys.readouterr()
        assert last_line(printed.out) == ("failed", "validate")
        assert (tmp_path / "wrong.onnx.mismatch").is_dir()
        assert "output 'y'" in printed.err

    def test_other_inputs(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        other = write(tmp_path / "other.onnxtxt", TWO)
        assert seqmap("validate", rows, other) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("seqmap: error: the models take different inputs: the first takes")
        assert not (tmp_path / "other.onnxtxt.mismatch").exists()

    def test_tolerance(self, rows: Path, tmp_path: Path) -> None:
        wrong = write(tmp_path / "wrong.onnx", WRONG)
        assert seqmap("validate", rows, wrong, "--atol", "1e9") == 0


class TestRun:
    def test_prints_each_output_and_saves_them(
        self, rows: Path, tmp_path: Path, capsys: Capture
    ) -> None:
        feeds, saved = tmp_path / "feeds.npz", tmp_path / "outputs.npz"
        np.savez(feeds, in__x=-np.eye(4, dtype=np.float32), in__bias=np.ones(4, np.float32))
        assert seqmap("run", rows, "--inputs", feeds, "--save", saved) == 0
        printed = capsys.readouterr().out
        assert "y: float32[4,4]" in printed
        assert last_line(printed) == ("passed", "run")
        with np.load(saved) as outputs:
            np.testing.assert_array_equal(outputs["out__0"], 1 - np.eye(4, dtype=np.float32))

    def test_draws_inputs_from_the_seed(self, ragged: Path, capsys: Capture) -> None:
        assert seqmap("run", ragged, "--seed", "2", "--json") == 0
        first = json.loads(capsys.readouterr().out)
        assert seqmap("run", ragged, "--seed", "2", "--json") == 0
        assert json.loads(capsys.readouterr().out)["outputs"] == first["outputs"]
        assert first["outputs"]["ys"]["kind"] == "sequence"

    def test_backends_agree(self, rows: Path, tmp_path: Path) -> None:
        found = []
        for backend in ("reference", "onnxruntime"):
            saved = tmp_path / f"{backend}.npz"
            assert seqmap("run", rows, "--backend", backend, "--save", saved) == 0
            with np.load(saved) as outputs:
                found.append(outputs["out__0"])
        np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


class TestOps:
    def test_lists_every_row_of_the_table(self, capsys: Capture) -> None:
        assert seqmap("ops", "--json") == 0
        listed = json.loads(capsys.readouterr().out)["operators"]
        assert len(listed) == len(list(table.rows()))
        relu = next(entry for entry in listed if entry["operator"] == "Relu")
        assert (relu["rule"], relu["rounding"], relu["discrete"]) == ("elementwise", False, False)

    def test_prints_the_rows_of_an_operator(self, capsys: Capture) -> None:
        assert seqmap("ops", "Relu", "Floor") == 0
        assert capsys.readouterr().out.splitlines()[:-1] == [
            "Floor  elementwise, opset from 1, exact, discrete, packed, flat",
            "Relu   elementwise, opset from 1, exact, packed, flat",
        ]

    def test_says_what_is_opened(self, capsys: Capture) -> None:
        assert seqmap("ops", "flexattention") == 0
        named = capsys.readouterr().out.splitlines()[:-1]
        assert seqmap("ops", "ai.onnx.preview::FlexAttention") == 0
        assert capsys.readouterr().out.splitlines()[:-1] == named
        assert seqmap("ops", "FlexAttention") == 0
        line = "ai.onnx.preview::FlexAttention  opened: a function without a rule; its nodes are"
        assert capsys.readouterr().out.startswith(line)

    def test_says_what_can_never_be_batched_and_why(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = table.Unsupported(
            "Unique", Code.DATA_DEPENDENT, "its length depends on the values", "my"
        )
        monkeypatch.setattr(ops, "rows", lambda: iter([row]))
        assert seqmap("ops") == 0
        line = "my::Unique  never: its length depends on the values (data-dependent-shape)"
        assert capsys.readouterr().out.splitlines()[0] == line

    def test_an_operator_without_a_row(self, capsys: Capture) -> None:
        assert seqmap("ops", "Relu", "Abracadabra") == 1
        assert "no rule is listed for Abracadabra;" in capsys.readouterr().err
        assert seqmap("ops", "Sofmax") == 1
        assert capsys.readouterr().err.endswith("; did you mean 'Softmax'?\n")


class TestDemo:
    def test_quiet(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        one = dict(list(demo.model_files().items())[:1])  # test_demo.py shows all of them
        monkeypatch.setattr(demo, "model_files", lambda: one)
        assert seqmap("demo", "-q") == 0
        assert LAST_LINE.fullmatch(capsys.readouterr().out.strip())
