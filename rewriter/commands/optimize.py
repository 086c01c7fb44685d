"""``seqmap optimize IN OUT``: rewrite a model, verify the rewrite, then write it.

Several models, a folder or a pattern as IN go to a folder OUT.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from passes.graph.names import make_names_unique
from rewriter import pipeline
from rewriter.commands import options, output_place, reports, scan, several, values, verifying
from rewriter.commands.console import Console
from rewriter.commands.output import output_group
from rewriter.commands.standard_output import write_model
from rewriter.feeding.feed_files import read_feeds
from rewriter.feeding.packed import declare_packed
from rewriter.model_files import files, models, on_disk, protos, weights
from rewriter.proof.blaming import Ceilings
from rewriter.proof.budget import Budget
from rewriter.proof.check_record import Check
from rewriter.proof.proving import refuse_invalid, repaired, with_proof
from rewriter.proof.trial import load_as_given, load_at_target
from rewriter.reporting.report import Result
from rewriter.reporting.report_parts import Loading
from rewriter.serving import triton
from rewriter.targets import TargetError

__all__ = ["USAGE", "add_options", "execute"]

_USAGE_ERROR = 2

_AS_GIVEN = "onnxruntime"
"""The target for which an unchanged model is not tried: it is what runs the model as given."""

_UNCHANGED = "the model is unchanged, so that nothing has to be verified"

USAGE = "IN OUT "


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    # Under one heading, for the help fits a screen.
    group = options.rewrite_group(parser)
    group.add_argument(
        "models",
        metavar="IN",
        nargs="+",
        type=values.model_path,
        help="the model, .onnx or .onnxtxt, - for stdin; a folder",
    )
    options.add_model(group, "output", "OUT", "where it goes; may be IN; - for stdout")
    options.add_rewrite_options(group)
    options.add_packed_option(group)
    group = parser.add_argument_group("verification")
    amount = group.add_mutually_exclusive_group()
    amount.add_argument(
        "--verify",
        type=values.count,
        default=8,
        metavar="N",
        help="compare on N drawn inputs; default: 8",
    )
    amount.add_argument(
        "--no-verify", action="store_true", help="write the model without comparing"
    )
    group.add_argument(
        "--no-repair", action="store_true", help="fail where a map would have to be written anew"
    )
    options.add_feed_options(group)
    options.add_tolerance_options(group)
    options.add_budget_option(group)
    group = output_group(parser)
    scan.add_jobs_option(group)
    group.add_argument("--copy-weights", action="store_true", help="copy external data to OUT")
    group.add_argument("--dry-run", action="store_true", help="do all of it, but do not write OUT")
    reports.add_report_option(group)


def execute(args: argparse.Namespace, console: Console) -> int:
    """Rewrite, verify and write.

    Returns:
        0, or 2 on options that go against each other, or 3 when the rewrite is not verified.

    Raises:
        TargetError: The target is not reached, or its runtime refuses the model.
    """
    if several.are_meant(args):
        return several.execute(args, console)
    (args.input,) = args.models
    wrong = output_place.wrong_usage(args)
    if wrong:
        console.error(wrong)
        return _USAGE_ERROR
    options.refuse_overwriting(args.report, reads=[args.input, args.output, args.inputs])
    if args.report is not None:
        files.require_folder(args.report)
    if not args.dry_run:
        options.refuse_overwriting(args.output, reads=[args.inputs])
        output_place.check_place(args.output, is_folder=args.tensor_io == "triton")
    with console.progress("reading"):
        model = options.read_model(args.input)
    if args.packed:
        declare_packed(model, dict(args.packed))
    if not args.dry_run:
        output_place.check_weights(model, args)
    if not args.no_verify:
        weights.require(model)
    try:
        with console.progress("rewriting"):
            result = pipeline.rewrite(model, **options.rewrite_options(args))
    except TargetError as error:
        reports.deliver_report(error.report, args, console)
        raise
    report = reports.measured(result, args.input, args, console)
    if args.no_verify:
        reports.deliver_report(report, args, console)
    elif args.target == _AS_GIVEN and _is_unchanged(model, result):
        refuse_invalid(model)
        if args.inputs is not None:
            read_feeds(args.inputs, model)  # nothing else would tell that the file is unusable
        report = report.with_loading(_loaded(result.model, Check(()), args, console))
        reports.deliver_report(report, args, console)
        console.say(_UNCHANGED)
    else:
        result, check = _proven(model, result, args, console)
        report = reports.measured(result, args.input, args, console)
        if check.ok:
            loading = _loaded(result.model, check, args, console)
            as_given = None if report.nothing_to_do else load_as_given(model, args.target)
            report = dataclasses.replace(report, given_loading=as_given).with_loading(loading)
        reports.deliver_report(report, args, console)
        if not check.ok and check.mismatch is None and _is_unchanged(model, result):
            refuse_invalid(model)
            console.say(_UNCHANGED)
        elif status := verifying.conclude(check, model, result.model, console, beside=args.output):
            return status
    if not args.no_verify and not report.reached:
        raise TargetError(report)
    if args.dry_run:
        console.say(f"dry run: {args.output} is not written")
        return 0
    place = output_place.told(args.output, args.input)
    with console.progress("writing"):
        _save(result.model, args, model)
    console.record["output"] = str(args.output)
    console.say(f"written to {place}")
    return 0


def _is_unchanged(model: ir.Model, result: Result[Any]) -> bool:
    """Whether a rewrite left the model as it was read, so that nothing has to be verified."""
    if not result.report.nothing_to_do:
        return False
    return bool(protos.to_proto(model) == protos.to_proto(result.model))


def _loaded(model: Any, check: Check, args: argparse.Namespace, console: Console) -> Loading:
    """Hand a model to the runtime of its target, once."""
    with console.progress("loading"):
        whole = "on-device" in args.require
        return load_at_target(model, args.target, check, whole=whole)


def _save(model: ir.Model, args: argparse.Namespace, given: ir.Model) -> None:
    if args.tensor_io == "triton":
        triton.write_repository(model, args.output, given)
        return
    if args.output != output_place.STDOUT:
        on_disk.save(model, args.output, copy_weights=args.copy_weights)
        return
    write_model(files.encode(protos.to_proto(model), args.output))


def _proven(
    model: ir.Model, result: Result[Any], args: argparse.Namespace, console: Console
) -> tuple[Result[Any], Check]:
    """Verify a rewrite, and repair it where a map is to blame for a difference."""

    def write(ceilings: Ceilings) -> Result[Any]:
        return pipeline.rewrite(model, **options.rewrite_options(args), ceilings=ceilings)

    def compare(one: Result[Any], rest: Budget) -> Check:
        return verifying.compare(model, one.model, args, console, cases=args.verify, budget=rest)

    passes = _after_each_pass(model, args)
    check = verifying.compare(model, result.model, args, console, cases=args.verify, passes=passes)
    if check.mismatch is None or args.no_repair:
        return with_proof(result, check), check
    with console.progress("repairing"):
        found = repaired(model, check, write, compare, rtol=args.rtol, atol=args.atol)
    if found is None:
        return with_proof(result, check), check
    folder = verifying.keep_evidence(
        check.mismatch, check, model, result.model, console, beside=args.output
    )
    proven = with_proof(found.result, found.check, found.repairs, str(folder))
    console.record["verification"] = proven.report.verification
    for one in found.repairs if not args.quiet else ():
        console.warn(f"{one.sentence}; see {folder}")
    return proven, found.check


def _after_each_pass(model: ir.Model, args: argparse.Namespace) -> Iterator[tuple[str, ir.Model]]:
    """Rewrite once more, keeping the model after each pass."""
    found: list[tuple[str, ir.Model]] = []

    def keep(name: str, changed: ir.Model) -> None:
        copy = models.take(changed).model
        make_names_unique(copy)  # the pipeline does so at its end; runtimes insist on it
        found.append((name, copy))

    pipeline.rewrite(model, **options.rewrite_options(args), on_pass=keep)
    yield from found
