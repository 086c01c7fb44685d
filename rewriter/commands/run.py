"""``seqmap run IN``: run a model and say what comes out."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from passes.errors import RewriteError
from rewriter import backends
from rewriter.backends import BackendError, Session
from rewriter.commands import options, values
from rewriter.commands.console import Console
from rewriter.evaluator.run_watch import trying
from rewriter.feeding.feed_files import plain_array
from rewriter.feeding.feeds import FeedMaker, check_feeds, read_feeds
from rewriter.model_files import files, weights
from rewriter.model_files.kinds import AnyModel
from rewriter.proof.compare import element_type
from rewriter.reporting.printable import printable
from rewriter.target_table import TARGETS

__all__ = ["USAGE", "add_options", "execute"]


USAGE = "IN "
_USAGE_ERROR = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "input",
        metavar="IN",
        type=values.model_path,
        nargs="?",
        help="the model, .onnx or .onnxtxt",
    )
    group = parser.add_argument_group("run")
    options.add_backend_options(group)
    options.add_feed_options(group)
    options.add_rules_option(group)
    group.add_argument(
        "--list-backends", action="store_true", help="say where models can run here, and stop"
    )
    group.add_argument(
        "--save", type=Path, metavar="FILE.npz", help="write the outputs as out__0, out__1, ..."
    )


def execute(args: argparse.Namespace, console: Console) -> int:
    """Run once; print the type and shape of every output."""
    if args.list_backends:
        return _list_backends(console)
    if args.input is None:
        console.error("no model is given; say seqmap run IN, or seqmap run --list-backends")
        return _USAGE_ERROR
    options.refuse_overwriting(args.save, reads=[args.input, args.inputs])
    if args.save is not None:
        files.require_folder(args.save)
    with console.progress("reading"):
        model = options.read_model(args.input)
        weights.require(model)
    with console.progress("running"):
        backend, device = options.place(args)
        session = backends.open_session(model, backend, device)
        feed, outputs = _accepted_feed(model, args, [session])
        placed = backends.placement(session, feed) if device != "cpu" else None
    console.record["outputs"] = {name: _describe(value) for name, value in outputs.items()}
    for name, value in outputs.items():
        console.say(f"{printable(name)}: {_line(value)}")
    if placed is not None:
        _say_placement(placed, console)
    if args.save is not None:
        files.write(_npz(outputs), args.save)
        console.say(f"written to {args.save}")
    return 0


def _list_backends(console: Console) -> int:
    record = console.record["backends"] = {}
    unrun = {row.name: row.unrun for row in TARGETS.values() if row.unrun}
    width = max(map(len, (*backends.BACKENDS, *unrun)))
    for backend in backends.BACKENDS.values():
        reason = backend.missing()
        record[backend.name] = {
            "available": not reason,
            "reason": reason,
            "devices": list(backend.devices),
        }
        lacking = {} if reason else backend.lacking_devices
        if lacking:
            record[backend.name]["lacking"] = lacking
        here = ", ".join(device for device in backend.devices if device not in lacking)
        console.say(f"{backend.name:<{width}} {reason or f'on {here}'}")
        for device, why in lacking.items():
            console.say(f"{'':<{width}} not on {device}: {why}")
    for name, why in unrun.items():
        record[name] = {"available": False, "reason": f"a target only: {why}", "devices": []}
        console.say(f"{name:<{width}} a target only: {why}")
    return 0


def _say_placement(placed: backends.Placement, console: Console) -> None:
    console.record |= placed.to_dict()
    for name, nodes in placed.nodes.items():
        operators = ", ".join(f"{count} {op_type}" for op_type, count in sorted(nodes.items()))
        console.say(f"on {name}: {operators}")
    console.say(f"copies: {placed.to_device} to the device, {placed.to_host} to the host")


def _npz(outputs: dict[str, Any]) -> bytes:
    arrays: dict[str, Any] = {}
    for number, value in enumerate(outputs.values()):
        if isinstance(value, list):
            arrays[f"out__{number}__len"] = np.array(len(value), np.int64)
            arrays |= {f"out__{number}__{i}": plain_array(item) for i, item in enumerate(value)}
        elif value is not None:
            arrays[f"out__{number}"] = plain_array(value)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _describe(value: Any) -> dict[str, Any]:
    if value is None:
        return {"kind": "absent"}
    if isinstance(value, list):
        return {"kind": "sequence", "elements": [_describe(item) for item in value]}
    array = np.asarray(value)
    return {"kind": "tensor", "type": element_type(array), "shape": list(array.shape)}


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
    return f"{element_type(array)}[{','.join(map(str, array.shape))}]"


def _accepted_feed(
    model: AnyModel, args: argparse.Namespace, sessions: Sequence[Session]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the feed that ``--inputs`` names, or draw one that every session runs.

    Types do not say everything about the inputs of a model, so a drawn feed that fails is drawn
    again in another way.

    Args:
        model: The model, whose types and promises the feed keeps.
        args: The options of ``add_feed_options``.
        sessions: Where the feed has to run.

    Returns:
        The feed, and the outputs of the last session.

    Raises:
        RewriteError: The given feed does not fit or fails, or no feed was found.
    """
    if args.inputs is not None:
        given = read_feeds(args.inputs, model)
        check_feeds(model, given)
        return given, _outputs(sessions, given)
    maker = FeedMaker(model, args.seed)
    (kind,) = maker.kinds(1)
    attempts = maker.attempts(kind, None)
    for attempt in attempts:
        feed = maker.draw(kind, attempt).values
        try:
            with trying():
                return feed, _outputs(sessions, feed)
        except BackendError as error:
            last = error
    raise RewriteError(
        f"the model ran on none of {len(attempts)} drawn inputs (the last: {last}); give inputs "
        "that it accepts with --inputs"
    )


def _outputs(sessions: Sequence[Session], feed: dict[str, Any]) -> dict[str, Any]:
    outputs: dict[str, Any] = {}
    for session in sessions:
        outputs = session.run(feed)
    return outputs
