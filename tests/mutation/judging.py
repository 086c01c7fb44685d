"""A plugin of pytest that tries mutants one by one against tests that were collected once."""

from __future__ import annotations

import mmap
import os
import resource
import signal
from collections.abc import Callable, Sequence

import pytest

from tests.mutation.mutants import Mutant
from tests.mutation.swapping import swap_of
from tests.mutation.touched import load_marked, passed

__all__ = ["Judge"]

_MEMORY = 16 << 30
_SECONDS = 600


class Judge:
    """Runs for each mutant the tests that may kill it, in a process that forks for it.

    A mutant of a function that has run while the tests were collected is left out: what it left
    behind, a table or a closure, is not the mutant's.
    """

    def __init__(
        self,
        mutants: Sequence[Mutant],
        chosen: Callable[[Mutant, Sequence[str]], Sequence[str]],
        say: Callable[[Mutant, str | None], None],
    ) -> None:
        """Tell what to judge, before the modules of the project are loaded.

        Args:
            mutants: The mutants.
            chosen: Which of the tests to ask for a mutant, in the order to ask them.
            say: Is told of each mutant that was judged, and the test that kills it.
        """
        self._mutants, self._chosen, self._say = mutants, chosen, say
        self._running = mmap.mmap(-1, 8)
        load_marked()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge the mutants in the place of running the tests."""
        items = {item.nodeid: item for item in session.items}
        loaded = passed(f"{session.config.rootpath}/")
        root = session.config.rootpath
        for mutant in self._mutants:
            outer = mutant.function.partition(".<locals>")[0]
            ran = f"{mutant.path}:{outer}" in loaded
            swap = None if ran or not outer else swap_of(mutant, root)
            if swap:
                tests = [items[name] for name in self._chosen(mutant, [*items])]
                self._say(mutant, self._killing(tests, swap))
        return True

    def _killing(self, tests: list[pytest.Item], swap: Callable[[], None]) -> str | None:
        """Return the first test that fails with a mutant, and passes without."""
        while tests:
            failing = self._failing(tests, swap)
            if failing is None:
                return None
            if self._failing([tests[failing]], lambda: None) is None:
                return tests[failing].nodeid
            del tests[: failing + 1]
        return None

    def _failing(self, tests: Sequence[pytest.Item], swap: Callable[[], None]) -> int | None:
        """Return which of some tests fails first, in a process of its own."""
        child = os.fork()
        if child == 0:
            try:
                resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
                signal.alarm(_SECONDS)
                swap()
                self._run(tests)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        return int.from_bytes(self._running[:8]) if status else None

    def _run(self, tests: Sequence[pytest.Item]) -> None:
        """Run tests up to the first that fails; end the process with 0 if none does."""
        session = tests[0].session
        for at, (test, following) in enumerate(zip(tests, [*tests[1:], None], strict=True)):
            self._running[:8] = at.to_bytes(8)
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if session.testsfailed:
                return
        os._exit(0)
