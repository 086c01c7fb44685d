"""``seqmap doctor``: what is installed here, and what is wrong with it."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from rewriter import backends
from rewriter.commands.console import Console
from rewriter.commands.shadowing import find_shadows
from rewriter.reporting.environment import environment, version_of

__all__ = ["USAGE", "add_options", "execute"]

USAGE = ""
_ONE_MODULE = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options: none beside those of all commands."""


def execute(args: argparse.Namespace, console: Console) -> int:
    """Print versions, backends and problems.

    Returns:
        1 where something is wrong, otherwise 0.
    """
    versions = environment()
    runtimes = {}
    for one in backends.BACKENDS.values():
        reason = one.missing()
        lacking = () if reason else one.lacking_devices
        here = (device for device in one.devices if " " not in device and device not in lacking)
        runtimes[one.name] = reason or f"{one.version} on {', '.join(here)}"
    problems = find_problems()
    console.record |= {"versions": versions, "backends": runtimes, "problems": problems}
    console.say("\n".join(f"problem: {one}" for one in problems) or "no problem is found")
    told = {**versions, **runtimes}  # a runtime's line holds its version
    console.table([*told.items()])
    return 1 if problems else 0


def find_problems() -> list[str]:
    """Return what is wrong with the installation, each with what to do about it."""
    problems = find_shadows()
    wheels = [name for name in _ONE_MODULE if version_of(name)]
    if len(wheels) > 1:
        problems.append(
            f"{' and '.join(wheels)} are wheels of one module and overwrite each other: uninstall "
            "all of them and install one"
        )
    problems += [
        f"{folder} cannot be written: choose another folder"
        for folder in (Path.cwd(), Path(tempfile.gettempdir()))
        if not os.access(folder, os.W_OK)
    ]
    return problems
