"""Loops in other spellings end and compute as they do in the one that they are written in."""

from __future__ import annotations

import functools

import onnx
import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_nodes
from passes.promises import FuseOptions
from tests.passes.loops import same
from tests.passes.raising.test_near_misses import BASES
from tests.spellings import SPELLINGS

_OFTEN = 60
UNSEEN = ("no shapes", "copies", "absent inputs")
"""Spellings that may hide what lets a Loop end."""
STAY = {"counted-two_further", "conditional-sums", "conditional-sums_of_either"}
"""What stays a Loop where a number inside of a branch is cast to the type of another value."""
CASES = [
    pytest.param(base, spelling, marks=() if number % _OFTEN == 0 else pytest.mark.full)
    for spelling in SPELLINGS
    for number, base in enumerate(BASES)
]


@pytest.mark.parametrize(("base", "spelling"), CASES)
def test_another_spelling_ends_and_computes_as_the_first(base: str, spelling: str) -> None:
    given, feeds = BASES[base]
    spelled = functools.reduce(lambda model, change: change(model), SPELLINGS[spelling], given)
    onnx.checker.check_model(spelled, full_check=True)
    rewritten = _rewritten(spelled)
    is_seen = spelling not in UNSEEN and not (spelling == "cast constants" and base in STAY)
    assert not is_seen or _loops(rewritten) <= _loops(_rewritten(given))
    after = ir.to_proto(rewritten)
    # onnxruntime takes an absent operand of Squeeze for one that is missing.
    assert same(spelled, after, *feeds) or same(given, after, *feeds)


def _rewritten(given: onnx.ModelProto) -> ir.Model:
    return FuseSequenceMapPass(FuseOptions(), loops=True)(ir.from_proto(given)).model


def _loops(model: ir.Model) -> int:
    """Return how many Loops are left: one may stand beside what would pad too much."""
    return sum(node.op_type in ("Loop", "Scan") for node in all_nodes(model))
