"""The check of a rewritten model against its target and what is required beyond it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import onnx_ir as ir

from passes.decisions import Decision
from passes.errors import RewriteError
from passes.graph.builder import BATCHED_KEY
from passes.graph.graphs import default_opset, is_default_domain, node_paths, walk_nodes
from passes.sequence_operators import SEQUENCE_OPERATORS
from passes.tensors.io import Refusal
from rewriter.reporting.obstacles import LOOPS, Obstacles
from rewriter.reporting.python_words import in_python
from rewriter.reporting.remedies import still_open, told
from rewriter.reporting.report import Report
from rewriter.target_table import REQUIREMENTS, TARGETS, Target, Unreached, find_target

__all__ = [
    "CONVERT",
    "TargetError",
    "check_target",
    "version_warnings",
]


class TargetError(RewriteError):
    """The rewritten model is not what the target, or ``require``, asks for.

    Attributes:
        report: The report of the rewrite; ``report.unreached`` lists what is left.
    """

    exit_status = 4

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report

    def __str__(self) -> str:
        """Name the first of what is left; its remedies are tried when the text is read."""
        return in_python(self.on_command_line())

    def on_command_line(self) -> str:
        """Return the message with options in place of Python's keyword arguments."""
        first, more = self.report.unreached[0], len(self.report.unreached) - 1
        where = f"{first.node} ({first.op_type}): " if first.node else ""
        others = f" (and {more} more, see the report)" if more else ""
        wanted = " and ".join([f"target {self.report.target}", *self.report.require])
        remedy = told(first.remedy, tried=self.report.remedies.tried)
        what = f"{wanted} not reached: {where}{first.reason}{others}"
        return "; ".join(filter(None, [what, remedy]))

    def __reduce__(self) -> tuple[type[TargetError], tuple[Report]]:
        """Make a copy, in another process too, from the report; errors know their text only."""
        return type(self), (self.report,)


def check_target(
    model: ir.Model,
    target: str,
    require: Iterable[str] = (),
    refused: Iterable[Refusal] = (),
    decisions: Sequence[Decision] = (),
    spent: Sequence[str] = (),
) -> list[Unreached]:
    """List what keeps a model from a target and from what is required beyond it.

    An opset or IR version above the target's is listed only beside something else; alone it is
    a warning, see ``version_warnings``.

    Args:
        model: The rewritten model, its values typed.
        target: Name of the target.
        require: Any of ``REQUIREMENTS``.
        refused: Inputs and outputs that were to become tensors and did not.
        decisions: What was done with the maps, for the reasons of what is left of them.
        spent: Options that can do nothing more; no remedy names them.

    Returns:
        One entry for each node, input and output in the way; empty when all is reached.

    Raises:
        RewriteError: There is no such target or requirement.
    """
    row = find_target(target)
    required = list(require)
    for name in required:
        if name not in REQUIREMENTS:
            raise RewriteError(
                f"unknown requirement {name!r}; choose among {', '.join(REQUIREMENTS)}"
            )
    stuck = list(refused)
    obstacles = Obstacles(model, row, decisions)
    left = [
        *(_stuck(one, obstacles) for one in stuck),
        *_interface(model, row, required, {(one.side, one.name) for one in stuck}),
        *_nodes(model, row, required, obstacles),
        *_ignored(model, row),
    ]
    if left:
        left += [Unreached("", "", problem, CONVERT) for problem in _versions(model, row)]
    return [dataclasses.replace(one, remedy=still_open(one.remedy, spent)) for one in left]


def version_warnings(model: ir.Model, target: str) -> list[str]:
    """Say where the model declares a newer opset or IR version than the target accepts.

    Raises:
        RewriteError: There is no such target.
    """
    return [f"{problem}; {CONVERT}" for problem in _versions(model, find_target(target))]


def _ignored(model: ir.Model, row: Target) -> Iterator[Unreached]:
    """List the attributes of nodes that a target takes no notice of."""
    for node, path in node_paths(model).items() if row.ignores else ():
        for op_type, name in row.ignores:
            if (
                node.op_type == op_type
                and is_default_domain(node)
                and node.attributes.get_int(name)
            ):
                reason = f"{row.name} takes no notice of '{name}' and computes without it"
                others = [
                    t.name
                    for t in TARGETS.values()
                    if not t.ignores and t.backend and not t.release_of
                ]
                remedy = (
                    f"leave '{name}' out where the model is made; or choose another target: "
                    f"{', '.join(others)}"
                )
                yield Unreached(path, op_type, reason, remedy)


CONVERT = "convert the model to an older version before it is deployed"
_INTERFACE = "use --tensor-io to pass it as a tensor, or make it a tensor where the model is made"


def _versions(model: ir.Model, row: Target) -> Iterator[str]:
    opset = default_opset(model)
    if row.highest_opset is not None and opset > row.highest_opset:
        yield (
            f"the model declares opset {opset}, {row.name} is known to accept up to "
            f"{row.highest_opset}"
        )
    if row.highest_ir is not None and model.ir_version > row.highest_ir:
        yield (
            f"the model declares IR version {model.ir_version}, {row.name} is known to accept "
            f"up to {row.highest_ir}"
        )


def _refuser(row: Target, required: list[str], *, sequences: bool, op_type: str) -> str:
    """Name who refuses a sequence value or an operator; ``""`` when nobody does."""
    if (sequences and not row.sequences) or not row.accepts(op_type):
        return f"target {row.name}"
    if sequences and "sequence-free" in required:
        return "sequence-free"
    if op_type in LOOPS and "loop-free" in required:
        return "loop-free"
    return ""


def _stuck(refusal: Refusal, obstacles: Obstacles) -> Unreached:
    reason = f"{refusal.side} {refusal.name!r} cannot be a tensor: it {refusal.reason}"
    why = obstacles.of_output(refusal.name) if refusal.side == "output" else ""
    return Unreached("", "", f"{reason}; {why}" if why else reason, refusal.remedy)


def _interface(
    model: ir.Model, row: Target, required: list[str], listed: set[tuple[str, str | None]]
) -> Iterator[Unreached]:
    refuser = _refuser(row, required, sequences=True, op_type="")
    if not row.sequence_io:
        refuser = f"target {row.name}"
    sides = (("input", model.graph.inputs), ("output", model.graph.outputs))
    for side, values in sides:
        for value in values:
            if refuser and _holds_sequence(value.type) and (side, value.name) not in listed:
                yield Unreached(
                    "",
                    "",
                    f"{side} {value.name!r} is a sequence, which {refuser} rules out",
                    _INTERFACE,
                )


def _nodes(
    model: ir.Model, row: Target, required: list[str], obstacles: Obstacles
) -> list[Unreached]:
    """List the nodes that are ruled out; those with a known cause come first."""
    ruled_out = list(_ruled_out(model, row, required))
    if not ruled_out:
        return []
    paths = node_paths(model)
    explained: list[Unreached] = []
    others: list[Unreached] = []
    for node, op_type, reason in ruled_out:
        path = paths[node]
        why, remedy = obstacles.explain(node, path, op_type)
        told_why = f"{reason}; {why}" if why else reason
        entry = Unreached(path, node.op_type, told_why, remedy, cause=why)
        (explained if why else others).append(entry)
    return [*explained, *others]


def _ruled_out(
    model: ir.Model, row: Target, required: list[str]
) -> Iterator[tuple[ir.Node, str, str]]:
    """Yield each node that is ruled out: its operator (ONNX's own only), and who does it."""
    for node in walk_nodes(chain(model.graph, *model.functions.values())):
        op_type = node.op_type if is_default_domain(node) else ""
        made = [value.name for value in node.outputs if _holds_sequence(value.type)]
        sequences = bool(made) or op_type in SEQUENCE_OPERATORS
        asked = [r for r in required if r != "loop-free" or BATCHED_KEY not in node.metadata_props]
        refuser = _refuser(row, asked, sequences=sequences, op_type=op_type)
        if not refuser:
            continue
        if made and op_type not in SEQUENCE_OPERATORS and refuser != "loop-free":
            reason = f"its output {made[0]!r} is a sequence, which {refuser} rules out"
        else:
            reason = f"{refuser} rules out {op_type}"
        yield node, op_type, reason


def _holds_sequence(value_type: ir.TypeProtocol | None) -> bool:
    if isinstance(value_type, ir.OptionalType):
        return _holds_sequence(value_type.elem_type)
    return isinstance(value_type, ir.SequenceType)
