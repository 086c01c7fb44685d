"""Judges many seeds: ``python -m tests.property --seeds 0:2000 --in-turn``.

A rewrite is what takes the time, 15 times that of all else: with ``--in-turn`` there is one for
each seed, and every strategy has its share of the seeds. Seeds run in processes of their own; one that kills its process is reported like any other.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import onnx

from rewriter.errors import FaultWarning
from tests.property.coverage import coverage, raggedness
from tests.property.judge import STRATEGIES, Outcome, judge, program_for
from tests.property.minimise import minimise
from tests.property.models import model_of
from tests.property.programs import draw_program

CHUNK = 300
"""How many rewrites one process is given."""
SECONDS = 600
VERDICTS = ("right", "wrong", "failing", "refused", "killed", "no kernel")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if a seed is not right."""
    parser = argparse.ArgumentParser(prog="python -m tests.property", description=__doc__)
    parser.add_argument("--seeds", default="0:300", help="FIRST:END or one seed")
    parser.add_argument("--strategy", action="append", choices=STRATEGIES)
    parser.add_argument("--in-turn", action="store_true", help="one strategy a seed, in turn")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--coverage", action="store_true", help="say what the seeds cover")
    parser.add_argument("--no-minimise", action="store_true", help="print the whole model")
    parser.add_argument("--quiet", action="store_true", help="print no models")
    parser.add_argument("--here", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    first, _, end = given.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    strategies = given.strategy or list(STRATEGIES)
    if given.here is not None:
        for outcome in _judge_here(given.here):
            print(json.dumps(dataclasses.asdict(outcome)), flush=True)
        return 0
    if given.coverage:
        for kind, counter in coverage(draw_program(seed) for seed in seeds).items():
            print(f"{kind}: " + ", ".join(f"{k} {n}" for k, n in counter.most_common()))
        return 0
    trials = _trials(seeds, strategies, in_turn=given.in_turn)
    chunks = [trials[i : i + CHUNK] for i in range(0, len(trials), CHUNK)]
    wrong = []
    counts: dict[str, Counter[str]] = {s: Counter() for s in strategies}
    features: dict[str, None] = {}
    with ThreadPoolExecutor(given.jobs) as threads:
        for outcomes in threads.map(lambda chunk: list(_judge_apart(chunk)), chunks):
            for outcome in outcomes:
                counts[outcome.strategy].update([outcome.verdict, outcome.form])
                counts[outcome.strategy].update(outcome.raggedness)
                features.update(dict.fromkeys(outcome.raggedness))
                if not outcome.is_right:
                    print(_headline(outcome), flush=True)
                    wrong.append(outcome)
    if not given.quiet:
        for outcome in wrong:
            _show(outcome, smaller=not given.no_minimise)
    for strategy, count in counts.items():
        print(_summary(strategy, count))
        print("  of these: " + ", ".join(f"{count[f]} {f}" for f in sorted(features)))
    return 1 if wrong else 0


_Trials = list[tuple[int, str]]
"""Seeds and strategies."""


def _trials(seeds: range, strategies: Sequence[str], *, in_turn: bool) -> _Trials:
    if in_turn:
        return [(seed, strategies[seed % len(strategies)]) for seed in seeds]
    return [(seed, strategy) for seed in seeds for strategy in strategies]


def _judge_here(trials: _Trials) -> Iterator[Outcome]:
    for seed, strategy in trials:
        program = program_for(seed, strategy)
        features = tuple(dict.fromkeys(raggedness(program)))
        yield dataclasses.replace(judge(program, strategy), raggedness=features)


def _judge_apart(trials: _Trials) -> Iterator[Outcome]:
    """Judge in another process, and in a new one after a seed that killed it.

    Where time is up, the seed is to blame only if it had all of it.
    """
    pending = list(trials)
    while pending:
        done, is_late = 0, False
        command = [sys.executable, "-m", "tests.property", "--here", json.dumps(pending)]
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
        for line in lines:
            yield Outcome(**json.loads(line))
            done += 1
        if done < len(pending) and not (is_late and done):
            seed, strategy = pending[done]
            yield Outcome(seed, strategy, "killed", " ".join([status, *said]))
            done += 1
        del pending[:done]


def _headline(outcome: Outcome) -> str:
    return f"seed {outcome.seed} {outcome.strategy} {outcome.verdict}: {outcome.detail}"


def _show(outcome: Outcome, *, smaller: bool) -> None:
    """Print the model of a seed that is not right, as small as it still is not."""
    program = program_for(outcome.seed, outcome.strategy)
    if smaller and outcome.verdict != "killed":
        program = minimise(program, outcome)
        outcome = judge(program, outcome.strategy)
    feeds = [list(feed.samples) for feed in program.feeds]
    print(f"\n# {_headline(outcome)}\n# options {dict(program.options)}, samples {feeds}")
    for value in (*program.body.mapped, *program.body.shared, *program.body.captured):
        shapes = [list(s.shape) for s in value.samples]
        print(f"# {value.name}: {value.dtype} {shapes if value.varies else shapes[0]}")
    print(onnx.printer.to_text(model_of(program)))


def _summary(strategy: str, count: Counter[str]) -> str:
    total = sum(count[v] for v in VERDICTS)
    verdicts = ", ".join(f"{count[v]} {v}" for v in VERDICTS)
    shares = ((f, count[f] / max(total, 1)) for f in ("loop-free", "partly", "loop"))
    forms = ", ".join(f"{share:.0%} {form}" for form, share in shares)
    return f"{strategy}: {total} programs: {verdicts}; {forms}"


if __name__ == "__main__":
    warnings.simplefilter("error", FaultWarning)
    sys.exit(main())
