"""One command on many models: each in a process that may die without ending the others."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import multiprocessing
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from passes.errors import RewriteError
from rewriter.commands.console import Console
from rewriter.commands.execution import MODEL_SUFFIXES, execute
from rewriter.spawning import deaf_to_interrupts, without_a_script

__all__ = ["counted", "find_models", "is_pattern", "run_each", "worst"]

Record = dict[str, Any]


def find_models(named: Iterable[Path], output: Path | None = None) -> dict[Path, Path]:
    """Return model files, each with its place below what named it.

    Args:
        named: Files, folders that are searched at any depth, and patterns such as ``*.onnx``.
        output: Where rewritten models go. A folder is not searched there, nor in ``*.mismatch``,
            where the evidence of failed verifications lies.

    Raises:
        RewriteError: A name leads to no model.
    """
    found: dict[Path, Path] = {}
    for one in named:
        if one == Path("-"):
            raise RewriteError("- is one model on standard input: seqmap explain takes it")
        if one.is_dir():
            paths = _models(one.rglob("*"))
            inner = {
                path: path.relative_to(one)
                for path in paths
                if not path.is_dir() and not _is_written(path, one, output)
            }
        elif is_pattern(one):
            root = Path(one.anchor or ".")
            pattern = str(one.relative_to(one.anchor) if one.anchor else one)
            paths = _models(root.glob(pattern))
            inner = {path: Path(path.name) for path in paths}
        else:
            inner = {one: Path(one.name)}
        if not inner:
            raise RewriteError(f"no .onnx or .onnxtxt file is found in {one}: name another place")
        found |= inner
    return found


def _models(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are named as models, in order; reading a pipe would never end."""
    return sorted(p for p in paths if p.suffix in MODEL_SUFFIXES and not p.is_fifo())


def is_pattern(path: Path) -> bool:
    """Return whether a name stands for all that match it, and is no file itself."""
    return any(char in str(path) for char in "*?[") and not path.exists()


def _is_written(path: Path, root: Path, output: Path | None) -> bool:
    """Return whether an earlier command wrote a model below a folder that is searched."""
    folders = path.relative_to(root).parents
    if any(folder.suffix == ".mismatch" for folder in folders):
        return True
    return output is not None and any((root / folder).samefile(output) for folder in folders[:-1])


def run_each(
    every: Sequence[argparse.Namespace], jobs: int, on_done: Callable[[int, Record], None]
) -> list[Record]:
    """Run a command once for each set of options, in processes of their own.

    Args:
        every: The options, as the parser gives them.
        jobs: How many run at the same time.
        on_done: Called with the number of a run and its record when it has ended.

    Returns:
        What ``--json`` prints for each, in the order of ``every``.
    """
    team = [_Worker() for _ in range(min(jobs, len(every)))]
    workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for one in team:
        workers.put(one)
    lock = threading.Lock()

    def run(number: int) -> Record:
        worker = workers.get()
        try:
            record = worker.run(every[number])
        finally:
            workers.put(worker)
        with lock:
            on_done(number, record)
        return record

    try:
        with ThreadPoolExecutor(jobs) as pool, _stopped_early(team):
            return list(pool.map(run, range(len(every))))
    finally:
        for one in team:
            one.end()


@contextlib.contextmanager
def _stopped_early(team: Sequence[_Worker]) -> Iterator[None]:
    """Stop all workers where what waits for them is interrupted."""
    try:
        yield
    except BaseException:
        for worker in team:
            worker.stop()
        raise


def counted(paths: Iterable[Path], move: Callable[[str], None]) -> Callable[[int, Record], None]:
    """Return what tells how many of some models are done, and which was the last."""
    names = [str(path) for path in paths]
    numbers = itertools.count(1)
    return lambda i, _: move(f"{next(numbers)} of {len(names)} done, last {names[i]}")


def worst(records: Iterable[Record]) -> int:
    """Return the highest exit status."""
    return max((int(record["status"]) for record in records), default=0)


class _Worker:
    """A process that runs commands, one after the other; started again where it has died.

    Ctrl-C on a terminal reaches all processes of a command; a worker leaves it to `stop`, which
    ends workers that start at that moment, too.
    """

    def __init__(self) -> None:
        self._is_stopped = False
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def run(self, args: argparse.Namespace) -> Record:
        connection = self._connection or self._start()
        try:
            connection.send(args)
            record: Record = connection.recv()
        except (EOFError, OSError):
            process = self._process
            self.end()
            code = process.exitcode if process else None
            error = f"the process ended with {code}: a runtime died on this model"
            return {"command": args.command, "error": error, "passed": False, "status": 1}
        return record

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        own, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        with deaf_to_interrupts(), without_a_script():
            self._process.start()
        other.close()
        self._connection = own
        if self._is_stopped:
            self.stop()
        return own

    def stop(self) -> None:
        """End the command that runs, and start no further one."""
        self._is_stopped = True
        if (process := self._process) is not None and process.is_alive():
            process.terminate()

    def end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.join()
        self._connection = self._process = None


def _serve(connection: Connection) -> None:
    """Run what comes until nothing comes any more."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a command tidies up
    with contextlib.suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            connection.send(_record(connection.recv()))


def _record(args: argparse.Namespace) -> Record:
    """Run a command; return what ``--json`` prints for it."""
    console = Console((args.command,), args.command, as_json=True, quiet=True, verbose=False)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = console.finish(execute(args, console), 0.0)
    trace = errors.getvalue() if "Traceback" in errors.getvalue() else ""
    return console.record | {"status": status, "traceback": trace}
