"""The versions that a result was made with."""

from __future__ import annotations

import functools
import importlib.metadata
import platform

__all__ = ["environment", "version_of"]

_PACKAGES = ("seqmap", "onnx", "onnx-ir", "onnxscript", "onnx-graphsurgeon", "numpy", "protobuf")
_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml")
"""Wheels of the runtime that judges a rewrite; those that are installed are told."""


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
    runtimes = {name: version_of(name) for name in _RUNTIMES if version_of(name)}
    return tuple({**here, **versions, **runtimes}.items())


def environment() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that rewrite and judge."""
    return dict(_versions())
