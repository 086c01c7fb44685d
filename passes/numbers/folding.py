"""Values that are the same in every run: what is computed of constants, ranks and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import INTEGERS, Numbers, fits
from passes.numbers.integers import ITERATION, Dim, Linear
from passes.numbers.number_order import is_nonnegative, sole_atom

if TYPE_CHECKING:
    from passes.typing.value_types import Typing

__all__ = ["Folder"]

_FOLDED = INTEGERS | {ir.DataType.BOOL}


class Folder(Evaluator):
    """Reads integers and booleans that are numbers in every run; nothing is rounded."""

    def __init__(
        self, typing: Typing, index: ir.Value | None = None, last: Linear | None = None
    ) -> None:
        """Set up the folder.

        Args:
            typing: Where ranks and dimensions come from; all of them must hold for every sample.
            index: An input of a body that is the number of the sample, from 0.
            last: The number of the last sample, if it is known.
        """
        super().__init__(typing)
        if index is not None:
            self.known[index] = (Linear.of(ITERATION),)
            self.last = last

    def by(self, typing: Typing) -> Folder:
        """Return a folder for types that tell more; what was a number stays that number."""
        new = Folder(typing)
        new.known |= {v: found for v, found in self.known.items() if _are_constants(found)}
        return new

    def value(self, value: ir.Value | None) -> np.ndarray | None:
        """Return what a value is for every sample, or None where that is not known."""
        if value is None:
            return None
        constant = constant_value(value)
        dtype, dims = self.dtype(value), self.dims(value)
        if constant is not None or dtype is None or dtype not in _FOLDED:
            return constant
        numbers = self.of(value)
        if numbers is None or dims is None:
            return None
        found = [n.number for n in numbers if _is_one(n, dtype)]
        shape = (len(numbers),) if len(dims) == 1 else tuple(d for d in dims if isinstance(d, int))
        if len(found) < len(numbers) or len(shape) < len(dims):
            return None
        return np.array(found, dtype.numpy()).reshape(shape)

    def is_dimension(self, number: Linear, tensor: ir.Value, axis: int) -> bool:
        """Whether a number is a dimension of a tensor by proof: as a sum, or by its symbol."""
        if self.dimension(tensor, axis) == number:
            return True
        atom, dims = sole_atom(number), self.dims(tensor)
        if not isinstance(atom, Dim) or dims is None:
            return False
        named = (self.dims(atom.tensor) or ())[atom.axis : atom.axis + 1]
        return named == dims[axis : axis + 1] and all(map(self._typing.names_dimension, named))

    def is_within(self, position: Linear, size: Linear) -> bool:
        """Whether a position is less than a size, by proof alone."""
        return is_nonnegative(size - position - 1)

    def notes_far(self) -> bool:
        """Never: nothing here is noted for later."""
        return False

    def is_followed_as_float(self, numbers: Numbers) -> bool:
        """Whether numbers that were cast to float32 are constants."""
        return _are_constants(numbers)


def _are_constants(numbers: Numbers | None) -> bool:
    return numbers is not None and all(n.number is not None for n in numbers)


def _is_one(number: Linear, dtype: ir.DataType) -> bool:
    """Whether a number is a constant that a type holds."""
    if number.number is None:
        return False
    return number.number in (0, 1) if dtype == ir.DataType.BOOL else fits(number, dtype)
