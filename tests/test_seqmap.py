"""``import seqmap`` and ``python -m seqmap``: the public face, light until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import passes
import rewriter
import rewriter.cli
import seqmap

ROOT = Path(__file__).parent.parent
HEAVY = ["numpy", "onnx", "onnx_ir", "onnxruntime", "sympy"]


def python(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("package", [passes, rewriter], ids=lambda one: one.__name__)
def test_every_public_name_is_there(package) -> None:
    assert dir(package) == sorted(package.__all__) == sorted(package._MODULES)
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'x'"):
        _ = package.x


def test_seqmap_is_rewriter_and_a_version() -> None:
    assert set(seqmap.__all__) == {*rewriter.__all__, "__version__"} == set(dir(seqmap))
    assert all(getattr(seqmap, name) is getattr(rewriter, name) for name in rewriter.__all__)
    assert python("-m", "seqmap", "--version") == f"seqmap {seqmap.__version__}\n"


@pytest.mark.parametrize(
    "code",
    ["import seqmap", "from rewriter import cli; cli._parser(['--help']).format_help()"],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    loaded = python("-c", f"import sys\n{code}\nprint([n for n in {HEAVY} if n in sys.modules])")
    assert ast.literal_eval(loaded) == []


def test_the_help_names_every_command() -> None:
    printed = python("-m", "seqmap", "--help")
    assert all(f"    {name} " in printed for name in rewriter.cli.COMMANDS)
