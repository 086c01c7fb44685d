"""A backend in a process of its own, for what may end the process."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnx

from rewriter.backends.session import BackendError
from rewriter.run_watch import OverBudgetError, RunWatch

__all__ = ["main", "run"]

_START = "from rewriter.backends.isolated import main; main()"


def run(
    module: str,
    model: bytes,
    folder: Path | None,
    device: str,
    feeds: dict[str, Any],
    watch: RunWatch | None = None,
) -> dict[str, Any]:
    """Run a model once in a child process.

    Args:
        module: The backend: a module with a function ``run_here``.
        model: The serialized model.
        folder: Where its external weights lie.
        device: The device, as for a session.
        feeds: The inputs.
        watch: What bounds the run.

    Returns:
        The outputs by name.

    Raises:
        BackendError: The model fails, or ends the process.
        OverBudgetError: It takes longer than it may.
    """
    try:
        child = subprocess.run(
            [sys.executable, "-c", _START],
            input=pickle.dumps((module, model, folder, device, feeds)),
            capture_output=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            check=False,
            timeout=None if watch is None else max(watch.deadline - time.monotonic(), 0.0),
        )
    except subprocess.TimeoutExpired as error:
        raise OverBudgetError("its share of the time is over") from error
    if child.returncode != 0:
        how = f"signal {-child.returncode}" if child.returncode < 0 else "an error of its own"
        raise BackendError(f"it ended its process by {how}", is_limit=child.returncode < 0)
    outputs, message, is_limit = pickle.loads(child.stdout)
    if message:
        raise BackendError(message, is_limit)
    return dict(outputs)


def main() -> None:
    """Run the model that stands on standard input; the entry of the child process."""
    module, data, folder, device, feeds = pickle.load(sys.stdin.buffer)
    outputs: dict[str, Any] = {}
    message, is_limit = "", False
    try:
        run_here = importlib.import_module(module).run_here
        outputs = run_here(onnx.ModelProto.FromString(data), folder, device, feeds)
    except BackendError as error:
        message, is_limit = str(error), error.is_limit
    sys.stdout.buffer.write(pickle.dumps((outputs, message, is_limit)))
