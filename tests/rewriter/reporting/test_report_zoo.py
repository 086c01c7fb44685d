"""Every remedy that is offered for a model of the zoo changes what it is offered for."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from passes.decisions import Code, Decision, Verdict
from rewriter.pipeline import explain
from rewriter.reporting.remedies import Remedy
from rewriter.reporting.report import Report

MODELS = pathlib.Path(__file__).parents[3] / "models"
ZOO = {
    path.stem: path
    for path in sorted(MODELS.glob("*/*.onnx*"))
    if path.suffix in (".onnx", ".onnxtxt")
}
SAMPLE = (
    "onnxscript_python_loop",
    "pad_to_largest",
    "ragged_two_axes",
    "seqmap_outer_scope_onnx4892",
    "ts_rnn_negative",
)
OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {},
    "fuse": {"strategy": "fuse"},
    "expand": {"strategy": "expand"},
    "portable": {"target": "portable"},
    "tensors": {"target": "portable", "tensor_io": True},
    "loop-free": {"require": ("loop-free",)},
}
ORDER = (
    {Verdict.FUSED, Verdict.UNROLLED},
    {Verdict.GUARDED},
    {Verdict.FISSIONED},
    {Verdict.EXPANDED, Verdict.KEPT},
)


def rank(report: Report, path: str) -> tuple[int, int, int]:
    """Return how good the verdict on a map, or the worst of those on its parts, is: less is better.

    A map that is batched has another part where its results are cut out of rows one by one.
    """
    return max(map(_rank_of, (one for one in report.decisions if one.path == path)))


def _rank_of(decision: Decision) -> tuple[int, int, int]:
    place = next(i for i, verdicts in enumerate(ORDER) if decision.verdict in verdicts)
    is_inserted = any(reason.code is Code.UNSPLITTABLE_TYPE for reason in decision.reasons)
    return place, decision.in_loops, int(is_inserted)


def follow(path: pathlib.Path, options: dict[str, Any], remedy: Remedy) -> Report:
    """Return the report with a remedy, numbers put into the place of the names in it."""
    return explain(path, **{**options, **remedy.candidate.changes})


def check_remedies(path: pathlib.Path, options: dict[str, Any]) -> None:
    report = explain(path, **options)
    assert report.remedies.tried
    for name, remedies in report.remedies.maps.items():
        best = rank(report, name)
        for remedy in remedies:
            after = rank(follow(path, options, remedy), name)
            assert after < best, remedy
            best = after
    for (node, op_type), remedies in report.remedies.nodes.items():
        for remedy in remedies:
            after = follow(path, options, remedy)
            left = [(one.node, one.op_type) for one in after.blocked]
            assert (node, op_type) not in left, remedy
            assert len(left) < len(report.blocked)
            assert after.reached is (remedy.effect == "target reached")
    assert_nothing_given(report, options)


def assert_nothing_given(report: Report, options: dict[str, Any]) -> None:
    """No option of the text was given already."""
    lines = [line for line in report.to_text().splitlines() if "remedy: " in line]
    told = "\n".join(line.partition("remedy: ")[2] for line in lines)
    assert "may help" not in report.to_text()
    assert f"--strategy {options.get('strategy', 'auto')}" not in told
    if options.get("tensor_io"):
        assert "--tensor-io" not in told


@pytest.mark.long
@pytest.mark.parametrize("options", ["auto", "portable"])
@pytest.mark.parametrize("name", SAMPLE)
def test_a_remedy_changes_the_verdict(name: str, options: str) -> None:
    check_remedies(ZOO[name], OPTIONS[options])


@pytest.mark.full
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ZOO)
def test_every_remedy_changes_the_verdict(name: str, options: str) -> None:
    check_remedies(ZOO[name], OPTIONS[options])
