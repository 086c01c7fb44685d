"""Pictures of what the docs explain: how samples lie in one tensor, and what a guard asks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

__all__ = ["draw_guard", "draw_layouts"]

_CELL = 16
_HEAD = 52
_GAP = 48
_COLOURS = ("#99d5cf", "#f9c9a7", "#c7c1f4")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1c1f24}.name{font-weight:bold}"
    "rect{stroke:#5c6470}.ground{fill:#fff;stroke:none}.ask{fill:#ddd6fe}.loop{fill:#fecaca}"
    ".plain{fill:#e5e7eb}path{fill:none;stroke:#5c6470}marker path{fill:#5c6470}"
)


@dataclasses.dataclass(frozen=True)
class _Panel:
    """One layout: blocks of rows, each with its number of columns and the sample it is of."""

    name: str
    told: Sequence[str]
    blocks: Sequence[Sequence[tuple[int, int]]]

    @property
    def width(self) -> int:
        cells = max(columns for block in self.blocks for columns, _ in block) * _CELL
        return max(cells, 7 * max(map(len, (self.name, *self.told))))


_PANELS = (
    _Panel(
        "three samples",
        ("2, 0 and 3 rows", "of 4 columns"),
        ([(4, 0)] * 2, [], [(4, 2)] * 3),
    ),
    _Panel("packed", ("rows [5, 4]", "lengths [2, 0, 3]"), ([(4, 0)] * 2 + [(4, 2)] * 3,)),
    _Panel(
        "three of one shape", ("2 rows", "of 4 columns"), tuple([(4, n)] * 2 for n in range(3))
    ),
    _Panel("stacked", ("one tensor", "[3, 2, 4]"), ([(4, n) for n in (0, 0, 1, 1, 2, 2)],)),
    _Panel("two images", ("2 x 3 and", "3 x 2"), ([(3, 0)] * 2, [(2, 1)] * 3)),
    _Panel("flat", ("rows [12]", "sizes [[2, 3], [3, 2]]"), ([(1, 0)] * 6 + [(1, 1)] * 6,)),
)


def draw_layouts() -> str:
    """Return samples beside the one tensor that holds all of them, for each layout."""
    parts, x, height = [], _GAP // 2, 0
    for panel in _PANELS:
        y = 18
        parts.append(_text(x, y, panel.name, "name"))
        parts += [_text(x, y + 16 * n, line) for n, line in enumerate(panel.told, start=1)]
        y = _HEAD + 14
        for block in panel.blocks:
            for columns, sample in block:
                parts += [_cell(x + _CELL * column, y, sample) for column in range(columns)]
                y += _CELL
            y += _CELL // 2
        x, height = x + panel.width + _GAP, max(height, y)
    return _picture("Samples, and the one tensor that holds them", x, height + 8, parts)


def _cell(x: int, y: int, sample: int) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" style="fill:{_COLOURS[sample]}"/>'
    )


def draw_guard() -> str:
    """Return the questions that a rewritten model asks before it batches."""
    boxes = {
        "samples": (20, 60, 80, "plain"),
        "enough of them?": (160, 60, 130, "ask"),
        "do their shapes fit?": (370, 60, 150, "ask"),
        "batched operators": (600, 60, 150, "plain"),
        "a loop": (370, 140, 150, "loop"),
    }
    parts = [
        _arrow("M100 75 H160"),
        _arrow("M290 75 H370"),
        _text(318, 68, "yes"),
        _arrow("M520 75 H600"),
        _text(548, 68, "yes"),
        _arrow("M225 90 V155 H370"),
        _text(232, 118, "no"),
        _arrow("M445 90 V140"),
        _text(452, 118, "no"),
    ]
    for name, (x, y, width, kind) in boxes.items():
        rect = f'<rect class="{kind}" rx="4" x="{x}" y="{y}" width="{width}" height="30"/>'
        parts += [rect, _text(x + width // 2, y + 19, name, middle=True)]
    parts.append(_text(20, 24, "the number of samples costs nothing to ask, so it comes first"))
    return _picture("What a guard asks when the model runs", 770, 190, parts)


def _text(x: int, y: int, text: str, kind: str = "", *, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{named}{anchor}>{text}</text>'


def _arrow(line: str) -> str:
    return f'<path d="{line}" marker-end="url(#arrow)"/>'


def _picture(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<title>{title}</title><style>{_STYLE}</style>{marker}",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
