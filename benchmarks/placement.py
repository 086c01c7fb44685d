"""Where the models of the zoo run on CUDA and WebGPU, to `benchmarks/PLACEMENT.md`.

``python -m benchmarks.placement``. Predicted from tables of kernels; no device is needed. The
tests compare the prediction with the providers.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator

import onnx

import rewriter
from rewriter.model_files.protos import from_proto
from rewriter.placement.placing import place
from rewriter.placement.predict import PredictedPlacement
from rewriter.target_table import TargetName, find_target

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = pathlib.Path(__file__).with_name("PLACEMENT.md")
TARGETS: tuple[TargetName, ...] = (
    "onnxruntime-cuda",
    "onnxruntime-webgpu",
    "onnxruntime-webgpu-int64",
)


@dataclasses.dataclass(frozen=True)
class PlacementRow:
    """One model on one target: as given, rewritten, and with tensors at its ends."""

    name: str
    given: PredictedPlacement | None
    rewritten: PredictedPlacement | None
    tensors: PredictedPlacement | None


def measure(target: TargetName) -> Iterator[PlacementRow]:
    """Yield a row for each model of the zoo."""
    for path in sorted((ROOT / "models").glob("*/*.onnx*")):
        try:
            model = _read(path)
            given = place(from_proto(_copy(model)), find_target(target))
        except Exception:  # a model that is not valid, which the zoo has, too
            continue
        forms = [_rewritten(model, target, tensor_io=tensor_io) for tensor_io in (False, True)]
        yield PlacementRow(path.stem, given, *forms)


def _read(path: pathlib.Path) -> onnx.ModelProto:
    if path.suffix == ".onnxtxt":
        return onnx.parser.parse_model(path.read_text("utf-8"))
    return onnx.load(path)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _rewritten(
    model: onnx.ModelProto, target: TargetName, *, tensor_io: bool
) -> PredictedPlacement | None:
    try:
        report = rewriter.rewrite(model, target=target, tensor_io=tensor_io).report
    except rewriter.RewriteError:
        return None
    return report.placement


def table(target: str, rows: list[PlacementRow]) -> str:
    """Return the section of one target."""
    titles = ("as given", "rewritten", "rewritten, `--tensor-io`")
    lines = [
        f"## {target}",
        "",
        "| of the models | " + " | ".join(titles) + " |",
        "| --- | ---: | ---: | ---: |",
    ]
    counted = [count(getattr(row, name) for row in rows) for name in _FORMS]
    lines += [
        f"| {what} | " + " | ".join(str(one[what]) for one in counted) + " |" for what in COUNTED
    ]
    lines += [
        "",
        "Nodes on the device / on the host, copies (of them in each iteration):",
        "",
        "| model | " + " | ".join(titles) + " | on the host beside shapes, rewritten | "
        "the same, `--tensor-io` |",
        "| --- | ---: | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        cells = [_cell(one) for one in (row.given, row.rewritten, row.tensors)]
        cells += [_left(row.rewritten), _left(row.tensors)]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


_FORMS = ("given", "rewritten", "tensors")


def count(forms: Iterable[PredictedPlacement | None]) -> dict[str, int]:
    """Return the sums of `COUNTED` over models; None is a model that has no such form."""
    placed = [one for one in forms if one is not None]
    return {what: sum(map(holds, placed)) for what, holds in COUNTED.items()}


def _shapes_at_most(one: PredictedPlacement) -> bool:
    return all(node.is_shapes for node in one.host)


def _counts_at_most(one: PredictedPlacement) -> bool:
    return all(node.is_shapes or node.is_counting for node in one.host)


_ITERATIONS = 16


def _copies_in_a_run(one: PredictedPlacement) -> int:
    """Return the copies of a run, at most: each branch is taken, and each loop often."""
    return one.copies + (_ITERATIONS - 1) * one.copies_per_iteration


COUNTED: dict[str, Callable[[PredictedPlacement], int]] = {
    "placed": lambda one: True,
    "wholly on the device": lambda one: not one.host,
    "on the host: arithmetic on shapes at most": _shapes_at_most,
    "on the host: arithmetic on whole numbers at most": _counts_at_most,
    "no copy": lambda one: not one.copies,
    "copying in each iteration": lambda one: one.copies_per_iteration > 0,
    f"copies of all together, in runs of {_ITERATIONS} iterations": _copies_in_a_run,
}
"""What is counted of a model of the zoo."""


def _cell(one: PredictedPlacement | None) -> str:
    if one is None:
        return "-"
    return f"{one.device} / {len(one.host)}, {one.copies} ({one.copies_per_iteration})"


def _left(one: PredictedPlacement | None) -> str:
    nodes = [] if one is None else [node.op for node in one.host if not node.is_shapes]
    return ", ".join(f"{nodes.count(op)} {op}" for op in dict.fromkeys(nodes))


def main() -> None:
    sections = [table(target, list(measure(target))) for target in TARGETS]
    head = (
        "# Placement\n\nWritten by `python -m benchmarks.placement`: predicted, and equal to what "
        "the providers do where `tests/rewriter/placement/test_placement.py` compares them.\n\n"
        "What no form takes off the host: SplitToSequence of a result that stays a sequence, and "
        "texts, for which no device has kernels; bounds of a Slice, a Split or a Range that loops "
        "read anew in each iteration, which kernels read on the host (GatherND holds them there, "
        "so that no iteration copies); the question of an If, such as whether there are samples, "
        "which the host decides.\n\n"
    )
    RESULTS.write_text(head + "\n".join(sections), "utf-8")


if __name__ == "__main__":
    main()
