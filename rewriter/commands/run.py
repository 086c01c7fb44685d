"""``seqmap run IN``: run a model and say what comes out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from rewriter import backends, models
from rewriter.commands import options
from rewriter.commands.console import Console
from rewriter.commands.trying import accepted_feed
from rewriter.feed_files import write_outputs

__all__ = ["SUMMARY", "USAGE", "add_options", "execute"]

USAGE = "IN "
SUMMARY = "run a model on given inputs, or on inputs drawn from its types"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_model(parser, "input", "IN", "the model, .onnx or .onnxtxt")
    group = parser.add_argument_group("run")
    options.add_backend_options(group)
    options.add_feed_options(group)
    group.add_argument(
        "--save", type=Path, metavar="FILE.npz", help="write the outputs as out__0, out__1, ..."
    )


def execute(args: argparse.Namespace, console: Console) -> int:
    """Run once; print the type and shape of every output."""
    with console.progress("reading"):
        model = models.load(args.input)
    with console.progress("running"):
        session = backends.open_session(model, args.backend, args.device)
        _, outputs = accepted_feed(model, args, [session])
    console.record["outputs"] = {name: _describe(value) for name, value in outputs.items()}
    for name, value in outputs.items():
        console.say(f"{name}: {_line(value)}")
    if args.save is not None:
        write_outputs(args.save, outputs)
        console.say(f"written to {args.save}")
    return 0


def _describe(value: Any) -> dict[str, Any]:
    if value is None:
        return {"kind": "absent"}
    if isinstance(value, list):
        return {"kind": "sequence", "elements": [_describe(item) for item in value]}
    array = np.asarray(value)
    return {"kind": "tensor", "type": array.dtype.name, "shape": list(array.shape)}


_SHOWN = 5
"""Elements of a sequence whose shapes are printed."""


def _line(value: Any) -> str:
    if value is None:
        return "absent"
    if isinstance(value, list):
        shown = ", ".join(_line(item) for item in value[:_SHOWN])
        more = ", ..." if len(value) > _SHOWN else ""
        return f"sequence of {len(value)}: {shown}{more}" if value else "sequence of 0"
    array = np.asarray(value)
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
