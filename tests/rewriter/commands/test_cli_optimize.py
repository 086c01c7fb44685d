"""``seqmap optimize``: what it writes, what it prints, what it refuses to write."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from rewriter import order, pipeline
from rewriter.commands import progress
from rewriter.proof import validation
from tests.rewriter.cli_models import (
    HEADER,
    PLAIN,
    RAGGED,
    ROWS,
    WRONG,
    last_line,
    op_types,
    seqmap,
    write,
)

Capture = pytest.CaptureFixture[str]


class TestOptimize:
    @pytest.mark.parametrize("text", [ROWS, RAGGED], ids=["rows", "ragged"])
    @pytest.mark.parametrize("suffix", [".onnx", ".onnxtxt"])
    @pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
    def test_writes_a_verified_model_without_maps(
        self, tmp_path: Path, capsys: Capture, text: str, suffix: str, strategy: str
    ) -> None:
        source, out = write(tmp_path / f"in{suffix}", text), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out, "--strategy", strategy) == 0
        onnx.checker.check_model(onnx.load(out), full_check=True)
        assert "SequenceMap" not in op_types(out)
        printed = capsys.readouterr()
        assert last_line(printed.out) == ("passed", "optimize")
        assert "verified on" in printed.out
        assert printed.err == ""

    def test_in_may_be_out(self, rows: Path, capsys: Capture) -> None:
        assert seqmap("optimize", rows, rows, "--no-verify") == 0
        assert "SequenceMap" not in op_types(rows)
        told = capsys.readouterr().out
        assert f"written to {rows}, in place of the model as given\n" in told

    def test_a_model_that_is_unchanged_needs_no_proof(
        self, tmp_path: Path, capsys: Capture
    ) -> None:
        source, out = write(tmp_path / "in.onnx", PLAIN), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out, "--verify-budget", "0s") == 0
        told = capsys.readouterr().out
        assert "unchanged, so that nothing has to be verified" in told
        assert told.startswith("holds no map, no loop, no sequence; nothing to do\n")
        assert op_types(out) == {"Relu"}

    def test_one_that_is_unchanged_is_written_as_it_is_in_the_other_kind_of_file(
        self, tmp_path: Path
    ) -> None:
        source, out = write(tmp_path / "in.onnx", PLAIN), tmp_path / "out.onnxtxt"
        assert seqmap("optimize", source, out) == 0
        (node,) = onnx.parser.parse_model(out.read_text()).graph.node
        assert node.op_type == "Relu"

    def test_one_that_is_changed_needs_it(self, rows: Path, tmp_path: Path) -> None:
        assert seqmap("optimize", rows, tmp_path / "out.onnx", "--verify-budget", "0s") == 3
        assert not (tmp_path / "out.onnx").exists()

    def test_a_second_time_there_is_nothing_to_do(
        self, rows: Path, tmp_path: Path, capsys: Capture
    ) -> None:
        once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
        assert seqmap("optimize", rows, once, "--no-verify", "--strategy", "expand") == 0
        assert "nothing to do" not in capsys.readouterr().out
        assert seqmap("optimize", once, twice, "--no-verify", "--strategy", "expand") == 0
        assert "nothing to do" in capsys.readouterr().out
        assert once.read_bytes() == twice.read_bytes()

    def test_two_runs_write_the_same_bytes(self, ragged: Path, tmp_path: Path) -> None:
        first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
        for out in (first, second):
            assert seqmap("optimize", ragged, out, "--no-verify") == 0
        assert first.read_bytes() == second.read_bytes()

    def test_dry_run_writes_nothing(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        assert seqmap("optimize", rows, tmp_path / "none" / "out.onnx", "--dry-run") == 0
        assert os.listdir(tmp_path) == ["rows.onnx"]
        assert "is not written" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("suffix", "start"), [(".json", "{\n"), (".md", "# seqmap"), (".html", "<!DOCTYPE")]
    )
    def test_report_goes_to_a_file(
        self, rows: Path, tmp_path: Path, suffix: str, start: str
    ) -> None:
        report = tmp_path / f"report{suffix}"
        assert seqmap("optimize", rows, rows, "--no-verify", "--report", report) == 0
        assert report.read_text().startswith(start)
        assert sorted(os.listdir(tmp_path)) == sorted(["rows.onnx", report.name])

    @pytest.mark.parametrize("suffix", [".json", ".md", ".html"])
    def test_a_report_holds_the_verification(
        self, ragged: Path, tmp_path: Path, suffix: str
    ) -> None:
        report = tmp_path / f"report{suffix}"
        words = ("--verify", "6", "--verify-budget", "30s,1GB", "--report", report)
        assert seqmap("optimize", ragged, tmp_path / "out.onnx", *words) == 0
        text = report.read_text()
        assert "verified on 6 of 6 inputs by the evaluator and onnxruntime" in text
        assert "length 5 ragged" in text
        assert "length 451 ragged" in text
        if suffix == ".json":
            verification = json.loads(text)["verification"]
            assert verification["budget"] == {"seconds": 30, "bytes": 2**30}
            assert [case["ran_body"] for case in verification["cases"]] == [True] * 5 + [False]
            assert verification["repairs"] == []
        else:
            assert "budget: 30 s and 1024 MB; skipped: none" in text
            assert "equal, no body ran" in text
            assert "the evaluator and onnxruntime" in text

    def test_a_report_of_no_verification(self, ragged: Path, tmp_path: Path) -> None:
        report = tmp_path / "report.md"
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", ragged, out, "--no-verify", "--report", report) == 0
        assert "## verification" not in report.read_text()

    def test_inputs_from_a_file(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        feeds = tmp_path / "feeds.npz"
        np.savez(feeds, in__x=np.ones((3, 4), np.float32), in__bias=np.ones(4, np.float32))
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", rows, out, "--inputs", feeds) == 0
        assert "verified on 1 of 1 inputs" in capsys.readouterr().out

    def test_a_file_that_is_not_there_is_told_though_nothing_is_to_do(
        self, tmp_path: Path, capsys: Capture
    ) -> None:
        source = write(
            tmp_path / "in.onnxtxt", HEADER + "g (float[N] x) => (float[N] y) { y = Neg (x) }"
        )
        words = ("optimize", source, tmp_path / "out.onnx", "--inputs", tmp_path / "feeds.npz")
        assert seqmap(*words) == 1
        assert "feeds.npz" in capsys.readouterr().err
        assert not (tmp_path / "out.onnx").exists()

    def test_promises_are_recorded(self, ragged: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.onnx"
        words = ("--uniform", "xs", "--input-shape", "xs=3", "--trust-types")
        assert seqmap("optimize", ragged, out, "--no-verify", *words) == 0
        assert json.loads(ir.load(out).metadata_props["seqmap.promises"]) == {
            "uniform": ["xs"],
            "input_shapes": {"xs": [3]},
            "trust_types": True,
        }

    def test_a_newer_opset_is_a_warning(self, tmp_path: Path, capsys: Capture) -> None:
        source = write(tmp_path / "in.onnxtxt", ROWS.replace('"" : 18', '"" : 27'))
        assert seqmap("optimize", source, tmp_path / "out.onnx") == 0
        assert (
            "the model declares opset 27, onnxruntime is known to accept up to"
            in capsys.readouterr().out
        )


class TestWeights:
    @pytest.fixture
    def heavy(self, tmp_path: Path) -> Path:
        folder = tmp_path / "model"
        folder.mkdir()
        model = onnx.parser.parse_model(ROWS.replace(", float[4] bias)", ")"))
        bias = np.arange(4, dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(bias, "bias"))
        onnx.save(
            model,
            folder / "in.onnx",
            save_as_external_data=True,
            location="w.bin",
            size_threshold=0,
        )
        assert (folder / "w.bin").stat().st_size >= 16
        return folder / "in.onnx"

    def test_beside_its_weights(self, heavy: Path) -> None:
        assert seqmap("optimize", heavy, heavy.with_name("out.onnx")) == 0
        assert sorted(os.listdir(heavy.parent)) == ["in.onnx", "out.onnx", "w.bin"]

    def test_elsewhere_is_refused_before_any_work(
        self, heavy: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(pipeline, "rewrite")
        assert seqmap("optimize", heavy, tmp_path / "out.onnx") == 1
        assert "--copy-weights" in capsys.readouterr().err
        assert os.listdir(tmp_path) == ["model"]

    def test_elsewhere_with_its_weights(self, heavy: Path, tmp_path: Path) -> None:
        assert seqmap("optimize", heavy, tmp_path / "out.onnx", "--copy-weights") == 0
        assert sorted(os.listdir(tmp_path)) == ["model", "out.onnx", "w.bin"]
        assert (tmp_path / "w.bin").read_bytes() == heavy.with_name("w.bin").read_bytes()

    def test_warnings_are_one_line_each(self, heavy: Path, capsys: Capture) -> None:
        weights = heavy.with_name("w.bin")
        weights.rename(weights.with_name("real.bin"))
        weights.symlink_to("real.bin")
        assert seqmap("optimize", heavy, heavy.with_name("out.onnx"), "--no-verify") == 0
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("seqmap: warning: the weights 'w.bin' of")


class TestOutput:
    def test_json_is_one_object_and_nothing_else(
        self, rows: Path, tmp_path: Path, capsys: Capture
    ) -> None:
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", rows, out, "--json") == 0
        printed = capsys.readouterr()
        record = json.loads(printed.out)
        assert printed.err == ""
        assert (record["command"], record["passed"], record["status"]) == ("optimize", True, 0)
        assert record["report"]["operators"]["after"]["by_type"].get("SequenceMap", 0) == 0
        assert record["verification"]["ok"] is True
        assert record["output"] == str(out)
        assert record["seconds"] >= 0

    def test_quiet_prints_the_last_line_only(self, rows: Path, capsys: Capture) -> None:
        assert seqmap("optimize", rows, rows, "-q") == 0
        printed = capsys.readouterr()
        assert len(printed.out.splitlines()) == 1
        assert last_line(printed.out) == ("passed", "optimize")
        assert printed.err == ""

    def test_verbose_logs_each_pass_and_its_time(self, rows: Path, capsys: Capture) -> None:
        assert seqmap("optimize", rows, rows, "-v", "--no-verify") == 0
        assert re.search(r"ExpandSequenceMapPass: \d[\d.e-]* s", capsys.readouterr().err)

    def test_slow_steps_are_told_in_lines_without_a_terminal(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(progress, "_INTERVAL", 0.0)
        assert seqmap("explain", rows) == 0
        lines = [line for line in capsys.readouterr().err.splitlines() if "deciding" in line]
        assert lines
        told = re.compile(r"seqmap: deciding( pass \d+ of \d+, \w+Pass)? \.\.\. 0 s")
        assert [line for line in lines if not told.fullmatch(line)] == []

    def test_the_input_under_work_is_told(
        self, rows: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        validate = validation.validate

        def slow(*models: Any, on_feed: Callable[[str], None], **options: Any) -> Any:
            on_feed("3 of 8, length 5 ragged")
            while "3 of 8" not in capsys.readouterr().err:
                time.sleep(0.01)
            return validate(*models, **options)

        monkeypatch.setattr(progress, "_INTERVAL", 0.0)
        monkeypatch.setattr(validation, "validate", slow)
        assert seqmap("optimize", rows, tmp_path / "out.onnx") == 0

    def test_nothing_is_announced_when_quiet(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(progress, "_INTERVAL", 0.0)
        assert seqmap("explain", rows, "-q") == 0
        assert capsys.readouterr().err == ""


def relu_instead(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make every rewrite come out as the model of ``text``."""
    rewrite = pipeline.rewrite

    def wrong(model: ir.Model, **options: Any) -> Any:
        result = rewrite(model, **options)
        return type(result)(ir.from_onnx_text(text), result.report)

    monkeypatch.setattr(pipeline, "rewrite", wrong)


NEVER_VALID = (
    HEADER
    + """
agraph (float[2] x) => (float[M] y) {
  shape = Constant <value = int64[1] {3}> ()
  xs = SplitToSequence <axis = 0> (x)
  [bad] ys = SequenceMap (xs) <body = b (float[1] p) => (float[3] q) { q = Reshape (p, shape) }>
  y = ConcatFromSequence <axis = 0> (ys)
}
"""
)


# Nothing is declared of the elements, and the body takes one shape only.
ONE_SHAPE = (
    HEADER
    + """
agraph (seq(float[]) xs) => (seq(float[7,11]) ys) {
  shape = Constant <value = int64[2] {7, 11}> ()
  [map] ys = SequenceMap (xs) <body = b (float[] p) => (float[7,11] q)
    { r = Relu (p)  q = Reshape (r, shape) }>
}
"""
)


class TestVerification:
    def test_a_mismatch_writes_the_evidence_and_not_the_model(
        self, rows: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        relu_instead(monkeypatch, WRONG)
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", rows, out) == 3
        printed = capsys.readouterr()
        assert last_line(printed.out) == ("failed", "optimize")
        assert not out.exists()
        folder = tmp_path / "out.onnx.mismatch"
        assert len(printed.err.splitlines()) == 1
        assert str(folder) in printed.err
        names = os.listdir(folder)
        assert {"before.onnx", "after.onnx"} <= set(names)
        assert any(name.endswith(".npz") for name in names)
        commands = [p.read_text() for p in folder.iterdir() if p.suffix in ("", ".txt", ".sh")]
        assert any(f"seqmap optimize {rows} {out}\n" in command for command in commands)

    def test_a_mismatch_names_the_pass_that_broke_the_model(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class SubtractingPass(order.ExpandSequenceMapPass):
            def call(self, model: ir.Model) -> ir.passes.PassResult:
                result = super().call(model)
                for node in model.graph.all_nodes():
                    node.op_type = "Sub" if node.op_type == "Add" else node.op_type
                return result

        monkeypatch.setattr(order, "ExpandSequenceMapPass", SubtractingPass)
        assert seqmap("optimize", rows, rows, "--strategy", "expand") == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert "SubtractingPass" in line

    def test_a_mismatch_leaves_an_older_out_alone(
        self, rows: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        relu_instead(monkeypatch, WRONG)
        before = rows.read_bytes()
        assert seqmap("optimize", rows, rows) == 3
        assert rows.read_bytes() == before

    def test_nothing_verified_names_the_remedies(self, tmp_path: Path, capsys: Capture) -> None:
        source, out = write(tmp_path / "in.onnx", NEVER_VALID), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out) == 3
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == 1
        assert "--inputs" in printed.err
        assert "--no-verify" in printed.err
        assert os.listdir(tmp_path) == ["in.onnx"]

    @pytest.mark.long
    def test_the_empty_sequence_alone_is_no_verification(
        self, tmp_path: Path, capsys: Capture
    ) -> None:
        source, out = write(tmp_path / "in.onnx", ONE_SHAPE), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out, "--strategy", "expand") == 3
        error = capsys.readouterr().err
        assert "no body of a map or loop ran there (length 0)" in error
        assert "with --input-shape xs=d,d" in error
        assert not out.exists()
        assert seqmap("optimize", source, out, "--input-shape", "xs=7,11") == 0

    @pytest.mark.parametrize("words", ["--verify-budget 5s", "--no-repair", "--atol 1"])
    def test_what_no_verify_leaves_out_is_refused(
        self, rows: Path, capsys: Capture, words: str
    ) -> None:
        assert seqmap("optimize", rows, rows, "--no-verify", *words.split()) == 2
        option = words.split()[0]
        expected = f"{option} is for the verification, which --no-verify leaves out: drop one"
        assert expected in capsys.readouterr().err

    def test_no_time_is_no_verification(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        assert seqmap("optimize", rows, tmp_path / "out.onnx", "--verify-budget", "0s") == 3
        assert "allow more with --verify-budget" in capsys.readouterr().err

    def test_no_verify_writes_what_cannot_be_verified(self, tmp_path: Path) -> None:
        source, out = write(tmp_path / "in.onnx", NEVER_VALID), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out, "--no-verify") == 0
        assert out.exists()

    def test_json_tells_of_a_mismatch(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        relu_instead(monkeypatch, WRONG)
        assert seqmap("optimize", rows, rows, "--json") == 3
        record = json.loads(capsys.readouterr().out)
        assert (record["passed"], record["status"]) == (False, 3)
        assert record["verification"]["ok"] is False
        assert record["mismatch"] == f"{rows}.mismatch"


class TestTarget:
    WORDS = ("--target", "tensorrt", "--strategy", "expand")

    @pytest.fixture
    def elementwise(self, tmp_path: Path) -> Path:
        """Return a model for which few remedies are tried."""
        return write(tmp_path / "elementwise.onnx", RAGGED.replace("Unique", "Relu"))

    def test_what_is_left_is_listed(self, ragged: Path, tmp_path: Path, capsys: Capture) -> None:
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", ragged, out, *self.WORDS) == 4
        printed = capsys.readouterr()
        assert "input 'xs' is a sequence, which target tensorrt rules out" in printed.out
        told = "  remedy: --strategy auto --tensor-io (tried: target reached)\n"
        assert printed.out.count(told) == printed.out.count("target reached") == 1
        assert last_line(printed.out) == ("failed", "optimize")
        assert printed.err.startswith("seqmap: error: target tensorrt not reached")
        assert os.listdir(tmp_path) == ["ragged.onnx"]

    def test_json_and_report_hold_what_is_left(
        self, elementwise: Path, tmp_path: Path, capsys: Capture
    ) -> None:
        report = tmp_path / "report.json"
        words = (*self.WORDS, "--json", "--report", report)
        assert seqmap("optimize", elementwise, tmp_path / "out.onnx", *words) == 4
        record = json.loads(capsys.readouterr().out)
        assert record["status"] == 4
        assert record["report"]["unreached"]
        assert record["report"] == json.loads(report.read_text())

    def test_requirements(self, ragged: Path, tmp_path: Path, capsys: Capture) -> None:
        words = ("--require", "loop-free", "--require", "sequence-free")
        assert seqmap("optimize", ragged, tmp_path / "out.onnx", *words) == 4
        assert "target onnxruntime and loop-free and sequence-free" in capsys.readouterr().out

    def test_explain_has_the_same_status(self, elementwise: Path, capsys: Capture) -> None:
        assert seqmap("explain", elementwise, *self.WORDS) == 4
        printed = capsys.readouterr()
        assert "target tensorrt: not reached, left:" in printed.out
        assert last_line(printed.out) == ("failed", "explain")
        assert printed.err.startswith("seqmap: error: target tensorrt")
        assert printed.err.count("\n") == 1
