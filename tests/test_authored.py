"""The models of `models/authored`: their sources make them, and their rewrites compute the same."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import sys
from types import ModuleType

import onnx
import pytest

import rewriter
from passes.decisions import Verdict

FOLDER = pathlib.Path(__file__).parents[1] / "models" / "authored"
VERDICTS = {"images": Verdict.GUARDED, "audio": Verdict.FUSED, "text": Verdict.FUSED}


@functools.cache
def source() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_authored", FOLDER / "make_authored.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # onnxscript looks there for what a function reads
    spec.loader.exec_module(module)
    return module


def test_every_model_has_a_source() -> None:
    assert {path.stem for path in FOLDER.glob("*.onnx")} == set(source().TYPES) == set(VERDICTS)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_source_makes_its_model(name: str) -> None:
    assert source().build(name) == onnx.load(FOLDER / f"{name}.onnx")


@pytest.mark.long
@pytest.mark.parametrize("name", VERDICTS)
def test_a_rewrite_computes_the_same(name: str) -> None:
    path = FOLDER / f"{name}.onnx"
    onnx.checker.check_model(onnx.load(path), full_check=True)
    result = rewriter.rewrite(path)
    assert [one.verdict for one in result.report.decisions] == [VERDICTS[name]]
    check = rewriter.validate(path, result.model, cases=4)
    assert check.ok, check.summary
