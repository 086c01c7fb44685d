"""The command line ``seqmap``.

Exit status: 0 done; 1 the input cannot be used; 2 wrong usage; 3 verification failed, or nothing
could be verified; 4 the target, or what ``--require`` asks for, is not reached.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rewriter.commands.console import Console
from rewriter.commands.execution import INTERRUPTED, MODEL_SUFFIXES, execute, load_command
from rewriter.commands.output import add_output_options
from rewriter.commands.standard_output import print_text
from rewriter.errors import FaultWarning, ModelWarning, suggestion
from rewriter.target_table import ALIASES

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "optimize": "put batched operators in the place of SequenceMap, Loop and Scan; verify, write",
    "explain": "say what optimize would do with every map, and why; changes nothing",
    "scan": "say which models of a folder hold maps, and what would become of them",
    "validate": "compare two models on inputs drawn from the types of the first, or on given ones",
    "run": "run a model on given inputs, or on inputs drawn from its types",
    "bench": "time a model as given and rewritten, over numbers of samples",
    "apply": "run a model over the samples of a file or folder, and write a folder of results",
    "ops": "list what becomes of each operator in the body of a map",
    "explain-code": "say what a code in a report means, and what can be done about it",
    "view": "show the report of a model as a page in the browser",
    "doctor": "say what is installed here, and what is wrong with it",
    "demo": "rewrite, verify and run four models; onnxruntime refuses most of them as they are",
}
"""Each command and what it does. Its module, of the same name, is imported when it is used."""
_STATUSES = (
    "exit status: 0 done, 1 unusable input, 2 usage, 3 not verified, 4 target not reached, "
    "130 Ctrl-C"
)
_SHORT = "seqmap IN.onnx OUT.onnx is short for seqmap optimize IN.onnx OUT.onnx;"
_REPEATED = (
    "if an option is repeated the last value wins; --uniform, --input-shape, --require, --rules "
    "accumulate"
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
    started = time.perf_counter()  # importing what a command needs counts: the user waits for it
    words = _with_command(_join_tensor_io(sys.argv[1:] if arguments is None else arguments))
    try:
        return _run(words, started)
    except KeyboardInterrupt:  # before the command has begun, which knows of it itself
        sys.stderr.write("seqmap: error: interrupted\n")
        return INTERRUPTED


def _run(words: Sequence[str], started: float) -> int:
    if not words:
        print_text(_parser(words).format_help())
    try:
        _require_command_first(words)
        args = _parser(words).parse_args(words)
        _require_one_standard_input(args)
    except _UsageError as error:
        _say_usage(words, str(error))
        raise SystemExit(2) from None
    console = Console(
        words,
        args.command,
        as_json=args.json,
        quiet=args.quiet,
        verbose=args.verbose,
        stdout_is_taken=getattr(args, "output", None) == Path("-"),
    )
    with console.logging(), warnings.catch_warnings():
        warnings.simplefilter("always", ModelWarning)
        warnings.simplefilter("always", FaultWarning)
        warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
        status = execute(args, console)
    return console.finish(status, time.perf_counter() - started)


class _UsageError(Exception):
    """The words do not make a command."""


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line.

    Attributes:
        command: The command in use, that unknown options were meant for.
    """

    command = "seqmap"

    def print_help(self, file: Any = None) -> None:
        """Print the help; exit where standard output does not take it."""
        if status := print_text(self.format_help()):
            self.exit(status)

    def error(self, message: str) -> NoReturn:
        commands = (a.choices for a in self._actions if isinstance(a.choices, dict))
        inner = next(commands, {}).values()
        options = [option for one in (self, *inner) for option in one._option_string_actions]
        message = _with_suggestion(message, options)
        if message.endswith("required: OUT") and self.prog.endswith(" optimize"):
            message += "; seqmap explain IN says what would be done, and writes nothing"
        prog = self.command if _UNKNOWN.search(message) else self.prog
        raise _UsageError(f"{prog}: error: {message}; {prog} --help lists the options")


def _with_command(words: Sequence[str]) -> Sequence[str]:
    """Return the words with ``optimize`` in front where they begin with a model."""
    first = next((word for word in words if not word.startswith("-") or word == "-"), "")
    is_model = first == "-" or Path(first).suffix in MODEL_SUFFIXES or Path(first).is_file()
    return ["optimize", *words] if is_model and not COMMANDS.keys() & set(words) else words


def _require_command_first(words: Sequence[str]) -> None:
    """Refuse an option of a command that stands in front of it."""
    command = next((word for word in words if word in COMMANDS), "")
    if command and words[0].startswith("-") and words[0].partition("=")[0] not in _OWN_OPTIONS:
        raise _UsageError(
            f"seqmap: error: {words[0]} stands in front of the command: write seqmap {command} "
            f"{words[0]} ..."
        )


def _require_one_standard_input(args: argparse.Namespace) -> None:
    """Refuse a command that reads standard input twice."""
    given = [value for name, value in vars(args).items() if name != "output"]
    names = [one for value in given for one in (value if isinstance(value, list) else [value])]
    if names.count(Path("-")) > 1:
        raise _UsageError(
            f"seqmap {args.command}: error: - is standard input, which is read once; name a file"
        )


_OWN_OPTIONS = ("-h", "--help", "--version", "--print-completion")


def _say_usage(words: Sequence[str], line: str) -> None:
    sys.stderr.write(f"{line}\n")
    if "--json" in words:
        command = next((word for word in words if word in COMMANDS), None)
        record = {"command": command, "error": line, "passed": False, "status": 2}
        sys.stdout.write(json.dumps(record, indent=2) + "\n")


def _parser(words: Sequence[str], *, every: bool = False) -> argparse.ArgumentParser:
    """Return the parser of all commands.

    Args:
        words: The command line; only the command in use knows its options.
        every: Let all of them know theirs.
    """
    used = next((word for word in words if not word.startswith("-")), None)
    parser = _Parser(
        prog="seqmap",
        description="Put batched operators in the place of SequenceMap, Loop and Scan.",
        epilog=f"{_SHORT} {_STATUSES}; {_REPEATED}",
        formatter_class=_OneLineHelp,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        metavar="SHELL",
        help="print what completes words in bash, zsh, fish, ...; needs shtab",
    )
    if used in COMMANDS:
        parser.command = f"seqmap {used}"
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        module = load_command(name) if every or name == used else None
        command = commands.add_parser(
            name,
            help=summary,
            description=summary,
            usage=None if module is None else f"seqmap {name} {module.USAGE}[options]",
            epilog=_STATUSES,
            formatter_class=_OneLineHelp,
            add_help=False,
            allow_abbrev=False,
        )
        if module is not None:
            module.add_options(command)
        add_output_options(command)
    return parser


class _Version(argparse.Action):
    """Prints the version of the installed package."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(print_text(f"seqmap {importlib.metadata.version('seqmap')}\n"))


class _Completion(argparse.Action):
    """Prints a script that completes commands, options and files in a shell."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, shell: Any, *__: object
    ) -> None:
        try:
            completion = importlib.import_module("rewriter.commands.completion")
        except ImportError:
            parser.error("completion needs shtab: pip install 'seqmap[completion]'")
        if shell not in completion.SHELLS:
            parser.error(f"there is completion for {', '.join(completion.SHELLS)}")
        parser.exit(print_text(completion.script(_parser((), every=True), shell) + "\n"))


_WIDEST = 99
"""Columns of help where the terminal has so many."""


class _OneLineHelp(argparse.HelpFormatter):
    """Help with a line for an option where it fits; no wider than the terminal."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDEST
        width = min(_WIDEST, columns)
        super().__init__(prog, max_help_position=min(30, width // 3), width=width)


_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (\S+)")


def _with_suggestion(message: str, options: Iterable[str]) -> str:
    """Return what argparse says of a word, with the word that may have been meant.

    Args:
        message: The message.
        options: The options of the command.
    """
    if found := _CHOICE.search(message):
        known = [name.strip(" '") for name in found[2].split(",")]
        if set(found[1].split(",")) <= set(known):
            return f"{message}; repeat the option for each of them"
        shorts = [name for name, whole in ALIASES.items() if whole in known]
        return message + suggestion(found[1], [*known, *shorts])
    if found := _UNKNOWN.search(message):
        return message + suggestion(found[1], options)
    return message


_TENSORS = "--tensor-io=tensors"


def _join_tensor_io(words: Sequence[str]) -> list[str]:
    """Join ``--tensor-io`` with what it asks for, so that it takes no model's name for that."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == _TENSORS and word == "triton":
            joined[-1] = "--tensor-io=triton"
        else:
            joined.append(_TENSORS if word == "--tensor-io" else word)
    return joined


if __name__ == "__main__":
    sys.exit(main())
