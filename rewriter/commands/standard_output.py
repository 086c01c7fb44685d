"""Standard output, which may have no room, or a reader that has gone."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from passes.errors import RewriteError

__all__ = ["print_text", "write_model", "write_text"]

_REFUSED = "cannot write to standard output: "


def write_text(text: str, out: TextIO) -> str:
    """Write text at once; the work goes on where nobody can read it any more.

    Returns:
        Why the text could not be written; empty where it could, or where its reader has gone.
    """
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        _silence()
    except OSError as error:
        _silence()
        return _REFUSED + _reason(error)
    return ""


def print_text(text: str) -> int:
    """Write text that is all that was asked for; return the exit status."""
    refused = write_text(text, sys.stdout)
    if refused:
        sys.stderr.write(f"seqmap: error: {refused}\n")
    return int(bool(refused))


def write_model(data: bytes) -> None:
    """Write a model.

    Raises:
        RewriteError: Standard output has no room, or its reader has gone.
    """
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        _silence()
        raise RewriteError(_REFUSED + _reason(error)) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _silence() -> None:
    """Let stdout lead nowhere, so that nothing fails when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
