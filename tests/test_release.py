"""A release: one version, told in the list of changes; wheel and sdist that work when installed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
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
RELEASE = ROOT / ".ci" / "release"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION, URLS = PROJECT["version"], PROJECT["urls"]


def test_the_version_stands_in_one_place() -> None:
    assert seqmap.__version__ == VERSION
    for folder in ("passes", "rewriter", "docs"):
        for file in (ROOT / folder).rglob("*.py"):
            assert f'"{VERSION}"' not in file.read_text("utf-8"), file
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (\S+)", changes, re.MULTILINE)
    assert next(one for one in versions if one != "Unreleased") == VERSION


def test_a_checkout_names_no_repository() -> None:
    """Where it lies is said when a release is made; the pages of the field do not move."""
    assert URLS
    assert all(page.startswith("https://onnx.ai/") for page in URLS.values())


def test_links_lead_to_the_repository_from_a_package_index() -> None:
    loader = importlib.machinery.SourceFileLoader("release", str(RELEASE))
    release = importlib.util.module_from_spec(
        importlib.util.spec_from_file_location("release", RELEASE, loader=loader)
    )
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    loader.exec_module(release)
    sys.dont_write_bytecode = kept
    url = "https://example.org/team/seqmap"
    page = release.with_links((ROOT / "README.md").read_text("utf-8"), url)
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert f"{url}/raw/main/docs/pictures/before-after.svg" in links
    assert f"{url}/blob/main/docs/guide/tensor-io.md#the-two-tensors-of-a-list-of-images" in links
    assert all(link.startswith("https://") for link in links)
    project = tomllib.loads(release.with_urls((ROOT / "pyproject.toml").read_text("utf-8"), url))
    assert project["project"]["urls"]["Changelog"] == f"{url}/blob/main/CHANGELOG.md"


@pytest.mark.parametrize(
    "address", ["example.org/seqmap", "http://example.org/seqmap", "https://"]
)
def test_an_address_begins_with_https(address: str, tmp_path: pathlib.Path) -> None:
    command = [sys.executable, RELEASE, tmp_path / "dist", "--url", address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert f"{address} is no address" in ran.stderr
    assert not (tmp_path / "dist").exists()


@pytest.mark.full
def test_wheel_and_sdist_work_when_they_are_installed(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, RELEASE, tmp_path, "--url", "https://example.org/team/seqmap/"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wheel, sdist = tmp_path / f"seqmap-{VERSION}-py3-none-any.whl", f"seqmap-{VERSION}.tar.gz"
    assert [line for line in ran.stdout.splitlines() if line.startswith("passed")] == [
        f"passed {wheel.name}",
        f"passed {sdist}",
    ]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        told = archive.read(f"seqmap-{VERSION}.dist-info/METADATA").decode()
    urls = dict(re.findall("^Project-URL: (.*), (.*)$", told, re.MULTILINE))
    assert urls["Homepage"] == urls["Source"] == "https://example.org/team/seqmap"
    assert urls["Issues"] == "https://example.org/team/seqmap/issues"
    assert urls.items() >= URLS.items()
    assert "(https://example.org/team/seqmap/raw/main/docs/pictures/before-after.svg)" in told
    assert {f"rewriter/code_pages/{code.value}.md" for code in Code} <= names
    assert {"passes/py.typed", "rewriter/py.typed", "seqmap.py"} <= names
    assert not any(name.startswith(("tests/", "models/", "docs/")) for name in names)
    with tarfile.open(tmp_path / sdist) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    assert {"README.md", "tests/test_release.py", "docs/index.md"} <= held
