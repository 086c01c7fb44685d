"""``python -m benchmarks.portability``: which backend runs which model, as given and rewritten.

Every model of the zoo is run on every backend that is installed, as it was given and rewritten
for the target ``portable`` with tensors in place of sequences, all sequences promised to be
uniform. Where that target is not reached, the model is rewritten for onnxruntime. A backend works
in a process of its own, so that a crash or an endless optimisation costs one cell.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import importlib.metadata
import pathlib
import pickle
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import onnx
import onnx_ir as ir

from passes.errors import RewriteError
from passes.tensors.io import TensorIo
from rewriter import models, pipeline, protos
from rewriter.backends import BACKENDS, BackendError, open_session
from rewriter.compare import compare
from rewriter.feeds import FeedMaker, check_feeds, read_feeds
from rewriter.tensor_io import outputs_as_lists

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = pathlib.Path(__file__).with_name("PORTABILITY.md")
FOLDERS = ("text", "exported")
PATIENCE = 60.0
RTOL, ATOL = 1e-3, 1e-4
_PACKAGES = {"reference": "onnx", "iree": "iree-base-compiler", "tvm": "apache-tvm"}
_WIDTH = 200


@dataclasses.dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        name: Its file.
        form: What it became.
        before: The model as given, serialized.
        after: The rewritten one.
        feeds: Inputs, sequences as lists.
        right: What engines that know better give; any of them will do.
        why: What keeps it from being portable; empty where it is.
    """

    name: str
    form: str
    before: bytes
    after: bytes
    feeds: dict[str, Any]
    right: list[dict[str, Any]]
    why: str


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portability", description=__doc__)
    parser.add_argument("--only", default="", help="models whose name holds this; writes nothing")
    parser.add_argument("--worker", metavar="BACKEND", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        _work(args.worker)
        return
    lines = []
    for line in _report(args.only):
        print(line, flush=True)
        lines.append(line)
    if not args.only:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _report(only: str) -> Iterator[str]:
    names = [name for name, backend in BACKENDS.items() if backend.is_available]
    yield "# Portability"
    yield ""
    yield "Written by `python -m benchmarks.portability`. Each cell says what became of the model"
    yield "as given, and rewritten with `--tensor-io --uniform` for all its sequences: `right`,"
    yield "`wrong`, `refused` (when loaded), `fails` (when run), `crash`, `hangs`. Right is what"
    yield "the reference evaluator or onnxruntime says of the model with its maps made loops."
    yield ""
    yield f"- versions: Python {platform.python_version()}, {', '.join(map(_version, names))}"
    for name, backend in BACKENDS.items():
        if name not in names:
            yield f"- not tried: {backend.missing()}"
    yield ""
    yield f"| model | form after | {' | '.join(names)} |"
    yield f"| --- | --- |{' --- |' * len(names)}"
    workers = {name: _Worker(name) for name in names}
    counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
    total = 0
    forms, reasons = [], []
    for row in _rows(only):
        if isinstance(row, str):
            forms.append(f"- {row}: no inputs are known that all its forms accept")
            continue
        forms += [f"- {row.name}: {row.why}"] * bool(row.why)
        cells = []
        for name, worker in workers.items():
            (before, _), (after, reason) = (worker.ask(m, row) for m in (row.before, row.after))
            counts[name, "before", before] += 1
            counts[name, "after", after] += 1
            cells.append(f"{before} / {after}")
            if after != "right":
                reasons.append(f"| {row.name} | {name} | {after} | {reason} |")
        total += 1
        yield f"| {row.name} | {row.form} | {' | '.join(cells)} |"
    for worker in workers.values():
        worker.stop()
    yield ""
    yield f"| of {total} models right | as given | rewritten |"
    yield "| --- | ---: | ---: |"
    for name in names:
        yield f"| {name} | {counts[name, 'before', 'right']} | {counts[name, 'after', 'right']} |"
    yield ""
    yield "What keeps a model from the form `portable`:"
    yield ""
    yield from forms
    yield ""
    yield "What backends say of a rewritten model that they do not run right:"
    yield ""
    yield "| model | backend | | |"
    yield "| --- | --- | --- | --- |"
    yield from reasons


def _version(backend: str) -> str:
    package = _PACKAGES.get(backend, backend)
    return f"{package} {importlib.metadata.version(package)}"


def _rows(only: str) -> Iterator[Row | str]:
    paths = [p for folder in FOLDERS for p in sorted((ROOT / "models" / folder).iterdir())]
    for path in paths:
        if path.suffix in (".onnx", ".onnxtxt") and only in path.name:
            yield _row(path) or path.name


def _row(path: pathlib.Path) -> Row | None:
    before = models.load(path)
    after, form, why = _rewritten(before)
    feeds = _feeds(path, before, after)
    if feeds is None:
        return None
    right = []
    loops = pipeline.rewrite(before, "expand").model
    for judge, model in (("reference", before), ("onnxruntime", loops)):
        try:
            right.append(open_session(model, judge).run(feeds))
        except BackendError:
            continue
    data = [protos.to_proto(model).SerializeToString() for model in (before, after)]
    return Row(path.name, form, *data, feeds, right, why) if right else None


def _rewritten(before: ir.Model) -> tuple[ir.Model, str, str]:
    """Return what becomes of a model, its form, and what keeps it from being portable."""
    inputs = before.graph.inputs
    uniform = [v.name for v in inputs if isinstance(v.type, ir.SequenceType) and v.name]
    tries: tuple[tuple[str, dict[str, Any]], ...] = (
        ("portable", {"target": "portable", "tensor_io": True, "uniform": uniform}),
        ("tensors", {"tensor_io": True, "uniform": uniform}),
        ("sequences", {"uniform": uniform}),
    )
    why = ""
    for form, options in tries:
        try:
            result = pipeline.rewrite(before, **options)
        except pipeline.TargetError as error:
            why = why or error.report.unreached[0].reason
            continue
        assert isinstance(result.model, ir.Model)
        left = result.report.after
        parts = [f"{left.loops} loops"] * bool(left.loops)
        parts += [f"{left.sequences} sequence operators"] * bool(left.sequences)
        if not parts and form == "tensors":
            parts = ["an If"]
        return result.model, "portable" if form == "portable" else ", ".join(parts), why
    raise RewriteError("the model cannot be rewritten at all")


def _feeds(path: pathlib.Path, before: ir.Model, after: ir.Model) -> dict[str, Any] | None:
    """Return the model's own vectors if they keep the promises, otherwise what it accepts."""
    vectors = path.with_suffix(".npz")
    if vectors.exists():
        try:
            feeds = read_feeds(vectors, before)
            check_feeds(after, feeds)
        except RewriteError:
            pass
        else:
            return feeds
    maker = FeedMaker(after)
    kind = maker.kinds(1)[0]
    session = open_session(after)
    for attempt in maker.attempts(kind, None):
        feeds = maker.draw(kind, attempt).values
        try:
            session.run(feeds)
        except BackendError:
            continue
        return feeds
    return None


class _Worker:
    """A process that runs models on one backend; it is begun anew when it dies."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, model: bytes, row: Row) -> tuple[str, str]:
        """Return what becomes of a model, and why."""
        if self._process is None:
            words = [sys.executable, "-m", "benchmarks.portability", "--worker", self._backend]
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(PATIENCE, end)
        timer.start()
        try:
            pickle.dump((model, row.feeds, row.right), process.stdin)
            process.stdin.flush()
            answer: tuple[str, str] = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.stop()
            return ("hangs" if late.is_set() else "crash"), ""
        else:
            return answer
        finally:
            timer.cancel()

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what the process did not read is lost
                    pipe.close()


def _work(backend: str) -> None:
    """Answer models on standard input with verdicts on what was standard output."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    while True:
        try:
            model, feeds, right = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_verdict(backend, onnx.ModelProto.FromString(model), feeds, right), answers)
        answers.flush()


def _verdict(
    backend: str, model: onnx.ModelProto, feeds: dict[str, Any], right: Iterable[dict[str, Any]]
) -> tuple[str, str]:
    try:
        session = open_session(model, backend)
    except BackendError as error:
        return "refused", _short(error)
    try:
        outputs = session.run(feeds)
    except BackendError as error:
        return ("refused" if error.is_limit else "fails"), _short(error)
    found = outputs_as_lists(TensorIo.read(protos.from_proto(model)), outputs)
    differences = [compare(one, found, RTOL, ATOL) for one in right]
    if any(difference.equal for difference in differences):
        return "right", ""
    return "wrong", differences[0].message


def _short(error: BackendError) -> str:
    """Return a message for a cell of a table, without the places of temporary files."""
    text = re.sub(r"/tmp/\S+|<stdin>:\S+", "", str(error)).replace("|", "/")
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


if __name__ == "__main__":
    main()
