from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from rewriter import pipeline
from rewriter.cli import main
from rewriter.commands import console

HEADER = '<ir_version: 8, opset_import: ["" : 18]>\n'
ROWS = HEADER + """
agraph (float[N,4] x, float[4] bias) => (float[N,4] y)
{
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  [rows] ys = SequenceMap (xs, bias) <body = row (float[4] r, float[4] b) => (float[4] q)
    { s = Add (r, b)  q = Relu (s) }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}
"""
RAGGED = HEADER + """
agraph (seq(float[L]) xs) => (seq(float[M]) ys)
{
  [ragged] ys = SequenceMap (xs) <body = b (float[L] p) => (float[M] q) { q = Unique (p) }>
}
"""
TWO = HEADER + """
agraph (seq(float[L]) xs, seq(float[L]) zs) => (seq(float[L]) ys)
{
  [sums] ys = SequenceMap (xs, zs) <body = b (float[L] p, float[L] r) => (float[L] q)
    { q = Add (p, r) }>
}
"""
PLAIN = HEADER + "agraph (float[N] x) => (float[N] y) { y = Relu (x) }"
LAST_LINE = re.compile(r"(passed|failed) (\w+) in \d+\.\d s")

Capture = pytest.CaptureFixture[str]


def write(path: Path, text: str) -> Path:
    if path.suffix == ".onnxtxt":
        path.write_text(text)
    else:
        onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.onnx", ROWS)


@pytest.fixture
def ragged(tmp_path: Path) -> Path:
    return write(tmp_path / "ragged.onnx", RAGGED)


def seqmap(*words: str | Path) -> int:
    return main([str(word) for word in words])


def op_types(path: Path) -> set[str]:
    return {node.op_type for node in ir.load(path).graph.all_nodes()}


def last_line(text: str) -> tuple[str, str]:
    match = LAST_LINE.fullmatch(text.splitlines()[-1])
    assert match, text
    return match[1], match[2]


class TestOptimize:
    @pytest.mark.parametrize("text", [ROWS, RAGGED, PLAIN], ids=["rows", "ragged", "plain"])
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

    def test_in_may_be_out(self, rows: Path) -> None:
        assert seqmap("optimize", rows, rows, "--no-verify") == 0
        assert "SequenceMap" not in op_types(rows)

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

    def test_inputs_from_a_file(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        feeds = tmp_path / "feeds.npz"
        np.savez(feeds, in__x=np.ones((3, 4), np.float32), in__bias=np.ones(4, np.float32))
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", rows, out, "--inputs", feeds) == 0
        assert "verified on 1 of 1 feeds" in capsys.readouterr().out

    def test_promises_are_recorded(self, ragged: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.onnx"
        words = ("--uniform", "xs", "--input-shape", "xs=3", "--trust-types")
        assert seqmap("optimize", ragged, out, "--no-verify", *words) == 0
        assert json.loads(ir.load(out).metadata_props["seqmap.promises"]) == {
            "uniform": ["xs"],
            "input_shapes": {"xs": [3]},
            "trust_types": True,
        }


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
        assert re.search(r"ExpandSequenceMapPass.* \d+\.\d+ s", capsys.readouterr().err)

    def test_slow_steps_are_announced_when_verbose(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(console, "_PATIENCE", 0.0)
        assert seqmap("explain", rows, "-v") == 0
        assert "seqmap: deciding ...\n" in capsys.readouterr().err

    def test_slow_steps_are_counted_on_a_terminal(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(console, "_PATIENCE", 0.0)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        assert seqmap("explain", rows) == 0
        shown = capsys.readouterr().err
        assert "\rseqmap: deciding ... 0 s" in shown
        assert shown.endswith("\r")

    def test_nothing_is_announced_otherwise(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(console, "_PATIENCE", 0.0)
        assert seqmap("explain", rows) == 0
        assert capsys.readouterr().err == ""


def relu_instead(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make every rewrite come out as the model of ``text``."""
    rewrite = pipeline.rewrite

    def wrong(model: ir.Model, **options: Any) -> Any:
        result = rewrite(model, **options)
        return type(result)(ir.from_onnx_text(text), result.report)

    monkeypatch.setattr(pipeline, "rewrite", wrong)


WRONG = HEADER + """
agraph (float[N,4] x, float[4] bias) => (float[N,4] y) { s = Sub (x, bias)  y = Relu (s) }
"""
NEVER_VALID = HEADER + """
agraph (float[2] x) => (float[3] y) {
  shape = Constant <value = int64[1] {3}> ()
  xs = SplitToSequence <axis = 0> (x)
  [bad] ys = SequenceMap (xs) <body = b (float[1] p) => (float[3] q) { q = Reshape (p, shape) }>
  y = ConcatFromSequence <axis = 0> (ys)
}
"""


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

    def test_a_mismatch_leaves_an_older_out_alone(
        self, rows: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        relu_instead(monkeypatch, WRONG)
        before = rows.read_bytes()
        assert seqmap("optimize", rows, rows) == 3
        assert rows.read_bytes() == before

    def test_nothing_verified_names_the_remedies(
        self, tmp_path: Path, capsys: Capture
    ) -> None:
        source, out = write(tmp_path / "in.onnx", NEVER_VALID), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out) == 3
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == 1
        assert "--inputs" in printed.err
        assert "--no-verify" in printed.err
        assert os.listdir(tmp_path) == ["in.onnx"]

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

    def test_what_is_left_is_listed(self, ragged: Path, tmp_path: Path, capsys: Capture) -> None:
        out = tmp_path / "out.onnx"
        assert seqmap("optimize", ragged, out, *self.WORDS) == 4
        printed = capsys.readouterr()
        assert "input 'xs' is a sequence, which target tensorrt rules out" in printed.out
        assert "remedy: use --tensor-io to pass it as a tensor" in printed.out
        assert last_line(printed.out) == ("failed", "optimize")
        assert printed.err.startswith("seqmap: error: target tensorrt not reached")
        assert os.listdir(tmp_path) == ["ragged.onnx"]

    def test_json_and_report_hold_what_is_left(
        self, ragged: Path, tmp_path: Path, capsys: Capture
    ) -> None:
        report = tmp_path / "report.json"
        words = (*self.WORDS, "--json", "--report", report)
        assert seqmap("optimize", ragged, tmp_path / "out.onnx", *words) == 4
        record = json.loads(capsys.readouterr().out)
        assert record["status"] == 4
        assert record["report"]["unreached"]
        assert record["report"] == json.loads(report.read_text())

    def test_requirements(self, ragged: Path, tmp_path: Path, capsys: Capture) -> None:
        words = ("--require", "loop-free", "--require", "sequence-free")
        assert seqmap("optimize", ragged, tmp_path / "out.onnx", *words) == 4
        assert "target onnxruntime and loop-free and sequence-free" in capsys.readouterr().out

    def test_explain_tells_and_passes(self, ragged: Path, capsys: Capture) -> None:
        assert seqmap("explain", ragged, *self.WORDS) == 0
        printed = capsys.readouterr()
        assert "target tensorrt: not reached, left:" in printed.out
        assert printed.err == ""


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
        assert lines[0] == "maps (strategy expand):"
        assert lines[1].startswith("  sums (SequenceMap)  expanded: ")
        assert lines[2].startswith("      surplus-ignored: ")
        assert "; remedy: " in lines[2]


class TestValidate:
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


class TestBench:
    def test_prints_medians_and_their_ratio(self, rows: Path, capsys: Capture) -> None:
        assert seqmap("bench", rows, "--repeats", "3", "--json") == 0
        record = json.loads(capsys.readouterr().out)
        assert record["repeats"] == 3
        assert record["before_ms"] > 0
        assert record["ratio"] == pytest.approx(record["before_ms"] / record["after_ms"], rel=0.1)

    def test_a_model_that_is_refused_as_given(self, tmp_path: Path, capsys: Capture) -> None:
        text = ROWS.replace("q = Relu (s)", "q = HardSwish (s)")
        assert seqmap("bench", write(tmp_path / "in.onnx", text), "--repeats", "3") == 0
        assert "refused" in capsys.readouterr().out


GARBAGE = b"\x08\x08\xffnot a model at all" * 20
BODY_MISMATCH = RAGGED.replace("(float[L] p) =>", "(float[L] p, float[L] r) =>")
NOT_A_SEQUENCE = HEADER + """
agraph (float[L] x) => (seq(float[M]) ys)
{
  [map] ys = SequenceMap (x) <body = b (float[L] p) => (float[L] q) { q = Relu (p) }>
}
"""


class TestBadInput:
    @pytest.mark.parametrize("command", ["optimize", "explain", "run", "bench", "validate"])
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("missing.onnx", None, "missing.onnx"),
            ("folder.onnx", "folder", "folder.onnx"),
            ("empty.onnx", b"", "empty.onnx"),
            ("text.onnx", b"hello, this is prose\n", "text.onnx"),
            ("garbage.onnx", GARBAGE, "garbage.onnx"),
            ("truncated.onnx", "truncated", "truncated.onnx"),
            ("zip.onnx", b"PK\x03\x04" + bytes(200), "zip.onnx"),
            ("bad.onnxtxt", b"agraph (x => y { }", "bad.onnxtxt"),
            ("binary.onnxtxt", bytes(range(128, 256)), "binary.onnxtxt"),
            ("model.pt", b"PK\x03\x04" + bytes(200), "model.pt"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_unusable_files(
        self,
        tmp_path: Path,
        capsys: Capture,
        command: str,
        name: str,
        content: bytes | str | None,
        message: str,
    ) -> None:
        source = tmp_path / name
        if content == "folder":
            source.mkdir()
        elif content == "truncated":
            write(source, ROWS)
            source.write_bytes(source.read_bytes()[:-40])
        elif isinstance(content, bytes):
            source.write_bytes(content)
        more = {"optimize": [tmp_path / "out.onnx"], "validate": [source]}.get(command, [])
        before = os.listdir(tmp_path)
        assert seqmap(command, source, *more) == 1
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == 1, printed.err
        assert printed.err.startswith("seqmap: error: ")
        assert message in printed.err
        assert last_line(printed.out) == ("failed", command)
        assert os.listdir(tmp_path) == before

    @pytest.mark.parametrize(
        ("text", "node"),
        [(BODY_MISMATCH, "ragged"), (NOT_A_SEQUENCE, "map")],
        ids=["body inputs do not match", "first input is no sequence"],
    )
    def test_broken_maps(self, tmp_path: Path, capsys: Capture, text: str, node: str) -> None:
        source, out = write(tmp_path / "in.onnx", text), tmp_path / "out.onnx"
        assert seqmap("optimize", source, out) == 1
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == 1, printed.err
        assert node in printed.err
        assert not out.exists()

    @pytest.mark.parametrize(
        ("place", "message"),
        [
            ("none/out.onnx", "there is no directory"),
            ("folder", "it is a directory"),
            ("rows.onnx/out.onnx", "there is no directory"),
        ],
        ids=["no directory", "a directory", "below a file"],
    )
    def test_unwritable_out(
        self, rows: Path, tmp_path: Path, capsys: Capture, place: str, message: str
    ) -> None:
        (tmp_path / "folder").mkdir()
        assert seqmap("optimize", rows, tmp_path / place) == 1
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == 1
        assert f"cannot write {tmp_path / place}" in printed.err
        assert message in printed.err
        assert sorted(os.listdir(tmp_path)) == ["folder", "rows.onnx"]

    def test_out_without_permission(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert seqmap("optimize", rows, rows) == 1
        assert "no permission" in capsys.readouterr().err

    def test_unwritable_report(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        report = tmp_path / "none" / "report.md"
        assert seqmap("explain", rows, "--report", report) == 1
        assert f"cannot write {report}: no such file" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--uniform", "nobody"), "nobody"),
            (("--input-shape", "nobody=3"), "nobody"),
            (("--inputs", "missing.npz"), "missing.npz"),
        ],
        ids=["uniform", "input shape", "feeds"],
    )
    def test_names_that_do_not_exist(
        self, rows: Path, tmp_path: Path, capsys: Capture, words: tuple[str, ...], message: str
    ) -> None:
        assert seqmap("optimize", rows, tmp_path / "out.onnx", *words) == 1
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == 1, printed.err
        assert message in printed.err
        assert os.listdir(tmp_path) == ["rows.onnx"]

    def test_json_tells_of_an_error(self, tmp_path: Path, capsys: Capture) -> None:
        assert seqmap("explain", tmp_path / "missing.onnx", "--json") == 1
        printed = capsys.readouterr()
        record = json.loads(printed.out)
        assert (record["passed"], record["status"]) == (False, 1)
        assert printed.err == f"seqmap: error: {record['error']}\n"


class TestUsage:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("", "COMMAND"),
            ("polish in.onnx", "invalid choice: 'polish'"),
            ("optimize in.onnx", "OUT"),
            ("optimize in.onnx out.onnx --strategy best", "invalid choice: 'best'"),
            ("explain in.onnx --target mars", "invalid choice: 'mars'"),
            ("explain in.onnx --require fast", "invalid choice: 'fast'"),
            ("explain in.onnx --input-shape x", "'x' is not of the form NAME=d,d"),
            ("explain in.onnx --input-shape x=2,-1", "dimension '-1' is neither"),
            ("explain in.onnx --report r.pdf", "ends in none of .json, .md, .html"),
            ("explain in.onnx -q -v", "not allowed with argument"),
            ("explain in.onnx --strat auto", "unrecognized arguments"),
            ("optimize a b --verify 0", "0 is less than 1"),
            ("optimize a b --verify many", "invalid count value: 'many'"),
            ("optimize a b --verify 3 --no-verify", "not allowed with argument"),
            ("optimize a b --atol nan", "nan is no tolerance"),
            ("optimize a b --rtol -1", "-1 is no tolerance"),
            ("run a --backend abacus", "invalid choice: 'abacus'"),
        ],
        ids=lambda value: value,
    )
    def test_wrong_usage(self, capsys: Capture, words: str, message: str) -> None:
        with pytest.raises(SystemExit) as stopped:
            main(words.split())
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        "command", ["", "optimize", "explain", "validate", "run", "bench", "demo"]
    )
    def test_help_fits_a_screen(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        monkeypatch.setenv("COLUMNS", "99")
        with pytest.raises(SystemExit) as stopped:
            main([*command.split(), "--help"])
        assert stopped.value.code == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 99
        assert "exit status: 0 done" in " ".join(lines)

    def test_shapes_are_read(self) -> None:
        from rewriter.commands.options import _input_shape

        assert _input_shape("x=2,?,N") == ("x", (2, None, "N"))
        assert _input_shape("a=b=3") == ("a=b", (3,))
        assert _input_shape("scalar=") == ("scalar", ())


class TestBugs:
    def test_a_bug_keeps_its_traceback_and_says_so(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise KeyError("lost")

        monkeypatch.setattr(pipeline, "explain", broken)
        assert seqmap("explain", rows) == 1
        shown = capsys.readouterr().err
        assert "Traceback" in shown
        assert "KeyError: 'lost'" in shown
        assert shown.endswith(
            "seqmap: error: this is a bug in seqmap, please report it with the lines above\n"
        )

    def test_an_interrupt_is_no_bug(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(pipeline, "explain", interrupted)
        assert seqmap("explain", rows) == 130
        assert capsys.readouterr().err == "seqmap: error: interrupted; nothing was written\n"


def test_as_a_process(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    ran = subprocess.run(
        [sys.executable, "-m", "rewriter.cli", "optimize", rows, out, "--strategy", "expand"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert last_line(ran.stdout) == ("passed", "optimize")
    assert out.exists()


def test_a_reader_that_goes_away_is_no_bug(rows: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rewriter.cli", "explain", rows],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, shown = process.communicate(timeout=120)
    assert shown == ""
