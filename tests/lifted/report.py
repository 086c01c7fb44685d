"""Judge the whole lifted suite and count what came of it.

``python -m tests.lifted.report --strategy fuse --way typical --jobs 2``
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.lifted.cases import WAYS, official_cases
from tests.lifted.outcome import STRATEGIES, Outcome, judge

_SECONDS_PER_CASE = 120
_NOT_RIGHT = ("wrong", "fails", "refused", "killed")


class _Worker:
    """A process that judges case after case, so that one that dies takes only itself along."""

    def __init__(self, way: str, strategy: str) -> None:
        self._command = [sys.executable, "-m", __spec__.name, "--worker"]
        self._command += ["--way", way, "--strategy", strategy]
        self._process: subprocess.Popen[str] | None = None

    def judge(self, name: str) -> Outcome:
        """Judge one case; ``killed`` when the process died or took too long over it."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert self._process.stdout is not None
            if not self._process.stdout.readline():  # a line once it has collected the cases
                raise RuntimeError(f"{' '.join(self._command)} did not start")
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{name}\n")
        process.stdin.flush()
        timer = threading.Timer(_SECONDS_PER_CASE, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if line:
            return Outcome(**json.loads(line))
        self._process = None
        reason = f"exit status {process.wait()}"
        return Outcome(name, official_cases()[name].op_type, "killed", reason)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()


def judge_all(names: Iterable[str], way: str, strategy: str, jobs: int) -> list[Outcome]:
    """Judge cases in ``jobs`` processes of their own; the outcomes are sorted by name."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    outcomes: list[Outcome] = []

    def work() -> None:
        worker = _Worker(way, strategy)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                worker.close()
                return
            outcomes.append(worker.judge(name))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for finished in [pool.submit(work) for _ in range(jobs)]:
            finished.result()
    return sorted(outcomes, key=lambda outcome: outcome.name)


def render(outcomes: Sequence[Outcome], *, operators: bool) -> str:
    """Print the counts, then every case that is not right, then a row for each operator."""
    usable = [outcome for outcome in outcomes if outcome.status != "unusable"]
    right = [outcome for outcome in usable if outcome.status == "right"]
    free = [outcome for outcome in right if outcome.loop_free]
    status = Counter(outcome.status for outcome in usable)
    by_reference = sum(outcome.single == "reference" for outcome in usable)
    alike = sum(not outcome.differ for outcome in usable if outcome.single)
    lines = [
        f"usable      {len(usable):5}   operators {len(_operators(usable)):4}",
        *(f"{name:11} {status[name]:5}" for name in ("right", *_NOT_RIGHT)),
        f"loop-free   {len(free):5}   operators {len(_operators(free)):4}",
        f"judged by the reference evaluator {by_reference}, samples all alike {alike}",
    ]
    refused = [o for o in right if o.single == "onnxruntime" and o.rewritten != o.single]
    lines += [f"right, but onnxruntime loads only the single model: {len(refused)}"]
    lines += [f"  {o.name}: {_short(o.refusal)}" for o in refused]
    for name in _NOT_RIGHT:
        lines += [f"{name} {o.name}: {_short(o.detail)}" for o in usable if o.status == name]
    if operators:
        lines += [f"{'operator':28} usable right loop-free"]
        for op_type in sorted(_operators(usable)):
            counts = [sum(o.op_type == op_type for o in part) for part in (usable, right, free)]
            lines.append(f"{op_type:28} {counts[0]:6} {counts[1]:5} {counts[2]:9}")
    return "\n".join(lines)


def _operators(outcomes: Iterable[Outcome]) -> set[str]:
    return {outcome.op_type for outcome in outcomes}


def _short(text: str) -> str:
    return " ".join(text.split())[:300]


def _work(way: str, strategy: str) -> None:
    official_cases()
    print(flush=True)
    for line in sys.stdin:
        print(json.dumps(dataclasses.asdict(judge(line.strip(), way, strategy))), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 0 when every usable case is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategy", choices=sorted(STRATEGIES), default="fuse")
    parser.add_argument("--way", choices=sorted(WAYS), default="typical")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--json", default="", help="write every outcome to this file")
    parser.add_argument("--operators", action="store_true", help="a row for each operator")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        _work(options.way, options.strategy)
        return 0
    names = [name for name in official_cases() if options.only in name]
    outcomes = judge_all(names, options.way, options.strategy, options.jobs)
    print(render(outcomes, operators=options.operators))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(outcome) for outcome in outcomes], file, indent=1)
    return int(any(outcome.status in _NOT_RIGHT for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
