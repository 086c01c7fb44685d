"""The snippets that make the two tensors of a list of images: numpy, C++ and JavaScript agree."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "tensor-io.md"
ROWS = [[0, 0, 0]] * 24 + [[1, 1, 1]] * 10
SIZES = [[4, 6], [2, 5]]
"""What they make of an image of 4 x 6 zeros and one of 2 x 5 ones."""

PROGRAM = """#include <cstdint>
#include <cstdio>
#include <vector>
int main() {
%s
  return 0;
}
"""
IMAGES = (
    "std::vector<Image> images{{4, 6, std::vector<uint8_t>(72, 0)}, "
    "{2, 5, std::vector<uint8_t>(30, 1)}};"
)
PRINT = (
    'for (auto one : rows) std::printf("%d ", one); std::printf("\\n"); '
    'for (auto one : sizes) std::printf("%ld ", long(one));'
)
SCRIPT = """
const ort = { Tensor: class { constructor(type, data, dims) { Object.assign(this, { data, dims }); } } };
const images = [
  { height: 4, width: 6, pixels: new Uint8Array(72).fill(0) },
  { height: 2, width: 5, pixels: new Uint8Array(30).fill(1) },
];
"""
SHOW = """
for (const one of Object.values(feeds)) console.log(Array.from(one.data).join(" "));
console.log(JSON.stringify(Object.values(feeds).map((one) => one.dims)));
"""


def snippet(begin: str) -> str:
    """Return the block of the page that holds some words."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    return str(next(block for block in blocks if begin in block))


def assert_made(lines: list[str]) -> None:
    rows, sizes = (np.array(line.split(), np.int64).tolist() for line in lines)
    assert rows == np.ravel(ROWS).tolist()
    assert sizes == np.ravel(SIZES).tolist()


def ran(*words: Any) -> list[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def test_numpy() -> None:
    made: dict[str, Any] = {}
    exec(snippet("np.concatenate([image.reshape"), made)
    assert made["rows"].tolist() == ROWS
    assert made["sizes"].tolist() == SIZES


def test_numpy_of_padded_images() -> None:
    made: dict[str, Any] = {}
    exec(snippet("room = np.max"), made)
    assert made["padded"].shape == (2, 4, 6, 3)
    assert made["padded"].sum() == 30
    assert made["padded"][1, :2, :5].all()
    assert made["sizes"].tolist() == SIZES


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_javascript(tmp_path: Path) -> None:
    (tmp_path / "made.js").write_text(SCRIPT + snippet("new Uint8Array(count)") + SHOW)
    *lines, dims = ran("node", tmp_path / "made.js")
    assert_made(lines)
    assert dims == "[[34,3],[2,2]]"


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++")
def test_cpp(tmp_path: Path) -> None:
    struct, _, rest = snippet("struct Image").partition("\n\n")
    (tmp_path / "made.cpp").write_text(PROGRAM % f"{struct}\n{IMAGES}\n{rest}\n{PRINT}")
    ran("g++", "-std=c++17", tmp_path / "made.cpp", "-o", tmp_path / "made")
    assert_made(ran(tmp_path / "made"))
