"""Many damaged files: ``python -m tests.fuzz --files 2000``."""

from __future__ import annotations

import argparse
import time

from tests.fuzz.judge import Judge


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=200, help="how many; default: 200")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; default: 0")
    args = parser.parse_args()
    judge, faults, started = Judge(), 0, time.perf_counter()
    try:
        for seed in range(args.seed, args.seed + args.files):
            if fault := judge.fault(seed):
                faults += 1
                print(f"seed {seed}: {fault.rstrip()}", flush=True)
    finally:
        judge.close()
    print(f"{args.files} files, {faults} faults, {time.perf_counter() - started:.0f} s")
    return min(faults, 1)


if __name__ == "__main__":
    raise SystemExit(main())
