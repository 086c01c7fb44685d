"""The versions that a result was made with."""

from __future__ import annotations

import functools
import importlib.metadata
import platform

__all__ = ["environment", "version_of"]

_PACKAGES = ("seqmap", "onnx", "onnx-ir", "onnxscript", "onnx-graphsurgeon", "numpy", "protobuf")


def version_of(package: str) -> str:
    """Return the version of an installed package, empty where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    versions = {name: version_of(name) or "not installed" for name in _PACKAGES}
    here = {"python": platform.python_version(), "platform": platform.platform()}
    return tuple({**here, **versions}.items())


def environment() -> dict[str, str]:
    """Return the versions of Python, of the platform and of the packages that rewrite models."""
    return dict(_versions())
