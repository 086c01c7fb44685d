"""Reports as a browser shows them, for the docs: ``python -m benchmarks --pictures``.

It needs chromium and pillow.
"""

from __future__ import annotations

import io
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence

import onnx
import PIL.Image
import PIL.ImageChops

import rewriter
from benchmarks.over_clips import over_clips
from rewriter.running.timing import bench
from tests import browser

__all__ = [
    "BENCHED_PICTURE",
    "ELSEWHERE",
    "FOLDER",
    "SHOWN",
    "cropped",
    "find_browser",
    "screenshot",
    "write_screenshots",
]

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
SHOWN = {
    "report-hstack": "demo/dy_hstack.onnx",
    "report-resnet50": "demo/resnet50_preprocessing.onnxtxt",
    "report-embedding-bag": "exported/dy_embedding_bag.onnx",
    "report-maskrcnn": "pipelines/ts_maskrcnn.onnx",
}
"""The reports that are shown, by the name of the picture."""
ELSEWHERE = "report-silero-vad"
"""The report on Silero VAD, mapped over a sequence of clips, which is not in this repository."""
_ELSEWHERE_PATH = "SILERO_VAD"
"""The environment variable that names its file, ``silero_vad_16k_op15.onnx`` of the package
``silero-vad``; where it is not set the picture stays."""
_VERIFIED = ("report-hstack", "report-embedding-bag")
"""The reports that show their verification too."""
BENCHED = "exported/seqmap_mlp_ragged_rows.onnx"
BENCHED_PICTURE = "bench-ragged-rows"
_WIDTH, _MOST_HEIGHT = 960, 1200
_COLOURS = 48
_SIZES = (1, 4, 16, 64, 256, 1024, 4096)


def find_browser() -> str:
    """Return the path of a browser.

    Raises:
        RuntimeError: No browser is installed.
    """
    if reason := browser.why_not():
        raise RuntimeError(f"the pictures of reports need a browser: {reason}")
    return browser.find()


def write_screenshots() -> None:
    """Write the pictures of the reports, and of the plot of ``seqmap bench``."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, model in SHOWN.items():
        _write(name, _report(name, ROOT / "models" / model))
    if path := os.environ.get(_ELSEWHERE_PATH):
        mapped = over_clips(onnx.load(path), "input")
        shapes: dict[str, Sequence[int | None]] = {"input_seq": [1, 512]}
        report = rewriter.rewrite(mapped, input_shapes=shapes, verify=True).report
        command = "seqmap silero_vad.onnx out.onnx --input-shape input_seq=1,512"
        _write(ELSEWHERE, report.to_html(title="silero_vad.onnx", command=command))
    table = bench(ROOT / "models" / BENCHED, sizes=_SIZES)
    _write(BENCHED_PICTURE, f"<!DOCTYPE html><body>{table.to_svg()}</body>")


def _report(name: str, model: pathlib.Path) -> str:
    if name in _VERIFIED:
        report = rewriter.rewrite(model, verify=True).report
        command = f"seqmap {model.name} out.onnx --report {name}.html"
        return report.to_html(title=model.name, command=command)
    command = f"seqmap explain {model.name} --report {name}.html"
    return rewriter.explain(model).to_html(title=model.name, command=command)


def _write(name: str, page: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "page.html"
        source.write_text(page, encoding="utf-8")
        shot = screenshot(source, pathlib.Path(folder))
    picture = cropped(PIL.Image.open(io.BytesIO(shot)).convert("RGB"))
    few = picture.quantize(_COLOURS)
    few.save(FOLDER / f"{name}.png", optimize=True)


def screenshot(page: pathlib.Path, folder: pathlib.Path) -> bytes:
    """Return a page as a browser shows it, as PNG."""
    command = [
        find_browser(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={_WIDTH},{_MOST_HEIGHT}",
        f"--screenshot={folder / 'shot.png'}",
        page.as_uri(),
    ]
    subprocess.run(command, capture_output=True, check=True, timeout=120)
    return (folder / "shot.png").read_bytes()


def cropped(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Cut off the empty ground at the end."""
    ground = picture.getpixel((0, picture.height - 1))
    plain = PIL.Image.new("RGB", picture.size, ground)
    box = PIL.ImageChops.difference(picture, plain).getbbox()
    right, lower = (box[2], box[3]) if box else picture.size
    return picture.crop((0, 0, min(right + 16, picture.width), min(lower + 16, picture.height)))
