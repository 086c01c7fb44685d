"""The equation of an Einsum: a letter for each axis, those of an ellipsis included.

``...ij, jk`` of operands of ranks 3 and 2 has the terms ``Aij`` and ``jk`` and the result ``Aik``.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

__all__ = ["free_letters", "is_matrix_turned", "lettered", "terms_of"]

_ANY = "..."
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def terms_of(equation: str) -> tuple[list[str], str]:
    """Return the term of each operand, and that of the result, as they are written.

    A result that is not written has the ellipsis in front, and then what is there once.
    """
    given, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow:
        names = given.replace(".", "").replace(",", "")
        once = sorted(letter for letter in set(names) if names.count(letter) == 1)
        result = _ANY * (_ANY in given) + "".join(once)
    return given.split(","), result


def free_letters(terms: Sequence[str]) -> list[str]:
    """Return the letters that are in no term."""
    taken = {letter for term in terms for letter in term}
    return [letter for letter in _LETTERS if letter not in taken]


def is_matrix_turned(equation: str, at: int) -> bool | None:
    """Return whether a product reads a matrix as it stands (False), or the other way round.

    ``bi,ij->bj`` reads its second operand as it stands, and ``bi,ji->bj`` the other way round.

    Args:
        equation: The equation.
        at: Which operand is the matrix; the last axis of the other one is summed.

    Returns:
        None for anything else.
    """
    terms, result = terms_of(equation)
    if len(terms) != 2 or len(terms[at]) != 2:
        return None
    rows, columns = terms[at][:1], terms[at][1:]
    other = terms[1 - at]
    if len(set(other)) != len(other):
        return None  # an ellipsis, too
    for is_turned, old, new in ((False, rows, columns), (True, columns, rows)):
        if other.endswith(old) and new not in other and result == other[:-1] + new:
            return is_turned
    return None


def lettered(equation: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """Return the same with a letter for each axis that an ellipsis stands for.

    Args:
        equation: The equation.
        ranks: The ranks of the operands.

    Returns:
        The terms and the result; None where they do not fit the operands.
    """
    terms, result = terms_of(equation)
    if len(terms) != len(ranks):
        return None
    counts = [
        rank - len(term.replace(_ANY, "")) if _ANY in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    most = max(counts)
    free = free_letters(terms)[:most]
    named = [
        term.replace(_ANY, "".join(free[most - count :]))
        for term, count in zip(terms, counts, strict=True)
    ]
    if any(len(term) != rank for term, rank in zip(named, ranks, strict=True)):
        return None
    return named, result.replace(_ANY, "".join(free))
