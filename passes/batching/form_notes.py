"""What rules note of the form that a walk makes: when it is the fastest, and what it takes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.graph.drafts import Memo
from passes.typing.value_types import is_number

__all__ = ["MANY_ROWS", "PADDED", "FormNotes"]

PADDED = (
    "samples are padded to the longest; where that takes more than 4 times what they hold, they "
    "run in one loop"
)
"""Said of a body that asks for the lengths of its samples first."""

_PADDED_ANYWAY = (
    "samples are padded to the longest, and nothing asks what that takes: (number of samples x "
    "the longest) / (all lengths together) times the rows{} that they hold, so at most as many "
    "times as there are samples"
)

MANY_ROWS = "samples of many rows, or few samples, run in one loop, which is faster for them"
"""Said of a body that asks for the number of its rows first."""


class FormNotes:
    """Notes on the form of a body.

    Attributes:
        reads_numbers: How many single numbers of a packed sample a node reads, one by one.
        limits: Flags that must hold for this form to be the faster one, each with what is said
            of it; a loop runs otherwise.
        early: Those parts of limits that follow from sizes alone.
        padded: What is said of samples that are padded to the longest whatever that takes.
        wholes: Packed values that hold the first rows of a shared tensor, and that tensor.
        copies: Overlapping parts of a tensor that samples hold, the flag that says whether that
            is the faster form, and what is said of them. They count where something reads them;
            see `passes.batching.packed.slicing.overlapping`.
        few: Up to how many samples a loop is faster whatever they hold; for what asks for rows.
        meets: Whether samples meet that are not proven to be equally long.
    """

    _around: FormNotes | None

    def __init__(self) -> None:
        self.limits: dict[ir.Value, str] = {}
        self.early: list[ir.Value] = []
        self.padded: dict[str, None] = {}
        self.few = 0
        self.meets = False
        self.wholes: dict[ir.Value, ir.Value] = Memo()
        self.copies: dict[ir.Value, tuple[ir.Value | None, str]] = Memo()
        self.reads_numbers = 0

    def limit(self, flag: ir.Value, note: str) -> None:
        """See `passes.batching.context.Context.limit_padding` and `limit_rows`.

        Raises:
            Decline: The node stands in a graph inside of the body.
        """
        if self._around is not None:
            raise Decline(Code.RAGGED, "what it takes has no bound inside of a branch")
        self.limits[flag] = note

    def note_meeting(self) -> None:
        """See `passes.batching.context.Context.note_meeting`."""
        body = self if self._around is None else self._around
        body.meets = True

    def note_padding(self, x: Batched) -> None:
        """See `passes.batching.context.Context.note_padding`."""
        rest = [d for axis, d in enumerate(x.dims) if axis != x.axis]
        sizes = [d for d in rest if isinstance(d, int)]
        each = ""
        if is_number(x.dtype) and len(sizes) == len(rest):
            each = f" of {int(np.prod(sizes)) * x.dtype.itemsize:g} bytes"
        body = self if self._around is None else self._around
        body.padded[_PADDED_ANYWAY.format(each)] = None
