"""Where ``seqmap optimize`` writes to: refused before any work is done where it cannot."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

import onnx_ir as ir

from passes.errors import RewriteError
from rewriter.model_files import files, protos, weights
from rewriter.model_files.model_facts import external_tensors

__all__ = ["STDOUT", "check_place", "check_weights", "told", "wrong_usage"]

STDOUT = Path("-")


def wrong_usage(args: argparse.Namespace) -> str:
    """Return what is wrong with the options together; empty where nothing is."""
    kept = ("inputs", "atol", "rtol", "verify_budget", "no_repair")
    unused = [name.replace("_", "-") for name in kept if getattr(args, name) not in (None, False)]
    if args.no_verify and unused:
        return f"--{unused[0]} is for the verification, which --no-verify leaves out: drop one"
    if args.tensor_io == "triton":
        return _wrong_folder(args)
    if args.output == STDOUT:
        is_shown = sys.stdout.isatty() and not args.dry_run
        return "OUT is -, which is the terminal here: send it to a file or a pipe" * is_shown
    known = {".onnx", ".onnxtxt", ".pb", args.input.suffix}
    is_device = args.output.exists() and not args.output.is_file()
    if args.output.suffix not in known and not is_device:
        return f"OUT is {str(args.output)!r}: name a file that ends in .onnx or .onnxtxt"
    return ""


def _wrong_folder(args: argparse.Namespace) -> str:
    if args.output == STDOUT or args.output.suffix:
        return f"OUT is {str(args.output)!r}: name the folder of the model in Triton's repository"
    return ""


def told(output: Path, source: Path) -> str:
    """Return the name of a place to a reader, and whether the model as given is there now."""
    if output == STDOUT:
        return "standard output"
    is_source = source.exists() and output.exists() and output.samefile(source)
    return f"{output}, in place of the model as given" if is_source else str(output)


def check_weights(model: ir.Model, args: argparse.Namespace) -> None:
    """Refuse a place where the model would not find its weights before any work is done."""
    if not any(True for _ in external_tensors(model)):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # writing warns again
        weights.place(
            protos.to_proto(model),
            weights.folders(model),
            (
                args.output / "1" / "model.onnx" if args.tensor_io == "triton" else args.output
            ).absolute(),
            args.copy_weights,
        )


def check_place(output: Path, *, is_folder: bool = False) -> None:
    """Refuse a place that cannot be written before any work is done.

    Args:
        output: The file or folder to write.
        is_folder: Whether an existing folder will do.

    Raises:
        RewriteError: It cannot be written there.
    """
    folder = output.parent
    if output == STDOUT or (is_folder and output.is_dir()):
        return
    if output.is_dir():
        raise RewriteError(f"cannot write {output}: it is a folder; name a file in it")
    if output.exists() and not output.is_file():
        raise RewriteError(f"cannot write {output}: it is not a regular file; name another")
    files.refuse_link(output)
    files.require_folder(output)
    if not os.access(folder, os.W_OK):
        raise RewriteError(
            f"cannot write {output}: no permission in {folder}; choose another place"
        )
    files.require_place(output)
