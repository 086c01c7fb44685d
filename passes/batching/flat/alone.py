"""The operand that is flat where all others are shared.

Of ``x * 2`` with images ``x`` it is ``x``.
"""

from __future__ import annotations

from collections.abc import Sequence

from passes.batching.context import Context, Operand
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = ["flat_alone"]


def flat_alone(
    ctx: Context, operands: Sequence[Operand], name: str
) -> tuple[Batched, FlatSamples]:
    """Return the first operand, which is flat, and how its samples are read.

    Raises:
        Decline: It is not, or another one differs from sample to sample.
    """
    x = ctx.operand(operands, 0, name)
    others = [o for o in operands[1:] if o is not None]
    if x.flat is None or not all(o.is_shared for o in others):
        detail = f"more than its {name} differs from sample to sample"
        raise Decline(Code.BATCHED_OPERAND, detail)
    return x, x.flat
