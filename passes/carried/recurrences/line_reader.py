"""Reads values of an iteration as a factor times a carried value, and what is added to it."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.common.masks import choice, flag_of
from passes.carried.common.selections import BranchReader, Selection, find_selection, hoist
from passes.carried.pattern import added, added_constant, dependent_values
from passes.carried.recurrences.bounded import Limits, NumberSpans
from passes.graph.made import made_by, operands, skip_identities
from passes.numbers.folding import Folder
from passes.numbers.integer_reads import INTEGERS
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["LineReader"]


def _later_values(carried: Carried, facts: LoopFacts) -> set[ir.Value]:
    """Return the values that depend on a carried one, in its iteration or in a later one."""
    body, states = facts.iteration.body, facts.iteration.states
    found: set[ir.Value] = set()
    start = {carried.inner}
    while not start <= found:
        found = dependent_values(body, *start)
        start |= {one.inner for one in states if one.next in found}
    return start


@dataclasses.dataclass(frozen=True)
class Line:
    """A value of an iteration: a factor times the carried value, and what is added.

    Attributes:
        factor: The factor, None for 1.
        offset: What is added, None for nothing.
        spoils: Whether it is NaN where the carried value is infinite; a flag of its own where
            that differs from iteration to iteration.
        anew: Where it is what is added alone, whatever the carried value is; None for nowhere.
    """

    factor: ir.Value | None = None
    offset: ir.Value | None = None
    spoils: bool | ir.Value = False
    anew: ir.Value | None = None


class LineReader(BranchReader):
    """Reads values of an iteration as lines, and makes the nodes that say what they are."""

    def __init__(
        self, carried: Carried, facts: LoopFacts, typing: Typing, dtype: ir.DataType
    ) -> None:
        super().__init__(carried.inner, facts.iteration.body)
        scanned = {inner: source.tensor for inner, source in facts.iteration.scanned}
        self.spans = NumberSpans(typing, {**scanned, **facts.evaluator.outer})
        self.speculated: list[tuple[ir.Node, ir.Node]] = []
        self._typing, self._dtype = typing, dtype
        self._lines: dict[ir.Value, Line | None] = {}
        self._states = _later_values(carried, facts)

    def read(self, value: ir.Value, depth: int) -> Line | None:
        """Return what a value is of the carried one, None if it is anything else."""
        value = skip_identities(value)
        if value is self.inner:
            return Line()
        if value not in self._lines:
            self._lines[value] = self._read(value, depth)
        return self._lines[value]

    def _read(self, value: ir.Value, depth: int) -> Line | None:
        graph = next((g for g in self.scope.graphs if made_by(value, body=g) is not None), None)
        if graph is None or not depth or value not in self.dependent:
            return None
        selection = find_selection(value, graph)
        if selection is not None:
            return self._chosen(selection, depth - 1)
        node = made_by(value, "Add", "Gemm", "Mul", "Neg", "Sub", "Sum", body=graph)
        if node is not None and node.op_type == "Gemm":
            return self._joined(node, depth - 1)
        given = [] if node is None else operands(node)
        if node is None or len(given) > 2:
            return None
        lines = [self.read(v, depth - 1) if v in self.dependent else None for v in given]
        others = [v for v, line in zip(given, lines, strict=True) if line is None]
        if not self._are_free(others):
            return None
        match node.op_type, lines:
            case "Neg", [line]:
                return self._negated(line)
            case "Mul", [line, None] | [None, line]:
                return None if line is None else self._product(line, self._outside(others[0]))
            case "Add" | "Sum", [line, None] | [None, line]:
                return None if line is None else self._total(line, self._outside(others[0]))
            case "Add" | "Sum", [one, other]:
                return self._of_both(one, other)
            case "Sub", [line, None]:
                less = self.made("Neg", self._outside(others[0]))
                return None if line is None else self._total(line, less)
            case "Sub", [None, line]:
                turned = self._negated(line)
                return None if turned is None else self._total(turned, self._outside(others[0]))
            case "Sub", [one, other]:
                return self._of_both(one, self._negated(other))
        return None

    def _joined(self, node: ir.Node, depth: int) -> Line | None:
        """Return a line that Gemm joins to a product, None where it does something else."""
        *factors, addend = operands(node)
        line = self.read(addend, depth) if len(factors) == 2 else None
        if line is None or self.branches or not self._are_free(factors):
            return None
        if self._dtype in INTEGERS or _leaves_out_addend(node):
            return None
        scale, product = _scale_of_addend(node, self._dtype), _product_alone(node)
        self.nodes += [product] if scale is None else [product, scale]
        scaled = line if scale is None else self._product(line, scale.outputs[0])
        return None if scaled is None else self._total(scaled, product.outputs[0])

    def _are_free(self, values: list[ir.Value]) -> bool:
        """Whether values depend neither on the carried value nor on what depends on it."""
        later = dependent_values(self.scope, *self._states)
        return later.isdisjoint(values)

    def _outside(self, value: ir.Value) -> ir.Value:
        """Return a value of a branch as it is known outside of it."""
        (found,), nodes, pairs = hoist([value], self.branches)
        self.nodes += nodes
        self.speculated += pairs
        return found

    def _product(self, line: Line, other: ir.Value) -> Line | None:
        """Return a product; of a sum each term may overflow by a factor larger than 1."""
        is_small = max(map(abs, self.spans.of(other))) <= 1
        if line.offset is not None and not (is_small or self._dtype in INTEGERS):
            return None
        factor = other if line.factor is None else self.made("Mul", line.factor, other)
        offset = None if line.offset is None else self.made("Mul", line.offset, other)
        return dataclasses.replace(line, factor=factor, offset=offset)

    def _total(self, line: Line, term: ir.Value) -> Line:
        offset = term if line.offset is None else self.made("Add", line.offset, term)
        return dataclasses.replace(line, offset=offset)

    def _of_both(self, one: Line | None, other: Line | None) -> Line | None:
        """Return the sum of two lines; what becomes of an infinite value has to be known."""
        if one is None or other is None or one.anew is not None or other.anew is not None:
            return None
        spans = [self._span(line) for line in (one, other)]
        is_integer = self._dtype in INTEGERS
        cancels = any(low > 0 and high <= 0 for (low, _), (_, high) in (spans, spans[::-1]))
        if not (is_integer or cancels):
            return None
        offsets = [line.offset for line in (one, other) if line.offset is not None]
        offset = self.made("Add", *offsets) if len(offsets) > 1 else next(iter(offsets), None)
        factor = self.made("Add", self._factor(one), self._factor(other))
        return Line(factor, offset, spoils=not is_integer)

    def _span(self, line: Line) -> Limits:
        return (1.0, 1.0) if line.factor is None else self.spans.of(line.factor)

    def _negated(self, line: Line | None) -> Line | None:
        if line is None:
            return None
        offset = None if line.offset is None else self.made("Neg", line.offset)
        factor = self._number(-1) if line.factor is None else self.made("Neg", line.factor)
        return dataclasses.replace(line, factor=factor, offset=offset)

    def _chosen(self, selection: Selection, depth: int) -> Line | None:
        """Return what a choice is whose condition does not depend on the carried value."""
        if not self._are_free([selection.condition]):
            return None
        self.enter(selection)
        known = Folder(self._typing).value(selection.condition)
        if known is not None and known.size == 1:
            return self.read(selection.chosen if known.all() else selection.other, depth)
        flag = self._outside(selection.condition)
        if selection.is_whole:
            flag, nodes = flag_of(flag)
            self.nodes += nodes
        lines = [self.read(side, depth) for side in (selection.chosen, selection.other)]
        match lines:
            case [Line() as line, None] if self._are_free([selection.other]):
                return self._begun(line, flag, self._outside(selection.other))
            case [None, Line() as line] if self._are_free([selection.chosen]):
                turned = self.made("Not", flag)
                return self._begun(line, turned, self._outside(selection.chosen))
            case [Line() as one, Line() as other]:
                return self._of_choice(flag, one, other)
        return None

    def _of_choice(self, flag: ir.Value, one: Line, other: Line) -> Line | None:
        """Return the line that is one of two."""
        if one.anew is not None or other.anew is not None:
            return None
        factor, offset, spoils = None, None, one.spoils
        if spoils is not other.spoils:
            first, second = (self._flag(x.spoils) for x in (one, other))
            self.nodes += choice(flag, first, second, ir.DataType.BOOL)
            spoils = self.nodes[-1].outputs[0]
        if one.factor is not None or other.factor is not None:
            factor = self._either(flag, self._factor(one), self._factor(other))
        if one.offset is not None or other.offset is not None:
            offset = self._either(flag, *(x.offset or self._number(0) for x in (one, other)))
        return Line(factor, offset, spoils)

    def _begun(self, line: Line, goes_on: ir.Value, new: ir.Value) -> Line:
        """Return a line that is a new value where a flag does not hold."""
        anew = self.made("Not", goes_on)
        factor = self._either(goes_on, self._factor(line), self._number(0))
        offset = self._either(goes_on, line.offset or self._number(0), new)
        if line.anew is not None:
            anew = self.made("Or", anew, line.anew)
        return dataclasses.replace(line, factor=factor, offset=offset, anew=anew)

    def _factor(self, line: Line) -> ir.Value:
        return self._number(1) if line.factor is None else line.factor

    def _either(self, flag: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
        self.nodes += choice(flag, one, other, self._dtype)
        return self.nodes[-1].outputs[0]

    def _flag(self, value: bool | ir.Value) -> ir.Value:
        if isinstance(value, ir.Value):
            return value
        self.nodes.append(added_constant(np.array(value)))
        return self.nodes[-1].outputs[0]

    def _number(self, number: int) -> ir.Value:
        self.nodes.append(added_constant(np.array(number, self._dtype.numpy())))
        return self.nodes[-1].outputs[0]


def _leaves_out_addend(node: ir.Node) -> bool:
    """Whether a Gemm joins nothing to its product, though it is given something: 0 times that."""
    return node.attributes.get_float("beta", 1.0) == 0


def _product_alone(node: ir.Node) -> ir.Node:
    """Make the Gemm that joins its product to nothing."""
    kept = {name: value for name, value in node.attributes.items() if name != "beta"}
    return added("Gemm", [value for value in node.inputs[:2] if value is not None], kept)


def _scale_of_addend(node: ir.Node, dtype: ir.DataType) -> ir.Node | None:
    """Make the number that a Gemm multiplies with what it joins; None for 1."""
    scale = node.attributes.get_float("beta", 1.0)
    return None if scale == 1 else added_constant(np.array(scale, dtype.numpy()))
