"""Maps of which the same is said are told once in the text, and one by one elsewhere."""

from __future__ import annotations

import pytest

from passes.decisions import Code, Decision, Reason, Verdict
from rewriter.model_files.model_facts import OperatorCounts
from rewriter.reporting.report import Report


def report(*forms: str) -> Report:
    """Return a report on maps ``m0``, ``m1``, ... of these forms, each with a node in a loop."""
    decisions = [
        Decision(
            f"m{i}",
            "SequenceMap",
            Verdict.FISSIONED,
            form=form,
            reasons=[Reason(Code.NEVER, f"m{i}/body/Unique_0", "Unique")],
        )
        for i, form in enumerate(forms)
    ]
    return Report(decisions, OperatorCounts(), OperatorCounts())


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (["blocks"] * 3, None),
        (["blocks"] * 4, "so are 3 others: m1, m2, m3"),
        (["blocks", "scan", "blocks", "blocks", "blocks"], "so are 3 others: m2, m3, m4"),
        (["blocks"] * 9, "so are 8 others: m1, m2, m3, m4, m5 and 3 more"),
    ],
    ids=["few", "four", "among others", "many"],
)
def test_what_is_alike_is_told_once(forms: list[str], expected: str | None) -> None:
    text = report(*forms).to_text(verbose=False)
    told = [line.strip() for line in text.splitlines() if "so are" in line]
    assert told == ([expected] if expected else [])
    count = len(forms) if expected is None else len(forms) - int(expected.split()[2])
    assert text.count("(SequenceMap)  fissioned") == count
    assert text.count("m0/body/Unique_0 (Unique): never") == 1


def test_other_places_tell_each(forms: tuple[str, ...] = ("blocks",) * 9) -> None:
    told = report(*forms)
    for text in (told.to_text(verbose=True), told.to_markdown(), told.to_html()):
        assert "so are" not in text
        assert "m8" in text
    assert len(told.to_dict()["maps"]) == 9


def test_what_differs_in_its_node_is_not_alike() -> None:
    decisions = [
        Decision(
            f"m{i}", "Loop", Verdict.KEPT, reasons=[Reason(Code.RECURRENCE, f"m{i}/body/n{i}")]
        )
        for i in range(5)
    ]
    text = Report(decisions, OperatorCounts(), OperatorCounts()).to_text(verbose=False)
    assert text.count("(Loop)  kept") == 5
