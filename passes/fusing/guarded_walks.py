"""Walks over the body of a map as if a guard had checked the elements of its sequences."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

import onnx_ir as ir

from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts, Relied
from passes.fusing.walk_site import walk_site
from passes.graph.graphs import is_operator
from passes.graph.made import before_identities, operand, optional_operand
from passes.maps.sequence_source import is_disputed
from passes.site import GuardCheck, MapSite

__all__ = ["Behind", "declared_elements", "walk_behind_guards"]

_RANKS = (2, 1, 3)
"""Ranks that elements of unknown rank may be supposed to have, the most likely first."""

Dims = tuple[int | str | None, ...]
"""A shape; None for each dimension that is not known."""


@dataclasses.dataclass(frozen=True)
class Behind:
    """A body as it is batched behind each guard that could help.

    Attributes:
        found: The fused bodies.
        relied: What their guards check of the elements of sequences.
    """

    found: Mapping[GuardCheck, FusedBody] = dataclasses.field(default_factory=dict)
    relied: Relied = dataclasses.field(default_factory=dict)

    @property
    def fused(self) -> int:
        """How many nodes are batched where all shapes are equal."""
        return self.found[GuardCheck.SHAPES].walk.fused


def walk_behind_guards(site: MapSite, facts: FusionFacts) -> Behind:
    """Walk over a body behind every guard that could help.

    All of them ask for equal lengths, which sources of two known lengths never have. A rank that
    is not declared is supposed, where that fuses more; and what a Loop declares of elements is
    the first example of an exporter, so that its numbers count only where they fuse more.
    """
    if len({source.number(facts.typings.proven) for _, source in site.elements} - {None}) > 1:
        return Behind()
    best: Behind | None = None
    for relied in _suppositions(site, facts):
        one = Behind(_walk_behind(site, facts, relied), relied)
        is_better = best is None or one.fused > best.fused
        best = one if is_better else best
        assert best is not None
        if not any(best.found[GuardCheck.SHAPES].walk.loops):
            break
    return best or Behind()


def declared_elements(
    site: MapSite, facts: FusionFacts, sequences: Collection[ir.Value]
) -> dict[ir.Value, Dims | None]:
    """Return what is declared of the elements of each of some sequences.

    Several inputs of the body may read one sequence, and declare different parts of its type.
    """
    found: dict[ir.Value, list[Dims]] = {}
    for inner, sequence in site.sequences:
        if sequence in sequences:
            dims = facts.typings.declared.dims(inner)
            found.setdefault(sequence, []).extend([] if dims is None else [dims])
    return {sequence: _joined(declared) for sequence, declared in found.items()}


def _joined(declared: Sequence[Dims]) -> Dims | None:
    """Return what declarations of one shape say together."""
    ranked = [dims for dims in declared if len(dims) == len(declared[0])]
    return tuple(map(_both, *ranked)) if ranked else None


def _both(*dims: int | str | None) -> int | str | None:
    """Return what declarations of one dimension say; where they differ -1, which none has."""
    numbers = {d for d in dims if isinstance(d, int)}
    if numbers:
        return numbers.pop() if len(numbers) == 1 else -1
    return dims[0]


def _suppositions(site: MapSite, facts: FusionFacts) -> Iterator[Relied]:
    """Yield what a guard could check of the elements of the sequences, the least first."""
    declared = declared_elements(site, facts, facts.unproven_sequences(site))
    known = {s: dims for s, dims in declared.items() if dims is not None}
    if site.originals and any(isinstance(d, int) for dims in known.values() for d in dims):
        yield {s: (None,) * len(dims) for s, dims in known.items()}
    yield known
    if len(known) < len(declared):
        made = {s: _made_rank(s, facts) for s, dims in declared.items() if dims is None}
        for rank in _RANKS:
            ranks = {s: rank if own is None else own for s, own in made.items()}
            one = known | {s: (None,) * own for s, own in ranks.items()}
            if facts.is_possible(site, one):
                yield one
            if None not in made.values():
                break


def _made_rank(sequence: ir.Value, facts: FusionFacts) -> int | None:
    """Return the rank of what a tensor is cut into, None where that is not known."""
    typing = facts.typings.proven
    cut = before_identities(sequence).producer()
    if not is_operator(cut, "SplitToSequence") or is_disputed(sequence, typing):
        return None
    rank = typing.rank(operand(cut, 0))
    takes_away = optional_operand(cut, 1) is None and not cut.attributes.get_int("keepdims", 1)
    return rank if rank is None or not takes_away else rank - 1


def _walk_behind(site: MapSite, facts: FusionFacts, relied: Relied) -> dict[GuardCheck, FusedBody]:
    checks = [GuardCheck.SHAPES, GuardCheck.ROWS]
    if len({sequence for _, sequence in site.sequences}) > 1:
        checks.append(GuardCheck.LENGTHS)
    declared = declared_elements(site, facts, facts.unproven_sequences(site))
    known = {s: dims for s, dims in declared.items() if dims is not None}
    other = None if relied == known else relied
    return {check: walk_site(site, facts, check, relied=other) for check in checks}
