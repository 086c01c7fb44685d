"""Runs one command; what it raises becomes a line and an exit status."""

from __future__ import annotations

import argparse
import importlib
import traceback
from types import ModuleType

from passes.errors import RewriteError
from rewriter.commands.console import Console

__all__ = ["INTERRUPTED", "MODEL_SUFFIXES", "execute", "load_command"]

MODEL_SUFFIXES = (".onnx", ".onnxtxt")
INTERRUPTED = 130
"""The exit status behind Ctrl-C, as shells have it."""


def load_command(name: str) -> ModuleType:
    """Import the module of a command."""
    return importlib.import_module(f"rewriter.commands.{name.replace('-', '_')}")


def execute(args: argparse.Namespace, console: Console) -> int:
    """Run a command; what it raises becomes a line and a status.

    Args:
        args: The options of the command.
        console: Where it writes.

    Returns:
        The exit status.
    """
    try:
        if getattr(args, "rules", ()):
            importlib.import_module("rewriter.rule_files").load_rules(*args.rules)
        return int(load_command(args.command).execute(args, console))
    except RewriteError as error:
        console.error(error.on_command_line())
        return error.exit_status
    except KeyboardInterrupt:
        console.error("interrupted")
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        console.error(
            "this is a bug in seqmap, please report it with the lines above and what seqmap "
            "doctor prints"
        )
        return 1
