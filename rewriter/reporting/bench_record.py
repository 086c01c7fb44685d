"""The record of a comparison of times, in words and as a chart."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from rewriter.reporting.plot import LineChart

__all__ = ["Bench", "BenchRow"]

_BAR = 3.0
"""Characters of a bar for each doubling of the speed."""
_ALIKE = 1.05
"""Within this ratio two times are the same: repeated runs differ by as much."""


@dataclasses.dataclass(frozen=True)
class BenchRow:
    """The times at one size.

    Attributes:
        size: Number of samples, or the named dimension; 0 where the inputs have no such size:
            fixed shapes, or given inputs without a sequence.
        before_ms: Median of the model as given; None where the runtime refuses it.
        after_ms: Median of the rewritten model.
        repeats: How many pairs were run.
        drawn: What the inputs were.
    """

    size: int
    before_ms: float | None
    after_ms: float
    repeats: int
    drawn: str

    @property
    def speedup(self) -> float | None:
        """How many times as fast the rewritten model is."""
        return None if self.before_ms is None else self.before_ms / self.after_ms


@dataclasses.dataclass(frozen=True)
class Bench:
    """The model as given and rewritten, over sizes.

    Attributes:
        rows: One row for each size, the smallest first.
        axis: What a size counts, such as ``samples``.
        runtime: The backend and its version.
        device: Its device.
        threads: The threads of a run, 0 where the runtime chooses.
        seed: What the inputs were drawn from.
        refused: Why the runtime refuses the model as given, empty where it takes it.
        stopped: Why sizes are missing, empty where none are.
        nothing_to_do: Whether the rewrite left the model as it was given.
    """

    rows: tuple[BenchRow, ...]
    axis: str = "samples"
    runtime: str = ""
    device: str = "cpu"
    threads: int = 1
    seed: int = 0
    refused: str = ""
    stopped: str = ""
    nothing_to_do: bool = False

    @property
    def speedup(self) -> float | None:
        """How many times as fast the rewritten model is at the largest size."""
        return self.rows[-1].speedup if self.rows else None

    @property
    def crossover(self) -> int | None:
        """From which size on the rewritten model is the faster one, up to the largest.

        Between two measured sizes the logarithm of the ratio is taken for a straight line. None
        where it is not faster at the largest size, or nowhere by more than repeated runs differ,
        or the model as given does not run, or is the same model.
        """
        if self.nothing_to_do or self._is_alike:
            return None
        speeds = [(row.size, row.speedup) for row in self.rows]
        found: int | None = None
        for (size, speed), following in zip(
            reversed(speeds), [None, *reversed(speeds)], strict=False
        ):
            if speed is None:
                return None
            if speed < 1:
                if following is None or following[1] is None:
                    return None
                share = -math.log(speed) / (math.log(following[1]) - math.log(speed))
                low, high = math.log(max(size, 1)), math.log(max(following[0], 1))
                return max(size + 1, round(math.exp(low + share * (high - low))))
            found = size
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values, fit for JSON."""
        rows = [dataclasses.asdict(row) | {"speedup": row.speedup} for row in self.rows]
        plain = dataclasses.asdict(self) | {"rows": rows}
        return plain | {"speedup": self.speedup, "crossover": self.crossover}

    def __str__(self) -> str:
        """Return the table, and what follows from it, for a terminal."""
        last = self.rows[-1]
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}" if self.threads else ""
        where = ", ".join(filter(None, [self.runtime, self.device, threads, f"seed {self.seed}"]))
        lines = [last.drawn, f"{where}, medians of {self._repeats} paired runs, in milliseconds"]
        if self.refused:
            lines.append(f"as given it is refused: {self.refused}")
        head = (self.axis, "as given", "rewritten", "faster by")
        cells = [head, *(_cells(row) for row in self.rows)]
        first = 0 if self._has_sizes else 1
        columns = range(first, 2 if self.nothing_to_do else 3)
        widths = [max(len(row[i]) for row in cells) for i in columns]
        for row in cells:
            told = [] if self.nothing_to_do else [row[3]]
            shown = [row[i].rjust(width) for i, width in zip(columns, widths, strict=True)]
            lines.append("  ".join([*shown, *told]).rstrip())
        return "\n".join([*lines, *filter(None, [self._growth, self._verdict, self.stopped])])

    def to_svg(self) -> str:
        """Return the times over the sizes, on logarithmic axes."""
        return self._chart().to_svg()

    def to_png(self) -> bytes:
        """Return the chart of `to_svg` as a picture.

        Raises:
            BackendError: matplotlib is not installed.
        """
        return self._chart().to_png()

    def _chart(self) -> LineChart:
        series = {
            "as given": [(r.size or 1, r.before_ms) for r in self.rows if r.before_ms],
            "rewritten": [(r.size or 1, r.after_ms) for r in self.rows],
        }
        crossover = self.crossover
        is_inside = crossover is not None and crossover > self.rows[0].size
        return LineChart(
            {name: points for name, points in series.items() if points},
            title=f"{self.runtime}, {self.device}",
            x_label=f"number of {self.axis}" if self.axis == "samples" else self.axis,
            y_label="milliseconds",
            mark=(float(crossover or 1), f"faster from {crossover} on") if is_inside else None,
        )

    def _repr_html_(self) -> str:
        return self.to_svg()

    @property
    def _repeats(self) -> str:
        least, most = (f(row.repeats for row in self.rows) for f in (min, max))
        return str(most) if least == most else f"{least} to {most}"

    @property
    def _has_sizes(self) -> bool:
        return any(row.size for row in self.rows)

    @property
    def _is_alike(self) -> bool:
        """Whether at no size one model is faster by more than repeated runs differ."""
        speeds = [row.speedup for row in self.rows if row.speedup is not None]
        return bool(speeds) and all(1 / _ALIKE < speed < _ALIKE for speed in speeds)

    @property
    def _growth(self) -> str:
        if len(self.rows) < 2 or not self.rows[-2].size:
            return ""
        one, two = self.rows[-2:]
        told = [] if self.nothing_to_do else [f"rewritten {two.after_ms / one.after_ms:.1f}x"]
        if one.before_ms and two.before_ms:
            told.insert(0, f"as given {two.before_ms / one.before_ms:.1f}x")
        return f"growth for {two.size / one.size:.3g}x {self.axis}: {', '.join(told)}"

    @property
    def _verdict(self) -> str:
        if self.nothing_to_do:
            return "nothing to rewrite: these are the times of the model as given"
        losses = [r.after_ms - r.before_ms for r in self.rows if r.before_ms is not None]
        if not losses:
            return ""
        crossover = self.crossover
        if self._is_alike:
            sizes = "at all of these sizes" if self._has_sizes else "at this size, the only one"
            return f"neither is faster by more than a twentieth {sizes}"
        if not self._has_sizes:
            faster = "model as given" if crossover is None else "rewritten model"
            return f"the {faster} is the faster one; these inputs have one size"
        if crossover is None:
            return "the model as given is the faster one at the largest size"
        if crossover <= self.rows[0].size:
            return "the rewritten model is the faster one at all of these sizes"
        return (
            f"gains from about {crossover:,} {self.axis} on; below that the model as given is "
            f"faster by at most {max(losses):.2g} ms"
        )


def _cells(row: BenchRow) -> tuple[str, str, str, str]:
    given = "refused" if row.before_ms is None else _time(row.before_ms)
    speed = row.speedup
    if speed is None:
        return f"{row.size:,}", given, _time(row.after_ms), ""
    bar = "#" * min(40, round(_BAR * math.log2(speed))) if speed > 1 else "slower" * (speed < 1)
    told = f"{speed:{_digits(speed)}}x"
    return f"{row.size:,}", given, _time(row.after_ms), f"{told:6} {bar}"


def _digits(speed: float) -> str:
    """Return the format of a speed, in which what is slower never reads as 1.0."""
    if speed < 1:
        return ".2g"
    return ".1f" if speed < 10 else ".0f"


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:,.0f}"
