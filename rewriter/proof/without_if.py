"""Rewrites without If, for targets that take If but refuse some."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import onnx_ir as ir

from passes.graph.graphs import all_nodes
from rewriter.model_files.models import Taken
from rewriter.options import Options
from rewriter.reporting.report import Report

__all__ = ["OptionsWithoutIf", "branches_of", "find_without_if"]

logger = logging.getLogger(__name__)


class OptionsWithoutIf(Options):
    """Options of a rewrite that leaves no If where it can, though the target takes it."""

    @classmethod
    def of(cls, options: Options) -> OptionsWithoutIf:
        """Return the same options, for such a rewrite."""
        fields = dataclasses.fields(options)
        return cls(**{field.name: getattr(options, field.name) for field in fields})

    @property
    def lacks(self) -> frozenset[str]:
        """See `Options.lacks`."""
        return super().lacks | {"If"}


def find_without_if(
    options: Options,
    given: frozenset[str],
    model: ir.Model,
    report: Report,
    write: Callable[[Options], tuple[Taken, Report]],
) -> tuple[Taken, Report] | None:
    """Return a rewrite that holds no If and no loop more, where the target may refuse an If.

    A rewrite that adds no If of its own stays: how the target takes those that the model was given
    with is known to its owner.

    Args:
        options: What the target is.
        given: The names of the Ifs of the model as given.
        model: What was written for these options.
        report: What was said of it.
        write: Writes it once more, for other ones.
    """
    if branches_of(model) <= given:
        return None
    try:
        taken, other = write(OptionsWithoutIf.of(options))
    except Exception as error:
        logger.debug("without If in vain: %s", error)
        return None
    is_better = "If" not in other.after.by_type and other.after.loops <= report.after.loops
    return (taken, other) if is_better and other.reached else None


def branches_of(model: ir.Model) -> frozenset[str]:
    """Return the names of the Ifs of a model."""
    nodes = (node for node in all_nodes(model) if node.op_type == "If" and not node.domain)
    return frozenset(node.name or "" for node in nodes)
