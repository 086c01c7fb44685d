"""Reports as a browser shows them, for the docs: ``python -m benchmarks --pictures``.

It needs chromium and pillow.
"""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import onnx
import PIL.Image
import PIL.ImageChops

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
BENCHED = "exported/seqmap_mlp_ragged_rows.onnx"
BENCHED_PICTURE = "bench-ragged-rows"
_WIDTH, _MOST_HEIGHT = 960, 1200
_COLOURS = 128
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
        with tempfile.TemporaryDirectory() as folder:
            mapped = pathlib.Path(folder) / "silero_vad.onnx"
            onnx.save(over_clips(onnx.load(path), "input"), mapped)
            _write(ELSEWHERE, _report(ELSEWHERE, mapped, "--input-shape", "input_seq=1,512"))
    table = bench(ROOT / "models" / BENCHED, sizes=_SIZES)
    _write(BENCHED_PICTURE, f"<!DOCTYPE html><body>{table.to_svg()}</body>")


def _report(name: str, model: pathlib.Path, *options: str) -> str:
    """Return the page that the command line writes where the model lies."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(model, folder)
        words = ["optimize", model.name, "out.onnx", *options, "--report", f"{name}.html"]
        command = [sys.executable, "-m", "rewriter.cli", *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
        return (pathlib.Path(folder) / f"{name}.html").read_text(encoding="utf-8")


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
