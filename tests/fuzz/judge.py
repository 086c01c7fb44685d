"""What the command line owes for any file whatever."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import re
import select
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from tests.fuzz.mutations import damaged

ROOT = pathlib.Path(__file__).parents[2]
SECONDS = 120
BYTES = 2**30
STATUSES = (0, 1, 2, 3, 4)

# The words of a command, and how often it is drawn.
COMMANDS = {
    ("optimize", "IN", "OUT", "--no-verify"): 8,
    ("optimize", "IN", "OUT", "--verify", "2"): 4,
    ("optimize", "IN", "OUT", "--no-verify", "--strategy", "fuse", "--json"): 2,
    ("optimize", "IN", "OUT", "--no-verify", "--strategy", "expand"): 1,
    ("optimize", "IN", "OUT", "--no-verify", "--tensor-io", "--target", "portable"): 2,
    ("explain", "IN", "--report", "REPORT"): 2,
    ("run", "IN"): 1,
    ("run", "IN", "--backend", "reference"): 1,
    ("validate", "IN", "IN", "--cases", "2"): 1,
}

_AT = re.compile(r"seqmap: \w+ing .*\.\.\. \d+ s")


class Judge:
    """Runs damaged files through the command line, in a process that is replaced when it dies."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[str] | None = None

    def fault(self, seed: int) -> str:
        """Return what is wrong with how a command took the file of a seed; empty where nothing."""
        rng = random.Random(seed)
        words = rng.choices(list(COMMANDS), list(COMMANDS.values()))[0]
        suffix, data = damaged(seed)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="seqmap-fuzz-"))
        try:
            given = {"IN": f"in{suffix}", "OUT": "out.onnx", "REPORT": f"r{_report(rng)}"}
            (folder / given["IN"]).write_bytes(data)
            places = {word: str(folder / name) for word, name in given.items()}
            answer = self._ask([places.get(word, word) for word in words])
            if isinstance(answer, str):
                return f"{' '.join(words)}: {answer}"
            wrong = _wrong(answer, folder, places["IN"])
            return f"{' '.join(words)}: {wrong}" if wrong else ""
        finally:
            shutil.rmtree(folder)

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            for stream in (self._worker.stdin, self._worker.stdout):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()
            self._worker = None

    def _ask(self, words: list[str]) -> dict[str, Any] | str:
        if self._worker is None:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(words) + "\n")
        self._worker.stdin.flush()
        ready, _, _ = select.select([self._worker.stdout], [], [], SECONDS)
        line = self._worker.stdout.readline() if ready else ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        died = bool(ready)
        status = self._worker.wait() if died else None
        self.close()
        return f"ended by signal {-(status or 0)}" if died else f"takes more than {SECONDS} s"


def _report(rng: random.Random) -> str:
    return rng.choice((".json", ".md", ".html"))


def _may_be_said(line: str) -> bool:
    """Whether a line says no error: a warning, or what a command that takes long is at."""
    return line.startswith("seqmap: warning: ") or _AT.fullmatch(line) is not None


def _wrong(answer: dict[str, Any], folder: pathlib.Path, given: str) -> str:
    status, err = answer["status"], answer["err"]
    lines = [line for line in err.splitlines() if not _may_be_said(line)]
    if status not in STATUSES:
        return f"status {status}\n{err}"
    if "Traceback" in err or "this is a bug" in err:
        return err
    if len(lines) != (status != 0) or not all(
        line.startswith("seqmap: error: ") for line in lines
    ):
        return f"status {status}, and on stderr:\n{err}"
    if any(not char.isprintable() for char in err.replace("\n", "")):
        return f"what cannot be printed: {err!r}"
    left = set(os.listdir(folder)) - {pathlib.Path(given).name}
    evidence = {"out.onnx.mismatch", f"{pathlib.Path(given).name}.mismatch"}
    allowed = evidence if status == 3 else {one for one in evidence if one in err}
    allowed |= {"out.onnx"} if status == 0 else set()
    if unexpected := [name for name in left - allowed if not name.startswith("r.")]:
        return f"status {status}, and leaves {unexpected}"
    if answer["peak"] > BYTES:
        return f"takes {answer['peak'] / 2**20:.0f} MiB"
    return ""
