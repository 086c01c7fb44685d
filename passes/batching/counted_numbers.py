"""Integers that count up with the number of the sample, and what none of them exceeds."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.drafts import Memo
from passes.graph.graphs import is_operator
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import INTEGERS
from passes.numbers.integers import ITERATION, Greatest, Linear, Scalar
from passes.numbers.last_iteration import maker
from passes.typing import Typing

__all__ = ["CountedNumbers"]


class CountedNumbers(Evaluator):
    """Reads integers of a body; one of its inputs may be the number of the sample.

    Attributes:
        index: That input, if there is one.
    """

    def __init__(self, typing: Typing) -> None:
        """Set up the evaluator.

        Args:
            typing: The proven typing.
        """
        super().__init__(typing)
        self.known = Memo()
        self._proven = typing
        self._count: ir.Value | None = None
        self.index: ir.Value | None = None

    def count_samples(self, index: ir.Value, count: ir.Value) -> None:
        """Enter an input of the body that is the number of the sample, from 0.

        Args:
            index: The input.
            count: The number of samples, a value around the body.
        """
        self._count, self.index = count, index
        self.known[index] = (Linear.of(ITERATION),)
        number = self._of_some(count)
        self.last = None if number is None else number - 1

    def most_of_several(self, number: Linear) -> Linear | None:
        """Return a number that no number of two samples or more exceeds, None if none is known.

        Of ``(size - width) // step + 1`` windows none ends behind the size if there are two or
        more of them; the only one may, as ONNX's division rounds towards 0.
        """
        times = number.coefficient(ITERATION)
        count = None if self._count is None else self._of_some(self._count)
        if times <= 0 or count is None or count.constant != 1 or len(count.terms) != 1:
            return None
        ((atom, factor),) = count.terms
        made = maker(atom.value) if isinstance(atom, Scalar) and factor == 1 else None
        if not is_operator(made, "Div"):
            return None
        if self._proven.dtype(made.outputs[0]) not in INTEGERS:
            return None
        span, step = (self.number(v) for v in made.inputs[:2])
        if span is None or step is None or not step.number or step.number < 0:
            return None
        if times % step.number:
            return None
        return number.without(ITERATION) + span * (times // step.number)

    def _of_some(self, count: ir.Value) -> Linear | None:
        """Return a number of samples if there are some: then there are not less than none."""
        number = self.number(count)
        for atom, _ in () if number is None else number.terms:
            if isinstance(atom, Greatest) and number == Linear.of(atom):
                others = [n for n in atom.members if n != Linear()]
                number = others[0] if len(others) == 1 else number
        return number
