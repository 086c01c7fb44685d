"""The pages of ``docs/upstream``: what each says of a defect, and what happens."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import io
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino

from rewriter.backends import iree, tract
from tests.versions import is_at_least

__all__ = ["PAGES", "Page", "run"]

FOLDER = pathlib.Path(__file__).parents[3] / "docs" / "upstream"
ENDS_THE_PROCESS = "exit status"


@dataclasses.dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        name: The name of the file, which is that of a row of the table if there is one.
        program: The Python program that shows the defect.
        found: What the program prints or says, in part.
        package: What has the defect.
        since: The oldest version in which it was seen.
        mended_in: The first version without it; None where there is none yet.
    """

    name: str
    program: str
    found: str
    package: str
    since: str
    mended_in: str | None

    @property
    def runtime(self) -> str:
        """The runtime that has the defect."""
        return self.package.lower().removesuffix("-base-compiler")

    def is_older(self) -> bool:
        """Whether no version is installed, or one older than those that have the defect."""
        try:
            return not is_at_least(self.package, self.since)
        except importlib.metadata.PackageNotFoundError:
            return True

    def is_mended(self) -> bool:
        """Whether the installed version no longer has the defect."""
        return self.mended_in is not None and is_at_least(self.package, self.mended_in)

    def outcome(self) -> str:
        """Run the program; return what it prints or says."""
        if self.found.startswith(ENDS_THE_PROCESS):
            command = [sys.executable, "-c", self.program]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return f"{ENDS_THE_PROCESS} {done.returncode}\n{done.stdout}"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(self.program, {})
            except Exception as error:  # onnxruntime's errors have no common base
                return f"{printed.getvalue()}{error}"
        return printed.getvalue()

    def model(self) -> tuple[onnx.ModelProto, dict[str, Any], np.ndarray[Any, Any]]:
        """Return the model, its feeds and the result that is expected."""
        names: dict[str, Any] = {}
        exec(self.program.split("session =")[0], names)
        return names["model"], names["feeds"], names["expected"]


def run(
    model: onnx.ModelProto, feeds: dict[str, Any], runtime: str = "onnxruntime"
) -> np.ndarray[Any, Any]:
    """Return the first result of a model, which was never run before."""
    if runtime == "openvino":
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU")
        found: np.ndarray[Any, Any] = next(iter(compiled(feeds).values())).copy()
        return found
    backend = {"iree": iree, "tract": tract}.get(runtime)
    if backend is not None and not backend.missing():
        (made,) = backend.open_session(model, None, "cpu").run(feeds).values()
        return np.asarray(made)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    result: np.ndarray[Any, Any] = session.run(None, feeds)[0]
    return result


def _read(path: pathlib.Path) -> Page:
    text = path.read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (found,) = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    (seen,) = re.findall(r"^Seen with (.*)", text, re.MULTILINE)
    package, since = re.match(r"(\S+) ([\d.]+\d)", seen).groups()
    mended = re.search(r"^Mended in ([\d.]+\d)", text, re.MULTILINE)
    return Page(path.stem, program, found, package, since, mended and mended[1])


PAGES = {path.stem: _read(path) for path in sorted(FOLDER.glob("*.md")) if path.stem != "README"}
