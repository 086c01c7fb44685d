"""Loops that are one edit away from one that ends without a loop compute what they did."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from passes.promises import FuseOptions
from passes.runtimes import SidestepDefectsPass
from rewriter.backends import BackendError, open_session
from rewriter.proof.compare import compare
from tests.near_misses import near_misses
from tests.passes.carried import (
    carried,
    test_carried,
    test_carried_caches,
    test_carried_ranges,
    test_carried_slices,
    test_carried_spellings,
    test_cat_writes,
    test_conditional_writes,
    test_counted_places,
    test_crossing_writes,
    test_last_places,
    test_linear,
    test_list_reads,
    test_outputs_of_ifs,
    test_own_ranges,
    test_resets,
    test_row_updates,
    test_seen,
    test_several_rows,
    test_tiles,
)
from tests.passes.loops import model

Feeds = Mapping[str, np.ndarray]
_EACH = 8


def _bases() -> dict[str, tuple[onnx.ModelProto, Sequence[Feeds]]]:
    """Return loops that end without one, each with some feeds."""
    plain = [carried.feeds(length) for length in (1, 3, 7)]
    found = {
        f"carried-{name}": (model(case.text("counted"), case.opset), plain)
        for name, case in {**test_carried.CASES, **test_resets.CASES, **test_seen.CASES}.items()
    }
    for name, case in test_carried_spellings.CASES.items():
        found[f"spelled-{name}"] = (model(case.text("counted"), case.opset), plain)
    for name in test_tiles.TILES:
        feeds = [test_tiles.feeds(length, test_tiles.state_of(name)) for length in (1, 3)]
        found[f"tiles-{name}"] = (model(test_tiles.TILES[name], 18), feeds)
    slices = [test_carried_slices.feeds(length) for length in (1, 3, 7)]
    for name, text in test_carried_slices.WRITES.items():
        found[f"slices-{name}"] = (model(text, 18), slices)
    for name, (body, state, begin) in test_carried_slices.CELLS.items():
        text = test_carried_slices.loop(body, state, begin)
        found[f"cells-{name}"] = (model(text, 18), slices)
    for name, (state, begin, body, *count) in test_carried_ranges.RANGES.items():
        text = test_carried_ranges.loop(state, begin, body, count=count[0] if count else "first")
        found[f"ranges-{name}"] = (model(text, 18), test_carried_ranges.FEEDS[2:5])
    for name, case in (test_own_ranges.WRITES | test_own_ranges.JOINS).items():
        found[f"own-{name}"] = (
            model(test_own_ranges.loop(*case), 18),
            test_own_ranges.FEEDS[2:8:2],
        )
    for name, (state, begin, body) in test_cat_writes.WRITES.items():
        text = carried.loop("counted", state, body, begin, prepare=test_cat_writes.PREPARE)
        found[f"cat-{name}"] = (model(text), plain)
    for name, body in test_row_updates.UPDATES.items():
        prepare, state = test_row_updates.PREPARE, test_row_updates.STATE
        text = carried.loop("counted", state, body, "Identity (w)", prepare=prepare)
        found[f"rows-{name}"] = (model(text), plain)
    for name, body in test_several_rows.TENSORS.items():
        text = carried.loop("counted", test_several_rows.ROWS, body, "start", result="float[Q,4]")
        found[f"several-{name}"] = (model(text), plain)
    for name, body in test_linear.BOUNDED.items():
        text = carried.loop("counted", "float[4]", body, "b", prepare=test_linear.PREPARE)
        found[f"linear-{name}"] = (model(text), [*plain, carried.feeds(20)])
    caches = [test_carried_caches.feeds(length) for length in (1, 3)]
    for name, text in test_carried_caches.CACHES.items():
        found[f"caches-{name}"] = (model(text, 24), caches)
    for name, text in test_counted_places.COUNTED.items():
        feeds = [test_counted_places.feeds(length) for length in (1, 3, 7)]
        found[f"counted-{name}"] = (model(text), feeds)
    for name in test_last_places.WRITES:
        found[f"last-{name}"] = (model(test_last_places.written(name, "counted")), plain)
    for name in test_last_places.COLUMNS:
        found[f"last-columns-{name}"] = (model(test_last_places.columns(name)), plain)
    for name, (behind, state, begin) in test_outputs_of_ifs.BEHIND.items():
        text = test_outputs_of_ifs.loop(behind, state, begin)
        found[f"behind-{name}"] = (model(text), plain)
    for name, case in test_outputs_of_ifs.TOTALS.items():
        found[f"totals-{name}"] = (model(test_outputs_of_ifs.totals(*case)), plain)
    for name in test_conditional_writes.WRITES:
        text = test_conditional_writes.written(name, "counted")
        feeds = [test_conditional_writes.feeds(length) for length in (1, 3, 7)]
        found[f"conditional-{name}"] = (model(text), feeds)
    for name, body in test_crossing_writes.CASES.items():
        feeds = [test_crossing_writes.feeds(length) for length in (1, 3, 7)]
        found[f"crossing-{name}"] = (model(test_crossing_writes.text(body)), feeds)
    for name in test_list_reads.CASES:
        feeds = [test_list_reads.feeds(length) for length in (1, 3, 7)]
        found[f"lists-{name}"] = (model(test_list_reads.text(name, test_list_reads.CASES)), feeds)
    return found


BASES = _bases()

UNDEFINED = {("carried-index_add_onto_zeros", "Constant zero1: value is [1]")}
"""A ScatterElements without a reduction writes several numbers to one place."""

MISFITS = {("spelled-largest_of_branches_in_branches", "Max w1: operand 0 is at")}
"""A branch that no iteration takes joins what does not broadcast: a choice runs it all the same."""


@pytest.mark.long
@pytest.mark.parametrize("name", BASES)
def test_a_near_miss_computes_what_it_did(name: str) -> None:
    base, feeds = BASES[name]
    ran = ((edit, near, computed(near, feeds)) for edit, near in near_misses(base, name))
    for edit, near, expected in itertools.islice((one for one in ran if one[2]), _EACH):
        if (name, edit) in UNDEFINED | MISFITS:
            continue
        said = f"{edit}\n{onnx.printer.to_text(near)}"
        rewritten = FuseSequenceMapPass(FuseOptions(), loops=True)(ir.from_proto(near)).model
        SidestepDefectsPass()(rewritten)  # a Loop of no iterations by a constant leads into one
        after = open_session(ir.to_proto(rewritten))
        for feed, results in expected:
            try:
                made = after.run(feed)
            except BackendError as error:
                # What fails on other feeds may stand in a branch that is not taken on this one.
                assert len(expected) < len(feeds), f"{error}: {said}"
                continue
            difference = compare(results, made)
            judged = difference.equal or not _agrees(near, feed, results)
            assert judged, f"{difference.message}: {said}"


def computed(near: onnx.ModelProto, feeds: Sequence[Feeds]) -> list[tuple[Feeds, Feeds]]:
    """Return what a model computes on the feeds on which it runs."""
    found = []
    for feed in feeds:
        try:
            found.append((feed, open_session(near).run(feed)))
        except BackendError:
            continue
    return found


def _agrees(near: onnx.ModelProto, feed: Feeds, results: Feeds) -> bool:
    """Whether ONNX's evaluator computes the same: onnxruntime may read what nothing wrote."""
    try:
        return compare(open_session(near, "reference").run(feed), results).equal
    except BackendError:
        return False
