"""Options that several subcommands share."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx_ir as ir

from passes.errors import RewriteError
from rewriter.backends import BACKENDS
from rewriter.commands import values
from rewriter.model_files import on_disk
from rewriter.model_files.files import decode
from rewriter.options import STRATEGIES, Options
from rewriter.target_table import REQUIREMENTS, TARGETS, find_target

__all__ = [
    "add_backend_options",
    "add_budget_option",
    "add_feed_options",
    "add_model",
    "add_packed_option",
    "add_rewrite_options",
    "add_rules_option",
    "add_tolerance_options",
    "place",
    "place_of_target",
    "read_model",
    "refuse_overwriting",
    "rewrite_group",
    "rewrite_options",
]


def add_model(
    parser: argparse._ArgumentGroup | argparse.ArgumentParser, dest: str, metavar: str, text: str
) -> None:
    """Add a positional model file."""
    parser.add_argument(dest, metavar=metavar, type=values.model_path, help=text)


def rewrite_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the heading of what decides how a model is rewritten."""
    return parser.add_argument_group("rewrite")


def add_rewrite_options(group: argparse._ArgumentGroup) -> None:
    """Add what decides how a model is rewritten."""
    group.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="auto",
        metavar="WAY",
        help=f"{', '.join(STRATEGIES)}; default: auto",
    )
    group.add_argument(
        "--target",
        type=values.target,
        choices=tuple(TARGETS),
        default="onnxruntime",
        metavar="NAME",
        help="what the model is for; default: onnxruntime; a wrong name lists all",
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
        type=values.input_shape,
        metavar="NAME=d,d",
        help="promise: shape of an input or its elements (? unknown)",
    )
    group.add_argument(
        "--trust-types", action="store_true", help="promise: declared element dimensions hold"
    )
    group.add_argument(
        "--tensor-io",
        nargs="?",
        const="tensors",
        default="",
        choices=("tensors", "triton"),
        metavar="triton",
        help="pass sequence inputs and outputs as tensors; triton: OUT is for Triton",
    )
    group.add_argument(
        "--padded",
        action="append",
        default=[],
        metavar="NAME",
        help="with --tensor-io: NAME is padded to its largest element, sizes beside",
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
    group.add_argument(
        "--opset", type=values.count, metavar="N", help="convert the model to opset N first"
    )
    add_rules_option(group)


def add_packed_option(group: argparse._ArgumentGroup) -> None:
    """Add which inputs and outputs are packed as the model comes."""
    group.add_argument(
        "--packed",
        action="append",
        default=[],
        type=values.packed,
        metavar="NAME=LENGTHS",
        help="promise: NAME holds all samples; input LENGTHS says how long",
    )


def rewrite_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments for ``rewriter.rewrite`` and ``rewriter.explain``."""
    names = {field.name for field in dataclasses.fields(Options)}
    given = {name: x for name, x in vars(args).items() if name in names}
    given |= {"input_shapes": dict(args.input_shape) or None, "tensor_io": bool(args.tensor_io)}
    return {name: tuple(x) if isinstance(x, list) else x for name, x in given.items()}


def add_rules_option(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add files that register batching rules; the command line loads them first."""
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        type=Path,
        metavar="FILE.py",
        help="run a file that registers rules for further operators",
    )


def add_feed_options(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add where inputs come from: a file, or drawn from a seed."""
    parser.add_argument(
        "--inputs", type=Path, metavar="FEEDS.npz", help="inputs to use instead of drawn ones"
    )
    parser.add_argument(
        "--seed", type=values.seed, default=0, metavar="N", help="draws the inputs; default: 0"
    )


def add_budget_option(parser: argparse._ArgumentGroup) -> None:
    """Add how much time and memory a verification may take."""
    parser.add_argument(
        "--verify-budget",
        type=values.budget,
        metavar="TIME,SIZE",
        help="skip inputs that take more; default: 60s and a quarter of the memory",
    )


def add_backend_options(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add what runs the model."""
    parser.add_argument(
        "--backend",
        choices=(*BACKENDS, *PROVIDERS),
        type=values.backend,
        metavar="NAME",
        help=f"{', '.join(BACKENDS)}; default: that of the target",
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, ...; default: as the backend")


PROVIDERS = ("cuda", "tensorrt", "webgpu", "webgpu-int64", "coreml")
"""Devices of onnxruntime that may be named as a backend."""


def place(args: argparse.Namespace) -> tuple[str, str]:
    """Return the backend and the device to run on: as told, else those of the target."""
    backend, device = place_of_target(args)
    if args.backend in PROVIDERS:
        return "onnxruntime", args.device or args.backend
    if args.backend is None and backend:
        return backend, args.device or device
    return args.backend or "onnxruntime", args.device or "cpu"


def place_of_target(args: argparse.Namespace) -> tuple[str, str]:
    """Return the backend and the device of the target, empty where nothing here runs it."""
    row = find_target(getattr(args, "target", "onnxruntime"))
    return row.backend, row.device


def add_tolerance_options(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add the tolerances of a comparison."""
    parser.add_argument(
        "--atol", type=values.tolerance, metavar="X", help="absolute tolerance; default: by type"
    )
    parser.add_argument(
        "--rtol", type=values.tolerance, metavar="X", help="relative tolerance; default: by type"
    )


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


def read_model(path: Path) -> ir.Model:
    """Read a model file, or standard input where the name is ``-``.

    Raises:
        ModelError: It cannot be read.
    """
    if path != Path("-"):
        return on_disk.load(path)
    return on_disk.from_message(decode(sys.stdin.buffer.read(), "standard input"), Path.cwd())
