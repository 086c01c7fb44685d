"""Judges many models: ``python -m tests.fusions --seeds 0:2000``.

Seeds run in another process; one that kills it is reported like any other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence

from rewriter.errors import FaultWarning
from tests.fusions.judge import faults
from tests.programs.judge import STAGES

__all__ = ["faults_apart"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if a model is not right."""
    parser = argparse.ArgumentParser(prog="python -m tests.fusions", description=__doc__)
    parser.add_argument("--seeds", default="0:300", help="FIRST:END")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    seeds = range(*map(int, given.seeds.split(":")))
    if given.here:
        STAGES.append(True)
        for seed in seeds:
            print(json.dumps(faults(seed)), flush=True)
        return 0
    count = 0
    for text in faults_apart(seeds):
        print(text, flush=True)
        count += 1
    print(f"{len(seeds)} models, {count} faults")
    return 1 if count else 0


def faults_apart(seeds: range) -> Iterator[str]:
    """Yield what is wrong, found in another process, and in a new one after one that ended.

    Where onnxruntime ends the process on the model as given nothing can be said.
    """
    while seeds:
        command = [sys.executable, "-m", "tests.fusions", "--here"]
        command += ["--seeds", f"{seeds.start}:{seeds.stop}"]
        with tempfile.TemporaryFile("w+") as errors:
            run = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False
            )
            errors.seek(0)
            said = errors.read().split("\n")
        lines = run.stdout.splitlines()
        for line in lines:
            yield from json.loads(line)
        seeds = seeds[len(lines) :]
        if seeds:
            last = next((text for text in said[::-1] if text in _STAGES), said[-2:])
            if last != "given":
                yield f"{seeds.start} ended the process at {last}"
            seeds = seeds[1:]


_STAGES = ("given", "rewriting", "auto", "fuse", "expand", "tensors")


if __name__ == "__main__":
    warnings.simplefilter("error", FaultWarning)
    sys.exit(main())
