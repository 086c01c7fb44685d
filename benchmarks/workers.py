"""Models run on backends in processes of their own, and what becomes of them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

import onnx

from passes.tensors.io import TensorIo
from rewriter.backends import BackendError, open_session
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import protos
from rewriter.proof.compare import compare

ROOT = pathlib.Path(__file__).parents[1]
PATIENCE = 60.0
"""So many seconds of the processor may a model take; on the clock 20 times as many."""

RTOL, ATOL = 1e-3, 1e-4


class Worker:
    """A process that runs models on one backend; it is begun anew when it dies."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._process: subprocess.Popen[bytes] | None = None

    def ask(
        self, model: bytes, feeds: dict[str, Any], right: list[dict[str, Any]]
    ) -> tuple[str, str]:
        """Return what becomes of a model, and why."""
        if self._process is None:
            words = [sys.executable, "-m", "benchmarks.workers", self._backend]
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        answered, late = threading.Event(), threading.Event()
        watch = threading.Thread(target=_end_late, args=(process, answered, late))
        watch.start()
        try:
            pickle.dump((model, feeds, right), process.stdin)
            process.stdin.flush()
            answer: tuple[str, str] = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.stop()
            return ("hangs" if late.is_set() else "crash"), ""
        else:
            return answer
        finally:
            answered.set()
            watch.join()

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what the process did not read is lost
                    pipe.close()


def _end_late(
    process: subprocess.Popen[bytes], answered: threading.Event, late: threading.Event
) -> None:
    """End a process that does not answer in time; other work on the machine does not count."""
    most = _seconds_of(process) + PATIENCE
    end = time.monotonic() + 20 * PATIENCE
    while not answered.wait(min(PATIENCE, 1.0)):
        if _seconds_of(process) > most or time.monotonic() > end:
            late.set()
            process.kill()
            return


def _seconds_of(process: subprocess.Popen[bytes]) -> float:
    """Return how many seconds of the processor a process has taken; 0 if it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text("utf-8")
    except OSError:
        return 0.0
    ticks = stat.rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def work(backend: str) -> None:
    """Answer models on standard input with verdicts on what was standard output."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    while True:
        try:
            model, feeds, right = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(verdict(backend, onnx.ModelProto.FromString(model), feeds, right), answers)
        answers.flush()


def verdict(
    backend: str, model: onnx.ModelProto, feeds: dict[str, Any], right: Iterable[dict[str, Any]]
) -> tuple[str, str]:
    """Return what becomes of a model on a backend, and why.

    Args:
        backend: The name of the backend.
        model: The model.
        feeds: Inputs, sequences as lists.
        right: Several right outputs; what is none of them is compared with the last one.
    """
    try:
        session = open_session(model, backend)
    except BackendError as error:
        return "refused", str(error)
    try:
        outputs = session.run(feeds)
    except BackendError as error:
        return ("refused" if error.is_limit else "fails"), str(error)
    found = outputs_as_lists(TensorIo.read(protos.from_proto(model)), outputs)
    differences = [compare(one, found, RTOL, ATOL) for one in right]
    if any(difference.equal for difference in differences):
        return "right", ""
    return "wrong", differences[-1].message


if __name__ == "__main__":
    work(sys.argv[1])
