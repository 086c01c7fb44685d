"""Runs the parts of a job: in this process, in some processes here, or as actors of Ray."""

from __future__ import annotations

import concurrent.futures.process
import dataclasses
import importlib.util
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from passes.errors import RewriteError
from rewriter.apply.parts import OutputFolder
from rewriter.apply.results import Column
from rewriter.apply.rows import open_rows
from rewriter.running.predictor import Predictor
from rewriter.spawning import deaf_to_interrupts, without_a_script

__all__ = ["ENGINES", "Task", "Worker", "apply_parts"]

ENGINES = ("local", "ray")
Part = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Task:
    """The task of a worker, fit to be sent to another process.

    Attributes:
        model: The model's file.
        source: Where the samples are.
        folder: Where the parts are written.
        id_column: The column with the ids of the samples; None for their numbers.
        backend: The backend that runs the model.
        device: One of its devices.
        batch_size: Samples in a run, at most.
        shared: The inputs that are the same for every sample.
        columns: The name, element type and rank of each output.
    """

    model: Path
    source: Path
    folder: Path
    id_column: str | None = None
    backend: str = "onnxruntime"
    device: str = "cpu"
    batch_size: int = 256
    shared: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    columns: tuple[Column, ...] = ()

    @property
    def id_name(self) -> str:
        """The name of the column of ids in the results."""
        return self.id_column or "id"

    def with_columns(self, columns: tuple[Column, ...]) -> Task:
        """Return the same task with the columns of its results."""
        return dataclasses.replace(self, columns=columns)

    def predictor(self, *, must_begin: bool) -> Predictor:
        """Open the model with one thread."""
        return Predictor(
            self.model,
            backend=self.backend,
            device=self.device,
            batch_size=self.batch_size,
            shared=self.shared,
            must_begin=must_begin,
        )


class Worker:
    """Does parts, one after the other, with a session of its own."""

    def __init__(self, task: Task) -> None:
        """Open the session and the samples."""
        self._task = task
        self._predictor = task.predictor(must_begin=False)
        self._rows = open_rows(task.source, self._predictor.dims, task.id_column)
        self._folder = OutputFolder(task.folder, task.columns)

    def work(self, part: int, start: int, stop: int) -> int:
        """Run the samples of one part and write it.

        Returns:
            The number of the samples that failed.
        """
        ids, samples = self._rows.read(start, stop)
        results = list(self._predictor(samples))
        return self._folder.write(part, self._task.id_name, ids, results)

    def numbered(self, part: int, start: int, stop: int) -> tuple[int, int]:
        """Do one part as `work` does, and return its number before the failures."""
        return part, self.work(part, start, stop)


def apply_parts(
    task: Task, parts: Sequence[Part], engine: str, workers: int
) -> Iterator[tuple[int, int]]:
    """Do parts in any order.

    Args:
        task: What to do.
        parts: The number and the range of rows of each.
        engine: One of `ENGINES`.
        workers: How many work side by side.

    Yields:
        For each part that was done, its samples and how many of them failed.

    Raises:
        RewriteError: A worker ended.
    """
    if engine == "ray":
        yield from _on_ray(task, parts, workers)
    elif workers == 1:
        worker = Worker(task)
        for part in parts:
            yield part[2] - part[1], worker.work(*part)
    else:
        yield from _in_processes(task, parts, workers)


_WORKERS: list[Worker] = []
"""The worker of a process that was made for one."""


def _enter(task: Task) -> None:
    _WORKERS[:] = [Worker(task)]


def _work(part: Part) -> tuple[int, int]:
    return part[2] - part[1], _WORKERS[0].work(*part)


def _in_processes(task: Task, parts: Sequence[Part], workers: int) -> Iterator[tuple[int, int]]:
    others = multiprocessing.active_children()
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _enter, (task,)
    )
    with pool:
        try:
            # A process starts when work comes in.
            with deaf_to_interrupts(), without_a_script():
                work = [pool.submit(_work, part) for part in parts]
            for done in concurrent.futures.as_completed(work):
                yield done.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise RewriteError(
                "a worker ended before its part was done (is there enough memory?); go on with "
                "--resume"
            ) from error
        except (KeyboardInterrupt, GeneratorExit):
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()  # a part is there whole or not at all
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def require_engine(engine: str) -> None:
    """Raise RewriteError if an engine is not installed."""
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        raise RewriteError("the engine ray is not installed; install seqmap[ray]")


def _on_ray(task: Task, parts: Sequence[Part], workers: int) -> Iterator[tuple[int, int]]:
    import ray
    from ray.util import ActorPool

    if is_ours := not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        # A whole core for each would leave none for anything else on a small machine.
        resources: Callable[[], dict[str, float]] = ray.cluster_resources
        free = resources().get("CPU", 1.0)
        actor = ray.remote(num_cpus=min(0.5, free / (2 * workers)))(Worker)
        pool = ActorPool([actor.remote(task) for _ in range(workers)])
        sizes = {part: stop - start for part, start, stop in parts}
        done = pool.map_unordered(_submit, list(parts))
        for part, errors in done:
            yield sizes[part], errors
    except ray.exceptions.RayError as error:
        cause = str(error).strip().splitlines()[-1]
        raise RewriteError(f"Ray failed: {cause}; go on with --resume") from error
    finally:
        if is_ours:
            ray.shutdown()


def _submit(actor: Any, part: Part) -> Any:
    return actor.numbered.remote(*part)
