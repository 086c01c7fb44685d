"""The pass of Olive, where olive-ai is installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import onnx
import pytest

import rewriter

if importlib.util.find_spec("olive") is None:
    pytest.skip("olive-ai is not installed", allow_module_level=True)
os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"

from olive.model import ONNXModelHandler
from olive.passes.olive_pass import create_pass_from_dict

from rewriter.integrations.olive_pass import SeqmapRewrite

MODEL = Path(__file__).parents[3] / "models" / "exported" / "tf_map_fn_dense.onnx"


def run(model: Path, folder: Path, **config: Any) -> Path:
    one = create_pass_from_dict(SeqmapRewrite, config, disable_search=True)
    return Path(one.run(ONNXModelHandler(model_path=str(model)), str(folder)).model_path)


def test_a_model_is_rewritten(tmp_path: Path) -> None:
    out = run(MODEL, tmp_path / "out", require=["loop-free"])
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
