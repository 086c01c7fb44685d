"""Judges many programs: ``python -m tests.programs --seeds 0:2000 --jobs 2``.

Seeds run in processes of their own; one that kills its process is reported like any other.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from rewriter.errors import FaultWarning
from tests.programs.judge import MODES, STAGES, Outcome, judge, mode_of
from tests.programs.minimise import minimise, show
from tests.programs.programs import draw_program

CHUNK = 100
SECONDS = 900


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if a program is not right."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("--seeds", default="0:300", help="FIRST:END or one seed")
    parser.add_argument("--mode", choices=MODES, help="one for all; else drawn with the seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--verdict", action="append", help="list seeds of these verdicts too")
    parser.add_argument("--minimise", action="store_true", help="print small models that fail")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    first, _, end = given.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    if given.here:
        STAGES.append(True)
        for seed in seeds:
            outcome = judge(draw_program(seed), given.mode or mode_of(seed))
            print(json.dumps(dataclasses.asdict(outcome)), flush=True)
        return 0
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    notes: collections.Counter[str] = collections.Counter()
    wrong = []
    start = time.monotonic()
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    with ThreadPoolExecutor(given.jobs) as threads:
        for outcomes in threads.map(lambda c: list(judge_apart(c, given.mode)), chunks):
            for outcome in outcomes:
                counts[outcome.mode][outcome.verdict] += 1
                notes.update(outcome.notes)
                if not outcome.is_right or outcome.verdict in (given.verdict or ()):
                    print(_headline(outcome), flush=True)
                if not outcome.is_right:
                    wrong.append(outcome)
    for mode, count in counts.items():
        print(f"{mode}: " + ", ".join(f"{n} {v}" for v, n in count.most_common()))
    said = ", ".join(f"{n} {v}" for v, n in notes.items())
    print(f"{len(seeds)} programs in {time.monotonic() - start:.0f} s; {said}", flush=True)
    for outcome in wrong if given.minimise else ():
        small = minimise(draw_program(outcome.seed), outcome)
        last = outcome if outcome.verdict == "killed" else judge(small, outcome.mode)
        print(f"\n# {_headline(last)}\n{show(small)}", flush=True)
    return 1 if wrong else 0


def judge_apart(seeds: range, mode: str | None) -> Iterator[Outcome]:
    """Judge in another process, and in a new one after a seed that killed it.

    Where time is up, the seed is to blame only if it had all of it.
    """
    while seeds:
        is_late = False
        command = [sys.executable, "-m", "tests.programs", "--here"]
        command += ["--seeds", f"{seeds.start}:{seeds.stop}", *(["--mode", mode] if mode else [])]
        with tempfile.TemporaryFile("w+") as errors:
            try:
                run = subprocess.run(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    timeout=SECONDS,
                    check=False,
                )
                lines, status = run.stdout.splitlines(), f"exit status {run.returncode}"
            except subprocess.TimeoutExpired as error:
                lines, is_late = (error.stdout or b"").decode().splitlines(), True
                status = f"nothing after {SECONDS} s"
            errors.seek(0)
            said = errors.read().strip().splitlines()[-1:]
        found = [Outcome(**json.loads(line)) for line in lines]
        yield from found
        seeds = seeds[len(found) :]
        if seeds and not (is_late and found):
            seed = seeds.start
            yield Outcome(seed, mode or mode_of(seed), "killed", " ".join([status, *said]))
            seeds = seeds[1:]


def _headline(outcome: Outcome) -> str:
    return f"seed {outcome.seed} {outcome.mode} {outcome.verdict}: {outcome.detail}"


if __name__ == "__main__":
    warnings.simplefilter("error", FaultWarning)
    sys.exit(main())
