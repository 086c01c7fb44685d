"""A process that runs commands one after another, and says what each printed and cost."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import resource
import sys
import tempfile
import traceback

from rewriter import cli

_ADDRESSES = 16 * 2**30  # a command that wants more fails, and the machine goes on


def main() -> None:
    """Read the words of a command from every line, and answer each with a line."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


def _run(words: list[str]) -> dict[str, object]:
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            status = cli.main(words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            traceback.print_exc()
            status = -1
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        out.seek(0)
        err.seek(0)
        return {
            "status": status,
            "out": out.read().decode("utf-8", "replace"),
            "err": err.read().decode("utf-8", "replace"),
            "peak": _peak(),
        }


def _peak() -> int:
    """Return the largest number of bytes that this process had in memory."""
    status = pathlib.Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
