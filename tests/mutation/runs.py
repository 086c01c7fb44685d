"""Runs tests of a project in a copy of it, in which one file is wrong."""

from __future__ import annotations

import enum
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

# What takes long to load and is never wrong is loaded once, before the process forks.
import numpy as np
import onnx.reference
import onnx_ir as ir
import onnxruntime
import pytest

from tests.mutation.judging import Judge
from tests.mutation.mutants import Mutant
from tests.mutation.touched import FILE, read, write

__all__ = ["Cases", "Copy"]

LOADED = (np, onnx, ir, onnxruntime)
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build")
_MEMORY = 16 << 30
_FILES, _TESTS = 5, 40
"""Of how many files tests are asked first, and how many tests."""
_EACH = 8
"""How many tests of each file are asked before the rest."""
_WHOLE = 30.0
"""How many seconds the cases of these and others may take, as they took when first run."""
_OTHERS = 120.0
"""How many seconds the others may take that run the lines."""
_SECONDS = 600
_ALL_CASES = ("-m", "not cuda")
"""Asks for the cases of large tables, too, that the default run leaves out."""
_NOTHING_PENDING = ("-p", "no:unraisableexception", "-p", "no:threadexception")
"""No test of a forked process fails by what the process before it could not raise."""


class Cases(enum.Enum):
    """Cases of tests."""

    DEFAULT = "by the default run"
    LEFT_OUT = "by a case that the default run leaves out"


class Copy:
    """A copy of a project, and which of its tests run which lines."""

    def __init__(self, root: Path, folder: Path, tests: Sequence[str]) -> None:
        """Copy a project and run some of its tests.

        Args:
            root: The project.
            folder: Where the copy goes, and what is learnt of the tests: once for one folder.
            tests: The files or folders of tests to choose from.
        """
        self.root, self.output = folder / "project", folder / "output"
        self._folders = tests
        touched = folder / "touched"
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(root, self.root, ignore=_LEFT_OUT)
        known = read(touched)
        learnt = {_file(test): said.changed for test, said in known.items()}
        files = [f for t in tests for f in sorted((self.root / t).rglob("test_*.py"))]
        times = {str(f.relative_to(self.root)): f.stat().st_mtime for f in files}
        changed = [name for name, time in times.items() if learnt.get(name) != time]
        self._tests = {t: said for t, said in known.items() if _file(t) not in changed}
        if changed:
            plugin, new = ["-p", "tests.mutation.touched"], folder / "new"
            new.unlink(missing_ok=True)
            try:
                failed = self._pytest([*plugin, *changed], {FILE: str(new)})
            finally:
                self._tests |= read(new)
                write(touched, self._tests)
            if failed and os.waitstatus_to_exitcode(failed) != pytest.ExitCode.NO_TESTS_COLLECTED:
                raise RuntimeError(f"the tests fail before anything is changed: {self.output}")

    def judged(self, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str | None]]:
        """Judge mutants by the tests that run their lines, all in one process.

        The tests are loaded once, and a mutant's code is put into the loaded function. Those that
        this does not fit are left out: `killed_by` judges them, at more cost.

        Args:
            mutants: The mutants.

        Yields:
            Each mutant, and the test that kills it.
        """
        numbers = {mutant: number for number, mutant in enumerate(mutants)}
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)

            def say(mutant: Mutant, test: str | None) -> None:
                os.write(send, f"{json.dumps([numbers[mutant], test])}\n".encode())

            judge = Judge(mutants, self._chosen, say)
            temporary = f"--basetemp={self.output.with_name('temporary')}"
            self._run_here([*_ALL_CASES, *_NOTHING_PENDING, temporary, *self._folders], [judge])
        os.close(send)
        with os.fdopen(receive) as lines:
            for line in lines:
                number, test = json.loads(line)
                yield mutants[number], test
        os.waitpid(child, 0)

    def cases_of(self, test: str) -> Cases:
        """Return to which cases a test belongs."""
        return Cases.DEFAULT if test in self._tests else Cases.LEFT_OUT

    def _chosen(self, mutant: Mutant, collected: Sequence[str]) -> list[str]:
        """Return the tests to ask for a mutant, of those that there are."""
        near, others = self._near(mutant)
        left_out = Counter(t.partition("[")[0] for t in collected if t not in self._tests)
        whole = self._whole(near, left_out)
        more = [t for t in collected if t.partition("[")[0] in whole and t not in self._tests]
        known = set(collected)
        return [t for t in dict.fromkeys([*near[:_TESTS], *others, *more]) if t in known]

    def killed_by(self, mutant: Mutant) -> Cases | None:
        """Return which cases tell a mutant from the project, of the tests that run its lines.

        The nearest of them are asked first, then some of each file, then the others, and only
        then the cases that the default run leaves out. Outside of a function it is the tests of
        the folder.
        """
        first, others = self._near(mutant)
        whole = self._whole(first, Counter(t.partition("[")[0] for t in self._tests))
        stages = (
            (Cases.DEFAULT, first[:_TESTS]),
            (Cases.DEFAULT, others),
            (Cases.LEFT_OUT, [*whole, *_ALL_CASES] if whole else []),
        )
        file = self.root / mutant.path
        kept = file.with_suffix(".kept")
        shutil.copy2(file, kept)
        try:
            file.write_text(mutant.source)
            killing = (cases for cases, some in stages if some and self._pytest(["-x", *some]))
            return next(killing, None)
        finally:
            shutil.move(kept, file)

    def _near(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """Return the tests of the nearest files, and others in time, some of each file first."""
        near = [t for t, said in self._tests.items() if _runs(said.masks, mutant)]
        for folder in Path(mutant.path).parents:
            near = near or [t for t in self._tests if t.startswith(f"tests/{folder}/")]
        own = f"test_{Path(mutant.path).stem}"
        near.sort(key=self._seconds)
        counted = Counter(_file(t) for t in near)
        files = sorted(counted, key=lambda f: (own not in f, -counted[f]))
        first = [t for t in near if _file(t) in files[:_FILES]]
        wide = [t for f in files for t in [t for t in near if _file(t) == f][:_EACH]]
        others = [t for t in dict.fromkeys([*wide, *near]) if t not in first[:_TESTS]]
        return first, self._within(others, _OTHERS)

    def _whole(self, tests: Sequence[str], cases: Counter[str]) -> list[str]:
        """Return the functions of some tests, as many as so many cases of each have time for."""
        found: list[str] = []
        seconds = 0.0
        for test in tests:
            name = test.partition("[")[0]
            if name not in found and seconds < _WHOLE:
                found.append(name)
                seconds += cases[name] * self._seconds(test)
        return found

    def _within(self, tests: Sequence[str], most: float) -> list[str]:
        """Return the first of some tests, as many as there is time for."""
        ends = itertools.accumulate(self._seconds(test) for test in tests)
        return [test for test, end in zip(tests, ends, strict=True) if end < most]

    def _seconds(self, test: str) -> float:
        return self._tests[test].seconds

    def _pytest(self, arguments: Sequence[str], variables: dict[str, str] | None = None) -> int:
        """Run tests in the copy, in a process of its own; 0 if they pass."""
        child = os.fork()
        if child == 0:
            os.environ.update(variables or {})
            self._run_here(arguments)
        end = time.monotonic() + (_SECONDS if variables is None else float("inf"))
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]

    def _run_here(self, arguments: Sequence[str], plugins: Sequence[object] = ()) -> None:
        """Run tests and end the process: the copy's modules, and nothing of the project's own."""
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            with self.output.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            for name in [*sys.modules]:
                if name.partition(".")[0] in ("passes", "rewriter", "tests"):
                    del sys.modules[name]
            os.environ["PYTHONPATH"] = str(self.root)
            os.chdir(self.root)
            sys.path.insert(0, str(self.root))
            sys.dont_write_bytecode = "-x" in arguments
            status = int(pytest.main(["-p", "no:cacheprovider", *arguments], [*plugins]))
        finally:
            os._exit(status)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _runs(masks: dict[str, int], mutant: Mutant) -> bool:
    """Whether a test runs the lines of a mutant, or any of the file where it is in no function."""
    if mutant.lines is None:
        return any(name.startswith(f"{mutant.path}:") for name in masks)
    first, last = mutant.lines
    mask = masks.get(f"{mutant.path}:{mutant.function}", 0)
    return bool(mask >> first & (2 << last - first) - 1)
