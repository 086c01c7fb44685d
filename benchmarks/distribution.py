"""When distribution pays, to `benchmarks/DISTRIBUTION.md`.

``python -m benchmarks.distribution``. One model a row, from a light body to a heavy one: what a
sample costs in one process, what reading and writing it costs, how long Ray takes to start, and
from these what a cluster would do. Needs ``seqmap[apply,ray]``.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq

import rewriter
from rewriter.apply.parts import Job
from rewriter.apply.results import columns_of
from rewriter.apply.workers import Task, apply_parts

__all__ = ["RESULTS", "main"]

RESULTS = pathlib.Path(__file__).with_name("DISTRIBUTION.md")
WIDTH = 16
LAYERS = {"light": 1, "medium": 32, "heavy": 256}
"""Square layers of each body; a sample has 1 to 64 rows."""
CLUSTER = (2, 8, 64)
MANY = 100_000_000
_REPEATS = 2
_PART = 1024


@dataclasses.dataclass(frozen=True)
class Costs:
    """What was measured of one model; seconds a sample, but for the start.

    Attributes:
        name: The model.
        single: The model as given, a sample a run; time of the processor, as the next two.
        compute: `Predictor` in one process, batched, in memory.
        moving: Reading a sample from Parquet and writing its result, on top.
        start: Seconds of the clock until an actor of Ray has done its first part.
    """

    name: str
    single: float
    compute: float
    moving: float
    start: float

    @property
    def alone(self) -> float:
        """Seconds a sample from file to file in one process."""
        return self.compute + self.moving

    def seconds(self, workers: int, samples: int) -> float:
        """Return the seconds of a cluster: nothing is shuffled, a worker reads its own parts."""
        return self.start + samples * self.alone / workers

    def worthwhile(self, workers: int) -> float:
        """Return from how many samples on a cluster is faster than one process."""
        return self.start / (self.alone * (1 - 1 / workers))


def text_of(layers: int) -> str:
    """Return a model that maps so many layers over samples of any number of rows."""
    dims = f"{WIDTH}, {WIDTH}"
    weights = ", ".join(f"float[{dims}] w{k}" for k in range(layers))
    body = " ".join(
        f"m{k} = MatMul ({_before(k)}, w{k}) r{k} = Tanh (m{k})" for k in range(layers)
    )
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    mapped (seq(float[N, {WIDTH}]) xs, {weights}) => (seq(float[N, {WIDTH}]) ys) {{
        ys = SequenceMap (xs) <body = b (float[N, {WIDTH}] x) => (float[N, {WIDTH}] y) {{
            {body} y = Identity (r{layers - 1})
        }}> }}"""


def _before(layer: int) -> str:
    return f"r{layer - 1}" if layer else "x"


def model_of(layers: int) -> onnx.ModelProto:
    """Return the model with its weights."""
    model = onnx.parser.parse_model(text_of(layers))
    rng = np.random.default_rng(0)
    for value in list(model.graph.input)[1:]:
        weight = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 4
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, value.name))
        model.graph.input.remove(value)
    return model


def draw(count: int) -> list[np.ndarray[Any, Any]]:
    """Return ragged samples."""
    rng = np.random.default_rng(count)
    return [rng.normal(size=(n, WIDTH)).astype(np.float32) for n in rng.integers(1, 65, count)]


def measure(name: str, layers: int, count: int) -> Costs:
    """Measure one model with so many samples."""
    given = model_of(layers)
    samples = draw(count)
    few = samples[: count // 10]
    one = rewriter.Predictor(given, batch_size=1)
    single = _best(lambda: list(one(few))) / len(few)
    packed = rewriter.optimize(given, tensor_io=True)
    batched = rewriter.Predictor(packed)
    compute = _best(lambda: list(batched(samples))) / count
    first = batched.predict(samples[:2])
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        onnx.save(packed, folder / "model.onnx")
        kind = pa.list_(pa.list_(pa.float32()))
        column = pa.array([sample.tolist() for sample in samples], kind)
        pq.write_table(pa.table({"xs": column}), folder / "in.parquet", row_group_size=4096)
        task = Task(folder / "model.onnx", folder / "in.parquet", folder / "out")
        task = task.with_columns(columns_of(first, batched.outputs))
        alone = _best(lambda: _applied(task, count)) / count
        start = min(_started(task) for _ in range(_REPEATS))
    return Costs(name, single, compute, max(alone - compute, 0.0), start)


def _best(run: Callable[[], Any]) -> float:
    """Return the seconds of the fastest run; one that tells its own seconds is believed."""
    times = []
    for _ in range(_REPEATS):
        begun = time.process_time()
        told = run()
        times.append(told if isinstance(told, float) else time.process_time() - begun)
    return min(times)


def _applied(task: Task, count: int) -> float:
    """Return the seconds of the processor from a first, tiny part to the end, in this process."""
    with tempfile.TemporaryDirectory() as out:
        task = dataclasses.replace(task, folder=pathlib.Path(out))
        job = Job("", "", count, None, _PART)
        parts = apply_parts(task, [(0, 0, 1), *_behind(job)], "local", 1)
        next(parts)
        begun = time.process_time()
        for _ in parts:
            pass
        return time.process_time() - begun


def _started(task: Task) -> float:
    """Return the seconds of the clock that Ray takes for one tiny part."""
    with tempfile.TemporaryDirectory() as out:
        task = dataclasses.replace(task, folder=pathlib.Path(out))
        begun = time.perf_counter()
        parts = apply_parts(task, [(0, 0, 1)], "ray", 1)
        next(parts)
        seconds = time.perf_counter() - begun
        for _ in parts:
            pass
        return seconds


def _behind(job: Job) -> Iterator[tuple[int, int, int]]:
    for number, start, stop in job.parts:
        yield number + 1, start, stop


def written(rows: list[Costs]) -> str:
    """Return the tables."""
    head = (
        "# Distribution\n\nWritten by `python -m benchmarks.distribution` on "
        f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}. "
        f"Samples of 1 to 64 rows of {WIDTH} floats through 1, 32 and 256 layers; what one "
        "process needs is time of the processor, the start of Ray is time of the clock.\n"
    )
    measured = _table(
        [
            "microseconds a sample",
            "as given, one by one",
            "batched, one process",
            "+ Parquet in and out",
            "start of Ray (s)",
        ],
        [
            [
                row.name,
                *(_micro(one) for one in (row.single, row.compute, row.alone)),
                f"{row.start:.1f}",
            ]
            for row in rows
        ],
    )
    counts = [f"{count} workers" for count in CLUSTER]
    pays = _table(
        ["pays from ... samples on", *counts],
        [[row.name, *(_count(row.worthwhile(n)) for n in CLUSTER)] for row in rows],
    )
    many = _table(
        [f"seconds for {MANY:,} samples", "one process", *counts],
        [
            [
                row.name,
                f"{row.alone * MANY:,.0f}",
                *(f"{row.seconds(n, MANY):,.0f}" for n in CLUSTER),
            ]
            for row in rows
        ],
    )
    return "\n".join([head, "## Measured\n", measured, "\n## Estimated\n", pays, "", many, ""])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def _count(samples: float) -> str:
    digits = 10 ** max(len(str(int(samples))) - 2, 0)
    return f"{round(samples / digits) * digits:,}"


def main() -> None:
    rows = [measure(name, layers, 16_000) for name, layers in LAYERS.items()]
    text = written(rows)
    print(text)
    RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
