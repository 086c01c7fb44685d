"""Remedies that were tried: changes of options after which a rewrite comes out better.

They are tried when somebody reads them, on copies that share the weights of the model, and only
as many as a budget of nodes allows: rewriting takes about a millisecond for each node.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import onnx_ir as ir

from passes.decisions import Code, Decision, Verdict
from passes.fusing.flat_cost import FLAT
from passes.graph.graphs import all_nodes, default_opset
from passes.graph.opsets import CARRIES_SEQUENCES
from rewriter.options import Options
from rewriter.reporting.candidates import candidates, newer_opset
from rewriter.reporting.remedies import REACHED, Candidate, Found, Remedies, Remedy

__all__ = ["MOST_NODES", "Outcome", "Trials"]

MOST_NODES = 2000
"""How many nodes all tries for one report rewrite together."""

_MOST_SECONDS = 10.0
"""Seconds of computing for all tries; by the clock a report would depend on what else runs."""

_INTERFACE = ("", "")
"""What keeps a model from its target where no node does: an input or an output."""

_RANK = {
    Verdict.FUSED: 0,
    Verdict.UNROLLED: 0,
    Verdict.GUARDED: 1,
    Verdict.FISSIONED: 2,
    Verdict.EXPANDED: 3,
    Verdict.KEPT: 3,
}

_FINAL = frozenset(
    {
        Code.CARRIED_OFFSET,
        Code.CONDITIONAL_APPEND,
        Code.EARLY_EXIT,
        Code.NOT_A_MAP,
        Code.OPSET,
        Code.RANDOM,
        Code.READS_EARLIER,
        Code.RECURRENCE,
    }
)
"""Reasons that no option changes."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of one rewrite.

    Attributes:
        decisions: What was done with the maps.
        blocked: Path and operator of what keeps the model from its target.
    """

    decisions: Iterable[Decision]
    blocked: frozenset[tuple[str, str]]

    @functools.cached_property
    def maps(self) -> Mapping[str, Decision]:
        """The decisions by the paths of the maps."""
        return {decision.path: decision for decision in self.decisions}


class Trials:
    """Tries changes of options, once, when the remedies are read.

    Attributes:
        remedies: What was found.
    """

    def __init__(
        self,
        base: Outcome,
        options: Options,
        model: ir.Model,
        rewrite: Callable[[ir.Model, Options], Outcome | None],
    ) -> None:
        """Set up.

        Args:
            base: What the rewrite came to.
            options: Its options.
            model: The model as given; it is not changed.
            rewrite: Rewrites a copy of a model; None where that fails.
        """
        self._base = base
        self._options = options
        self._model = model
        self._rewrite = rewrite

    def __reduce__(self) -> tuple[type[Found], tuple[Remedies]]:
        """Make a copy, in another process too, of what was found."""
        return Found, (self.remedies,)

    @functools.cached_property
    def remedies(self) -> Remedies:
        opset = newer_opset(self._options, self._model)
        findings = _Findings(self._base, _FINAL if opset is None else self._final_here())
        count = sum(1 for _ in all_nodes(self._model))
        end = time.thread_time() + _MOST_SECONDS
        fused = findings.want_guards or self._keeps_sequences
        found = candidates(self._options, self._model, fused=fused, opset=opset)
        for tries, candidate in enumerate(found, start=1):
            is_spent = tries * count > MOST_NODES or time.thread_time() > end
            if is_spent or findings.are_complete:
                break
            options = dataclasses.replace(self._options, **candidate.changes)
            outcome = self._rewrite(self._model, options)
            if outcome is not None:
                findings.add(candidate, outcome)
        return Remedies(True, findings.maps, findings.nodes)

    @property
    def _keeps_sequences(self) -> bool:
        """Whether a target with loops is asked for a tensor in the place of a sequence in vain."""
        options = self._options
        return options.tensor_io and options.row.loop and _INTERFACE in self._base.blocked

    def _final_here(self) -> frozenset[Code]:
        """Return the reasons that a newer opset does not change, either."""
        changed = {Code.OPSET}
        if default_opset(self._model) < CARRIES_SEQUENCES:
            changed.add(
                Code.RECURRENCE
            )  # an older Loop that appends to a sequence is none of ONNX
        return _FINAL - changed


class _Findings:
    """The changes of options that were better than all before them.

    Attributes:
        maps: What makes the verdict on a map better.
        nodes: What takes something out of the way to the target.
    """

    def __init__(self, base: Outcome, final: Collection[Code]) -> None:
        self.maps: dict[str, tuple[Remedy, ...]] = {}
        self.nodes: dict[tuple[str, str], tuple[Remedy, ...]] = {}
        self._blocked = base.blocked
        self._least = len(base.blocked)
        ranks = ((path, _improvable(decision, final)) for path, decision in base.maps.items())
        self._best = {path: rank for path, rank in ranks if rank is not None}

    @property
    def are_complete(self) -> bool:
        """Whether nothing is left that could be better."""
        return not self._least and all(rank == _BEST for rank in self._best.values())

    @property
    def want_guards(self) -> bool:
        """Whether a guard would be better than what some map is."""
        guarded = _RANK[Verdict.GUARDED]
        return not self._least and any(rank > guarded for rank, _ in self._best.values())

    def add(self, candidate: Candidate, outcome: Outcome) -> None:
        """Enter what a change of options leads to."""
        for path, best in self._best.items():
            decision = outcome.maps.get(path)
            if decision is not None and _rank(decision) < best:
                self._best[path] = _rank(decision)
                told = ": ".join(filter(None, [decision.verdict.value, decision.form]))
                takes = [note for note in decision.notes if note.startswith(FLAT)]
                remedy = Remedy(candidate, "; ".join([told, *takes]))
                self.maps[path] = (*self.maps.get(path, ()), remedy)
        count = len(outcome.blocked)
        if count < self._least:
            self._least = count
            effect = f"{count} of {len(self._blocked)} left" if count else REACHED
            remedy = Remedy(candidate, effect)
            for key in self._blocked - outcome.blocked:
                known = self.nodes.get(key, ()) if count else ()
                self.nodes[key] = (*known, remedy)


_BEST = (0, 0)


def _rank(decision: Decision) -> tuple[int, int]:
    """Return how good a verdict is; less is better."""
    is_built = any(reason.code is Code.UNSPLITTABLE_TYPE for reason in decision.reasons)
    return _RANK[decision.verdict], decision.in_loops + is_built


def _improvable(decision: Decision, final: Collection[Code]) -> tuple[int, int] | None:
    """Return how good a verdict is, None where no option makes it better."""
    rank = _rank(decision)
    codes = {reason.code for reason in decision.reasons} - {Code.SURPLUS_IGNORED}
    is_final = bool(codes) and codes <= set(final) and decision.verdict is not Verdict.GUARDED
    return None if rank == _BEST or is_final else rank
