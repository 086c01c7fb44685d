"""What all subcommands share: bad input, usage, bugs, and running as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rewriter import cli, pipeline
from rewriter.cli import COMMANDS, main
from tests.rewriter.cli_models import (
    HEADER,
    RAGGED,
    ROWS,
    last_line,
    seqmap,
    write,
)

Capture = pytest.CaptureFixture[str]


GARBAGE = b"\x08\x08\xffnot a model at all" * 20
BODY_MISMATCH = RAGGED.replace("(float[L] p) =>", "(float[L] p, float[L] r) =>")
NOT_A_SEQUENCE = (
    HEADER
    + """
agraph (float[L] x) => (seq(float[M]) ys)
{
  [map] ys = SequenceMap (x) <body = b (float[L] p) => (float[L] q) { q = Relu (p) }>
}
"""
)


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
            ("none/out.onnx", "there is no folder"),
            ("folder", "it is a folder"),
            ("rows.onnx/out.onnx", "there is no folder"),
            ("/dev/null", "it is not a regular file"),
        ],
        ids=["no directory", "a directory", "below a file", "a device"],
    )
    def test_unwritable_out(
        self,
        rows: Path,
        tmp_path: Path,
        capsys: Capture,
        monkeypatch: pytest.MonkeyPatch,
        place: str,
        message: str,
    ) -> None:
        monkeypatch.delattr(pipeline, "rewrite")  # refused before any work is done
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

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no such folder")
    def test_out_where_no_file_can_be_made(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(pipeline, "rewrite")  # refused before any work is done
        assert seqmap("optimize", rows, "/proc/out.onnx") == 1
        assert "cannot write /proc/out.onnx: " in capsys.readouterr().err

    def test_an_address_is_told_as_it_was_given(self, tmp_path: Path, capsys: Capture) -> None:
        assert seqmap("optimize", "https://a.b/m.onnx", tmp_path / "out.onnx") == 1
        assert "https://a.b/m.onnx is an address: download" in capsys.readouterr().err

    def test_unwritable_report(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        report = tmp_path / "none" / "report.md"
        assert seqmap("explain", rows, "--report", report) == 1
        assert f"cannot write {report}: there is no folder" in capsys.readouterr().err

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
    @pytest.mark.quick
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("", "COMMAND"),
            ("polish", "invalid choice: 'polish'"),
            ("optimze in.onnx", "did you mean 'optimize'?"),
            ("explain in.onnx --target openvin", "did you mean 'openvino'?"),
            ("explain in.onnx --target ortt", "did you mean 'ort'?"),
            (
                "explain in.onnx --unifrom x",
                "did you mean '--uniform'?; seqmap explain --help lists the options",
            ),
            ("--target trt explain in.onnx", "write seqmap explain --target ..."),
            ("-v explain in.onnx", "-v stands in front of the command"),
            ("in.onnx", "required: OUT; seqmap explain IN says what would be done"),
            ("optimize in.onnx", "OUT; seqmap explain IN says what would be done, and writes no"),
            ("validate in.onnx", "required: B; seqmap validate --help lists the options"),
            ("optimize in.onnx out.onnx --strategy best", "invalid choice: 'best'"),
            ("explain in.onnx --target mars", "invalid choice: 'mars'"),
            ("explain in.onnx --require fast", "invalid choice: 'fast'"),
            ("explain in.onnx --input-shape x", "'x' is not of the form NAME=d,d"),
            ("explain in.onnx --input-shape x=2,-1", "dimension '-1' is neither"),
            ("explain in.onnx --report r.pdf", "ends in none of .json, .md, .html"),
            ("explain in.onnx -q -v", "not allowed with argument"),
            ("explain in.onnx --strat auto", "unrecognized arguments"),
            (
                "optimize a b --require loop-free sequence-free",
                "unrecognized arguments: sequence-free; seqmap optimize --help lists the options",
            ),
            (
                "optimize a b --require loop-free,sequence-free",
                "'sequence-free', 'loop-free', 'on-device'); repeat the option for each of them;",
            ),
            ("explain - -", "seqmap explain: error: - is standard input, which is read once"),
            ("validate - -", "- is standard input, which is read once; name a file"),
            ("optimize a b --verify 0", "0 is less than 1"),
            ("optimize a b --verify many", "'many' is no whole number"),
            ("optimize a b --verify 3 --no-verify", "not allowed with argument"),
            ("optimize a b --atol nan", "nan is no tolerance"),
            ("optimize a b --rtol -1", "-1 is no tolerance"),
            ("run a --backend abacus", "invalid choice: 'abacus'"),
            ("bench a.onnx --threads -1", "-1 is less than 0"),
            ("bench a.onnx --min-speedup nan", "nan is no ratio"),
            ("bench a.onnx --min-speedup 0", "0 is no ratio"),
        ],
        ids=lambda value: value,
    )
    def test_wrong_usage(self, capsys: Capture, words: str, message: str) -> None:
        with pytest.raises(SystemExit) as stopped:
            main(words.split())
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["", *COMMANDS])
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
        from rewriter.commands.values import input_shape

        assert input_shape("x=2,?,N") == ("x", (2, None, "N"))
        assert input_shape("a=b=3") == ("a=b", (3,))
        assert input_shape("scalar=") == ("scalar", ())


def test_without_words_it_says_what_there_is(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        seqmap()
    printed = capsys.readouterr()
    assert all(f"    {name} " in printed.out for name in COMMANDS)
    assert len(printed.err.splitlines()) == 1


class TestBugs:
    def test_a_bug_keeps_its_traceback_and_says_so(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise KeyError("lost")

        monkeypatch.setattr(pipeline, "explained", broken)
        assert seqmap("explain", rows) == 1
        shown = capsys.readouterr().err
        assert "Traceback" in shown
        assert "KeyError: 'lost'" in shown
        assert shown.endswith(
            "seqmap: error: this is a bug in seqmap, please report it with the lines above and what "
            "seqmap doctor prints\n"
        )

    def test_an_interrupt_is_no_bug(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(pipeline, "explained", interrupted)
        assert seqmap("explain", rows) == 130
        assert capsys.readouterr().err == "seqmap: error: interrupted\n"

    def test_an_interrupt_before_the_command_has_begun(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Importing what a command needs takes a second, in which Ctrl-C may be pressed."""

        def interrupted(name: str) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(cli, "load_command", interrupted)
        assert seqmap("explain", rows) == 130
        assert capsys.readouterr().err == "seqmap: error: interrupted\n"


@pytest.mark.long
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


@pytest.mark.long
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
