"""A line chart on two logarithmic axes, as SVG or PNG."""

from __future__ import annotations

import dataclasses
import html
import importlib
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rewriter.errors import BackendError

__all__ = ["LineChart", "require_matplotlib"]

_WIDTH, _HEIGHT = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 32, 40, 48
_COLOURS = ("#dd4b0b", "#0d8a80", "#6366f1", "#b47a06")
_STYLE = (
    "svg.chart{font:13px sans-serif;fill:#222;background:#fff}.chart .grid{stroke:#ccc}"
    ".chart .mark{stroke:#666;stroke-dasharray:4 3}.chart text.mark{stroke:none}"
    "@media(prefers-color-scheme:dark){svg.chart{fill:#ddd;background:#16181d}"
    ".chart .grid{stroke:#444}}"
)


@dataclasses.dataclass(frozen=True)
class LineChart:
    """Lines over two logarithmic axes.

    Attributes:
        series: The points (x, y) of each line, all positive, by its name.
        title: What is shown.
        x_label: What x is.
        y_label: What y is.
        mark: An x at which a vertical line stands, and its label.
    """

    series: Mapping[str, Sequence[tuple[float, float]]]
    title: str
    x_label: str
    y_label: str
    mark: tuple[float, str] | None = None

    def to_svg(self) -> str:
        """Return the chart as one SVG element."""
        points = [point for line in self.series.values() for point in line]
        x_axis = _ChartAxis([x for x, _ in points], _LEFT, _WIDTH - _RIGHT)
        y_axis = _ChartAxis([y for _, y in points], _HEIGHT - _BOTTOM, _TOP)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
            f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">',
            f"<title>{html.escape(self.title)}</title><style>{_STYLE}</style>",
            f'<text x="{_LEFT}" y="20" font-weight="bold">{html.escape(self.title)}</text>',
        ]
        for value, place in x_axis.ticks():
            parts.append(_line("grid", place, _TOP, place, _HEIGHT - _BOTTOM))
            parts.append(_text(place, _HEIGHT - _BOTTOM + 18, _number(value), "middle"))
        for value, place in y_axis.ticks():
            parts.append(_line("grid", _LEFT, place, _WIDTH - _RIGHT, place))
            parts.append(_text(_LEFT - 6, place + 4, _number(value), "end"))
        parts.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT - 10, self.x_label, "middle"))
        parts.append(
            f'<text transform="translate(16 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
            f"{html.escape(self.y_label)}</text>"
        )
        if self.mark is not None:
            place = x_axis.place(self.mark[0])
            parts.append(_line("mark", place, _TOP, place, _HEIGHT - _BOTTOM))
            parts.append(_text(place + 4, _HEIGHT - _BOTTOM - 8, self.mark[1], "start", "mark"))
        for number, (name, line) in enumerate(self.series.items()):
            parts.append(_series(name, line, x_axis, y_axis, number))
        return "\n".join([*parts, "</svg>"]) + "\n"

    def to_png(self) -> bytes:
        """Return the chart as a PNG picture, drawn by matplotlib.

        Raises:
            BackendError: matplotlib is not installed.
        """
        figure = require_matplotlib().Figure
        drawn = figure(figsize=(_WIDTH / 100, _HEIGHT / 100), dpi=200, layout="tight")
        axes = drawn.subplots()
        for (name, line), colour in zip(self.series.items(), _COLOURS, strict=False):
            axes.loglog(*zip(*line, strict=True), "o-", label=name, color=colour)
        axes.set(title=self.title, xlabel=self.x_label, ylabel=self.y_label)
        if self.mark is not None:
            axes.axvline(self.mark[0], linestyle="--", color="#666")
            axes.annotate(self.mark[1], (self.mark[0], axes.get_ylim()[0]))
        axes.grid(visible=True)
        axes.legend()
        data = io.BytesIO()
        drawn.savefig(data, format="png")
        return data.getvalue()


def require_matplotlib() -> Any:
    """Return the module of matplotlib that draws figures.

    Raises:
        BackendError: matplotlib is not installed.
    """
    try:
        return importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise BackendError(
            "a png needs matplotlib: pip install 'seqmap[plot]', or write an svg", is_limit=True
        ) from error


class _ChartAxis:
    """A logarithmic axis between the powers of ten around some values."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low = math.floor(math.log10(min(values)) + 1e-9)
        self._high = max(math.ceil(math.log10(max(values)) - 1e-9), self._low + 1)
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    def ticks(self) -> list[tuple[float, float]]:
        powers = [10.0**power for power in range(self._low, self._high + 1)]
        return [(value, self.place(value)) for value in powers]


def _series(
    name: str,
    line: Sequence[tuple[float, float]],
    x_axis: _ChartAxis,
    y_axis: _ChartAxis,
    number: int,
) -> str:
    colour = _COLOURS[number % len(_COLOURS)]
    places = [(x_axis.place(x), y_axis.place(y)) for x, y in line]
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places)
    legend = _TOP + 14 + 18 * number
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'
        f'<rect x="{_LEFT + 12}" y="{legend - 9}" width="14" height="4" fill="{colour}"/>'
        + _text(_LEFT + 32, legend, name, "start")
    )


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'<text{of} x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
