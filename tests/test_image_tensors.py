"""The two tensors of a list of images, as the documentation makes them in three languages."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import textwrap
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "guide" / "tensor-io.md"
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
MADE = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 100 101 102 103 104 105 | 2 3 1 2"
"""The rows of images of 2 x 3 and 1 x 2 pixels, and their sizes."""
BEHIND = [*range(18), *range(100, 106), *[0] * 12]
PADDED = f"{' '.join(map(str, BEHIND))} | 2 3 1 2"
"""The same images padded to 2 x 3."""

CPP = """
#include <algorithm>
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
  for (int number : {tensor}) std::cout << number << ' ';
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
if (feeds.images.dims.join() !== "{dims}" || feeds["images.sizes"].dims.join() !== "2,2") throw feeds;
console.log([...feeds.images.data].join(" ") + " | " + [...feeds["images.sizes"].data].join(" "));
"""


def snippet(word: str) -> str:
    """Return the block of the page that holds a word."""
    (found,) = (block for block in BLOCKS if word in block)
    return found


def test_tensors_in_numpy() -> None:
    made: dict[str, Any] = {}
    exec(snippet("np.concatenate([image"), made)
    assert made["rows"].tolist() == [[0, 0, 0]] * 24 + [[1, 1, 1]] * 10
    assert made["sizes"].tolist() == [[4, 6], [2, 5]]


def test_padded_images_in_numpy() -> None:
    made: dict[str, Any] = {}
    exec(snippet("room = np.max"), made)
    assert made["padded"].shape == (2, 4, 6, 3)
    np.testing.assert_array_equal(made["padded"][0], 0)
    np.testing.assert_array_equal(made["padded"][1, :2, :5], 1)
    assert made["sizes"].tolist() == [[4, 6], [2, 5]]


@pytest.mark.parametrize(
    ("tensor", "word", "expected"),
    [("rows", "rows.insert", MADE), ("padded", "std::copy_n", PADDED)],
)
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++")
def test_tensors_in_cpp(tensor: str, word: str, expected: str, tmp_path: pathlib.Path) -> None:
    declared, _, _ = snippet("struct Image").partition("\n\n")
    made = snippet(word).removeprefix(declared)
    source, program = tmp_path / "rows.cpp", tmp_path / "rows"
    text = CPP.format(declared=declared, made=textwrap.indent(made, "  "), tensor=tensor)
    source.write_text(text, "utf-8")
    flags = ["-std=c++17", "-Wall", "-Werror", "-Wno-unused-variable"]
    subprocess.run(["g++", *flags, source, "-o", program], check=True)
    assert subprocess.check_output([program], text=True) == expected


@pytest.mark.parametrize(
    ("word", "dims", "expected"), [("rows.set", "8,3", MADE), ("padded.set", "2,2,3,3", PADDED)]
)
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_tensors_in_javascript(
    word: str, dims: str, expected: str, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "rows.mjs"
    script.write_text(JAVASCRIPT.format(made=snippet(word), dims=dims), "utf-8")
    assert subprocess.check_output(["node", script], text=True).strip() == expected


BLOCKS_OF_PIXELS = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[3,H,W]) xs) => (seq(float[12,h,w]) ys) {
  ys = SequenceMap (xs) <body = one (float[3,H,W] x) => (float[12,h,w] y) {
    any = Constant <value_ints = [-1]> () two = Constant <value_ints = [2]> ()
    first = Constant <value_ints = [0]> () t = Constant <value_ints = [12]> ()
    s = Shape (x) to = Concat <axis = 0> (any, s) r = Reshape (x, to)
    c = Shape <start = 1, end = 2> (r) h = Shape <start = 2, end = 3> (r)
    w = Shape <start = 3, end = 4> (r) h2 = Div (h, two) w2 = Div (w, two)
    apart = Concat <axis = 0> (any, c, h2, two, w2, two) p = Reshape (r, apart)
    q = Transpose <perm = [0, 1, 3, 5, 2, 4]> (p) again = Concat <axis = 0> (any, t, h2, w2)
    all = Reshape (q, again) y = Squeeze (all, first) }>
}"""


def test_blocks_of_pixels_are_no_defect() -> None:
    """A Reshape whose sizes are those of data of unknown rank (``F.pixel_unshuffle``)."""
    with pytest.raises(rewriter.TargetError, match="cannot be a tensor"):
        rewriter.optimize(onnx.parser.parse_model(BLOCKS_OF_PIXELS), tensor_io=True)
