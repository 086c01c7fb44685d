"""``python -m benchmarks.portability``: which backend runs which model, as given and rewritten.

Every model of the zoo is run on every backend that is installed, as it was given and rewritten
for the target ``portable`` with tensors in place of sequences, all sequences promised to be
uniform. Where that target is not reached, the model is rewritten for onnxruntime. A backend works
in a process of its own, so that a crash or an endless optimisation costs one cell. What is left
at the end is said of the models that are portable: which of them a backend gets right, and what
it lacks for the others.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib.metadata
import pathlib
import platform
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from benchmarks.lacking import lacking, plain_line
from benchmarks.workers import Worker
from passes.errors import RewriteError
from rewriter import pipeline
from rewriter.backends import BACKENDS, BackendError, open_session
from rewriter.feeding.feeds import FeedMaker, check_feeds, read_feeds
from rewriter.model_files import on_disk, protos
from rewriter.target_table import TARGETS
from rewriter.targets import TargetError

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = pathlib.Path(__file__).with_name("PORTABILITY.md")
FOLDERS = ("text", "exported")
IMAGES = (
    "demo/pad_to_largest.onnxtxt",
    "demo/resize_crop.onnxtxt",
    "demo/resnet50_preprocessing.onnxtxt",
    "exported/seqmap_resize_crop.onnx",
    "exported/seqmap_resnet50_preproc_function.onnx",
    "exported/spox_seqmap_images.onnx",
    "exported/ts_semseg_postprocess.onnx",
    "pipelines/seqmap_imagenet_tutorial_classifier.onnx",
    "pipelines/tf_od_preprocess_ssd.onnx",
    "pipelines/ts_crop_classify.onnx",
    "text/pad_behind.onnxtxt",
)
"""Models that are rewritten without a promise, for images of several sizes."""

_HEADING = "## Images of any size"
_PACKAGES = {"reference": "onnx", "iree": "iree-base-compiler", "tvm": "apache-tvm"}


@dataclasses.dataclass(frozen=True)
class Left:
    """A portable model that a backend does not get right.

    Attributes:
        model: Its file.
        backend: The backend.
        verdict: What became of it.
        said: What the backend said.
    """

    model: str
    backend: str
    verdict: str
    said: str

    @property
    def lacks(self) -> str:
        """What the backend lacks; empty where it does not say so."""
        return lacking(self.said) if self.verdict in ("refused", "fails") else ""


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
    parser.add_argument("--images", action="store_true", help="write the last section alone")
    args = parser.parse_args()
    if args.images:
        before, _, _ = RESULTS.read_text("utf-8").partition(_HEADING)
        text = "\n".join(_images())
        RESULTS.write_text(f"{before.rstrip()}\n\n{text}\n", encoding="utf-8")
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
    yield "A backend that refuses open dimensions gets the model for the shapes of its inputs."
    yield ""
    yield f"- versions: Python {platform.python_version()}, {', '.join(map(_version, names))}"
    for name, backend in BACKENDS.items():
        if name not in names:
            yield f"- not tried: {backend.missing()}"
    yield ""
    yield f"| model | form after | {' | '.join(names)} |"
    yield f"| --- | --- |{' --- |' * len(names)}"
    workers = {name: Worker(name) for name in names}
    counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
    total = portable = 0
    forms: list[str] = []
    left: list[Left] = []
    for row in _rows(only):
        if isinstance(row, str):
            forms.append(f"- {row}: no inputs are known that all its forms accept")
            continue
        forms += [f"- {row.name}: {row.why}"] * bool(row.why)
        cells = []
        for name, worker in workers.items():
            (before, _), (after, reason) = (
                worker.ask(m, row.feeds, row.right) for m in (row.before, row.after)
            )
            counts[name, "before", before] += 1
            counts[name, "after", after] += 1
            cells.append(f"{before} / {after}")
            if row.form == "portable" and after != "right":
                left.append(Left(row.name, name, after, reason))
        total += 1
        portable += row.form == "portable"
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
    yield from _what_is_left(names, portable, left)
    if not only:
        yield ""
        yield from _images()


def _images() -> Iterator[str]:
    names = [name for name, backend in BACKENDS.items() if backend.is_available]
    yield _HEADING
    yield ""
    yield (
        "The models over images, and what is cut out of images, rewritten with `--tensor-io` and "
        "no promise, on images of several sizes: for the target of the backend's name where it "
        "has no control flow, else for `portable`."
    )
    yield ""
    yield f"- versions: Python {platform.python_version()}, {', '.join(map(_version, names))}"
    yield ""
    yield f"| model | {' | '.join(names)} |"
    yield f"| --- |{' --- |' * len(names)}"
    workers = {name: Worker(name) for name in names}
    said: list[str] = []
    for path in IMAGES:
        rows = {
            target: _row(ROOT / "models" / path, is_uniform=False, target=target)
            for target in dict.fromkeys(map(_target, names))
        }
        cells = []
        for name, worker in workers.items():
            row = rows[_target(name)]
            assert row is not None
            assert not row.why
            verdict, reason = worker.ask(row.after, row.feeds, row.right)
            cells.append(verdict)
            if verdict != "right":
                said.append(f"- {row.name} on {name}: {plain_line(reason) or verdict}")
        yield f"| {ROOT.joinpath(path).name} | {' | '.join(cells)} |"
    for worker in workers.values():
        worker.stop()
    yield ""
    yield from said


def _target(backend: str) -> str:
    """Return the target of a backend's name if it has no control flow, or that of all runtimes."""
    row = TARGETS.get(backend)
    return "portable" if row is None or row.loop or row.branch else backend


def _what_is_left(names: list[str], portable: int, left: list[Left]) -> Iterator[str]:
    yield f"What became of the {portable} models in the form `portable`:"
    yield ""
    yield "| backend | right | it lacks something | other | what it lacks, and for how many |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for name in names:
        mine = [one for one in left if one.backend == name]
        lacks = collections.Counter(one.lacks for one in mine if one.lacks)
        listed = ", ".join(f"{what} ({count})" for what, count in lacks.most_common())
        counts = (portable - len(mine), lacks.total(), len(mine) - lacks.total())
        yield f"| {name} | {' | '.join(map(str, counts))} | {listed} |"
    yield ""
    yield "The portable models that a backend does not get right:"
    yield ""
    yield "| model | backend | | |"
    yield "| --- | --- | --- | --- |"
    for one in left:
        why = f"lacks {one.lacks}" if one.lacks else plain_line(one.said)
        yield f"| {one.model} | {one.backend} | {one.verdict} | {why} |"


def _version(backend: str) -> str:
    package = _PACKAGES.get(backend, backend)
    return f"{package} {importlib.metadata.version(package)}"


def _rows(only: str) -> Iterator[Row | str]:
    paths = [p for folder in FOLDERS for p in sorted((ROOT / "models" / folder).iterdir())]
    for path in paths:
        if path.suffix in (".onnx", ".onnxtxt") and only in path.name:
            yield _row(path) or path.name


def _row(path: pathlib.Path, *, is_uniform: bool = True, target: str = "portable") -> Row | None:
    before = on_disk.load(path)
    after, form, why = _rewritten(before, target, is_uniform=is_uniform)
    feeds = _feeds(path, before, after)
    if feeds is None:
        return None
    right = []
    loops = pipeline.rewrite(before, strategy="expand").model
    for judge, model in (("reference", before), ("onnxruntime", loops)):
        try:
            right.append(open_session(model, judge).run(feeds))
        except BackendError:
            continue
    given, new = (protos.to_proto(model).SerializeToString() for model in (before, after))
    return Row(path.name, form, given, new, feeds, right, why) if right else None


def _rewritten(
    before: ir.Model, target: str = "portable", *, is_uniform: bool = True
) -> tuple[ir.Model, str, str]:
    """Return what becomes of a model, its form, and what keeps it from being portable."""
    inputs = before.graph.inputs if is_uniform else []
    uniform = [v.name for v in inputs if isinstance(v.type, ir.SequenceType) and v.name]
    tries: tuple[tuple[str, dict[str, Any]], ...] = (
        ("portable", {"target": target, "tensor_io": True, "uniform": uniform}),
        ("tensors", {"tensor_io": True, "uniform": uniform}),
        ("sequences", {"uniform": uniform}),
    )
    why = ""
    for form, options in tries:
        try:
            result = pipeline.rewrite(before, **options)
        except TargetError as error:
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


if __name__ == "__main__":
    main()
