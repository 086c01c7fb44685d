"""The proven typing of a model that several passes ask for, inferred once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from passes.reading.new_nodes import type_new_nodes
from passes.typing import Typing, type_values

__all__ = ["KeptTyping"]


class KeptTyping:
    """The proven typing of one model, inferred when it is first asked for.

    It holds while nodes only move; what a pass writes has to be entered.
    """

    def __init__(self, *, ranks: bool = True) -> None:
        """Begin with nothing known.

        Args:
            ranks: Keep the ranks of what is only declared; see `type_values`.
        """
        self._ranks = ranks
        self._typing: Typing | None = None

    def of(self, model: ir.Model) -> Typing:
        """Return the typing of a model, which is the same one each time."""
        if self._typing is None:
            self._typing = type_values(model, proven=True, ranks=self._ranks)
        return self._typing

    def enter(self, made: Collection[ir.Node], model: ir.Model) -> None:
        """Enter the types of new nodes, which compute what others did before."""
        if self._typing is not None and made:
            type_new_nodes(made, self._typing, model, ranks=self._ranks)

    def copy(self, values: Mapping[ir.Value, ir.Value | None]) -> None:
        """Note that new values take the place of others, whose types hold of them."""
        if self._typing is not None:
            self._typing.copy(values)
