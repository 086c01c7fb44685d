"""When distribution pays, to `benchmarks/DISTRIBUTION.md`.

``python -m benchmarks.distribution``. One model a row, from a light body to a heavy one: what a
sample costs in one process, what reading and writing it costs, what Ray takes to start and to
hand it over, and from these what a cluster would do; then many samples from file to file by each
engine. Needs ``seqmap[apply,ray]``. With ``--samples 500`` it only prints.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq

import rewriter
from benchmarks.distribution_costs import WIDTH, Costs, Throughput, written
from rewriter.apply.columns import write_column
from rewriter.apply.parts import Job
from rewriter.apply.results import columns_of
from rewriter.apply.workers import Task, apply_parts
from rewriter.model_files.models import take

__all__ = ["RESULTS", "main"]

RESULTS = pathlib.Path(__file__).with_name("DISTRIBUTION.md")
LAYERS = {"light": 1, "medium": 32, "heavy": 256}
"""Square layers of each body; a sample has 1 to 64 rows."""
_REPEATS = 2
_PART = 1024
_BATCH = 256
_HANDED = 50
_SAMPLES = 16_000
_MANY = 100_000
_WORKERS = 2


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
        task = task.with_columns(columns_of(first, take(packed).model))
        alone = _best(lambda: _applied(task, count)) / count
        start, local = (
            min(_started(task, engine, workers) for _ in range(_REPEATS))
            for engine, workers in (("ray", 1), ("local", 2))
        )
        shuffled = _handed_over(pa.table({"xs": column}).slice(0, _BATCH))
    return Costs(name, single, compute, max(alone - compute, 0.0), start, local, shuffled)


def throughput(name: str, layers: int, count: int) -> Throughput:
    """Measure how many samples a second each engine takes from file to file, its start included.

    The model as given runs a sample at a time, in memory, over a tenth of them.
    """
    given, samples = model_of(layers), draw(count)
    few = samples[: count // 10]
    one = rewriter.Predictor(given, batch_size=1)
    begun = time.perf_counter()
    outputs = [result.outputs for result in one(few)]
    single = len(few) / (time.perf_counter() - begun)
    packed = rewriter.optimize(given, tensor_io=True)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        onnx.save(packed, folder / "model.onnx")
        kind = pa.list_(pa.list_(pa.float32()))
        table = pa.table({"xs": write_column(samples, kind)})
        pq.write_table(table, folder / "in.parquet", row_group_size=4096)
        del samples, table
        rates = [_rate(folder, engine, count, outputs) for engine in ("local", "ray")]
    return Throughput(name, count, single, *rates)


def _rate(
    folder: pathlib.Path, engine: str, count: int, expected: list[dict[str, Any] | None]
) -> float:
    """Return the samples a second of an engine; the first results must be those expected."""
    out = folder / engine
    out.mkdir()
    task = Task(folder / "model.onnx", folder / "in.parquet", out)
    task = task.with_columns((("ys", np.dtype(np.float32), 2),))
    begun = time.perf_counter()
    parts = list(apply_parts(task, Job("", "", count, None, _PART).parts, engine, _WORKERS))
    seconds = time.perf_counter() - begun
    assert sum(samples for samples, _ in parts) == count
    assert not sum(errors for _, errors in parts)
    found = pq.read_table(out / "part-00000.parquet").column("ys").to_pylist()
    for row, right in zip(found, expected, strict=False):
        assert right is not None
        np.testing.assert_allclose(np.reshape(row, (-1, WIDTH)), right["ys"], atol=1e-4)
    return count / seconds


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


def _started(task: Task, engine: str, workers: int) -> float:
    """Return the seconds of the clock that an engine takes for one tiny part."""
    with tempfile.TemporaryDirectory() as out:
        task = dataclasses.replace(task, folder=pathlib.Path(out))
        begun = time.perf_counter()
        parts = apply_parts(task, [(0, 0, 1)], engine, workers)
        next(parts)
        seconds = time.perf_counter() - begun
        for _ in parts:
            pass
        return seconds


def _handed_over(batch: pa.Table) -> float:
    """Return the seconds a sample to hand a batch to another process of Ray, and as much back."""
    import ray

    ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        echo: Any = ray.remote(num_cpus=0.1)(lambda table: table)
        ray.get(echo.remote(batch))
        times = []
        for _ in range(_HANDED):
            begun = time.perf_counter()
            ray.get(echo.remote(ray.put(batch)))
            times.append(time.perf_counter() - begun)
        return min(times) / batch.num_rows
    finally:
        ray.shutdown()


def _behind(job: Job) -> Iterator[tuple[int, int, int]]:
    for number, start, stop in job.parts:
        yield number + 1, start, stop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=_SAMPLES, help="fewer: prints, no file")
    count = parser.parse_args().samples
    many = _MANY if count >= _SAMPLES else count
    text = written(
        [measure(name, layers, count) for name, layers in LAYERS.items()],
        [throughput(name, layers, many) for name, layers in LAYERS.items() if name != "medium"],
    )
    print(text)
    if count >= _SAMPLES:
        RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
