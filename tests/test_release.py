"""A release: one version, told in the list of changes; wheel and sdist that work when installed."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

import seqmap
from passes.decisions import Code

ROOT = pathlib.Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def test_the_version_stands_in_one_place() -> None:
    assert seqmap.__version__ == VERSION
    for folder in ("passes", "rewriter", "docs"):
        for file in (ROOT / folder).rglob("*.py"):
            assert f'"{VERSION}"' not in file.read_text("utf-8"), file
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == VERSION


@pytest.mark.full
def test_wheel_and_sdist_work_when_they_are_installed(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, ROOT / ".ci" / "release", tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wheel, sdist = tmp_path / f"seqmap-{VERSION}-py3-none-any.whl", f"seqmap-{VERSION}.tar.gz"
    assert [line for line in ran.stdout.splitlines() if line.startswith("passed")] == [
        f"passed {wheel.name}",
        f"passed {sdist}",
    ]
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"rewriter/code_pages/{code.value}.md" for code in Code} <= names
    assert {"passes/py.typed", "rewriter/py.typed", "seqmap.py"} <= names
    assert not any(name.startswith(("tests/", "models/", "docs/")) for name in names)
    with tarfile.open(tmp_path / sdist) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    assert {"README.md", "tests/test_release.py", "docs/index.md"} <= held
