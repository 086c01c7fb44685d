"""Mutants of ``passes/`` and what kills them: ``python -m tests.mutation --mutants 200 --seed 0``.

Each mutant runs, in a copy of the project, against the tests that call its function.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import drawn
from tests.mutation.runs import Cases, Copy

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/passes",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if fewer than 95 of 100 mutants are killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants of this seed")
    parser.add_argument(
        "--copy", type=Path, help="folder of the copy; what was learnt there of the tests is used"
    )
    given = parser.parse_args(arguments)
    mutants = drawn(ROOT, "passes", given.mutants, given.seed)
    chosen = given.only if given.only is not None else range(len(mutants))
    with tempfile.TemporaryDirectory() as scratch:
        project = Copy(ROOT, given.copy or Path(scratch), TESTS)
        counted: Counter[Cases | None] = Counter()
        for number in chosen:
            cases = project.killed_by(mutants[number])
            counted[cases] += 1
            said = f"killed {cases.value}" if cases else "SURVIVES"
            print(f"{number} {said} {mutants[number]}", flush=True)
    survivors = counted[None]
    print(f"{len(chosen) - survivors} of {len(chosen)} killed", end=", ")
    print(", ".join(f"{counted[cases]} {cases.value}" for cases in Cases))
    return int(survivors * 20 > len(chosen))


if __name__ == "__main__":
    raise SystemExit(main())
