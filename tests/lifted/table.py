"""The table of lifted cases as pytest parameters, and the claim that each of them makes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lifted.cases import FALSELY_DECLARED, WAYS, case_names, share
from tests.lifted.outcome import judge
from tests.lifted.samples import COUNT

__all__ = ["assert_right", "table"]


DEPARTURES = {
    f"fuse-{way}-resize_tf_crop_and_resize_axes_{axes}"
    for way in ("all", "varied")
    for axes in ("2_3", "3_2")
}
"""Where a sample has the size of its result, onnxruntime takes no notice of its region, and ONNX
does; see ``docs/upstream/resize-of-a-region-of-its-size.md``."""


def table(*strategies: str) -> list[Any]:
    """List all cases in all ways, those outside of a fixed tenth under the marker ``full``."""
    cases = []
    for strategy in strategies:
        for way in WAYS:
            for name in case_names(way):
                case = f"{strategy}-{way}-{name.removeprefix('test_')}"
                marks = [] if share(case, 10) else [pytest.mark.full]
                if case in DEPARTURES:
                    marks.append(pytest.mark.xfail(strict=True, reason="ONNX, not onnxruntime"))
                cases.append(pytest.param(name, way, strategy, id=case, marks=marks))
    return cases


def assert_right(name: str, way: str, strategy: str) -> None:
    """Every sample gives what it gives alone, on the engine that runs it alone.

    Where samples break the declared types, they may be an error too: the plain form has none.
    """
    outcome = judge(name, way, strategy)
    if outcome.status == "unusable":
        pytest.skip("no engine runs the single model")
    if way == FALSELY_DECLARED and strategy != "plain" and outcome.status == "fails":
        assert outcome.detail.startswith(f"RuntimeError: with {COUNT} samples")
        return
    assert (outcome.status, outcome.detail) == ("right", "")
    if (way, strategy) == ("ragged", "plain"):
        return  # the plain form keeps the model's SplitToSequence, of types without a kernel too
    assert outcome.rewritten == outcome.single, outcome.refusal
