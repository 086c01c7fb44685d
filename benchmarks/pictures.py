"""The pictures of README.md and the docs: ``python -m benchmarks --pictures``."""

from __future__ import annotations

import pathlib
import re
import subprocess
import tempfile

import rewriter
from benchmarks.explanations import draw_guard, draw_layouts
from benchmarks.screenshots import find_browser, write_screenshots
from rewriter.reporting.plot import LineChart

__all__ = ["FOLDER", "draw_before_after", "speed_chart", "write_pictures"]

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
SHOWN = ROOT / "models" / "exported" / "tf_map_fn_dense.onnx"
_CASES = {
    "two-layer perceptron on rows of 64": "perceptron on rows",
    "attention block, 16 x 32": "attention block",
    "sequence in and out (guarded), 16 x 16": "sequence in and out, behind a guard",
}
_GAP = 30
_STYLE = """
text{font:12px system-ui,sans-serif;fill:#1c1f24}rect{stroke:#5c6470;rx:4px}
.around{opacity:.6}.plain>rect,.part>rect{fill:#e5e7eb}.value>rect{fill:#fff;rx:10px}
.loop>rect{fill:#fecaca}.sequence>rect{fill:#fef08a}.branch>rect{fill:#ddd6fe}
.box>rect{stroke-dasharray:5 3;fill-opacity:.3}.edge{fill:none;stroke:#5c6470}
marker path{fill:#5c6470}.ground{fill:#fff;stroke:none}
"""


def write_pictures() -> None:
    """Write all pictures; that of a graph needs a browser, which lays it out."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "speed.svg").write_text(speed_chart(), encoding="utf-8")
    (FOLDER / "before-after.svg").write_text(draw_before_after(), encoding="utf-8")
    (FOLDER / "layouts.svg").write_text(draw_layouts(), encoding="utf-8")
    (FOLDER / "guard.svg").write_text(draw_guard(), encoding="utf-8")
    write_screenshots()


def speed_chart() -> str:
    """Return a chart of the speed over the model as given, from benchmarks/RESULTS.md."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    table = text.split("\n## Speed over the model as given")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    head, found = rows[0], {row[0]: row for row in rows[2:]}
    sizes = [int(cell.replace(",", "")) for cell in head[1:-1]]
    series = {
        name: [(n, float(cell)) for n, cell in zip(sizes, found[case][1:-1], strict=True)]
        for case, name in _CASES.items()
    }
    return LineChart(
        series,
        title="Speed over the model as given, onnxruntime on a CPU, one thread",
        x_label="number of samples",
        y_label="times as fast",
    ).to_svg()


def draw_before_after() -> str:
    """Return the map of a model before and after, as a browser draws them in the report.

    Raises:
        RuntimeError: No browser is installed.
    """
    browser = find_browser()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "report.html"
        page.write_text(rewriter.explain(SHOWN).to_html(), encoding="utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/p"]
        dumped = subprocess.run(
            [browser, *flags, "--dump-dom", page.as_uri()],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
    pattern = r'<svg class="graph"[^>]*viewBox="0 0 (\d+) (\d+)"[^>]*>(.*?)</svg>'
    drawn = re.findall(pattern, dumped, re.DOTALL)
    return _beside(drawn)


def _beside(drawn: list[tuple[str, str, str]]) -> str:
    """Put drawings beside each other in one picture."""
    head = 26
    width = sum(int(one[0]) for one in drawn) + _GAP * (len(drawn) + 1)
    height = max(int(one[1]) for one in drawn) + head + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<title>tf.map_fn of a dense layer, before and after</title><style>{_STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
    ]
    x = _GAP
    for (wide, _, inner), side in zip(drawn, ("before", "after"), strict=True):
        parts.append(f'<text x="{x + 8}" y="18" font-weight="bold">{side}</text>')
        parts.append(f'<g transform="translate({x} {head})">{inner}</g>')
        x += int(wide) + _GAP
    return "\n".join([*parts, "</svg>"]) + "\n"
