"""Writes the output of a command: text or one JSON object to stdout, errors to stderr."""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from rewriter.commands.progress import Progress
from rewriter.commands.standard_output import write_text
from rewriter.commands.tables import aligned, fitted
from rewriter.commands.terminal import coloured, has_colour, wrapped
from rewriter.reporting.printable import json_text, printable

__all__ = ["Console"]


class Console:
    """The output of one run of the command line.

    Attributes:
        words: The command line after ``seqmap``.
        record: What ``--json`` prints at the end; commands add to it as they go.
    """

    def __init__(
        self,
        words: Sequence[str],
        command: str,
        *,
        as_json: bool,
        quiet: bool,
        verbose: bool,
        stdout_is_taken: bool = False,
    ) -> None:
        """Set up.

        Args:
            words: The command line after ``seqmap``.
            command: The command.
            as_json: Print one JSON object, nothing else.
            quiet: Print the last line and warnings only.
            verbose: Log passes and times, and print more of the report.
            stdout_is_taken: A model is written to stdout; all else goes to stderr.
        """
        self.words = words
        self.record: dict[str, Any] = {"command": command}
        self._as_json = as_json
        self._quiet = quiet
        self._verbose = verbose
        self._progress = Progress(is_silent=quiet, in_lines=verbose)
        self._lost = ""
        self._stdout_is_taken = stdout_is_taken
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A name that the terminal's encoding has no letters for is no reason to fail.
            sys.stdout.reconfigure(errors="backslashreplace")

    @property
    def _out(self) -> TextIO:
        return sys.stderr if self._stdout_is_taken else sys.stdout

    @property
    def is_verbose(self) -> bool:
        """Whether the reader wants to know more."""
        return self._verbose

    @property
    def is_read(self) -> bool:
        """Whether more is printed than the last line."""
        return self._as_json or not self._quiet

    def say(self, text: str) -> None:
        """Print lines for a reader; nothing under ``--json`` or ``--quiet``."""
        if not (self._as_json or self._quiet):
            self.write(self._dressed(printable(text.rstrip("\n"), keep="\n")) + "\n")

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Print a table for a reader, as `say` does; it fits the terminal if that can be."""
        if self._out.isatty():
            self.say(fitted(rows, shutil.get_terminal_size().columns))
        else:
            self.say(aligned(rows))

    def _dressed(self, text: str) -> str:
        """Wrap and colour lines on a terminal; elsewhere return them as they are."""
        if self._out.isatty():
            text = wrapped(text, shutil.get_terminal_size().columns)
        return coloured(text) if has_colour(self._out) else text

    def write(self, text: str) -> None:
        """Write to stdout at once; the work goes on where nobody can read it any more."""
        self._lost = write_text(text, self._out) or self._lost

    def error(self, message: str) -> None:
        """Print one line to stderr, and record it."""
        line = printable(" ".join(message.split()))
        self.record["error"] = line
        sys.stderr.write(f"seqmap: error: {line}\n")

    def warn(self, message: str) -> None:
        """Print one line to stderr, quiet or not."""
        sys.stderr.write(f"seqmap: warning: {printable(' '.join(message.split()))}\n")

    def finish(self, status: int, seconds: float) -> int:
        """Print the last line: whether the command passed, and how long it took.

        Returns:
            The exit status: the given one, or 1 where the output could not be written.
        """
        passed = status == 0
        self.record |= {"passed": passed, "status": status, "seconds": round(seconds, 3)}
        if self._as_json:
            text = json_text(self.record, self._out.encoding or "utf-8")
        else:
            verdict = "passed" if passed else "failed"
            text = self._dressed(f"{verdict} {self.record['command']} in {seconds:.1f} s")
        self.write(text + "\n")
        if not self._lost:
            return status
        self.error(self._lost)
        return status or 1

    @contextlib.contextmanager
    def logging(self) -> Iterator[None]:
        """Under ``--verbose`` send the log of both packages to stderr: passes and their times.

        What other packages log is not for the reader of a command.
        """
        if not self._verbose:
            nowhere = logging.NullHandler()
            logging.getLogger().addHandler(nowhere)
            try:
                yield
            finally:
                logging.getLogger().removeHandler(nowhere)
            return
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Printable("%(message)s"))
        loggers = [logging.getLogger(name) for name in ("rewriter", "passes")]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.removeHandler(handler)
                logger.setLevel(level)

    def progress(self, step: str) -> contextlib.AbstractContextManager[Callable[[str], None]]:
        """Announce a step on stderr once it takes long, see `Progress.step`."""
        return self._progress.step(step)


class _Printable(logging.Formatter):
    """A formatter of lines that show no control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n")
