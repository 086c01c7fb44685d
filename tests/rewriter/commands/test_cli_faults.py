"""Faults of a model that show late, and files that must not be lost."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import rewriter
from tests.rewriter.cli_models import HEADER, PLAIN, ROWS, last_line, seqmap, write

Capture = pytest.CaptureFixture[str]

# The declared rank of the elements is not that of the body.
WRONG_RANK = (
    HEADER
    + """
g (seq(float[A,3,B]) xs) => (seq(float[A,3]) ys)
{
  ys = SequenceMap (xs) <body = b (float[N,3] p) => (float[N,3] q)
    { q = Softmax <axis = 0> (p) }>
}
"""
)


def process(*words: str | Path, **streams: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rewriter.cli", *map(str, words)],
        text=True,
        timeout=120,
        check=False,
        stderr=subprocess.PIPE,
        **streams,  # type: ignore[call-overload]
    )


class TestInvalidModels:
    @pytest.mark.long
    @pytest.mark.parametrize("command", ["optimize", "bench"])
    def test_no_pass_is_to_blame(self, tmp_path: Path, command: str) -> None:
        source, out = write(tmp_path / "in.onnx", WRONG_RANK), tmp_path / "out.onnx"
        words = ["--strategy", "expand"] if command == "optimize" else ["--repeats", "1"]
        more = [out] if command == "optimize" else []
        ran = process(command, source, *more, *words, stdout=subprocess.PIPE)
        assert ran.returncode == 1
        (error,) = [one for one in ran.stderr.splitlines() if " ... " not in one]
        assert error.startswith("seqmap: error: onnx.checker refuses the model: ")
        assert "mend the model" in error
        assert os.listdir(tmp_path) == ["in.onnx"]

    def test_a_pass_that_stumbles_over_an_invalid_model(
        self, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stumble(*_: object) -> None:
            raise IndexError("list index out of range")

        monkeypatch.setattr("passes.fuse.FuseSequenceMapPass.call", stumble)
        assert seqmap("explain", write(tmp_path / "in.onnx", WRONG_RANK)) == 1
        err = capsys.readouterr().err
        assert err.startswith("seqmap: error: onnx.checker refuses the model: ")
        assert seqmap("explain", write(tmp_path / "rows.onnx", ROWS)) == 1
        assert "this is a bug in seqmap" in capsys.readouterr().err


class TestWeights:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        proto = onnx.parser.parse_model(PLAIN.replace("Relu (x)", "Add (x, w)"))
        weights = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
        proto.graph.initializer.append(weights)
        onnx.save(
            proto,
            tmp_path / "in.onnx",
            save_as_external_data=True,
            location="w.bin",
            size_threshold=0,
        )
        return tmp_path / "in.onnx"

    @pytest.mark.parametrize("command", ["optimize", "validate", "run", "bench"])
    @pytest.mark.parametrize("fault", ["missing", "too short"])
    def test_they_are_not_what_they_should_be(
        self, source: Path, capsys: Capture, command: str, fault: str
    ) -> None:
        weights = source.with_name("w.bin")
        if fault == "missing":
            weights.unlink()
        else:
            weights.write_bytes(weights.read_bytes()[:8])
        more = {"optimize": [source.with_name("out.onnx")], "validate": [source]}.get(command, [])
        assert seqmap(command, source, *more) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"seqmap: error: the weights {weights} are {fault}: ")
        assert err.count("\n") == 1

    def test_from_python(self, source: Path) -> None:
        source.with_name("w.bin").unlink()
        feed = {"x": np.ones(3, np.float32)}
        for call in (
            lambda: rewriter.run(source, feed),
            lambda: rewriter.run(source, feed, backend="reference"),
            lambda: rewriter.validate(source, source),
        ):
            with pytest.raises(rewriter.RewriteError, match=r"w\.bin are missing: put them"):
                call()

    def test_what_reads_none_needs_none(self, source: Path) -> None:
        source.with_name("w.bin").unlink()
        assert seqmap("explain", source) == 0
        assert seqmap("optimize", source, source.with_name("out.onnx"), "--no-verify") == 0


class TestOverwriting:
    @pytest.mark.parametrize(
        "words",
        [
            "explain in.json --report in.json",
            "optimize in.json out.onnx --report in.json",
            "optimize in.json out.json --report ./out.json",
            "optimize in.npz feeds.npz --inputs feeds.npz",
            "run in.onnx --save in.onnx",
            "run in.onnx --inputs feeds.npz --save feeds.npz",
        ],
    )
    def test_a_file_that_is_read_or_written_besides(
        self, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        model = write(tmp_path / "in.onnx", PLAIN).read_bytes()
        for other in ("in.json", "in.npz"):
            (tmp_path / other).write_bytes(model)
        np.savez(tmp_path / "feeds.npz", in__x=np.ones(2, np.float32))
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        assert seqmap(*words.split()) == 1
        assert "choose another name" in capsys.readouterr().err
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before

    @pytest.mark.parametrize("target", ["real.onnx", "nowhere.onnx"])
    def test_a_link_is_refused(
        self, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, target: str
    ) -> None:
        source = write(tmp_path / "in.onnx", ROWS)
        write(tmp_path / "real.onnx", PLAIN)
        link = tmp_path / "out.onnx"
        link.symlink_to(target)
        monkeypatch.delattr("rewriter.pipeline.rewrite")  # refused before any work is done
        assert seqmap("optimize", source, link) == 1
        assert f"it is a symbolic link to {target}; name that file" in capsys.readouterr().err
        assert link.is_symlink()
        assert sorted(os.listdir(tmp_path)) == ["in.onnx", "out.onnx", "real.onnx"]


class TestCtrlC:
    """Behind the first pass: in the middle of rewriting, verifying or timing."""

    @pytest.mark.long
    @pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
    @pytest.mark.parametrize("words", ["optimize in.onnx out.onnx", "bench in.onnx --plot o.svg"])
    def test_nothing_is_left_behind(self, tmp_path: Path, words: str) -> None:
        place, temporary = tmp_path / "place", tmp_path / "temporary"
        place.mkdir()
        temporary.mkdir()
        write(place / "in.onnx", ROWS)
        path = os.pathsep.join(filter(None, sys.path))
        running = subprocess.Popen(
            [sys.executable, "-m", "rewriter.cli", *words.split(), "-v"],
            cwd=place,
            env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # What runs the tests in the background lets its processes ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert running.stderr is not None
        assert "Pass: " in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        printed, told = running.communicate(timeout=60)
        # Python ends itself by the signal where it came in what a string defines.
        assert running.returncode in (130, -signal.SIGINT)
        assert told.splitlines()[-1] == "seqmap: error: interrupted"
        assert "Traceback" not in told + printed
        assert os.listdir(place) == ["in.onnx"]
        # Not ours: what onnxruntime notes of its session.
        assert set(os.listdir(temporary)) <= {".ses"}


class TestOutput:
    def test_a_reader_that_goes_away_loses_nothing(self, tmp_path: Path) -> None:
        source, out = write(tmp_path / "in.onnx", ROWS), tmp_path / "out.onnx"
        running = subprocess.Popen(
            [sys.executable, "-m", "rewriter.cli", "optimize", source, out, "--verify", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert running.stdout is not None
        running.stdout.close()
        _, shown = running.communicate(timeout=120)
        assert (running.returncode, shown) == (0, "")
        assert out.exists()

    @pytest.mark.long
    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
    @pytest.mark.parametrize(
        "words",
        ["ops", "explain in.onnx --json", "--version", "--help", "--print-completion bash"],
    )
    def test_a_full_disk(self, tmp_path: Path, words: str) -> None:
        write(tmp_path / "in.onnx", ROWS)
        with Path("/dev/full").open("w") as full:
            ran = process(
                *words.split(),
                stdout=full,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        assert ran.returncode == 1
        assert ran.stderr == (
            "seqmap: error: cannot write to standard output: no space left on device\n"
        )

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EPIPE])
    def test_no_room_for_a_model(
        self, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        """A model that did not get through is no success, though nobody reads it any more."""

        class Full(io.RawIOBase):
            def writable(self) -> bool:
                return True

            def write(self, _: object) -> int:
                raise OSError(code, os.strerror(code))

        write(tmp_path / "in.onnx", ROWS)
        full = io.TextIOWrapper(io.BufferedWriter(Full(), 1))
        monkeypatch.setattr(sys, "stdout", full)
        assert seqmap("optimize", tmp_path / "in.onnx", "-", "--no-verify") == 1
        *_, error, last = capsys.readouterr().err.splitlines()
        told = os.strerror(code).lower()
        assert error == f"seqmap: error: cannot write to standard output: {told}"
        assert last.startswith("failed optimize in")


class TestUsage:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("optimize in.onnx out.onnx --seed -1", "-1 is less than 0"),
            ("run in.onnx --seed -1", "-1 is less than 0"),
            ("run in.onnx --seed 1.5", "argument --seed: '1.5' is no whole number"),
            ("optimize in.onnx out.onnx --verify x", "--verify: 'x' is no whole number"),
            ("optimize in.onnx out.onnx --atol x", "argument --atol: 'x' is no number"),
            ("bench in.onnx --min-speedup x", "argument --min-speedup: 'x' is no number"),
            ("explain ", "the name of the file is empty"),
        ],
    )
    def test_wrong_usage(self, capsys: Capture, words: str, message: str) -> None:
        with pytest.raises(SystemExit, match="2"):
            seqmap(*words.split(" "))
        printed = capsys.readouterr()
        assert message in printed.err
        assert printed.err.count("\n") == 1
        assert printed.out == ""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("in.onnx out.onnx --no-verify --inputs f.npz", "--inputs is for the verification"),
            ("in.onnx out.onnx --no-verify --atol 1", "--atol is for the verification"),
            ("in.onnx out", "OUT is 'out': name a file that ends in .onnx or .onnxtxt"),
            ("in.onnx out.json", "OUT is 'out.json': name a file"),
        ],
    )
    def test_options_against_each_other(self, capsys: Capture, words: str, message: str) -> None:
        assert seqmap("optimize", *words.split()) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert printed.err.count("\n") == 1

    def test_wrong_usage_as_json(self, capsys: Capture) -> None:
        with pytest.raises(SystemExit, match="2"):
            seqmap("explain", "--json", "in.onnx", "--target", "mars")
        printed = capsys.readouterr()
        record = json.loads(printed.out)
        assert (record["passed"], record["status"]) == (False, 2)
        assert "invalid choice: 'mars'" in record["error"]
        assert printed.err.count("\n") == 1

    def test_no_model_for_run(self, capsys: Capture) -> None:
        assert seqmap("run") == 2
        assert last_line(capsys.readouterr().out) == ("failed", "run")
