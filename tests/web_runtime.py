"""onnxruntime-web from npm, for the test of its page: ``python -m tests.web_runtime`` fetches it.

It is looked for in the folder that ONNXRUNTIME_WEB names, otherwise in ``.web`` at the root of the
checkout.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

__all__ = ["FOLDER", "dist", "fetch", "is_there"]

FOLDER = pathlib.Path(
    os.environ.get("ONNXRUNTIME_WEB") or pathlib.Path(__file__).parents[1] / ".web"
)
_DIST = pathlib.Path("node_modules", "onnxruntime-web", "dist")


def dist() -> pathlib.Path:
    """Return the folder with the WebAssembly build."""
    return FOLDER / _DIST


def is_there() -> bool:
    """Whether the build was fetched."""
    return (dist() / "ort.wasm.min.mjs").is_file()


def fetch() -> None:
    """Install the package into the folder.

    Raises:
        RuntimeError: There is no npm.
        subprocess.CalledProcessError: The package cannot be had.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("there is no npm")
    FOLDER.mkdir(parents=True, exist_ok=True)
    words = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "onnxruntime-web@^1.30",
    ]
    subprocess.run([*words, "--prefix", FOLDER], check=True, timeout=300)


if __name__ == "__main__":
    if not is_there():
        fetch()
