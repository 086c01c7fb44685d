"""``seqmap bench IN``: the model as given against the rewritten one, over sizes."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from rewriter import pipeline
from rewriter.commands import options, reports, values
from rewriter.commands.console import Console
from rewriter.model_files import files
from rewriter.reporting import plot
from rewriter.reporting.report import Report
from rewriter.reporting.report_parts import Loading, Outcome
from rewriter.running import timing

__all__ = ["USAGE", "add_options", "execute"]

USAGE = "IN "
_TOO_SLOW = 4
_STEP = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_model(parser, "input", "IN", "the model, .onnx or .onnxtxt, - for stdin")
    options.add_rewrite_options(options.rewrite_group(parser))
    group = parser.add_argument_group("bench")
    group.add_argument(
        "--sizes",
        type=_sizes,
        default=("", None),
        metavar="SIZES",
        help="1..4096, or 1,64, of samples; N=1,64 of dimension N",
    )
    group.add_argument(
        "--repeats", type=values.count, default=30, metavar="N", help="most pairs; default: 30"
    )
    group.add_argument(
        "--threads", type=values.seed, default=1, metavar="N", help="default: 1; 0: all of them"
    )
    group.add_argument(
        "--min-speedup",
        type=values.ratio,
        metavar="X",
        help="status 4 unless X times as fast at the largest size",
    )
    group.add_argument("--plot", type=_plot_path, metavar="FILE", help="draw to FILE.svg or .png")
    reports.add_report_option(group)
    options.add_backend_options(group)
    options.add_feed_options(group)


def execute(args: argparse.Namespace, console: Console) -> int:
    """Time both models; a valid model that is refused as given has no time.

    Returns:
        0, or 4 where the largest size gains less than ``--min-speedup``.
    """
    options.refuse_overwriting(args.plot, reads=[args.input, args.inputs])
    options.refuse_overwriting(args.report, reads=[args.input, args.inputs, args.plot])
    for path in filter(None, (args.plot, args.report)):
        files.require_folder(path)
    if is_png := args.plot is not None and args.plot.suffix == ".png":
        plot.require_matplotlib()
    with console.progress("reading"):
        model = options.read_model(args.input)
    backend, device = options.place(args)
    dimension, sizes = args.sizes
    with console.progress("timing") as move:
        table = timing.bench(
            model,
            sizes=sizes,
            dimension=dimension,
            inputs=args.inputs,
            repeats=args.repeats,
            backend=backend,
            device=device,
            threads=args.threads,
            seed=args.seed,
            on_size=move,
            **options.rewrite_options(args),
        )
    console.record |= table.to_dict()
    console.say(str(table))
    if args.plot is not None:
        files.write(table.to_png() if is_png else table.to_svg().encode(), args.plot)
        console.say(f"written to {args.plot}")
    if args.report is not None:
        report = pipeline.explain(model, **options.rewrite_options(args))
        report = dataclasses.replace(report, bench=table)
        if (backend, device) == options.place_of_target(args):
            report = _with_loading(report, table)
        reports.write_report(report, args, console)
        console.say(f"written to {args.report}")
    if args.min_speedup is None or table.speedup is None or table.speedup >= args.min_speedup:
        return 0
    size = table.rows[-1].size
    at = f" at {size:,} {table.axis}" if size else ""
    console.error(
        f"{table.speedup:.2f} times as fast{at}, and --min-speedup asks for {args.min_speedup:g}"
    )
    return _TOO_SLOW


def _with_loading(report: Report, table: timing.Bench) -> Report:
    """Return the report with how the runtime of the target, which ran both models, took them."""
    outcome: Outcome = "refused" if table.refused else "loaded"
    return dataclasses.replace(
        report,
        given_loading=Loading(table.runtime, outcome, table.refused),
        loading=Loading(table.runtime, "loaded"),
    )


def _sizes(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = text.rpartition("=")
    first, dots, last = numbers.partition("..")
    try:
        sizes = _between(int(first), int(last)) if dots else [int(n) for n in numbers.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form 1..4096, 1,64 or N=1,64"
        ) from error
    if min(sizes, default=0) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} holds no numbers from 1 on")
    return name, tuple(sorted(set(sizes)))


def _between(first: int, last: int) -> list[int]:
    """Return sizes that grow by four, and the last; none where the last is less than the first."""
    if last < first:
        return []
    sizes = [first]
    while 0 < sizes[-1] * _STEP < last:
        sizes.append(sizes[-1] * _STEP)
    return [*sizes, last]


def _plot_path(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".svg", ".png"):
        raise argparse.ArgumentTypeError(f"{text!r} ends in neither .svg nor .png")
    return path
