"""The two tensors of a list of images, as the documentation makes them in C++ and JavaScript."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import textwrap

import pytest

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "guide" / "tensor-io.md"
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
MADE = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 100 101 102 103 104 105 | 2 3 1 2"
"""The rows of images of 2 x 3 and 1 x 2 pixels, and their sizes."""

CPP = """
#include <cstdint>
#include <iostream>
#include <numeric>
#include <vector>
{declared}
int main() {{
  std::vector<Image> images = {{{{2, 3, std::vector<uint8_t>(18)}}, {{1, 2, std::vector<uint8_t>(6)}}}};
  std::iota(images[0].pixels.begin(), images[0].pixels.end(), 0);
  std::iota(images[1].pixels.begin(), images[1].pixels.end(), 100);
{made}
  for (int number : rows) std::cout << number << ' ';
  std::cout << '|';
  for (int64_t size : sizes) std::cout << ' ' << size;
}}
"""
JAVASCRIPT = """
const ort = {{ Tensor: class {{ constructor(type, data, dims) {{ Object.assign(this, {{ type, data, dims }}); }} }} }};
const images = [
  {{ height: 2, width: 3, pixels: Uint8Array.from({{ length: 18 }}, (_, i) => i) }},
  {{ height: 1, width: 2, pixels: Uint8Array.from({{ length: 6 }}, (_, i) => 100 + i) }},
];
{made}
if (feeds.images.dims.join() !== "8,3" || feeds["images.sizes"].dims.join() !== "2,2") throw feeds;
console.log([...feeds.images.data].join(" ") + " | " + [...feeds["images.sizes"].data].join(" "));
"""


def snippet(word: str) -> str:
    """Return the block of the page that holds a word."""
    (found,) = (block for block in BLOCKS if word in block)
    return found


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++")
def test_tensors_in_cpp(tmp_path: pathlib.Path) -> None:
    declared, _, made = snippet("struct Image").partition("\n\n")
    source, program = tmp_path / "rows.cpp", tmp_path / "rows"
    text = CPP.format(declared=declared, made=textwrap.indent(made, "  "))
    source.write_text(text, "utf-8")
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", source, "-o", program], check=True)
    assert subprocess.check_output([program], text=True) == MADE


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_tensors_in_javascript(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "rows.mjs"
    script.write_text(JAVASCRIPT.format(made=snippet("BigInt64Array")), "utf-8")
    assert subprocess.check_output(["node", script], text=True).strip() == MADE
