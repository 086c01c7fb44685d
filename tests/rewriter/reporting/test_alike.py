"""Maps of which the same is said are told once in the text, and one by one elsewhere."""

from __future__ import annotations

import onnx
import pytest

import rewriter
from passes.decisions import Code, Decision, Reason, Verdict
from rewriter.model_files.model_facts import OperatorCounts
from rewriter.reporting.given_nodes import with_given_paths
from rewriter.reporting.report import Report
from rewriter.target_table import Unreached


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


def copies(*forms: str) -> Report:
    """Return a report on a map ``m`` and its copies ``m_1``, ``m_2``, ..."""
    decisions = [
        Decision(
            f"m_{i}" if i else "m",
            "SequenceMap",
            Verdict.FISSIONED,
            form=form,
            reasons=[Reason(Code.NEVER, "m/body/Unique_0", "Unique")],
            copy_of="m" if i else "",
        )
        for i, form in enumerate(forms)
    ]
    return Report(decisions, OperatorCounts(), OperatorCounts())


def test_copies_of_a_map_are_told_as_one_everywhere() -> None:
    told = copies("blocks", "blocks")
    line = "2 copies of m (SequenceMap)  each fissioned: blocks"
    for verbose in (True, False):
        text = told.to_text(verbose=verbose)
        assert line in text
        assert "m_1" not in text
        assert text.count("m/body/Unique_0 (Unique): never") == 1
    assert line in told.to_markdown().replace("\\", "")
    page = told.to_html()
    assert page.count("2 copies of m (SequenceMap)") == 1
    assert "m_1" not in page
    assert [one["copy_of"] for one in told.to_dict()["maps"]] == ["", "m"]


def test_a_copy_that_becomes_something_else_is_told_by_itself() -> None:
    text = copies("blocks", "scan", "blocks").to_text(verbose=False)
    assert "2 copies of m (SequenceMap)  each fissioned: blocks" in text
    assert "a copy of m (SequenceMap)  fissioned: scan" in text


CALLED_TWICE = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (seq(float[N]) xs) => (seq(float[N]) a, seq(float[N]) b) {
    a = local.each (xs)
    b = local.each (xs)
}
<domain: "local", opset_import: ["" : 18]>
each (xs) => (ys) {
    ys = SequenceMap (xs) <body = step (float[N] x) => (float[M] y) { y = Unique (x) }>
}"""


def test_the_map_of_a_function_that_is_called_twice_is_told_once() -> None:
    report = rewriter.explain(onnx.parser.parse_model(CALLED_TWICE))
    text = report.to_text()
    assert text.count("(SequenceMap)  ") == 1
    assert "2 copies of local.each/SequenceMap_0 (SequenceMap)  each " in text
    assert "SequenceMap_0_1" not in text


def test_what_was_merged_is_named_at_what_is_left() -> None:
    paths = [f"m{i}" for i in range(12)]
    wholes = [path for number, path in enumerate(paths) if number % 3 == 2]
    decisions = [
        Decision(
            path,
            "SequenceMap",
            Verdict.FUSED,
            "" if path in wholes else f"part of {wholes[number // 3]}",
        )
        for number, path in enumerate(paths)
    ]
    told = Report(decisions, OperatorCounts(), OperatorCounts({"Loop": 1}))
    assert told.headline.startswith("holds no map, no loop, no sequence; rewritten: 12 maps batch")
    lines = [line.strip() for line in told.to_text(verbose=False).splitlines()[1:]]
    assert lines == [
        "maps (strategy auto):",
        "m2 (SequenceMap)  fused",
        "merged with it: m0, m1",
        "so are 3 others: m5, m8, m11",
    ]
    assert told.to_text(verbose=True).count("fused: part of ") == 8


CALLED_OFTEN = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[N] x, int64[S] s, bool c) => (float[N] y)
{ [a] v0 = local.part (x, s, c)  [b] v1 = local.part (v0, s, c)  [d] v2 = local.part (v1, s, c)
  [e] v3 = local.part (v2, s, c)  [f] y = local.part (v3, s, c) }
<domain: "local", opset_import: ["" : 18]> turned (v, t) => (u) { [shape] u = Reshape (v, t) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> part (v, t, c) => (w)
{ [choose] u = If (c) <then_branch = f () => (float[] p) { [turn] p = local.turned (v, t) },
    else_branch = e () => (float[] q) { q = Identity (v) }>
  [halve] h = Neg (u)
  [again] w = If (c) <then_branch = f2 () => (float[] p2) { [over] p2 = Reshape (h, t) },
    else_branch = e2 () => (float[] q2) { q2 = Identity (h) }> }"""


def test_what_is_left_of_a_function_that_is_called_often_is_told_once() -> None:
    model = onnx.parser.parse_model(CALLED_OFTEN)
    text = rewriter.explain(model, target="portable").to_text()
    left = [line.strip() for line in text.partition("not reached, left:")[2].splitlines()]
    for name, blamed in (
        ("choose", "local.turned/shape"),
        ("again", "local.part/again/then_branch/over"),
    ):
        found = f"local.part/{name} (If): target portable rules out If; {blamed}"
        assert sum(line.startswith(found) for line in left) == 1
    assert left.count("and 4 more for this reason: 4 If") == 2
    assert "choose_1" not in text


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("If_1", "If_1"),
        ("If_1_3", "If_1"),
        ("If_1/then_branch/call_2", "If_1/then_branch/call"),
        ("If_1/then_branch/call_2/Mul_1", "If_1/then_branch/call/Mul_1"),
        ("If_1/then_branch/new_2", "If_1/then_branch/new_2"),
        ("step_4", "step_4"),
    ],
)
def test_a_copy_is_named_as_the_model_as_given_does(word: str, told: str) -> None:
    given = {"If_1": "If", "If_1/then_branch/call": "f"}
    (left,) = with_given_paths([Unreached(word, "If", f"for {word} (Mul), since", "")], given)
    assert (left.node, left.reason) == (told, f"for {told} (Mul), since")
