"""What iterations add to ranges that overlap: ``s[:i + 1, 0] += v[i]``."""

from __future__ import annotations

import pytest

from tests.passes.carried.places import grid
from tests.passes.carried.test_own_ranges import FEEDS, JOIN, OWN, K, V, W, back, loop, part
from tests.passes.loops import model, read, same

LINE = f"""{part("down", 0, "a", "e")}  {grid("down", "zero1")}
            q0 = Slice (s, a, e, zero1)  old = Gather <axis = 1> (q0, zero)  like = Shape (old)"""
TURNED = f"""{part("along", 1, "a", "e")}  {grid("two1", "along")}
            q0 = Gather <axis = 0> (s, two)  old = Slice (q0, a, e, zero1)  like = Shape (old)"""
ALL = f"""{part("down", 0, "a", "e")}  places = Unsqueeze (down, minus1)
            size_of_grid = Shape (down)
            old = Slice (s, a, e, zero1)  like = Shape (old)"""
TOTALS = {
    "numbers": ("float[L,K]", "columns", f"{V} {LINE} {JOIN.format('Add')} {back()}"),
    "differences": ("float[L,K]", "columns", f"{V} {LINE} {JOIN.format('Sub')} {back()}"),
    "integers": ("int64[K,L]", "ids", f"{K} {TURNED} {JOIN.format('Add')} {back()}"),
    "greatest": ("float[K,L]", "table", f"{V} {TURNED} {JOIN.format('Max')} {back()}"),
    "rows": ("float[L,K,3]", "turned", f"{W} {LINE} {JOIN.format('Add')} {back()}"),
    "a row for each place": (
        "float[L,K,3]",
        "turned",
        f"{OWN} {LINE} {JOIN.format('Add')} {back()}",
    ),
    "one row of a slice": (
        "float[L,K,3]",
        "turned",
        f"m = Slice (packed, zero1, one1, zero1)  {LINE} {JOIN.format('Add')} {back()}",
    ),
    "rows of all behind": ("float[L,K,3]", "turned", f"{W} {ALL} {JOIN.format('Add')} {back()}"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", TOTALS)
def test_what_is_added_to_ranges_ends_without_a_loop(name: str) -> None:
    before = model(loop(*TOTALS[name]), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *FEEDS) == len(FEEDS)


MISSES = {
    "another column is read": TOTALS["numbers"][2].replace("(q0, zero)", "(q0, one)"),
    "another range is read": TOTALS["numbers"][2]
    .replace(
        "q0 = Slice (s, a, e, zero1)  old = Gather <axis = 1> (q0, zero)  like",
        """a2 = Sub (a, one1)  e2 = Sub (e, one1)
            q0 = Slice (s, a2, e2, zero1)  old = Gather <axis = 1> (q0, zero)
            q1 = Slice (s, a, e, zero1)  q2 = Gather <axis = 1> (q1, zero)  like""",
    )
    .replace("like = Shape (old)", "like = Shape (q2)"),
    "what is there is squared": TOTALS["numbers"][2].replace("(old, m)", "(old, old)"),
    "sums of what was added": TOTALS["numbers"][2].replace(
        "m = Gather <axis = 0> (v, i)", "m = ReduceSum <keepdims = 0> (s)"
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_stays_a_loop(name: str) -> None:
    before = model(loop("float[L,K]", "columns", MISSES[name]), 18)
    found = read(before)
    assert found.loops == 1, [(d.path, d.notes) for d in found.decisions]
    assert set(found.codes) == {"recurrence"}
    assert same(before, found.model, *FEEDS[:6]) >= 2
