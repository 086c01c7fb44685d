"""A backend in a process of its own, for what may end the process."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

import onnx

from rewriter.backends.session import BackendError
from rewriter.evaluator.run_watch import OverBudgetError, RunWatch

__all__ = ["main", "run"]

_START = "from rewriter.backends.isolated import main; main()"
_LENGTH = struct.Struct("<Q")


def run(
    module: str,
    model: bytes,
    folder: Path | None,
    device: str,
    feeds: dict[str, Any],
    watch: RunWatch | None = None,
    *,
    again: bool = False,
) -> dict[str, Any]:
    """Run a model once in a child process.

    Args:
        module: The backend: a module with a function ``run_here``.
        model: The serialized model.
        folder: Where its external weights lie.
        device: The device, as for a session.
        feeds: The inputs.
        watch: What bounds the run.
        again: Keep the child for further runs: what ends it leaves nothing broken behind where it
            does not end it.

    Returns:
        The outputs by name.

    Raises:
        BackendError: The model fails, or ends the process.
        OverBudgetError: It takes longer than it may.
    """
    request = pickle.dumps((module, model, folder, device, feeds))
    seconds = None if watch is None else max(watch.deadline - time.monotonic(), 0.0)
    if again:
        with _LOCK:
            outputs, message, is_limit = _KEPT.ask(request, seconds)
    else:
        with contextlib.closing(_Child()) as child:
            outputs, message, is_limit = child.ask(request, seconds)
    if message:
        raise BackendError(message, is_limit)
    return dict(outputs)


def main() -> None:
    """Run the models that come on standard input; the entry of the child process."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())  # a runtime may print
    while (request := _read(sys.stdin.buffer)) is not None:
        _write(answers, pickle.dumps(_outcome(*pickle.loads(request))))


def _outcome(
    module: str, data: bytes, folder: Path | None, device: str, feeds: dict[str, Any]
) -> tuple[dict[str, Any], str, bool]:
    try:
        run_here = importlib.import_module(module).run_here
        return run_here(onnx.ModelProto.FromString(data), folder, device, feeds), "", False
    except BackendError as error:
        return {}, str(error), error.is_limit


class _Child:
    """A child process, started when it is first asked and again after it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: bytes, seconds: float | None) -> tuple[dict[str, Any], str, bool]:
        """Send a request and wait for the answer.

        Raises:
            BackendError: The child ended.
            OverBudgetError: There was no answer in time.
        """
        process = self._process or self._start()
        answers: list[bytes | None] = []
        thread = threading.Thread(target=_exchange, args=(process, request, answers), daemon=True)
        thread.start()
        try:
            thread.join(seconds)
            is_late = thread.is_alive()
        except BaseException:
            self.close()
            raise
        if is_late:
            self.close()
            thread.join()
            raise OverBudgetError("its share of the time is over")
        if not answers or answers[0] is None:
            code = self._wait()
            how = f"signal {-code}" if code < 0 else "an error of its own"
            raise BackendError(f"it ended its process by {how}", is_limit=code < 0)
        outputs, message, is_limit = pickle.loads(answers[0])
        return outputs, message, is_limit

    def _start(self) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            cwd=tempfile.gettempdir(),  # it may outlive the folder that it is started in
        )
        return self._process

    def _wait(self) -> int:
        """Return the exit status of a child that has ended."""
        assert self._process is not None
        process, self._process = self._process, None
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        return process.wait()

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.kill()
            self._wait()


def _exchange(
    process: subprocess.Popen[bytes], request: bytes, answers: list[bytes | None]
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        _write(process.stdin, request)
        answers.append(_read(process.stdout))


def _write(stream: IO[bytes], message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """Return the next message, None where there is none, or not all of it."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None


_LOCK = threading.Lock()
_KEPT = _Child()
atexit.register(_KEPT.close)
