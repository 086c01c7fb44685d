"""The pass of Olive, run by Olive itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

import rewriter
from tests import olive_alone

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not olive_alone.is_there(), reason="python -m tests.olive_alone fetches Olive"
    ),
]
ROOT = Path(__file__).parents[3]
MODEL = ROOT / "models" / "exported" / "tf_map_fn_dense.onnx"
# In a process of its own, which may have no PyTorch.
ENTER = "from tests import olive_alone; olive_alone.enter()\n"
PROGRAM = """
import json, sys
from olive.model import ONNXModelHandler
from olive.passes.olive_pass import create_pass_from_dict
from rewriter.integrations.olive_pass import SeqmapRewrite
model, folder, config = sys.argv[1:]
one = create_pass_from_dict(SeqmapRewrite, json.loads(config), disable_search=True)
print(one.run(ONNXModelHandler(model_path=model), folder).model_path)
"""


def last_line(folder: Path, program: str, *words: Path | str) -> str:
    """Run a program that imports Olive; return the last line that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", ENTER + program, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def run(model: Path, folder: Path, **config: Any) -> Path:
    return Path(last_line(ROOT, PROGRAM, model, folder, json.dumps(config)))


def test_what_the_docs_show_rewrites_a_model(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "howto" / "olive.md").read_text("utf-8")
    (block,) = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shutil.copy(MODEL, tmp_path / "model.onnx")
    out = tmp_path / last_line(tmp_path, block)
    assert "Loop" not in {node.op_type for node in onnx.load(out).graph.node}
    assert rewriter.validate(MODEL, out, cases=3).ok


def test_an_option_reaches_the_rewrite(tmp_path: Path) -> None:
    out = run(MODEL, tmp_path / "out", strategy="expand", verify=False)
    assert "Loop" in {node.op_type for node in onnx.load(out).graph.node}


def test_weights_in_another_file_come_along(tmp_path: Path) -> None:
    given = tmp_path / "given" / "model.onnx"
    given.parent.mkdir()
    options = {"save_as_external_data": True, "size_threshold": 0, "location": "weights.bin"}
    onnx.save(onnx.load(MODEL), given, **options)
    assert (given.parent / "weights.bin").stat().st_size
    out = run(given, tmp_path / "out")
    assert rewriter.validate(MODEL, out, cases=3).ok
