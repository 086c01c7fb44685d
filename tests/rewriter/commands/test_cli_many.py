"""Many models, and the commands about seqmap itself."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

from passes.decisions import Code
from passes.errors import RewriteError
from rewriter import cli
from rewriter.cli import main
from rewriter.commands import doctor, many, terminal
from rewriter.commands.many import find_models
from rewriter.commands.shadowing import warn_of_shadows
from rewriter.commands.tables import aligned, fitted
from tests.rewriter.cli_models import PLAIN, RAGGED, ROWS, last_line, op_types, seqmap, write

pytestmark = pytest.mark.long

MODELS = Path(__file__).parents[3] / "models"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three models and a file that is none."""
    (tmp_path / "models" / "deep").mkdir(parents=True)
    write(tmp_path / "models" / "rows.onnx", ROWS)
    write(tmp_path / "models" / "plain.onnxtxt", PLAIN)
    write(tmp_path / "models" / "deep" / "ragged.onnx", RAGGED)
    (tmp_path / "models" / "notes.txt").write_text("no model")
    return tmp_path / "models"


class TestNames:
    def test_a_folder_is_searched_at_any_depth(self, folder: Path) -> None:
        places = [path.as_posix() for path in find_models([folder]).values()]
        assert places == ["deep/ragged.onnx", "plain.onnxtxt", "rows.onnx"]

    def test_patterns_and_files(self, folder: Path) -> None:
        found = find_models([folder / "*.onnx", folder / "plain.onnxtxt"])
        assert [path.name for path in found] == ["rows.onnx", "plain.onnxtxt"]

    def test_nothing_is_an_error(self, folder: Path) -> None:
        with pytest.raises(RewriteError, match=r"no .onnx or .onnxtxt file is found in"):
            find_models([folder / "*.pb"])

    def test_a_link_to_nothing_is_a_model_that_cannot_be_used(
        self, folder: Path, capsys: Capture
    ) -> None:
        (folder / "lost.onnx").symlink_to(folder / "nowhere.onnx")
        (folder / "a_folder.onnx").mkdir()
        assert "lost.onnx" in [path.name for path in find_models([folder])]
        assert seqmap("scan", folder) == 1
        printed = capsys.readouterr()
        assert "4 models: 2 with maps, 3 passed, 1 failed" in printed.out
        assert f"cannot read {folder / 'lost.onnx'}: no such file or directory" in printed.err

    def test_pipes_are_not_read(self, folder: Path) -> None:
        """Reading one waits for a writer for ever."""
        os.mkfifo(folder / "pipe.onnx")
        os.mkfifo(folder / "deep" / "pipe.onnx")
        assert len(find_models([folder])) == 3
        assert [path.name for path in find_models([folder / "*.onnx"])] == ["rows.onnx"]

    def test_what_was_written_is_not_read_again(self, folder: Path) -> None:
        for name in ("rows.onnx.mismatch/before.onnx", "out/rows.onnx", "deep/out.onnx"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(b"")
        named = [path.as_posix() for path in find_models([folder], folder / "out").values()]
        assert named == ["deep/out.onnx", "deep/ragged.onnx", "plain.onnxtxt", "rows.onnx"]

    def test_wide_letters_take_two_columns(self) -> None:
        assert aligned([("\u6a21\u578b", "a"), ("abcde", "b")]) == "\u6a21\u578b   a\nabcde  b"

    def test_rows_are_aligned(self) -> None:
        assert aligned([("a", "bb"), ("ccc", "\x1b")]) == "a    bb\nccc  \\x1b"


class TestScan:
    def test_a_line_for_each_model(self, folder: Path, capsys: Capture) -> None:
        assert seqmap("scan", folder, "--jobs", "2", "-v") == 0
        printed = capsys.readouterr().out
        assert printed.splitlines()[0] == "3 models: 2 with maps, 3 passed, 0 failed"
        table = {line.split()[0]: line for line in printed.splitlines()}
        told = table[str(folder / "rows.onnx")]
        assert re.search(r"1 SequenceMap  1 fused     no loop, no sequence +passed$", told)
        assert " -  " in table[str(folder / "plain.onnxtxt")]
        assert last_line(printed) == ("passed", "scan")

    def test_models_that_hold_nothing_are_counted(self, folder: Path, capsys: Capture) -> None:
        assert seqmap("scan", folder) == 0
        printed = capsys.readouterr().out
        assert "plain.onnxtxt" not in printed
        assert "\n1 holds no map, no loop, no sequence; -v lists all\n" in printed
        assert seqmap("scan", folder / "plain.onnxtxt") == 0
        first, second, _ = capsys.readouterr().out.splitlines()
        assert first == "1 model: 0 with maps, 1 passed, 0 failed"
        assert second == "1 holds no map, no loop, no sequence; -v lists all"

    def test_all_forms_behind_a_guard_count(self, capsys: Capture) -> None:
        assert seqmap("scan", MODELS / "demo" / "resnet50_preprocessing.onnxtxt") == 0
        printed = capsys.readouterr().out
        assert printed.startswith("1 model: 1 with maps, 1 passed, 0 failed\n")
        assert "several forms of one map: all count, one runs\n" in printed

    def test_the_worst_status_counts(self, folder: Path, capsys: Capture) -> None:
        assert seqmap("scan", folder, "--require", "loop-free", "--json") == 4
        record = json.loads(capsys.readouterr().out)
        statuses = {Path(one["model"]).name: one["status"] for one in record["models"]}
        assert statuses == {"ragged.onnx": 4, "plain.onnxtxt": 0, "rows.onnx": 0}
        assert record["status"] == 4

    def test_each_result_is_in_the_table(self, folder: Path, capsys: Capture) -> None:
        (folder / "broken.onnx").write_bytes(b"none")
        assert seqmap("scan", folder, "--require", "loop-free") == 4
        printed = capsys.readouterr().out
        results = {Path(row[0]).name: row[-1] for row in map(str.split, printed.splitlines())}
        assert results["rows.onnx"] == "passed"
        assert results["broken.onnx"] == "unusable"
        assert re.search(r"ragged\.onnx .*  not reached\n", printed)
        assert "\nseqmap explain MODEL with the same options says what is left" in printed

    def test_a_script_without_a_guard_is_not_run_again(self, tmp_path: Path) -> None:
        write(tmp_path / "plain.onnxtxt", PLAIN)
        script = tmp_path / "script.py"
        script.write_text(
            "import sys\nfrom rewriter.cli import main\n"
            "print('script')\nsys.exit(main(['scan', sys.argv[1]]))\n"
        )
        ran = subprocess.run(
            [sys.executable, script, tmp_path], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0
        assert "Traceback" not in ran.stderr
        assert ran.stdout.count("script\n") == 1
        assert "1 model: 0 with maps, 1 passed, 0 failed" in ran.stdout

    @pytest.mark.parametrize("error", [EOFError, BrokenPipeError, ConnectionResetError])
    def test_a_worker_ends_quietly_where_the_command_was_killed(
        self, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
    ) -> None:
        class Gone:
            def recv(self) -> None:
                raise error

            def send(self, _: object) -> None:
                raise AssertionError

        monkeypatch.setattr(many.signal, "signal", lambda *_: None)
        many._serve(Gone())

    def test_a_file_that_is_no_model(self, folder: Path, capsys: Capture) -> None:
        (folder / "broken.onnx").write_bytes(b"none")
        assert seqmap("scan", folder) == 1
        printed = capsys.readouterr()
        assert "4 models: 2 with maps, 3 passed, 1 failed" in printed.out
        assert "broken.onnx is not an ONNX model" in printed.err
        assert printed.err.count("broken.onnx") == 1


class TestOptimizeMany:
    @pytest.mark.long
    def test_a_folder_to_a_folder(self, folder: Path, tmp_path: Path, capsys: Capture) -> None:
        out = tmp_path / "out"
        assert seqmap("optimize", folder, out, "--verify", "2", "--jobs", "2") == 0
        assert op_types(out / "rows.onnx") & {"SequenceMap", "Loop"} == set()
        assert (out / "deep" / "ragged.onnx").is_file()
        printed = capsys.readouterr().out
        assert "2 of 2    passed" in printed
        assert "3 models: 2 with maps, 3 passed, 0 failed" in printed

    def test_a_pattern(self, folder: Path, tmp_path: Path) -> None:
        assert seqmap("optimize", folder / "*.onnx", tmp_path / "out", "--no-verify") == 0
        assert os.listdir(tmp_path / "out") == ["rows.onnx"]

    @pytest.mark.parametrize(
        ("words", "status", "message"),
        [
            (("--report", "r.md"), 2, "--report and --inputs are for one model"),
            (("--inputs", "r.npz"), 2, "--report and --inputs are for one model"),
        ],
    )
    def test_options_for_one_model(
        self, folder: Path, capsys: Capture, words: tuple[str, str], status: int, message: str
    ) -> None:
        assert seqmap("optimize", folder, folder / "out", *words) == status
        assert message in capsys.readouterr().err

    def test_two_models_of_one_name(self, folder: Path, tmp_path: Path, capsys: Capture) -> None:
        other = write(tmp_path / "rows.onnx", ROWS)
        assert seqmap("optimize", folder / "rows.onnx", other, tmp_path / "out") == 1
        assert "two models would go to" in capsys.readouterr().err

    @pytest.mark.parametrize("written", [[], ["plain.onnxtxt"]])
    def test_no_folder_is_left_empty(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: list[str]
    ) -> None:
        out = tmp_path / "out"

        def interrupted(*_: object) -> None:
            assert (out / "deep").is_dir()
            for name in written:
                (out / name).touch()
            raise KeyboardInterrupt

        monkeypatch.setattr(many, "run_each", interrupted)
        assert seqmap("optimize", folder, out) == 130
        assert [path.name for path in out.rglob("*")] == written
        assert out.exists() is bool(written)

    def test_a_file_is_no_folder(self, folder: Path, tmp_path: Path, capsys: Capture) -> None:
        taken = write(tmp_path / "taken.onnx", ROWS)
        assert seqmap("optimize", folder, taken) == 1
        assert "taken.onnx is no folder" in capsys.readouterr().err


class TestInterrupts:
    @pytest.mark.long
    def test_a_worker_leaves_ctrl_c_to_who_started_it(self) -> None:
        worker = many._Worker()
        args = cli._parser(["ops"]).parse_args(["ops", "Softmxa"])
        assert "did you mean" in worker.run(args)["error"]
        process = worker._process
        assert process is not None
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        assert "did you mean" in worker.run(args)["error"]
        worker.stop()
        process.join(20)
        assert process.exitcode == 0
        worker.end()

    def test_all_workers_are_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stopped: list[object] = []

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(many._Worker, "run", lambda *_: {})
        monkeypatch.setattr(many._Worker, "stop", lambda worker: stopped.append(worker))
        with pytest.raises(KeyboardInterrupt):
            many.run_each([argparse.Namespace()] * 3, 2, interrupted)
        assert len(stopped) == 2

    def test_a_worker_that_starts_meanwhile_is_stopped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = many._Worker()
        worker.stop()
        stopped: list[object] = []
        monkeypatch.setattr(many._Worker, "stop", lambda worker: stopped.append(worker))
        worker._start()
        worker.end()
        assert stopped == [worker]


class TestExplainMany:
    def test_models_stand_side_by_side(self, folder: Path, capsys: Capture) -> None:
        assert seqmap("explain", folder / "rows.onnx", folder / "plain.onnxtxt") == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        table = {line[0]: line[1:] for line in lines}
        assert table["nodes"] == ["5", "1"]
        assert table["SequenceMap"] == ["1", "0"]
        assert table["maps"] == ["1", "fused", "-"]
        assert "Relu" not in table  # one in each

    def test_each_model_that_does_not_reach_the_target_is_named(
        self, folder: Path, capsys: Capture
    ) -> None:
        names = [folder / "rows.onnx", folder / "deep" / "ragged.onnx", folder / "again.onnx"]
        shutil.copy(names[1], names[2])
        assert seqmap("explain", *names, "--require", "loop-free") == 4
        told = capsys.readouterr().err.splitlines()
        wanted = "target onnxruntime and loop-free not reached: "
        for name, line in zip(names[1:], told, strict=True):
            assert line.startswith(f"seqmap: error: {name}: {wanted}"), line

    def test_a_pattern_stands_for_its_models(self, folder: Path, capsys: Capture) -> None:
        (folder / "rows.onnx.data").write_text("weights")
        assert seqmap("explain", folder / "*.onnx*") == 0
        names = capsys.readouterr().out.splitlines()[0].split()
        assert [Path(name).name for name in names] == ["plain.onnxtxt", "rows.onnx"]

    def test_a_folder_is_for_scan(self, folder: Path, capsys: Capture) -> None:
        assert seqmap("explain", folder) == 1
        assert "seqmap scan takes folders" in capsys.readouterr().err

    def test_what_is_for_one_model(self, folder: Path, capsys: Capture) -> None:
        assert seqmap("explain", folder / "rows.onnx", folder / "plain.onnxtxt", "--raised") == 2
        assert "--raised and --report are for one model" in capsys.readouterr().err


class TestStreams:
    def test_a_terminal_is_no_place_for_a_model(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert seqmap("optimize", rows, "-") == 2
        printed = capsys.readouterr()
        assert "OUT is -, which is the terminal here: send it to a file or a pipe" in printed.err
        assert "written" not in printed.err

    def test_a_model_from_stdin_to_stdout(
        self,
        rows: Path,
        capfdbinary: pytest.CaptureFixture[bytes],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        given = SimpleNamespace(buffer=io.BytesIO(rows.read_bytes()))
        monkeypatch.setattr(sys, "stdin", given)
        assert seqmap("-", "-", "--verify", "1") == 0
        printed = capfdbinary.readouterr()
        model = onnx.load_from_string(printed.out)
        assert "SequenceMap" not in {node.op_type for node in model.graph.node}
        assert printed.err.decode().splitlines()[-2] == "written to standard output"

    def test_text_from_stdin(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        given = SimpleNamespace(buffer=io.BytesIO(b"# a comment\n" + ROWS.encode()))
        monkeypatch.setattr(sys, "stdin", given)
        assert seqmap("explain", "-") == 0
        assert "rows (SequenceMap)  fused" in capsys.readouterr().out

    def test_nothing_on_stdin(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
        assert seqmap("run", "-") == 1
        assert "standard input is empty" in capsys.readouterr().err

    def test_a_scan_reads_no_stdin(self, capsys: Capture) -> None:
        assert seqmap("scan", "-") == 1
        assert (
            "- is one model on standard input: seqmap explain takes it" in capsys.readouterr().err
        )

    def test_a_model_alone_means_optimize(self, rows: Path, tmp_path: Path) -> None:
        assert seqmap(rows, tmp_path / "out.onnx", "--no-verify") == 0
        assert (tmp_path / "out.onnx").exists()

    def test_so_does_a_file_that_is_none(self, tmp_path: Path, capsys: Capture) -> None:
        saved = tmp_path / "model.pt"
        saved.write_bytes(b"PK\x03\x04archive/data.pkl")
        assert seqmap(saved, tmp_path / "out.onnx") == 1
        assert f"{saved} is a zip archive, as PyTorch and Keras write" in capsys.readouterr().err


class TestTerminal:
    LINES = "  m (SequenceMap)  fused: it is\npassed explain in 0.1 s\nkept is no verdict here (x)"

    def test_verdicts_have_colours(self) -> None:
        assert terminal.coloured(self.LINES).splitlines()[:2] == [
            "  m (SequenceMap)  \x1b[32mfused\x1b[0m: it is",
            "\x1b[32mpassed\x1b[0m explain in 0.1 s",
        ]

    @pytest.mark.parametrize(
        ("variables", "is_terminal", "expected"),
        [
            ({}, True, True),
            ({}, False, False),
            ({"NO_COLOR": "1"}, True, False),
            ({"FORCE_COLOR": "1"}, False, True),
            ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
            ({"TERM": "dumb"}, True, False),
        ],
    )
    def test_who_sees_colours(
        self,
        monkeypatch: pytest.MonkeyPatch,
        variables: dict[str, str],
        *,
        is_terminal: bool,
        expected: bool,
    ) -> None:
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
        assert terminal.has_colour(stream) is expected

    def test_long_lines_wrap_at_words(self) -> None:
        line = (
            "      a reason of many words, and /a/path/that/is/longer/than/the/whole/line/itself"
        )
        assert terminal.wrapped(f"short\n{line}", 40).splitlines() == [
            "short",
            "      a reason of many words, and",
            "        /a/path/that/is/longer/than/the/whole/line/itself",
        ]

    def test_a_long_word_stands_where_its_line_began(self) -> None:
        line = "      /a/path/that/is/longer/than/the/whole/line is why"
        assert terminal.wrapped(line, 40).splitlines() == [
            "      /a/path/that/is/longer/than/the/whole/line",
            "        is why",
        ]

    def test_a_table_that_is_too_wide_has_its_first_cells_above_the_others(self) -> None:
        rows = [("model", "holds", "left"), ("a/long/模型.onnx", "1 Loop", "no loop")]
        assert fitted(rows, 33) == aligned(rows)
        assert fitted(rows, 32).splitlines() == [
            "model",
            "  holds   left",
            "a/long/模型.onnx",
            "  1 Loop  no loop",
        ]

    def test_a_table_that_is_still_too_wide_has_wrapped_cells(self) -> None:
        rows = [
            ("", "a.onnx", "a/long/name.onnx"),
            ("outputs", "y float[N,a_long_dimension], z float[2]", "cat float[8]"),
            ("nodes", "13", "12"),
        ]
        assert fitted(rows, 44).splitlines() == [
            "         a.onnx             a/long/name.onnx",
            "outputs  y float[N,a_long_  cat float[8]",
            "         dimension], z",
            "         float[2]",
            "nodes    13                 12",
        ]

    def test_a_terminal_gets_tables_that_fit(
        self, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "60")
        assert seqmap("scan", folder / "rows.onnx") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "1 model: 1 with maps, 1 passed, 0 failed"
        assert lines[1:5] == [
            "model",
            "  holds          becomes  left                  result",
            str(folder / "rows.onnx"),
            "  1 SequenceMap  1 fused  no loop, no sequence  passed",
        ]

    def test_a_terminal_gets_wrapped_lines(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "50")
        monkeypatch.setenv("NO_COLOR", "1")
        assert seqmap("explain", rows) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 50
        assert lines[0] == "holds 1 SequenceMap; rewritten: no loop, no"

    @pytest.mark.parametrize("words", ["", "optimize", "bench"])
    def test_a_terminal_gets_help_that_fits(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: str
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "60")
        with pytest.raises(SystemExit):
            main([*words.split(), "--help"])
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


class TestItself:
    @pytest.mark.parametrize("code", Code)
    def test_every_code_is_told(self, capsys: Capture, code: Code) -> None:
        assert seqmap("explain-code", code.value) == 0
        assert capsys.readouterr().out.startswith(
            f"{code.value}\n  {code.meaning}\n  remedy: {code.remedy}\n"
        )

    def test_a_code_that_is_none(self, capsys: Capture) -> None:
        assert seqmap("explain-code", "raged") == 1
        assert "there is no code 'raged'; did you mean 'ragged'?" in capsys.readouterr().err
        assert seqmap("explain-code", "nope") == 1
        assert "there is no code 'nope'; the codes are no-rule, " in capsys.readouterr().err

    def test_view_opens_the_page(
        self, rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[str] = []
        monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
        assert seqmap("view", rows, "--json") == 0
        page = Path(json.loads(capsys.readouterr().out)["page"])
        assert opened == [page.as_uri()]
        assert page.read_text("utf-8").startswith("<!DOCTYPE html>")

    def test_doctor_finds_nothing_here(self, capsys: Capture) -> None:
        assert seqmap("doctor") == 0
        printed = capsys.readouterr().out
        assert printed.startswith("no problem is found\npython ")
        (line,) = (one for one in printed.splitlines() if one.startswith("onnxruntime "))
        assert line.split(" on ")[1].startswith("cpu")
        assert "coreml" not in line

    def test_doctor_sees_two_wheels_of_one_module(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = {"onnxruntime": "1", "onnxruntime-gpu": "1"}
        monkeypatch.setattr(doctor, "version_of", lambda name: known.get(name, ""))
        (problem,) = doctor.find_problems()
        assert problem.startswith("onnxruntime and onnxruntime-gpu are wheels of one module")

    def test_doctor_sees_what_hides_a_package(
        self, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "passes.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        assert seqmap("doctor") == 1
        told = f"problem: {tmp_path / 'passes'} has the name of a package of seqmap"
        assert told in capsys.readouterr().out
        with pytest.warns(UserWarning, match="passes has the name of a package of seqmap"):
            warn_of_shadows()

    def test_completion_needs_shtab(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "shtab", None)
        monkeypatch.delitem(sys.modules, "rewriter.commands.completion", raising=False)
        with pytest.raises(SystemExit, match="2"):
            seqmap("--print-completion", "bash")
        assert "pip install 'seqmap[completion]'" in capsys.readouterr().err

    def test_completion(self, capsys: Capture) -> None:
        pytest.importorskip("shtab")
        with pytest.raises(SystemExit, match="0"):
            seqmap("--print-completion", "bash")
        printed = capsys.readouterr().out
        assert "explain-code" in printed
        assert "--uniform" in printed

    @pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("opti", {"optimize"}),
            ("explain-", {"explain-code"}),
            ("optimize ro", {"rows.onnx"}),
            ("optimize rows.onnx sub", {"sub"}),
            ("scan su", {"sub"}),
            ("optimize rows.onnx out.onnx --targ", {"--target"}),
            ("optimize rows.onnx out.onnx --target trac", {"tract"}),
            ("optimize rows.onnx out.onnx --inputs fe", {"feeds.npz"}),
            ("bench rows.onnx --plot pl", {"plot.svg"}),
        ],
    )
    def test_a_shell_completes(
        self, words: str, expected: set[str], tmp_path: Path, capsys: Capture
    ) -> None:
        pytest.importorskip("shtab")
        with pytest.raises(SystemExit, match="0"):
            seqmap("--print-completion", "bash")
        for name in ("rows.onnx", "feeds.npz", "plot.svg"):
            (tmp_path / name).touch()
        (tmp_path / "sub").mkdir()
        count = len(words.split())
        ask = f"COMP_WORDS=(seqmap {words}); COMP_CWORD={count}; _shtab_seqmap\n"
        script = capsys.readouterr().out + ask + 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert {line.strip().rstrip("/") for line in done.stdout.splitlines()} == expected
