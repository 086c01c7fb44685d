"""``seqmap optimize DIR OUTDIR``: many models, a table, and the status of the worst."""

from __future__ import annotations

import argparse
import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path

from passes.errors import RewriteError
from rewriter.commands import many, scan
from rewriter.commands.console import Console

__all__ = ["are_meant", "execute"]

_STDIN = Path("-")


def are_meant(args: argparse.Namespace) -> bool:
    """Return whether the options name several models, a folder or a pattern."""
    first = args.models[0]
    return len(args.models) > 1 or first.is_dir() or many.is_pattern(first)


def execute(args: argparse.Namespace, console: Console) -> int:
    """Optimize every model into a folder; a model in a folder keeps its place in it.

    Returns:
        The highest of their statuses.

    Raises:
        RewriteError: OUT is a file, no model is found, or two would go to one place.
    """
    if args.report is not None or args.inputs is not None:
        console.error("--report and --inputs are for one model: name one, or leave them out")
        return 2
    if args.packed:
        console.error("--packed is for one model: name one, or leave it out")
        return 2
    if args.tensor_io == "triton":
        console.error("--tensor-io triton is for one model: name one")
        return 2
    if args.output == _STDIN or args.output.is_file():
        raise RewriteError(f"{args.output} is no folder: several models go to a folder")
    found = many.find_models(args.models, args.output if args.output.is_dir() else None)
    places = list(found.values())
    for place in places:
        if places.count(place) > 1:
            raise RewriteError(f"two models would go to {args.output / place}: name one folder")
    with _kept_if_filled(args.output), console.progress("optimizing") as move:
        every = [_one(args, path, args.output / place) for path, place in found.items()]
        records = many.run_each(every, args.jobs, many.counted(found, move))
    rows: list[tuple[str, ...]] = [("model", "maps", "left", "verified", "result")]
    rows += [_row(path, one) for path, one in zip(found, records, strict=True)]
    return scan.say_summary(list(found), records, rows, console)


@contextlib.contextmanager
def _kept_if_filled(output: Path) -> Iterator[None]:
    """Remove folders in which nothing was written, where the outermost one is new."""
    is_new = not output.exists()
    try:
        yield
    finally:
        inner = (path for path in output.rglob("*") if path.is_dir())
        for folder in [*sorted(inner, reverse=True), output] if is_new else []:
            with contextlib.suppress(OSError):  # it holds a model, or was never made
                folder.rmdir()


def _one(args: argparse.Namespace, path: Path, output: Path) -> argparse.Namespace:
    one = copy.copy(args)
    one.models, one.output = [path], output
    if not args.dry_run:
        output.parent.mkdir(parents=True, exist_ok=True)
    return one


def _row(path: Path, record: many.Record) -> tuple[str, ...]:
    report, proof = record.get("report"), record.get("verification")
    verified = f"{proof['verified']} of {len(proof['cases'])}" if proof else "-"
    told = ("-", "-") if report is None else (scan.told_maps(report), scan.told_left(report))
    return (str(path), *told, verified, scan.told_result(record))
