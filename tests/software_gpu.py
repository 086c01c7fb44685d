"""A software adapter for onnxruntime's WebGPU provider: a Vulkan driver that runs on the CPU.

It is looked for in the folder that SOFTWARE_GPU_DIR names, otherwise in ``.gpu`` at the root of
the checkout; ``python -m tests.software_gpu`` fills that folder from a Debian package.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile

__all__ = ["FOLDER", "REQUIRED", "fetch", "start", "why_not"]

FOLDER = pathlib.Path(
    os.environ.get("SOFTWARE_GPU_DIR") or pathlib.Path(__file__).parents[1] / ".gpu"
)
REQUIRED = "SOFTWARE_GPU_REQUIRED"
_PACKAGE = "chromium-common"
_FILES = ("libvk_swiftshader.so", "libvulkan.so.1", "vk_swiftshader_icd.json")


def fetch(folder: pathlib.Path = FOLDER) -> None:
    """Take the driver and the Vulkan loader, 6 MB, out of a Debian package.

    Raises:
        OSError: There is no ``apt-get`` or ``dpkg-deb``.
        subprocess.CalledProcessError: The package cannot be had.
    """
    import fcntl  # not on Windows, which has no apt-get either

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock, tempfile.TemporaryDirectory() as name:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get runs once at a time, tests in several processes
        if _is_complete(folder):
            return
        place = pathlib.Path(name)
        if _run(place, "apt-get", "download", _PACKAGE, check=False):
            _run(place, "apt-get", "update")
            _run(place, "apt-get", "download", _PACKAGE)
        (package,) = place.glob("*.deb")
        _run(place, "dpkg-deb", "--extract", package.name, "all")
        for file in _FILES:
            shutil.copy(place / "all" / "usr" / "lib" / "chromium" / file, folder / file)


def _run(folder: pathlib.Path, *words: str, check: bool = True) -> int:
    done = subprocess.run(words, cwd=folder, check=check, capture_output=True, timeout=300)
    return done.returncode


def _is_complete(folder: pathlib.Path) -> bool:
    return all((folder / file).exists() for file in _FILES)


@functools.cache
def why_not() -> str:
    """Return why there is no adapter here; empty where there is one.

    Raises:
        RuntimeError: It is missing although the environment says that it is REQUIRED.
    """
    reason = _missing()
    if reason and os.environ.get(REQUIRED):
        raise RuntimeError(f"no software adapter for WebGPU, and {REQUIRED} is set: {reason}")
    return reason


def _missing() -> str:
    if importlib.util.find_spec("onnxruntime_ep_webgpu") is None:
        return "onnxruntime-ep-webgpu is not installed; install seqmap[webgpu]"
    if not _is_complete(FOLDER):
        return f"{FOLDER} holds no Vulkan driver; python -m tests.software_gpu fetches one"
    return ""


@functools.cache
def start() -> None:
    """Let onnxruntime find the adapter; before its WebGPU provider is first used."""
    os.environ["ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"] = "1"
    icd = str((FOLDER / "vk_swiftshader_icd.json").resolve())
    os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = icd
    # The provider opens the Vulkan loader by name: one that is loaded under that name serves.
    ctypes.CDLL(str((FOLDER / "libvulkan.so.1").resolve()), mode=ctypes.RTLD_GLOBAL)


if __name__ == "__main__":
    fetch()
