"""onnxruntime's headers for C++, for the docs' example: ``python -m tests.cpp_headers`` fetches them.

They are looked for in the folder that ONNXRUNTIME_HEADERS names, otherwise in ``.headers`` at the
root of the checkout. The library comes with onnxruntime's wheel.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile

__all__ = ["FOLDER", "fetch", "is_there", "library"]

FOLDER = pathlib.Path(
    os.environ.get("ONNXRUNTIME_HEADERS") or pathlib.Path(__file__).parents[1] / ".headers"
)
_PACKAGE = "com.github.asus4.onnxruntime@^0.4.9"
"""onnxruntime for Unity: the one package of npm that holds the headers, for iOS."""


def is_there() -> bool:
    """Whether the headers were fetched."""
    return (FOLDER / "onnxruntime_cxx_api.h").is_file()


def library() -> pathlib.Path | None:
    """Return the library of the installed wheel, None where it has none of its own."""
    found = importlib.util.find_spec("onnxruntime")
    if found is None or found.origin is None:
        return None
    folder = pathlib.Path(found.origin).parent / "capi"
    return next(iter(sorted(folder.glob("libonnxruntime.so.*"))), None)


def fetch() -> None:
    """Put the headers into the folder.

    Raises:
        RuntimeError: There is no npm, or the package holds no headers.
        subprocess.CalledProcessError: The package cannot be had.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("there is no npm")
    with tempfile.TemporaryDirectory() as place:
        words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", _PACKAGE]
        subprocess.run([*words, "--prefix", place], check=True, timeout=300)
        found = next(pathlib.Path(place).rglob("Headers/onnxruntime_cxx_api.h"), None)
        if found is None:
            raise RuntimeError(f"{_PACKAGE} holds no headers")
        shutil.copytree(found.parent, FOLDER, dirs_exist_ok=True)


if __name__ == "__main__":
    if not is_there():
        fetch()
