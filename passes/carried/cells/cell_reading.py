"""Reads values of a body as sums of products of gates, states and linear parts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.carried.cells.cell_dims import CellDims
from passes.carried.cells.cell_sums import (
    Bias,
    MatrixProduct,
    NotACellError,
    Sum,
    Weight,
    added_up,
    multiplied,
)
from passes.carried.cells.cell_values import (
    ACTIVATIONS,
    CellValue,
    Lead,
    activated,
    between_zero_and,
    broadcast,
    columns_of,
    is_like,
    with_axes,
)
from passes.carried.cells.cell_weights import check_moves
from passes.graph.bounded import bounds_of_value
from passes.graph.equations import is_matrix_turned
from passes.graph.graphs import constant_value
from passes.graph.made import (
    made_by,
    operand,
    operands,
    optional_operand,
    repeated_number,
    skip_identities,
)
from passes.numbers.slice_bounds import bounds_of
from passes.reading.facts import LoopFacts
from passes.typing.value_types import Typing

__all__ = ["CellReader"]

_LONGEST = 100
"""Fewer nodes of a cell lie behind each other."""


class CellReader(CellDims):
    """Reads values of the body of a Loop or Scan as sums of products."""

    def __init__(
        self,
        facts: LoopFacts,
        typing: Typing,
        states: Sequence[tuple[ir.Value, ir.Value]],
        yielded: Callable[[ir.Value], tuple[Lead, int] | None],
    ) -> None:
        """Set up the reading.

        Args:
            facts: The Loop or Scan.
            typing: The proven typing.
            states: The states of the cell, each with its initial value.
            yielded: Returns the dimensions of what another cell yields, the last one apart.

        Raises:
            NotACellError: The dimensions of a state are not known.
        """
        super().__init__(facts, typing, [inner for inner, _ in states], yielded)
        self._depth = 0
        self._known: dict[ir.Value, CellValue] = {}
        self._lead, _ = self.dims(states[0][1])
        for inner, initial in states:
            lead, width = self.dims(initial)
            if not is_like(lead, self._lead):
                raise NotACellError
            self._known[inner] = CellValue(Sum.of(inner), self._lead, width)

    def form(self, value: ir.Value) -> CellValue:
        """Return a value as a sum of products.

        Raises:
            NotACellError: It is none that recurrent operators compute.
        """
        value = skip_identities(value)
        if value not in self._known:
            self._depth += 1
            if self._depth > _LONGEST:
                raise NotACellError
            self._known[value] = self._read(value)
            self._depth -= 1
        return self._known[value]

    def _read(self, value: ir.Value) -> CellValue:
        if value not in self.varying:
            return self._shared(value)
        if (node := made_by(value)) is None:
            raise NotACellError
        match node.op_type:
            case "Add" | "Sum":
                return self._sum(node, [1.0] * len(node.inputs))
            case "Sub":
                return self._sum(node, [1.0, -1.0])
            case "Neg":
                return self._sum(node, [-1.0])
            case "Mul":
                one, other = map(self.form, operands(node))
                return self._joined(multiplied(one.total, other.total), one, other)
            case "Div":
                return self._share(node)
            case "Clip" | "Max" | "Min":
                return self._bounded(node)
            case "MatMul":
                return self._product(operand(node, 0), operand(node, 1))
            case "Gemm":
                return self._gemm(node)
            case "Einsum":
                return self._einsum(node)
            case "Split":
                return self._split(node, value)
            case "Slice":
                return self._slice(node)
            case "Gather" | "Squeeze" | "Unsqueeze":
                return with_axes(self.form(operand(node, 0)), node)
            case kind if kind in ACTIVATIONS:
                return activated(self.form(operand(node, 0)), node)
        raise NotACellError

    def _shared(self, value: ir.Value) -> CellValue:
        """Read a number, or a vector that is the same in all iterations."""
        check_moves(value, self._facts)
        number, (lead, width) = repeated_number(value), self.dims(value, least=0)
        if isinstance(number, float) and number and math.isfinite(number):
            return CellValue(Sum.number(number), lead, None if width == 1 else width)
        if any(dim != 1 for dim in lead):
            raise NotACellError
        return CellValue(Sum.of(Bias(value, (0, width))), lead, width)

    def _sum(self, node: ir.Node, signs: Sequence[float]) -> CellValue:
        forms = [self.form(v) for v in operands(node)]
        pairs = zip((form.total for form in forms), signs, strict=True)
        return self._joined(added_up(*pairs), *forms)

    def _share(self, node: ir.Node) -> CellValue:
        """Read what is divided by a number."""
        form, number = self.form(operand(node, 0)), repeated_number(operand(node, 1))
        if not number or not math.isfinite(number) or self.typing.rank(operand(node, 1)) != 0:
            raise NotACellError
        return dataclasses.replace(form, total=added_up((form.total, 1.0 / number)))

    def _bounded(self, node: ir.Node) -> CellValue:
        """Read what stays above 0, or also below a number."""
        found = bounds_of_value(node)
        if found is None or found.low != 0:
            raise NotACellError
        return between_zero_and(self.form(found.value), found.high)

    def _product(self, left: ir.Value, right: ir.Value, *, is_turned: bool = False) -> CellValue:
        """Read ``left @ right``; ``right`` may be stored the other way round."""
        if left not in self.varying:  # of a vector, which a matrix is multiplied by
            if self._rank(right) != 1:
                raise NotACellError
            left, right, is_turned = right, left, not is_turned
        if right in self.varying:
            raise NotACellError
        while (node := made_by(right, "Transpose")) is not None:
            if self.typing.rank(operand(node, 0)) != 2:
                raise NotACellError
            if list(node.attributes.get_ints("perm", ()) or [1, 0]) == [1, 0]:
                is_turned = not is_turned
            right = operand(node, 0)
        check_moves(right, self._facts)
        lead, columns = self.dims(right)
        if len(lead) != 1 or not isinstance(lead[0], int):
            raise NotACellError
        rows, width = (columns, lead[0]) if is_turned else (lead[0], columns)
        start, products, leads = 0, [], set[Lead]()
        for piece in self._pieces(left):
            given, lead, count = self._operand(piece)
            leads.add(lead)
            weight = Weight(right, (start, start + count), (0, width), is_turned)
            products.append((Sum.of(MatrixProduct(given, weight)), 1.0))
            start += count
        if start != rows or len(leads) != 1:
            raise NotACellError
        return CellValue(added_up(*products), leads.pop(), width)

    def _pieces(self, value: ir.Value) -> list[ir.Value]:
        """Return what a left side is joined from: of ``[x, h]`` the row and the state."""
        node = made_by(value, "Concat") if value in self.own else None
        if node is None:
            return [value]
        axis, ranks = node.attributes.get_int("axis", 0), set(map(self._rank, operands(node)))
        rank = ranks.pop()
        if ranks or rank is None or axis not in (-1, rank - 1):
            raise NotACellError
        return operands(node)

    def _rank(self, value: ir.Value) -> int | None:
        return len(self.form(value).lead) + 1 if value in self.own else self.typing.rank(value)

    def _operand(self, value: ir.Value) -> tuple[object, Lead, int]:
        """Return what is multiplied by a matrix, and its dimensions."""
        value = skip_identities(value)
        if value not in self.own:
            if value not in self.varying:
                raise NotACellError
            return (value, *self.dims(value))
        form = self.form(value)
        if form.width is None:
            raise NotACellError
        return form.total, form.lead, form.width

    def _gemm(self, node: ir.Node) -> CellValue:
        alpha, beta = (node.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
        beside = optional_operand(node, 2)
        if beta == 0 and repeated_number(beside) == 0:
            beside = None
        if alpha != 1 or node.attributes.get_int("transA", 0) != 0:
            raise NotACellError
        if beside is not None and beta != 1:
            raise NotACellError
        stored = node.attributes.get_int("transB", 0)
        found = self._product(operand(node, 0), operand(node, 1), is_turned=bool(stored))
        if beside is None:
            return found
        form = self.form(beside)
        return self._joined(added_up((found.total, 1.0), (form.total, 1.0)), found, form)

    def _einsum(self, node: ir.Node) -> CellValue:
        values, at = operands(node), 0 if operand(node, 0) in self.varying else 1
        is_turned = is_matrix_turned(node.attributes.get_string("equation", ""), 1 - at)
        if is_turned is None:
            raise NotACellError
        return self._product(values[at], values[1 - at], is_turned=is_turned)

    def _split(self, node: ir.Node, value: ir.Value) -> CellValue:
        form, count = self.form(operand(node, 0)), len(node.outputs)
        if form.width is None or node.attributes.get_int("axis", 0) not in (-1, len(form.lead)):
            raise NotACellError
        array, sizes = constant_value(optional_operand(node, 1)), node.attributes.get_ints("split")
        if array is not None:
            sizes = array.reshape(-1).tolist()
        elif sizes is None and (len(node.inputs) > 1 or form.width % count):
            raise NotACellError
        sizes = sizes or [form.width // count] * count
        at = node.outputs.index(value)
        return columns_of(form, sum(sizes[:at]), sum(sizes[: at + 1]))

    def _slice(self, node: ir.Node) -> CellValue:
        form, cut = self.form(operand(node, 0)), bounds_of(node, self._facts.evaluator)
        if cut is None or cut.axis not in (-1, len(form.lead)):
            raise NotACellError
        start, end = cut.start.number, cut.end.number
        if start is None or end is None or form.width is None:
            raise NotACellError
        return columns_of(form, *slice(start, end).indices(form.width)[:2])

    def _joined(self, total: Sum, *values: CellValue) -> CellValue:
        return broadcast(total, values, self._lead)
