"""What follows from measured costs of a sample: when a cluster pays, and how long it takes."""

from __future__ import annotations

import dataclasses
import os
import platform

__all__ = ["WIDTH", "Costs", "Throughput", "written"]

WIDTH = 16
"""The floats of a row."""
CLUSTER = (2, 8, 64)
JOBS = (10_000, 100_000, 1_000_000)
MANY = 100_000_000


@dataclasses.dataclass(frozen=True)
class Costs:
    """What was measured of one model; seconds a sample, but for the start.

    Attributes:
        name: The model.
        single: The model as given, a sample a run; time of the processor, as the next two.
        compute: `Predictor` in one process, batched, in memory.
        moving: Reading a sample from Parquet and writing its result, on top.
        start: Seconds of the clock until an actor of Ray has done its first part.
        local: The same of a process of the engine ``local``.
        shuffled: From one process to another through the store of Ray, seconds of the clock; only
            where samples do not lie where they are computed.
    """

    name: str
    single: float
    compute: float
    moving: float
    start: float
    local: float
    shuffled: float

    @property
    def alone(self) -> float:
        """Seconds a sample from file to file in one process."""
        return self.compute + self.moving

    def seconds(self, workers: int, samples: int, *, is_shuffled: bool = False) -> float:
        """Return the seconds of a cluster; a worker reads its own parts unless shuffled."""
        each = self.alone + self.shuffled * is_shuffled
        return self.start + samples * each / workers

    def times(self, workers: int, samples: int) -> float:
        """Return how many times as long a cluster takes as one process."""
        return self.seconds(workers, samples) / (samples * self.alone)

    def work(self, workers: int) -> float:
        """Return from what work a sample on a cluster pays that is handed the samples.

        One process needs ``w`` a sample; ``n`` workers ``w / n``, and handing it over beside.
        """
        return self.shuffled * workers / (workers - 1)

    def worthwhile(self, workers: int) -> float:
        """Return from how many samples on a cluster is faster than one process."""
        return self.start / (self.alone * (1 - 1 / workers))


@dataclasses.dataclass(frozen=True)
class Throughput:
    """Samples a second of one model by the clock.

    Attributes:
        name: The model.
        samples: How many samples were applied.
        single: The model as given, a sample a run, in memory.
        local: Two processes of ``seqmap apply``, from file to file, their start included.
        ray: The same of two actors of Ray.
    """

    name: str
    samples: int
    single: float
    local: float
    ray: float


def written(rows: list[Costs], throughputs: list[Throughput]) -> str:
    """Return the tables."""
    head = (
        "# Distribution\n\nWritten by `python -m benchmarks.distribution` on "
        f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}. "
        f"Samples of 1 to 64 rows of {WIDTH} floats through 1, 32 and 256 layers; what one "
        "process needs is time of the processor, what starts or is handed over time of the "
        "clock.\n"
    )
    titles = ["as given, one by one", "batched, one process", "+ Parquet in and out"]
    starts = ["handed over by Ray", "start of a process (s)", "start of Ray (s)"]
    measured = _table(
        ["microseconds a sample", *titles, *starts],
        [
            [
                row.name,
                *map(_micro, (row.single, row.compute, row.alone, row.shuffled)),
                *(f"{seconds:.1f}" for seconds in (row.local, row.start)),
            ]
            for row in rows
        ],
    )
    rates = _table(
        [
            "samples a second",
            "samples",
            "as given, one by one, in memory",
            "local, 2 workers",
            "Ray, 2 workers",
        ],
        [
            [row.name, f"{row.samples:,}"]
            + [f"{rate:,.0f}" for rate in (row.single, row.local, row.ray)]
            for row in throughputs
        ],
    )
    counts = [f"{count} workers" for count in CLUSTER]
    pays = _table(
        ["pays from ... samples on", *counts],
        [[row.name, *(_count(row.worthwhile(n)) for n in CLUSTER)] for row in rows],
    )
    slower = _table(
        ["Ray, 2 workers: times as long as one process", *(f"{n:,} samples" for n in JOBS)],
        [[row.name, *(f"{row.times(2, n):.2g}" for n in JOBS)] for row in rows],
    )
    handed = _table(
        ["handed over, pays from ... microseconds a sample on", *counts],
        [[row.name, *(_micro(row.work(n)) for n in CLUSTER)] for row in rows],
    )
    many = _table(
        [
            f"seconds for {MANY:,} samples",
            "one process",
            *counts,
            f"{counts[-1]}, handed over",
        ],
        [
            [
                row.name,
                f"{row.alone * MANY:,.0f}",
                *(f"{row.seconds(n, MANY):,.0f}" for n in CLUSTER),
                f"{row.seconds(CLUSTER[-1], MANY, is_shuffled=True):,.0f}",
            ]
            for row in rows
        ],
    )
    estimated = "\n\n".join([slower, pays, handed, many])
    begun = "The engines go from Parquet to Parquet by the clock, their start included.\n"
    parts = [head, "## Measured\n", measured, "", begun, rates, "\n## Estimated\n", estimated, ""]
    return "\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def _count(samples: float) -> str:
    digits = 10 ** max(len(str(int(samples))) - 2, 0)
    return f"{round(samples / digits) * digits:,}"
