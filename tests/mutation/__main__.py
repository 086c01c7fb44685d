"""Mutants of ``passes/`` and what kills them: ``python -m tests.mutation --mutants 200 --seed 0``.

Each mutant runs, in a copy of the project, against the tests that call its function: at first
those whose code can be put into a function that is loaded already, which takes seconds, then the
others, for which all is loaded anew. With ``--undecided FOLDER`` none runs: the conditions of the
folder that no test decides are listed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant, drawn
from tests.mutation.runs import Cases, Copy
from tests.mutation.undecided import FILE

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/passes",)
_DECIDING = (*TESTS, "tests/fusions", "tests/programs", "tests/property")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if fewer than 95 of 100 mutants are killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants of this seed")
    parser.add_argument(
        "--copy", type=Path, help="folder of the copy; what was learnt there of the tests is used"
    )
    parser.add_argument(
        "--undecided",
        nargs="?",
        const="passes",
        metavar="FOLDER",
        help="list the conditions of this folder, passes by default, that no test decides",
    )
    given = parser.parse_args(arguments)
    if given.undecided:
        print(*_undecided(given.undecided), sep="\n")
        return 0
    mutants = drawn(ROOT, "passes", given.mutants, given.seed)
    chosen = given.only if given.only is not None else range(len(mutants))
    with tempfile.TemporaryDirectory() as scratch:
        project = Copy(ROOT, given.copy or Path(scratch), TESTS)
        counted: Counter[Cases | None] = Counter()
        for mutant, cases in _judged(project, [mutants[number] for number in chosen]):
            counted[cases] += 1
            said = f"killed {cases.value}" if cases else "SURVIVES"
            print(f"{mutants.index(mutant)} {said} {mutant}", flush=True)
    survivors = counted[None]
    print(f"{len(chosen) - survivors} of {len(chosen)} killed", end=", ")
    print(", ".join(f"{counted[cases]} {cases.value}" for cases in Cases))
    return int(survivors * 20 > len(chosen))


def _judged(project: Copy, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, Cases | None]]:
    """Judge mutants, first those that take little."""
    left = dict.fromkeys(mutants)
    for mutant, test in project.judged(mutants):
        del left[mutant]
        yield mutant, project.cases_of(test) if test else None
    for mutant in left:
        yield mutant, project.killed_by(mutant)


def _undecided(folder: str) -> list[str]:
    """Return the conditions of a folder that no test decides, whichever process ran it."""
    with tempfile.TemporaryDirectory() as scratch:
        run = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tests.mutation.undecided"]
        variables = {**os.environ, FILE: f"{scratch}/of"}
        subprocess.run([*run, *_DECIDING], cwd=ROOT, env=variables, stdout=sys.stderr, check=False)
        written = [set(file.read_text().splitlines()) for file in Path(scratch).glob("ofgw*")]
    return sorted(line for line in set.intersection(*written) if line.startswith(folder))


if __name__ == "__main__":
    raise SystemExit(main())
