"""Runs the passes that a rewrite asks for, and collects what they say."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.ceilings import clear_ceilings
from passes.decisions import Decision, Verdict
from passes.errors import RewriteError
from passes.graphs import all_nodes, forget_paths, node_paths, record_paths
from passes.names import make_names_unique
from passes.tensors.io import Refusal
from passes.unread import drop_initializers, unread_initializers
from rewriter.checking import require_valid
from rewriter.left_loops import with_built_sequences, with_left_loops
from rewriter.operator_counts import count_operators
from rewriter.options import Options
from rewriter.order import passes_for
from rewriter.placement.placing import off_device, place
from rewriter.placement.predict import PredictedPlacement
from rewriter.report import Unreached
from rewriter.targets import check_target, version_warnings
from rewriter.uniform_inputs import sequence_sources, with_named_inputs

__all__ = ["OnPass", "PassWork", "run_passes"]

logger = logging.getLogger(__name__)

OnPass = Callable[[str, ir.Model], None]


@dataclasses.dataclass
class PassWork:
    """What the passes said of a model that they rewrote."""

    decisions: list[Decision] = dataclasses.field(default_factory=list)
    blocked: list[Unreached] = dataclasses.field(default_factory=list)
    assumptions: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    placement: PredictedPlacement | None = None


def run_passes(
    model: ir.Model,
    options: Options,
    given: Callable[[], ir.Model],
    on_pass: OnPass | None = None,
    level: int = logging.INFO,
) -> PassWork:
    """Run the passes that the options ask for.

    Args:
        model: The model; it is changed.
        options: What is asked.
        given: Returns a copy of the model as given.
        on_pass: Called with the name of each pass and the model after it.
        level: How loudly passes and times are logged.
    """
    forget_paths(all_nodes(model))
    record_paths(node_paths(model))
    spent, sources = options.spent(model), sequence_sources(model)
    unread = unread_initializers(model)
    work, declined, refused = PassWork(), dict[str, Decision](), list[Refusal]()
    counted = count_operators(model)
    for one in passes_for(options, model):
        start = time.perf_counter()
        result = _apply(one, model, given)
        declined |= getattr(one, "declined", {})
        refused.extend(getattr(one, "refused", ()))
        work.assumptions.extend(io.assumptions if (io := getattr(one, "io", None)) else ())
        work.decisions.extend(
            d if d.verdict is Verdict.UNROLLED else declined.get(d.path, d)
            for d in getattr(one, "decisions", ())
        )
        work.warnings.extend(getattr(one, "warnings", ()))
        name, seconds = type(one).__name__, time.perf_counter() - start
        if logger.isEnabledFor(level):
            counts, counted = counted, count_operators(model)
            changed = counts.changes_to(counted) if result.modified else "nothing changed"
            logger.log(level, "%s: %.4f s, %s", name, seconds, changed)
        if on_pass is not None:
            on_pass(name, model)
    clear_ceilings(model)
    make_names_unique(model)
    drop_initializers(model, unread)
    decisions = with_built_sequences(_final(work.decisions, model), model)
    decisions = with_left_loops(decisions, model, options.strategy)
    work.decisions = with_named_inputs(decisions, sources, options.promises.uniform)
    options.promises.write(model)
    target, required = options.target, tuple(options.require)
    work.warnings += version_warnings(model, target)
    work.blocked = check_target(model, target, required, refused, work.decisions, spent)
    if "on-device" in required and (found := place(model, options.row)):
        work.placement = found
        work.blocked += off_device(found)
    forget_paths(all_nodes(model))
    return work


def _apply(
    one: ir.passes.InPlacePass, model: ir.Model, given: Callable[[], ir.Model]
) -> ir.passes.PassResult:
    """Run a pass; what it stumbles over in a model that is not valid is the model's fault."""
    try:
        return one(model)
    except RewriteError:
        raise
    except Exception:
        require_valid(given())
        raise


def _final(decisions: Sequence[Decision], model: ir.Model) -> list[Decision]:
    """Leave out what was said of Loops that a later decision took away."""
    left = set(node_paths(model).values())
    final: list[Decision] = []
    for i, decision in enumerate(decisions):
        later = {other.path for other in decisions[i + 1 :]}
        if decision.verdict is Verdict.KEPT and (
            decision.path in later or decision.path not in left
        ):
            continue
        final.append(decision)
    return final
