"""The documentation: Sphinx builds it without a warning, and its pictures are up to date."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir
import PIL.Image
import pytest

import rewriter
from benchmarks import comparison, explanations, pictures, screenshots
from passes.decisions import Code
from rewriter import cli
from rewriter.model_files.model_facts import OperatorCounts
from rewriter.reporting.bench_record import Bench, BenchRow
from rewriter.reporting.report import Report
from tests import browser
from tests.rewriter.reporting.test_page import walk
from tests.rewriter.reporting.test_report import decided

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "report.schema.json").read_text("utf-8"))
HAS_SPHINX = all(map(importlib.util.find_spec, ("sphinx", "myst_parser", "furo")))


@pytest.mark.full
@pytest.mark.skipif(not HAS_SPHINX, reason="sphinx is not installed")
def test_sphinx_builds_it_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", tmp_path]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "reference" / "python.html").is_file()
    shown = (tmp_path / "gallery" / "images.html").read_text("utf-8")
    assert "static/pages.css" in shown
    printed = shown.partition("holds 1 SequenceMap")[0].rpartition('<div class="highlight-')[2]
    assert printed.startswith("none ")  # not coloured as a program


def test_every_page_is_in_the_table_of_contents() -> None:
    told = set(re.findall(r"^([\w/-]+)$", (ROOT / "docs" / "index.md").read_text("utf-8"), re.M))
    assert "\ncodes/*\n" in (ROOT / "docs" / "reference" / "codes.md").read_text("utf-8")
    told |= {f"reference/codes/{code}" for code in Code}
    pages = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for page in (ROOT / "docs").rglob("*.md")
        if "upstream" not in page.parts
    }
    assert told == pages - {"index"}


def test_the_chart_shows_the_benchmarks() -> None:
    written = (pictures.FOLDER / "speed.svg").read_text("utf-8")
    assert written == pictures.speed_chart(), "run python -m benchmarks --pictures"


@pytest.mark.parametrize(
    ("name", "draw"),
    [("layouts", explanations.draw_layouts), ("guard", explanations.draw_guard)],
)
def test_what_is_explained_is_drawn(name: str, draw: Callable[[], str]) -> None:
    written = (pictures.FOLDER / f"{name}.svg").read_text("utf-8")
    assert written == draw(), "run python -m benchmarks --pictures"
    ET.fromstring(written)


def test_the_picture_shows_the_nodes_of_the_model() -> None:
    root = ET.parse(pictures.FOLDER / "before-after.svg").getroot()
    shown = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    (picture,) = rewriter.explain(pictures.SHOWN).pictures
    sides = {"before": picture.before, "after": picture.after}
    expected: list[str] = []
    for side, region in sides.items():
        expected += [side, *(node["label"] for node in walk(region.to_dict()))]
    assert sorted(map(str, shown)) == sorted(expected), "run python -m benchmarks --pictures"


def test_the_pictures_of_reports_are_shown_and_small() -> None:
    files = {path.stem: path for path in pictures.FOLDER.glob("*.png")}
    others = {screenshots.BENCHED_PICTURE, screenshots.ELSEWHERE}
    assert set(files) == {*screenshots.SHOWN, *others}
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    for name, path in files.items():
        assert f"(../pictures/{name}.png)" in pages, name
        assert path.stat().st_size < 100_000
    assert all((ROOT / "models" / model).exists() for model in screenshots.SHOWN.values())


@pytest.mark.skipif(bool(browser.why_not()), reason=browser.why_not())
def test_a_browser_takes_a_picture_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><body style='margin:0'><svg width='40' height='30'>"
        "<rect width='40' height='30' fill='red'/></svg></body>"
    )
    shot = PIL.Image.open(io.BytesIO(screenshots.screenshot(page, tmp_path))).convert("RGB")
    assert shot.getpixel((20, 15)) == (255, 0, 0)
    assert screenshots.cropped(shot).size == (56, 46)


def test_the_comparison_names_every_model_and_tool() -> None:
    text = comparison.PAGE.read_text("utf-8")
    assert all(f"| {Path(name).stem} |" in text for name in comparison.MODELS)
    assert f"| model | {' | '.join(comparison.TOOLS)} |" in text


@pytest.mark.parametrize("tool", comparison.TOOLS)
def test_what_the_comparison_says_is_so(tool: str) -> None:
    name = "exported/tf_map_fn_dense.onnx"
    text = comparison.PAGE.read_text("utf-8")
    (line,) = (one for one in text.splitlines() if one.startswith("| tf_map_fn_dense |"))
    told = [cell.strip() for cell in line.strip("|").split("|")][1:]
    model = rewriter.load(ROOT / "models" / name)
    outcome = comparison.outcome(ir.to_proto(model), tool)
    assert outcome == dict(zip(comparison.TOOLS, told, strict=True))[tool]


def records() -> dict[str, Any]:
    models = ROOT / "models" / "demo"
    bench = Bench((BenchRow(1, None, 1.0, 3, "x"), BenchRow(4, 2.0, 1.0, 3, "x")))
    return {
        "decided": decided().to_dict(),
        "verified": rewriter.rewrite(models / "dy_hstack.onnx", verify=True).report.to_dict(),
        "placed": rewriter.explain(models / "dy_hstack.onnx", target="cuda").to_dict(),
        "remedies": rewriter.explain(models / "resize_crop.onnxtxt", tensor_io=True).to_dict(),
        "bench": Report([], OperatorCounts(), OperatorCounts(), bench=bench).to_dict(),
    }


def test_reports_follow_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for record in records().values():
        jsonschema.validate(json.loads(json.dumps(record)), SCHEMA)


def test_the_schema_names_every_key() -> None:
    """Nothing is in a report that the schema does not tell of; it needs no other package."""
    seen: set[str] = set()
    for record in records().values():
        compare(SCHEMA, json.loads(json.dumps(record)), "", seen)
    assert {"/maps/reasons/code", "/verification/cases/verdict", "/bench/rows/drawn"} <= seen


def compare(schema: dict[str, Any], value: Any, path: str, seen: set[str]) -> None:
    seen.add(path)
    if value is None:
        return
    schema = schema.get("anyOf", [schema])[0]
    if schema.get("type") == "array":
        for one in value:
            compare(schema["items"], one, path, seen)
    elif "properties" in schema:
        assert set(value) == set(schema["properties"]) == set(schema["required"]), path
        for name, one in value.items():
            compare(schema["properties"][name], one, f"{path}/{name}", seen)
    elif "enum" in schema:
        assert value in schema["enum"], path


@pytest.mark.long
def test_the_hook_runs_a_command_that_there_is(tmp_path: Path) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    (entry,) = re.findall(r"^  entry: seqmap (.*)$", text, re.MULTILINE)
    (pattern,) = re.findall(r"^  files: (.*)$", text, re.MULTILINE)
    models = [
        path for path in (ROOT / "models" / "demo").iterdir() if re.search(pattern, path.name)
    ]
    assert {path.suffix for path in models} == {".onnx", ".onnxtxt"}
    hstack = ROOT / "models" / "demo" / "dy_hstack.onnx"
    assert cli.main([*entry.split(), str(hstack)]) == 0
    assert cli.main([*entry.split(), str(hstack), str(loop(tmp_path))]) == 4


def loop(folder: Path) -> Path:
    """Return a model whose loop is a recurrence."""
    return Path(shutil.copy(ROOT / "models" / "exported" / "ts_rnn_negative.onnx", folder))
