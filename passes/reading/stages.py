"""The maps that a Loop becomes, and the outputs that operators behind a map compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import onnx_ir as ir

from passes.carried.pattern import Pattern, Term
from passes.carried.rereads.seen import Seen
from passes.graph.graphs import is_used
from passes.site import MapResult

__all__ = ["CarriedResult", "Leaving", "Stage", "Whole"]


@dataclasses.dataclass(frozen=True)
class CarriedResult:
    """An output of a Loop that operators behind the map compute.

    Attributes:
        result: The output.
        pattern: What computes it.
        terms: For each term of the pattern what stands for it among the results of the map.
        collects: Whether it stacks the values of all iterations, at their ends (True) or starts
            (False); None for the value behind the last one.
    """

    result: ir.Value
    pattern: Pattern
    terms: tuple[ir.Value, ...]
    collects: bool | None = None


@dataclasses.dataclass
class Leaving:
    """What leaves a map while its outputs are gathered.

    Attributes:
        outputs: Values of the body, and which outputs they are.
        results: How they leave.
        joined: What patterns need of all iterations.
    """

    outputs: dict[ir.Value, int] = dataclasses.field(default_factory=dict)
    results: list[MapResult] = dataclasses.field(default_factory=list)
    joined: dict[Term, ir.Value] = dataclasses.field(default_factory=dict)

    def place(self, value: ir.Value) -> int:
        """Return which output of the body a value is."""
        return self.outputs.setdefault(value, len(self.outputs))

    def terms(self, pattern: Pattern) -> tuple[ir.Value, ...]:
        """Enter what a pattern needs of all iterations, each value once."""
        for term in pattern.terms:
            if term not in self.joined:
                self.joined[term] = ir.Value(name=f"{term.value.name}.all")
                at = self.place(term.value)
                self.results.append(MapResult(at, term.kind, self.joined[term], term.axis))
        return tuple(self.joined[term] for term in pattern.terms)


@dataclasses.dataclass(frozen=True)
class Whole:
    """A carried tensor that one map writes and a later one reads.

    Attributes:
        tensor: What it is behind the last iteration.
        seen: What an iteration sees of it.
    """

    tensor: ir.Value
    seen: Seen


@dataclasses.dataclass(frozen=True)
class Stage:
    """One of several maps that a Loop becomes: a later one reads what an earlier one gives.

    Attributes:
        ahead: The carried values whose running totals the second of two maps reads.
        given: Values of the body that are rows of a tensor; for each the tensor, whose axis 0 is
            that of the samples.
        wholes: Carried tensors that an earlier map has written, each as a whole.
        is_first: Whether it is the first of two maps.
        results: The outputs of the Loop that this map gives; None for all of them.
        rows: Further values of the body that are stacked, each with its tensor.
    """

    ahead: frozenset[ir.Value] = frozenset()
    given: Mapping[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)
    wholes: Mapping[ir.Value, Whole] = dataclasses.field(default_factory=dict)
    is_first: bool = False
    results: Collection[ir.Value] | None = None
    rows: Mapping[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)

    def yields(self, result: ir.Value) -> bool:
        """Whether an output of the Loop, or a tensor of rows, is among what it gives."""
        if result in self.rows.values():
            return True
        return is_used(result) and (self.results is None or result in self.results)
