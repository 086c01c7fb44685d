"""The GitHub Action: its steps, one after the other, as a runner does them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
EXPORTED = ROOT / "models" / "exported"


def steps(**inputs: str) -> list[tuple[str, dict[str, str]]]:
    """Return the script and the environment of each step, with the inputs of a workflow."""
    known = {f"inputs.{k}": v.get("default", "") for k, v in ACTION["inputs"].items()}
    known |= {f"inputs.{name}": value for name, value in inputs.items()}
    known["github.action_path"] = str(ROOT)

    def filled(text: Any) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], str(text))

    found = []
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input in a script is code"
        found.append(
            (step["run"], {name: filled(text) for name, text in step.get("env", {}).items()})
        )
    return found


def run(folder: Path, **inputs: str) -> tuple[int, str]:
    """Run the steps until one fails; return the status and what was printed.

    The installation is written down in place of being done.
    """
    for name, script in (
        ("python", f'echo "$@" >> "{folder}/installed"'),
        ("seqmap", f'exec "{sys.executable}" -m seqmap "$@"'),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    printed = ""
    for script, environment in steps(**inputs):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
        )
        printed += done.stdout + done.stderr
        if done.returncode:
            return done.returncode, printed
    return 0, printed


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "options", "status"),
    [
        ("tf_map_fn_dense", "--require loop-free", 0),
        ("ts_rnn_negative", "--require loop-free", 4),
        ("ts_rnn_negative", "", 0),
        ("no such model", "", 1),
    ],
)
def test_the_steps(tmp_path: Path, model: str, options: str, status: int) -> None:
    found, printed = run(tmp_path, models=str(EXPORTED / f"{model}.onnx"), options=options)
    assert found == status, printed
    assert (tmp_path / "installed").read_text() == f"-m pip install {ROOT}\n"


@pytest.mark.long
def test_a_pattern_reaches_the_command_whole(tmp_path: Path) -> None:
    status, printed = run(tmp_path, models=str(EXPORTED / "tf_map_fn_d*.onnx"))
    assert status == 0, printed
    assert "1 model: 1 with maps" in printed
