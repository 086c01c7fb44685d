"""``import seqmap`` and ``python -m seqmap``: the public face, light until it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import passes
import rewriter
import rewriter.cli
import seqmap
from rewriter.options import RewriteOptions

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
    assert set(seqmap.__all__) == {*rewriter.__all__, "__version__", "passes"} == set(dir(seqmap))
    assert all(getattr(seqmap, name) is getattr(rewriter, name) for name in rewriter.__all__)
    assert seqmap.passes is passes
    assert python("-m", "seqmap", "--version") == f"seqmap {seqmap.__version__}\n"


def test_a_name_that_is_none_is_suggested() -> None:
    words = [sys.executable, "-c", "import seqmap; seqmap.optimise"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "AttributeError: module 'seqmap' has no attribute 'optimise'. Did you mean: 'optimize'?"
    )


@pytest.mark.parametrize("other", ["passes.py", "rewriter.py", "passes/__init__.py"])
@pytest.mark.parametrize("words", [("-c", "import seqmap"), ("-m", "seqmap", "--version")])
def test_what_hides_a_package_is_named(other: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """Another package of the name comes first, and has none of our modules."""
    place = tmp_path / other
    place.parent.mkdir(exist_ok=True)
    place.touch()
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    name = Path(other).parts[0].removesuffix(".py")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: seqmap needs its own package '{name}', and Python finds "
        f"{tmp_path / Path(other).parts[0]} in its place: rename that, or use another environment"
    )


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


@pytest.mark.parametrize("name", ["optimize", "rewrite", "explain"])
def test_the_docstring_tells_every_option(name: str) -> None:
    told = inspect.getdoc(getattr(seqmap, name)) or ""
    assert "model: " in told
    for option in RewriteOptions.__annotations__:
        assert f"    {option}: " in told
