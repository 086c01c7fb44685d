"""A backend in a process of its own, for what may end the process."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import signal
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
_CAN_FORK = sys.platform == "linux"  # what other systems load may not outlive a fork


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
            does not end it. Where the system can fork, each run ends a copy of the child alone.

    Returns:
        The outputs by name.

    Raises:
        BackendError: The model fails, or ends the process.
        OverBudgetError: It takes longer than it may.
    """
    request = pickle.dumps((again, module, model, folder, device, feeds))
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
        again, *asked = pickle.loads(request)
        _write(answers, _in_a_copy(*asked) if again and _CAN_FORK else _outcome(*asked))


def _in_a_copy(module: str, *asked: Any) -> bytes:
    """Run a model in a copy of this process, which need not load the runtime again."""
    importlib.import_module(module)
    source, target = os.pipe()
    copy = os.fork()
    if not copy:
        with os.fdopen(target, "wb") as stream:
            stream.write(_outcome(module, *asked))
        os._exit(0)
    os.close(target)
    with os.fdopen(source, "rb") as stream:
        outcome = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    return outcome if code == 0 else pickle.dumps(({}, *_ended(code)))


def _ended(code: int) -> tuple[str, bool]:
    """Return what is said of a process that ended, and whether the runtime ended it."""
    how = f"signal {-code}" if code < 0 else "an error of its own"
    return f"it ended its process by {how}", code < 0


def _outcome(
    module: str, data: bytes, folder: Path | None, device: str, feeds: dict[str, Any]
) -> bytes:
    return pickle.dumps(_ran(module, data, folder, device, feeds))


def _ran(
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
            raise BackendError(*_ended(self._wait()))
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
            process_group=0 if _CAN_FORK else None,
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
            if _CAN_FORK:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)  # its copy too
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
