"""``seqmap explain IN``: where every map is, what would be done with it, and why.

Several models stand side by side.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from pathlib import Path
from typing import Any

import onnx.printer
import onnx_ir as ir

from passes.promises import clear_ceilings, mark_ceilings, safer_forms
from passes.raising import RaiseLoopsPass
from passes.runtimes.convert_opset import ConvertOpsetPass
from rewriter import pipeline
from rewriter.commands import many, options, reports, values
from rewriter.commands.console import Console
from rewriter.commands.scan import told_left, told_maps
from rewriter.model_files.kinds import AnyModel
from rewriter.model_files.model_facts import bytes_text
from rewriter.model_files.models import take
from rewriter.model_files.protos import all_graphs, to_proto
from rewriter.options import Options
from rewriter.proof.blaming import Ceilings, Forms
from rewriter.proof.faults import with_safer_forms
from rewriter.targets import TargetError

__all__ = ["USAGE", "add_options", "execute", "raised_text"]

USAGE = "IN [IN ...] "


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "models",
        metavar="IN",
        nargs="+",
        type=values.model_path,
        help="the model, .onnx or .onnxtxt, - for stdin; several, or a pattern, are compared",
    )
    parser.set_defaults(tries=True)
    options.add_rewrite_options(options.rewrite_group(parser))
    reports.add_report_option(parser)
    parser.add_argument(
        "--raised",
        action="store_true",
        help="print the model with its Loops and Scans raised to maps instead",
    )


def execute(args: argparse.Namespace, console: Console) -> int:
    """Print the report, or the raised model.

    Raises:
        TargetError: The target or what ``--require`` asks for would not be reached.
    """
    args.models = _named(args.models)
    options.refuse_overwriting(args.report, reads=args.models)
    if len(args.models) > 1:
        return _compare(args, console)
    with console.progress("reading"):
        model = options.read_model(args.models[0])
    if args.raised:
        text, raised = raised_text(model, **options.rewrite_options(args))
        console.record["raised"] = raised
        console.say(text)
        return 0
    with console.progress("deciding"):
        result = pipeline.explained(model, **options.rewrite_options(args))
    report = reports.measured(result, args.models[0], args, console)
    if not args.tries:
        report = dataclasses.replace(report, trials=None)
    reports.deliver_report(report, args, console)
    if not report.reached:
        raise TargetError(report)
    return 0


def _named(paths: list[Path]) -> list[Path]:
    """Return the models, with those that a pattern stands for in its place."""
    every = (many.find_models([path]) if many.is_pattern(path) else [path] for path in paths)
    return [path for some in every for path in some]


def _compare(args: argparse.Namespace, console: Console) -> int:
    """Print what several models hold, side by side; name those that do not reach the target."""
    if args.raised or args.report:
        console.error("--raised and --report are for one model: name one")
        return 2
    reports_ = []
    for number, path in enumerate(args.models, start=1):
        with console.progress(f"deciding {number} of {len(args.models)}, {path}"):
            model = options.read_model(path)
            report = pipeline.explain(model, **options.rewrite_options(args))
            reports_.append(dataclasses.replace(report, trials=None))
    records = [report.to_dict() for report in reports_]
    names = [str(path) for path in args.models]
    console.record["reports"] = dict(zip(names, records, strict=True))
    console.table([("", *names), *_rows(records)])
    blocked = [(name, one) for name, one in zip(names, reports_, strict=True) if not one.reached]
    for name, report in blocked:
        console.error(f"{name}: {TargetError(report).on_command_line()}")
    return TargetError.exit_status if blocked else 0


def _rows(records: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return what several models hold, as given, and what would become of them."""
    counts = [record["operators"]["before"] for record in records]
    given = [record["given"] for record in records]
    rows = [
        ("nodes", *(str(one["total"]) for one in counts)),
        ("weights", *(bytes_text(one["weight_bytes"]) for one in given)),
        ("opset", *(str(one["opset"]) for one in given)),
        ("IR version", *(str(one["ir_version"]) for one in given)),
    ]
    for side in ("inputs", "outputs"):
        types = [", ".join(f"{name} {kind}" for name, kind in one[side].items()) for one in given]
        rows.append((side, *types))
    rows.append(("maps", *(told_maps(record) for record in records)))
    rows.append(("after rewriting", *(told_left(record) for record in records)))
    operators = sorted({op_type for one in counts for op_type in one["by_type"]})
    for op_type in operators:
        cells = [one["by_type"].get(op_type, 0) for one in counts]
        if len(set(cells)) > 1:
            rows.append((op_type, *map(str, cells)))
    return rows


_LARGEST_PRINTED = 64


def raised_text(model: AnyModel, **asked: Any) -> tuple[str, dict[str, str]]:
    """Return a model as text, with its Loops and Scans that are maps raised to ``seqmap::Map``.

    Args:
        model: A model, as `rewriter.rewrite` takes it; it is not changed.
        asked: The options of `rewriter.rewrite`; those that are promises count.

    Returns:
        The text, without the numbers of large weights; and for each Loop and Scan that was
        raised its path and how it spells a map.
    """
    options = Options(**asked)

    def raised(limits: Ceilings) -> tuple[ir.Model, dict[str, str]]:
        taken = take(model).model
        mark_ceilings(taken, limits)
        options.check_promises(taken)
        if options.opset is not None:
            ConvertOpsetPass(options.opset)(taken)
        raising = RaiseLoopsPass(options.promises)
        raising(taken)
        clear_ceilings(taken)
        return taken, raising.raised

    def forms() -> Forms:
        return {path: safer[-1:] for path, safer in safer_forms(take(model).model).items()}

    # A Loop on which the pass fails stays as it is, and a warning says so.
    new, spellings = with_safer_forms(raised, forms)
    proto = to_proto(new)
    for graph in all_graphs(proto):
        shown = [t for t in graph.initializer if math.prod(t.dims) <= _LARGEST_PRINTED]
        del graph.initializer[:]
        graph.initializer.extend(shown)
    return onnx.printer.to_text(proto), spellings
