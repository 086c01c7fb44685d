"""The equation of an Einsum: a letter for each axis, those of an ellipsis included.

``...ij, jk`` of operands of ranks 3 and 2 has the terms ``Aij`` and ``jk`` and the result ``Aik``.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.decisions import Code, Decline

__all__ = ["free_letters", "lettered", "terms_of"]

_ANY = "..."
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def terms_of(ctx: Context, node: ir.Node) -> tuple[list[str], str]:
    """Return the term of each operand, and that of the result, as they are written.

    A result that is not written has the ellipsis in front, and then what is there once.
    """
    equation = str(ctx.attribute(node, "equation", "")).replace(" ", "")
    given, arrow, result = equation.partition("->")
    if not arrow:
        names = given.replace(".", "").replace(",", "")
        once = sorted(letter for letter in set(names) if names.count(letter) == 1)
        result = _ANY * (_ANY in given) + "".join(once)
    return given.split(","), result


def free_letters(terms: Sequence[str]) -> list[str]:
    """Return the letters that are in no term."""
    taken = {letter for term in terms for letter in term}
    return [letter for letter in _LETTERS if letter not in taken]


def lettered(ctx: Context, node: ir.Node, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the same with a letter for each axis that an ellipsis stands for.

    Args:
        ctx: The context.
        node: The Einsum.
        ranks: The ranks of its operands.

    Raises:
        Decline: It sums over what an ellipsis stands for, or has too many axes.
    """
    terms, result = terms_of(ctx, node)
    counts = [
        rank - len(term.replace(_ANY, "")) if _ANY in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    most = max(counts, default=0)
    free = free_letters(terms)[:most]
    if min(counts, default=0) < 0 or len(free) < most:
        raise Decline(Code.NO_RULE, "its equation has another rank than its operands")
    if any(_ANY in term for term in terms) and _ANY not in result:
        raise Decline(Code.NO_RULE, "its equation sums over what an ellipsis stands for")
    named = [
        term.replace(_ANY, "".join(free[most - count :]))
        for term, count in zip(terms, counts, strict=True)
    ]
    return named, result.replace(_ANY, "".join(free))
