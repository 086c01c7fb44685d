"""``seqmap apply MODEL IN OUT``: run a model over a file or folder of samples."""

from __future__ import annotations

import argparse
import importlib.util
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from rewriter.apply.parts import Job, OutputFolder, state_of
from rewriter.apply.results import check_names, columns_of
from rewriter.apply.rows import ParquetRows, Rows, files_of, open_rows
from rewriter.apply.workers import ENGINES, Task, apply_parts, require_engine
from rewriter.commands import options, values
from rewriter.commands.console import Console
from rewriter.feeding.npz_files import open_npz, reading
from rewriter.model_files import on_disk
from rewriter.model_files.model_facts import external_tensors
from rewriter.running.predictor import Prediction, Predictor

__all__ = ["USAGE", "add_options", "execute", "told_rate"]

USAGE = "MODEL IN OUT "
_TOO_MANY_ERRORS = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_model(parser, "model", "MODEL", "the model, .onnx or .onnxtxt")
    parser.add_argument(
        "source",
        metavar="IN",
        type=Path,
        help="a Parquet file, a folder of Parquet files or of images, or an npz file",
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder for the Parquet parts")
    group = parser.add_argument_group("apply")
    group.add_argument(
        "--engine", choices=ENGINES, default="local", help="who does the work; default: local"
    )
    group.add_argument(
        "--workers",
        type=values.count,
        default=1,
        metavar="N",
        help="processes (local) or actors (ray), of one thread each; default: 1",
    )
    group.add_argument(
        "--batch-size", type=values.count, default=256, metavar="N", help="samples in a run"
    )
    group.add_argument(
        "--part-size", type=values.count, default=4096, metavar="N", help="samples in a part"
    )
    group.add_argument(
        "--id",
        metavar="COLUMN",
        help="the column that names a sample; for images, the name of that column",
    )
    group.add_argument(
        "--shared", type=Path, metavar="FILE.npz", help="inputs that all samples share, in__NAME"
    )
    group.add_argument("--resume", action="store_true", help="go on with the parts of OUT")
    group.add_argument(
        "--max-errors",
        type=_errors,
        default=0,
        metavar="N",
        help="status 3 where more samples fail; all results are written; default: 0",
    )
    options.add_backend_options(group)


def execute(args: argparse.Namespace, console: Console) -> int:
    """Run the model over all samples; one row of OUT for each."""
    if importlib.util.find_spec("pyarrow") is None:
        raise RewriteError("apply needs the package pyarrow; install seqmap[apply]")
    require_engine(args.engine)
    if args.out.resolve().is_relative_to(args.source.resolve()):
        raise RewriteError(
            f"{args.out} is in {args.source}, and all files there are read; give another OUT"
        )
    started = time.perf_counter()
    task = Task(
        args.model.resolve(),
        args.source.resolve(),
        args.out.resolve(),
        args.id,
        *options.place(args),
        args.batch_size,
        {} if args.shared is None else _shared(args.shared),
    )
    with console.progress("reading"):
        model = on_disk.load(args.model)
        predictor = task.predictor(must_begin=True)
        check_names(task.id_name, predictor.outputs)
        rows = open_rows(args.source, predictor.dims, args.id)
        files = [*files_of(args.source), *_weights(model)]
        state = state_of(files, args.shared)
        job = Job.of(args.model, args.source, len(rows), args.id, args.part_size, state)
        folder = OutputFolder(args.out, ())
        # The first batch fails here, before OUT is made.
        first = _first_right(predictor, rows, args.batch_size)
    if isinstance(rows, ParquetRows) and (complaint := rows.unfit_ids()):
        console.warn(complaint)
    task = task.with_columns(columns_of(first, model))
    job = folder.begin(job, resume=args.resume)
    missing = folder.missing(job)
    done = count = 0
    with console.progress("applying") as move:
        for samples, _ in apply_parts(task, missing, args.engine, args.workers):
            done, count = done + 1, count + samples
            move(f"part {done} of {len(missing)}")
    errors = folder.errors(job)
    seconds = time.perf_counter() - started
    console.record |= {
        "samples": job.rows,
        "errors": errors,
        "parts": len(job.parts),
        "parts_done_before": len(job.parts) - len(missing),
        "samples_per_second": round(count / seconds, 1),
    }
    before = len(job.parts) - len(missing)
    resumed = f", {before} of them from before" if before else ""
    told = f"{_count(job.rows, 'sample')} in {_count(len(job.parts), 'part')}{resumed}"
    console.say(f"{told}, {_count(errors, 'error')}")
    if missing:
        workers = min(args.workers, len(missing))
        console.say(f"{told_rate(count / seconds)} with {workers} x {args.engine}")
    if errors > args.max_errors:
        console.error(
            f"{_count(errors, 'sample')} failed (--max-errors {args.max_errors}); the column "
            f"error of {args.out} says why each did"
        )
        return _TOO_MANY_ERRORS
    return 0


def _first_right(predictor: Predictor, rows: Rows, size: int) -> list[Prediction]:
    """Return the first sample that goes well, whose outputs tell the types of their columns."""
    for start in range(0, len(rows), size):
        for result in predictor(rows.read(start, start + size)[1]):
            if result.outputs is not None:
                return [result]
    return []


def _weights(model: ir.Model) -> list[Path]:
    return sorted({Path(tensor.path) for tensor in external_tensors(model)})


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _errors(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("a number of errors is 0 or more")
    return number


def _shared(path: Path) -> dict[str, np.ndarray]:
    with open_npz(path, "shared inputs") as file, reading(path, "shared inputs"):
        return {key.removeprefix("in__"): file[key] for key in file.files}


def told_rate(per_second: float) -> str:
    """Say how many samples a second takes, in two digits where they are few."""
    number = f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{number} samples a second"
