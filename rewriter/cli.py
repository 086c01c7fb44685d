"""The command line ``seqmap``.

Exit status: 0 done; 1 the input cannot be used; 2 wrong usage; 3 verification failed, or nothing
could be verified; 4 the target, or what ``--require`` asks for, is not reached.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from passes.errors import RewriteError
from rewriter.commands import bench, demo, explain, ops, optimize, run, validate
from rewriter.commands.console import Console
from rewriter.commands.options import add_output_options
from rewriter.models import ModelWarning
from rewriter.targets import TargetError

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, ModuleType] = {
    "optimize": optimize,
    "explain": explain,
    "validate": validate,
    "run": run,
    "bench": bench,
    "ops": ops,
    "demo": demo,
}
_STATUSES = "exit status: 0 done, 1 unusable input, 2 usage, 3 not verified, 4 target not reached"
_REPEATED = (
    "of an option given twice the last counts, but --uniform, --input-shape and --require add up"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words after ``seqmap``; ``None`` takes those of the process.

    Returns:
        The exit status.

    Raises:
        SystemExit: Wrong usage (status 2), or ``--help`` (status 0).
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        args = _parser().parse_args(words)
    except _UsageError as error:
        _say_usage(words, str(error))
        raise SystemExit(2) from None
    console = Console(
        words, args.command, as_json=args.json, quiet=args.quiet, verbose=args.verbose
    )
    started = time.perf_counter()
    with console.logging(), warnings.catch_warnings():
        warnings.simplefilter("always", ModelWarning)
        warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
        status = _execute(args, console)
    return console.finish(status, time.perf_counter() - started)


def _execute(args: argparse.Namespace, console: Console) -> int:
    try:
        return int(COMMANDS[args.command].execute(args, console))
    except TargetError as error:
        console.error(str(error))
        return 4
    except RewriteError as error:
        console.error(str(error))
        return 1
    except KeyboardInterrupt:
        console.error("interrupted")
        return 130
    except Exception:
        traceback.print_exc()
        console.error("this is a bug in seqmap, please report it with the lines above")
        return 1


class _UsageError(Exception):
    """The words do not make a command."""


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{self.prog}: error: {message}; {self.prog} --help lists the options")


def _say_usage(words: Sequence[str], line: str) -> None:
    sys.stderr.write(f"{line}\n")
    if "--json" in words:
        command = next((word for word in words if word in COMMANDS), None)
        record = {"command": command, "error": line, "passed": False, "status": 2}
        sys.stdout.write(json.dumps(record, indent=2) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="seqmap",
        description="Rewrite ONNX models so that no SequenceMap is left, and prove it.",
        epilog=f"{_STATUSES}; {_REPEATED}",
        formatter_class=_OneLineHelp,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.SUMMARY,
            usage=f"seqmap {name} {module.USAGE}[options]",
            epilog=_STATUSES,
            formatter_class=_OneLineHelp,
            add_help=False,
            allow_abbrev=False,
        )
        module.add_options(command)
        add_output_options(command)
    return parser


class _OneLineHelp(argparse.HelpFormatter):
    """Help with a line for an option where it fits."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=99)


if __name__ == "__main__":
    sys.exit(main())
