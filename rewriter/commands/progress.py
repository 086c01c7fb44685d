"""What is told of a step that takes long: a line that goes away, or one every ten seconds."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from rewriter.reporting.listening import heard_by
from rewriter.reporting.printable import printable

__all__ = ["Progress"]

_PATIENCE = 1.0
"""Seconds that a step may take before a terminal announces it."""
_INTERVAL = 10.0
"""Seconds between two lines about a step where there is no terminal."""


class Progress:
    """Announces the steps of a command on stderr; a step within a step shares its line."""

    def __init__(self, *, is_silent: bool, in_lines: bool) -> None:
        """Set up.

        Args:
            is_silent: Announce nothing.
            in_lines: Announce in lines on a terminal too, since other lines go there meanwhile.
        """
        self._is_silent = is_silent
        self._in_lines = in_lines
        self._steps: list[str] = []

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Announce a step once it takes long.

        Yields:
            What tells where in the step the work is, as `rewriter.reporting.listening.tell` does.
        """
        depth = len(self._steps)

        def move(place: str) -> None:
            self._steps[depth:] = [f"{name} {place}"]

        self._steps.append(name)
        is_announced = depth > 0 or self._is_silent
        try:
            with heard_by(move), contextlib.nullcontext() if is_announced else self._announced():
                yield move
        finally:
            del self._steps[depth:]

    @contextlib.contextmanager
    def _announced(self) -> Iterator[None]:
        done = threading.Event()
        thread = threading.Thread(target=self._announce, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _announce(self, done: threading.Event) -> None:
        started = time.perf_counter()

        def seconds() -> float:
            return time.perf_counter() - started

        if self._in_lines or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            while not done.wait(_INTERVAL):
                sys.stderr.write(f"seqmap: {self._text()} ... {seconds():.0f} s\n")
                sys.stderr.flush()
        elif not done.wait(_PATIENCE):
            status_line = importlib.import_module("rewriter.commands.status_line")
            status_line.draw_line(self._text, seconds, done.wait)

    def _text(self) -> str:
        return printable(", ".join(self._steps))
