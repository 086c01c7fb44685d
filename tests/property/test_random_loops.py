"""Random maps in every form of Loop and Scan, and near-misses of each.

What is fused computes what the Loop does on onnxruntime; a near-miss stays a Loop.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.decisions import Verdict
from tests.passes.loops import read, same
from tests.property.loops import DIALECTS, MISSES, draw

MAPS = 12
SIZES = (0, 1, 2, 5)


@pytest.mark.parametrize("seed", range(MAPS))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_random_map_is_fused_and_computes_the_same(dialect: str, seed: int) -> None:
    program = draw(dialect, seed)
    before = onnx.parser.parse_model(program.text)
    found = read(before)
    verdicts = {d.verdict for d in found.decisions}
    assert program.is_map is None or verdicts == {Verdict.FUSED}, found.decisions
    feeds = [program.feeds(n, seed) for n in SIZES if n >= program.least]
    assert same(before, found.model, *feeds) >= 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("dialect", "miss"), [(d, miss) for d, misses in MISSES.items() for miss in misses]
)
def test_a_near_miss_stays_a_loop(dialect: str, miss: str, seed: int) -> None:
    """What does not depend on its recurrence may be taken out of it."""
    program = draw(dialect, seed, miss)
    before = onnx.parser.parse_model(program.text)
    found = read(before)
    (decision,) = found.decisions
    assert decision.verdict in (Verdict.KEPT, Verdict.FISSIONED)
    assert decision.reasons
    if decision.verdict is Verdict.KEPT:
        assert found.model == ir.to_proto(ir.from_proto(before))
        return
    assert found.loops == 1
    feeds = [program.feeds(n, seed) for n in SIZES if n >= program.least]
    same(before, found.model, *feeds)
