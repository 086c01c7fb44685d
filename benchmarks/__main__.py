"""``python -m benchmarks``: print the tables, and write them to RESULTS.md."""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import math
import os
import pathlib
import platform
import statistics
from collections.abc import Iterator

import onnx
import onnxruntime

from benchmarks.cases import CASES, FAMILIES, SWEEPS
from benchmarks.forms import forms_table
from benchmarks.measure import Refused, Times, expand_with_onnx, measure, ratio
from benchmarks.pictures import write_pictures
from benchmarks.results import row, write
from benchmarks.short_loops import SHORT_LOOPS
from benchmarks.small_batches import ITERATIONS, speed_table
from benchmarks.workload import Case, Sweep
from rewriter.pipeline import Strategy, rewrite

SAMPLES = (100, 250, 500, 1000, 2000, 4000, 8000, 16000)
_BASE = 1000


def main() -> None:
    args = _arguments()
    if args.pictures:
        write_pictures()
        return
    lines = []
    for line in itertools.chain(_head(args), _cases(args), _small(args), _sweeps(args)):
        print(line, flush=True)
        lines.append(line)
    if not args.only and not args.dry:
        write(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--strategy", nargs="+", default=["expand", "auto"], help="default: both")
    parser.add_argument("--only", help="cases and sweeps whose name holds this; writes nothing")
    parser.add_argument("--dry", action="store_true", help="do not write RESULTS.md")
    parser.add_argument(
        "--pictures", action="store_true", help="write the pictures of the docs, and stop"
    )
    parser.add_argument("--rounds", type=int, default=31, help="runs of each model")
    parser.add_argument("--seconds", type=float, default=10.0, help="most seconds for one model")
    return parser.parse_args()


def _head(args: argparse.Namespace) -> Iterator[str]:
    packages = ("seqmap", "onnx", "onnx-ir", "onnxruntime", "numpy")
    versions = ", ".join(f"{name} {_version(name)}" for name in packages)
    yield "# Benchmarks"
    yield ""
    yield "Written by `python -m benchmarks`. onnxruntime on the CPU, one thread."
    yield (
        f"Medians of {args.rounds} runs in turns (of fewer, at least 5, where one model would "
        f"take over {args.seconds:g} s); a ratio is the median of the ratios turn by turn."
    )
    yield ""
    yield f"- machine: {os.cpu_count()} cores, {_processor()}, {platform.system()}"
    yield f"- versions: Python {platform.python_version()}, {versions}"
    yield ""


def _cases(args: argparse.Namespace) -> Iterator[str]:
    ours = [f"ours, {strategy}" for strategy in args.strategy]
    columns = ["as given", "ONNX's expansion", *ours, "by hand"]
    last = ours[-1]
    yield "## Milliseconds"
    yield ""
    yield row(["case", *columns, f"as given / {last}", f"ONNX's / {last}", f"{last} / by hand"])
    yield row(["---", *["---:"] * (len(columns) + 3)])
    for make in CASES:
        case = make()
        if args.only and args.only not in case.name:
            continue
        models = {"as given": case.given, "ONNX's expansion": expand_with_onnx(case.given)}
        models |= {
            label: _rewritten(case, strategy)
            for label, strategy in zip(ours, args.strategy, strict=True)
        }
        if case.by_hand is not None:
            models["by hand"] = case.by_hand
        times = measure(models, case.feeds, args.rounds, args.seconds)
        ratios = [
            ratio(times["as given"], times[last]),
            ratio(times["ONNX's expansion"], times[last]),
            ratio(times[last], times.get("by hand")),
        ]
        yield row(
            [
                case.name,
                *(_milliseconds(times.get(column)) for column in columns),
                *("-" if value is None else f"{value:.2f}" for value in ratios),
            ]
        )
    yield ""


def _small(args: argparse.Namespace) -> Iterator[str]:
    families = {name: f for name, f in FAMILIES.items() if not args.only or args.only in name}
    strategy = args.strategy[-1]
    yield from speed_table(families, lambda case: _rewritten(case, strategy), args.rounds)
    loops = {name: f for name, f in SHORT_LOOPS.items() if not args.only or args.only in name}
    yield from speed_table(
        loops,
        lambda case: _rewritten(case, strategy),
        args.rounds,
        sizes=ITERATIONS,
        counted="iterations",
    )
    if not args.only:
        yield from forms_table(args.rounds)


def _sweeps(args: argparse.Namespace) -> Iterator[str]:
    yield "## Growth with the number of samples"
    yield ""
    yield "Growth: how many times as long for twice the samples."
    yield ""
    for sweep in SWEEPS:
        if not args.only or args.only in sweep.name:
            yield from _sweep(sweep, args)


def _sweep(sweep: Sweep, args: argparse.Namespace) -> Iterator[str]:
    has_hand = sweep.case(SAMPLES[0]).by_hand is not None
    labels = ["as given", *(f"ours, {strategy}" for strategy in args.strategy)]
    labels += ["by hand"] * has_hand
    yield f"### {sweep.name}"
    yield ""
    yield row(["samples", *(cell for label in labels for cell in (f"{label} (ms)", "growth"))])
    yield row(["---:"] * (1 + 2 * len(labels)))
    before: dict[str, float] = {}
    per_sample: dict[str, dict[int, float]] = {label: {} for label in labels}
    largest = dict.fromkeys(labels, 0.0)
    for fewer, samples in zip((None, *SAMPLES), SAMPLES, strict=False):
        case = sweep.case(samples)
        rewritten = [_rewritten(case, strategy) for strategy in args.strategy]
        by_hand = [] if case.by_hand is None else [case.by_hand]
        models = dict(zip(labels, [case.given, *rewritten, *by_hand], strict=True))
        times = measure(models, case.feeds, args.rounds, args.seconds)
        cells = [f"{samples:,}"]
        for label in labels:
            cells.append(_milliseconds(times[label]))
            median = _median(times[label])
            if fewer is None or median is None:
                cells.append("-")
            else:
                growth = (median / before[label]) ** (1 / math.log2(samples / fewer))
                largest[label] = max(largest[label], growth)
                cells.append(f"{growth:.2f}")
            before[label] = math.nan if median is None else median
            per_sample[label][samples] = before[label] / samples
        yield row(cells)
    yield ""
    worst = ", ".join(f"{label} {growth:.2f}" for label, growth in largest.items())
    or_that = ", or as much as by hand" * has_hand
    yield f"Largest growth: {worst}; aimed at: at most {sweep.bound}{or_that}."
    slower = {label: one[SAMPLES[-1]] / one[_BASE] for label, one in per_sample.items()}
    rates = ", ".join(f"{label} {rate:.2f}" for label, rate in slower.items())
    yield f"Time per sample at {SAMPLES[-1]:,} over that at {_BASE:,}: {rates}."
    yield ""


def _rewritten(case: Case, strategy: Strategy) -> onnx.ModelProto:
    model = rewrite(case.given, strategy=strategy, **case.promises).model
    assert isinstance(model, onnx.ModelProto)
    return model


def _median(times: Times | Refused | None) -> float | None:
    return statistics.median(times) if isinstance(times, list) else None


def _milliseconds(times: Times | Refused | None) -> str:
    median = _median(times)
    if median is None:
        return "-" if times is None else "refused"
    return f"{1000 * median:.3g}" if median < 1 else f"{1000 * median:,.0f}"


def _version(package: str) -> str:
    if package == "onnxruntime":
        return str(onnxruntime.__version__)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(checkout)"


def _processor() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
