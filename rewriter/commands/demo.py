"""``seqmap demo``: four models, one full of sequences and three that onnxruntime refuses."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.resources
import io
import statistics
import time
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any, TextIO

import numpy as np
import onnx

from rewriter.backends import BACKENDS, BackendError, Session, open_session
from rewriter.commands.console import Console
from rewriter.commands.scan import told_maps
from rewriter.pipeline import rewrite
from rewriter.proof.validation import Check, validate
from rewriter.reporting.report import Report

__all__ = [
    "USAGE",
    "DemoOutcome",
    "add_options",
    "execute",
    "image_feeds",
    "model_files",
    "show",
]

USAGE = ""

_LONGEST_LINE = 150

_MODELS = {
    "dy_hstack.onnx": "torch.hstack, as PyTorch's exporter writes it: SequenceMap on a list",
    "resize_crop.onnxtxt": "images of different sizes, resized and centre-cropped",
    "pad_to_largest.onnxtxt": "images of different sizes, padded to the largest of the batch",
    "resnet50_preprocessing.onnxtxt": "images of different sizes to the input of ResNet-50",
}
_HEADINGS = (
    "model",
    "loads",
    "milliseconds",
    "maps",
    "largest difference",
)
_SIZES = ((120, 160), (96, 96), (150, 110))
_RUNS = 7


@dataclasses.dataclass(frozen=True)
class DemoOutcome:
    """The result of one model; a time is None where onnxruntime refuses the model."""

    name: str
    report: Report
    seconds_before: float | None
    seconds_after: float | None
    check: Check

    @property
    def passed(self) -> bool:
        """Whether the rewritten model loads and computes what it should."""
        return self.seconds_after is not None and self.check.ok

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome with plain values, fit for JSON."""
        times = [s and 1e3 * s for s in (self.seconds_before, self.seconds_after)]
        return {
            "model": self.name,
            "passed": self.passed,
            "before_ms": times[0],
            "after_ms": times[1],
            "report": self.report.to_dict(),
            "verification": self.check.summary,
        }

    @property
    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        loads = ["no" if s is None else "yes" for s in (self.seconds_before, self.seconds_after)]
        times = [_time(seconds) for seconds in (self.seconds_before, self.seconds_after)]
        verified = f"{self.check.max_abs_error:.1e}" if self.check.ok else "not verified"
        return (
            self.name,
            " -> ".join(loads),
            " -> ".join(times),
            told_maps(self.report.to_dict()),
            verified,
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options: none beside those of all commands."""


def execute(args: argparse.Namespace, console: Console) -> int:
    """Run the demo, its lines appearing as it goes."""
    outcomes = show(_Lines(console))
    console.record["models"] = [outcome.to_dict() for outcome in outcomes]
    return 0 if all(outcome.passed for outcome in outcomes) else 3


def show(out: TextIO) -> list[DemoOutcome]:
    """Rewrite, verify and run the four models, and print a table before and after.

    Args:
        out: Where the lines go.

    Returns:
        What became of each model.

    Raises:
        BackendError: onnxruntime is not installed.
    """
    missing = BACKENDS["onnxruntime"].missing()
    if missing:
        raise BackendError(f"The demo runs on onnxruntime: {missing}.", is_limit=True)
    outcomes = [_show(name, path, out) for name, path in model_files().items()]
    out.write("\nbefore -> after\n")
    out.write(_table([_HEADINGS, *(outcome.cells for outcome in outcomes)]))
    failed = [outcome.name for outcome in outcomes if not outcome.passed]
    if failed:
        out.write(f"\nnot right: {', '.join(failed)}\n")
    else:
        out.write("\nall of them load, run, and compute what they computed before\n")
    return outcomes


def model_files() -> dict[str, Traversable]:
    """Return the demo's models by file name: data of the package, or ``models/`` of a checkout."""
    package = importlib.resources.files("rewriter")
    folder = package / "demo_models"
    if not folder.is_dir():
        folder = package / ".." / "models" / "demo"
    return {name: folder / name for name in _MODELS}


def image_feeds() -> dict[str, Any]:
    """Return images of different sizes, drawn from a fixed seed: ``images``, uint8[H, W, 3]."""
    rng = np.random.default_rng(0)
    return {"images": [rng.integers(0, 256, (*size, 3), np.uint8) for size in _SIZES]}


def _show(name: str, path: Traversable, out: TextIO) -> DemoOutcome:
    """Take one model through all of it, with a line for each step."""
    out.write(f"{name}: {_MODELS[name]}\n")
    before = _read(path)
    feeds = _feeds(path, before)
    seconds_before = _try(before, feeds, "before", out)
    result = rewrite(before)
    seconds_after = _try(result.model, feeds, "after", out)
    check = validate(before, result.model, inputs=[feeds, _shorter(feeds)])
    out.write(f"  {check.summary}\n")
    return DemoOutcome(name, result.report, seconds_before, seconds_after, check)


def _read(path: Traversable) -> onnx.ModelProto:
    if path.name.endswith(".onnxtxt"):
        return onnx.parser.parse_model(path.read_text(encoding="utf-8"))
    return onnx.load_from_string(path.read_bytes())


def _feeds(path: Traversable, model: onnx.ModelProto) -> dict[str, Any]:
    if path.name != "dy_hstack.onnx":
        return image_feeds()
    rng = np.random.default_rng(0)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    return {name: rng.random(shape, np.float32) for name, shape in shapes.items()}


def _shorter(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the feeds with one element in every sequence."""
    return {name: v[:1] if isinstance(v, list) else v for name, v in feeds.items()}


def _try(model: Any, feeds: Mapping[str, Any], when: str, out: TextIO) -> float | None:
    """Load a model on onnxruntime and return the median seconds of a run, None if refused."""
    try:
        session = open_session(model)
    except BackendError as error:
        out.write(f"  {when}: {_first_clause(str(error))}\n")
        return None
    seconds = statistics.median(_seconds(session, feeds) for _ in range(_RUNS))
    out.write(f"  {when}: onnxruntime loads it and runs it in {_time(seconds)} ms\n")
    return seconds


def _seconds(session: Session, feeds: Mapping[str, Any]) -> float:
    started = time.perf_counter()
    session.run(feeds)
    return time.perf_counter() - started


def _time(seconds: float | None) -> str:
    return "refused" if seconds is None else f"{1000 * seconds:.2f}"


def _first_clause(message: str) -> str:
    line = message.splitlines()[0]
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


class _Lines(io.StringIO):
    """Text that is shown as it comes."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def write(self, text: str) -> int:
        self._console.say(text)
        return len(text)
