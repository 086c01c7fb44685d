"""Whether a body without a guard is right whatever the samples are, and better than a loop."""

from __future__ import annotations

from passes.anywhere import runs_anywhere
from passes.decisions import Code, Reason
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.harmless import make_harmless
from passes.fusing.live_nodes import read_of
from passes.maps.sequence_source import (
    CONTRADICTED,
    DISPUTED,
    is_contradicted,
    is_disputed,
)
from passes.site import MapSite
from passes.typing import Typings

__all__ = ["has_no_samples", "may_fail_empty", "reads_sequence", "stays_loop", "why_untrusted"]


def why_untrusted(site: MapSite, typings: Typings) -> Reason | None:
    """Return why no form but a loop is right whatever the elements are, None if one may be."""
    for inner, sequence in site.sequences:
        if is_disputed(sequence, typings.declared):
            return Reason(Code.UNKNOWN_RANK, detail=DISPUTED)
        if is_contradicted(inner, sequence, typings.declared):
            return Reason(Code.UNKNOWN_SHAPE, detail=CONTRADICTED)
    return None


def stays_loop(plain: FusedBody, facts: FusionFacts) -> bool:
    """Whether a body without a guard is better left to a loop, or to be unrolled."""
    return any(plain.walk.loops) and (not plain.walk.fused or "Loop" in facts.options.lacks)


def has_no_samples(site: MapSite, facts: FusionFacts) -> bool:
    """Whether a source is known to be empty, so that a branch for samples would never run."""
    return any(source.number(facts.typings.proven) == 0 for _, source in site.elements)


def reads_sequence(fused: FusedBody) -> bool:
    """Whether samples are joined to one tensor before they are batched."""
    return any(node.op_type == "ConcatFromSequence" for node in fused.prelude.nodes)


def may_fail_empty(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether a node that could fail now runs even if there are no samples."""
    typing = facts.typings.proven
    failing = [node for node in fused.walk.hoisted if not runs_anywhere(node, typing, facts.opset)]
    failing = read_of(fused, failing) if failing else failing
    is_open = fused.reads_open_results(facts.typings)
    if (not failing and not is_open) or _has_a_sample(fused, facts):
        return False
    may_mend = "If" in facts.options.lacks and not is_open
    return not (may_mend and make_harmless(fused, failing, typing))


def _has_a_sample(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether the source that gives the number of samples has an element by proof."""
    return bool(fused.site.elements[0][1].number(facts.typings.proven))
