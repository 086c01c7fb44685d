"""Options that several subcommands share, and how their values are read."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from passes.errors import RewriteError
from rewriter.backends import BACKENDS
from rewriter.budget import Budget, parse_budget
from rewriter.options import LARGEST_DIM, STRATEGIES
from rewriter.targets import REQUIREMENTS, TARGETS

__all__ = [
    "add_backend_options",
    "add_budget_option",
    "add_feed_options",
    "add_model",
    "add_output_options",
    "add_rewrite_options",
    "add_tolerance_options",
    "count",
    "model_path",
    "output_group",
    "refuse_overwriting",
    "rewrite_options",
]

Dims = tuple[int | str | None, ...]


def add_model(parser: argparse.ArgumentParser, dest: str, metavar: str, text: str) -> None:
    """Add a positional model file."""
    parser.add_argument(dest, metavar=metavar, type=model_path, help=text)


def add_rewrite_options(parser: argparse.ArgumentParser) -> None:
    """Add what decides how a model is rewritten."""
    group = parser.add_argument_group("rewrite")
    group.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="auto",
        metavar="WAY",
        help=f"{', '.join(STRATEGIES)}; default: auto",
    )
    group.add_argument(
        "--target",
        choices=tuple(TARGETS),
        default="onnxruntime",
        metavar="NAME",
        help=f"{', '.join(TARGETS)}; default: onnxruntime",
    )
    group.add_argument(
        "--uniform",
        action="append",
        default=[],
        metavar="NAME",
        help="promise: elements of sequence NAME have one shape",
    )
    group.add_argument(
        "--input-shape",
        action="append",
        default=[],
        type=_input_shape,
        metavar="NAME=d,d",
        help="promise: shape of an input or its elements (? unknown)",
    )
    group.add_argument(
        "--trust-types", action="store_true", help="promise: declared element dimensions hold"
    )
    group.add_argument(
        "--tensor-io", action="store_true", help="pass sequence inputs and outputs as tensors"
    )
    group.add_argument(
        "--exact", action="store_true", help="batch nothing that could flip at a tie"
    )
    group.add_argument(
        "--require",
        action="append",
        default=[],
        choices=REQUIREMENTS,
        metavar="WHAT",
        help="fail unless " + " or ".join(REQUIREMENTS),
    )


def rewrite_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments for ``rewriter.rewrite`` and ``rewriter.explain``."""
    return {
        "strategy": args.strategy,
        "target": args.target,
        "uniform": tuple(args.uniform),
        "input_shapes": dict(args.input_shape) or None,
        "trust_types": args.trust_types,
        "tensor_io": args.tensor_io,
        "exact": args.exact,
        "require": tuple(args.require),
    }


def add_feed_options(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add where inputs come from: a file, or drawn from a seed."""
    parser.add_argument(
        "--inputs", type=Path, metavar="FEEDS.npz", help="inputs to use instead of drawn ones"
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="draws the inputs; default: 0"
    )


def add_budget_option(parser: argparse._ArgumentGroup) -> None:
    """Add how much time and memory a verification may take."""
    parser.add_argument(
        "--verify-budget",
        type=_budget,
        metavar="TIME,SIZE",
        help="skip inputs that take more; default: 60s and a quarter of the memory",
    )


def add_backend_options(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add what runs the model."""
    parser.add_argument(
        "--backend",
        choices=tuple(BACKENDS),
        default="onnxruntime",
        metavar="NAME",
        help=f"{', '.join(BACKENDS)}; default: onnxruntime",
    )
    parser.add_argument(
        "--device", default="cpu", metavar="NAME", help="cpu, cuda, ...; default: cpu"
    )


def add_tolerance_options(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add the tolerances of a comparison."""
    parser.add_argument(
        "--atol", type=_tolerance, metavar="X", help="absolute tolerance; default: by type"
    )
    parser.add_argument(
        "--rtol", type=_tolerance, metavar="X", help="relative tolerance; default: by type"
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add what is printed."""
    group = output_group(parser)
    group.add_argument("-h", "--help", action="help", help="print this")
    group.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    volume = group.add_mutually_exclusive_group()
    volume.add_argument(
        "-q", "--quiet", action="store_true", help="print the last line and warnings only"
    )
    volume.add_argument("-v", "--verbose", action="store_true", help="log passes and times")


def output_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Return the group of options for what is written and printed, made when first asked for."""
    found = [group for group in parser._action_groups if group.title == "output"]
    return found[0] if found else parser.add_argument_group("output")


def refuse_overwriting(written: Path | None, *, reads: Iterable[Path | None]) -> None:
    """Refuse a file to be written that is one of those that the command reads or writes besides.

    Raises:
        RewriteError: It is.
    """
    for path in filter(None, reads):
        if written is not None and _is_same(written, path):
            raise RewriteError(f"{written} would be written over {path}: choose another name")


def _is_same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def count(text: str) -> int:
    """Read a number of at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def model_path(text: str) -> Path:
    """Read the name of a model file."""
    if not text:
        raise argparse.ArgumentTypeError("the name of the file is empty")
    return Path(text)


def _budget(text: str) -> Budget:
    try:
        return parse_budget(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seed(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def _tolerance(text: str) -> float:
    number = float(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text} is no tolerance, give a number from 0")
    return number


def _input_shape(text: str) -> tuple[str, Dims]:
    name, equals, dims = text.rpartition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=d,d")
    return name, tuple(_dim(dim.strip()) for dim in dims.split(",")) if dims else ()


def _dim(text: str) -> int | str | None:
    if text.isdecimal():
        if int(text) > LARGEST_DIM:
            raise argparse.ArgumentTypeError(f"dimension {text} is larger than {LARGEST_DIM}")
        return int(text)
    if text == "?":
        return None
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(
            f"dimension {text!r} is neither a number, a name nor ? for unknown"
        )
    return text
