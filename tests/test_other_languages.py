"""What the docs show in C++ and JavaScript is compiled, and run on rewritten models."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from tests import cpp_headers, web_runtime

ROOT = Path(__file__).parents[1]
IMAGES = [
    np.arange(300 * 260 * 3, dtype=np.uint32).astype(np.uint8).reshape(300, 260, 3),
    np.full((250, 400, 3), 7, np.uint8),
]

pytestmark = pytest.mark.long


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page in this language."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block(page: str, language: str) -> str:
    """Return the one block of a page in this language."""
    (found,) = blocks(page, language)
    return found


def in_node(program: str, folder: Path) -> dict[str, Any]:
    """Run a program behind an import of onnxruntime-web; return what it has in `outputs`."""
    runtime = (web_runtime.dist() / "ort.node.min.mjs").resolve().as_uri()
    lines = [
        f"import * as ort from {json.dumps(runtime)};",
        program,
        "const plain = ([name, one]) => [name, { dims: one.dims, data: Array.from(one.data, Number) }];",
        "console.log(JSON.stringify(Object.fromEntries(Object.entries(outputs).map(plain))));",
    ]
    (folder / "program.mjs").write_text("\n".join(lines), "utf-8")
    return json.loads(output(["node", "program.mjs"], folder))


def output(command: list[str], folder: Path) -> str:
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def arrays(outputs: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.reshape(one["data"], one["dims"]) for name, one in outputs.items()}


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_list_of_images_in_c_plus_plus(tmp_path: Path) -> None:
    struct, _, filling = blocks("guide/tensor-io.md", "cpp")[0].partition("\n\n")
    program = f"""
#include <cstdint>
#include <iostream>
#include <vector>
{struct}
int main() {{
  std::vector<Image> images{{{{1, 2, {{1, 2, 3, 4, 5, 6}}}}, {{2, 1, {{7, 8, 9, 10, 11, 12}}}}}};
{filling}
  for (auto one : rows) std::cout << int(one) << " ";
  for (auto one : sizes) std::cout << one << " ";
}}
"""
    (tmp_path / "program.cpp").write_text(program, "utf-8")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    output(["g++", *flags, "program.cpp", "-o", "program"], tmp_path)
    numbers = [int(word) for word in output(["./program"], tmp_path).split()]
    assert numbers == [*range(1, 13), 1, 2, 2, 1]


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.skipif(not cpp_headers.is_there(), reason="python -m tests.cpp_headers fetches them")
@pytest.mark.skipif(cpp_headers.library() is None, reason="the wheel has no library of its own")
@pytest.mark.parametrize("padded", [[], ["images"]], ids=["rows", "padded"])
def test_a_session_in_c_plus_plus(padded: list[str], tmp_path: Path) -> None:
    library = cpp_headers.library()
    assert library is not None
    model = ROOT / "models" / "demo" / "resize_crop.onnxtxt"
    rewritten = rewriter.optimize(model, target="portable", tensor_io=True, padded=padded)
    onnx.save(rewritten, tmp_path / "model.onnx")
    filled, run, filled_padded = blocks("guide/tensor-io.md", "cpp")
    struct, _, filling = filled.partition("\n\n")
    if padded:
        filling = filled_padded
        run = re.sub(r"std::vector<int64_t> rows_shape.*\n", "", run)
        run = run.replace("rows_shape.data(), 2", "padded_shape.data(), 4").replace(
            "rows", "padded"
        )
    for number, image in enumerate(IMAGES):
        image.tofile(tmp_path / f"{number}.bin")
    shapes = ", ".join(f"{{{image.shape[0]}, {image.shape[1]}, {{}}}}" for image in IMAGES)
    program = f"""
#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>
#include <onnxruntime_cxx_api.h>
{struct}
int main() {{
  std::vector<Image> images{{{shapes}}};
  for (size_t i = 0; i < images.size(); ++i) {{
    std::ifstream file(std::to_string(i) + ".bin", std::ios::binary);
    images[i].pixels.assign(std::istreambuf_iterator<char>(file), {{}});
  }}
  Ort::Env env;
  Ort::Session session(env, "model.onnx", Ort::SessionOptions{{}});
{filling}
{run}
  std::ofstream("crops.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(crops), outputs[0].GetTensorSizeInBytes());
}}
"""
    (tmp_path / "program.cpp").write_text(program, "utf-8")
    flags = ["-std=c++20", "-Wall", "-Werror", "-isystem", str(cpp_headers.FOLDER.resolve())]
    linked = [str(library), "-Wl,-rpath,$ORIGIN", "-o", "program"]
    output(["g++", *flags, "program.cpp", *linked], tmp_path)
    (tmp_path / "libonnxruntime.so.1").symlink_to(library)
    output(["./program"], tmp_path)
    expected = np.stack(
        rewriter.run(rewritten, {"images": IMAGES}, backend="onnxruntime")["crops"]
    )
    found = np.fromfile(tmp_path / "crops.bin", np.uint8)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
@pytest.mark.skipif(not web_runtime.is_there(), reason="python -m tests.web_runtime fetches it")
@pytest.mark.parametrize("padded", [[], ["images"]], ids=["rows", "padded"])
def test_a_list_of_images_in_javascript(padded: list[str], tmp_path: Path) -> None:
    model = ROOT / "models" / "demo" / "resize_crop.onnxtxt"
    rewritten = rewriter.optimize(model, target="portable", tensor_io=True, padded=padded)
    onnx.save(rewritten, tmp_path / "model.onnx")
    for number, image in enumerate(IMAGES):
        image.tofile(tmp_path / f"{number}.bin")
    shapes = json.dumps([image.shape[:2] for image in IMAGES])
    found = in_node(
        f"""import fs from "node:fs";
const images = {shapes}.map(([height, width], i) => (
  {{ height, width, pixels: new Uint8Array(fs.readFileSync(`${{i}}.bin`)) }}));
{blocks("guide/tensor-io.md", "js")[len(padded)]}
const session = await ort.InferenceSession.create("model.onnx");
const outputs = await session.run(feeds);""",
        tmp_path,
    )
    expected = rewriter.run(rewritten, {"images": IMAGES}, backend="onnxruntime")
    crops = arrays(found)["crops"]
    np.testing.assert_array_equal(crops, np.stack(expected["crops"]))


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
@pytest.mark.skipif(not web_runtime.is_there(), reason="python -m tests.web_runtime fetches it")
def test_a_session_in_javascript(tmp_path: Path) -> None:
    model = ROOT / "models" / "exported" / "seqmap_mlp_ragged_rows.onnx"
    rewritten = rewriter.optimize(model, target="onnxruntime-web", tensor_io=True)
    onnx.save(rewritten, tmp_path / "model.onnx")
    values = "const values = Float32Array.from({ length: 21 }, (_, i) => i / 8);\n"
    found = in_node(values + block("howto/onnxruntime-web.md", "js"), tmp_path)
    rows = (np.arange(21, dtype=np.float32) / 8).reshape(7, 3)
    expected = rewriter.run(model, {"xs": [rows[:2], rows[2:]]})["ys"]
    np.testing.assert_allclose(arrays(found)["ys"], np.concatenate(expected), rtol=1e-5)
    assert arrays(found)["ys.lengths"].tolist() == [2, 5]
