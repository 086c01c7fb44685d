"""The equation of an Einsum, read letter by letter."""

from __future__ import annotations

import pytest

from passes.graph.equations import free_letters, is_matrix_turned, lettered, terms_of

TERMS = {
    "ij,jk->ik": (["ij", "jk"], "ik"),
    " i j , j k -> i k ": (["ij", "jk"], "ik"),
    "ij,jk": (["ij", "jk"], "ik"),
    "kj,ji": (["kj", "ji"], "ik"),
    "ii": (["ii"], ""),
    "...ij,...jk": (["...ij", "...jk"], "...ik"),
    "ij->": (["ij"], ""),
    "ij,ij": (["ij", "ij"], ""),
}


@pytest.mark.parametrize("equation", TERMS)
def test_terms(equation: str) -> None:
    assert terms_of(equation) == TERMS[equation]


TURNED: dict[tuple[str, int], bool | None] = {
    ("bi,ij->bj", 1): False,
    ("bi,ji->bj", 1): True,
    ("ij,bi->bj", 0): False,
    ("ji,bi->bj", 0): True,
    ("i,ij->j", 1): False,
    ("abi,ij->abj", 1): False,
    ("bi,ij->jb", 1): None,
    ("bi,ij", 1): False,
    ("ib,ij->bj", 1): None,
    ("bi,ij->bi", 1): None,
    ("ji,ij->jj", 1): None,
    ("bi,ii->bi", 1): None,
    ("bbi,ij->bbj", 1): None,
    ("bi,ijk->bjk", 1): None,
    ("bi,i->b", 1): None,
    ("bi,ij,j->b", 1): None,
    ("bi,ij,jk->bk", 1): None,
    ("ij->ij", 0): None,
    ("...i,ij->...j", 1): None,
    ("bi,kj->bj", 1): None,
    ("bj,ij->bi", 1): True,
}
"""What a product of a matrix is, and which of the operands is the matrix."""


@pytest.mark.quick
@pytest.mark.parametrize(("equation", "at"), TURNED)
def test_how_a_matrix_is_read(equation: str, at: int) -> None:
    assert is_matrix_turned(equation, at) is TURNED[equation, at]


LETTERED: dict[tuple[str, tuple[int, ...]], tuple[list[str], str] | None] = {
    ("...ij,jk", (3, 2)): (["Aij", "jk"], "Aik"),
    ("...ij,...jk", (4, 3)): (["ABij", "Bjk"], "ABik"),
    ("...ij,...jk", (2, 2)): (["ij", "jk"], "ik"),
    ("...", (0,)): ([""], ""),
    ("ij,jk->ik", (2, 2)): (["ij", "jk"], "ik"),
    ("Aij...->A...", (4,)): (["AijB"], "AB"),
    ("ij,jk->ik", (2, 3)): None,
    ("ij,jk->ik", (2,)): None,
    ("ij->ij", (1,)): None,
    ("...ij", (1,)): None,
    ("...ij", (54,)): None,
    ("...ij,...jk", (1, 4)): None,
    ("...ij,...jk", (1, 0)): None,
    ("", (0,)): ([""], ""),
}


@pytest.mark.parametrize(("equation", "ranks"), LETTERED)
def test_a_letter_for_each_axis(equation: str, ranks: tuple[int, ...]) -> None:
    assert lettered(equation, ranks) == LETTERED[equation, ranks]


def test_as_many_letters_as_there_are() -> None:
    found = lettered("...ij", [52])
    assert found is not None
    ((term,), _) = found
    assert len(set(term)) == 52
    assert len(free_letters([])) == 52
    assert free_letters(["AB", "z"])[0] == "C"
    assert "z" not in free_letters(["AB", "z"])
