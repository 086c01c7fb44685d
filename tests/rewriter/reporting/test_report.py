from __future__ import annotations

import dataclasses
import json
import platform
from typing import Any

import onnx_ir as ir
import onnxruntime
import pytest

import rewriter
from passes.decisions import Code, Decision, Reason, Verdict
from passes.promises import Promises
from rewriter.model_files.model_facts import (
    ModelFacts,
    OperatorCounts,
    bytes_text,
    count_operators,
    model_facts,
)
from rewriter.reporting.headline import told_held
from rewriter.reporting.python_words import in_python
from rewriter.reporting.report import Report
from rewriter.reporting.report_parts import Loading
from rewriter.target_table import Unreached

NESTED = """
<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
agraph (seq(float[N]) xs, bool c) => (seq(float[N]) ys, float[M] z)
{
  ys = SequenceMap (xs) <body = inner (float[N] x) => (float[N] y) { y = local.twice (x) }>
  z = If (c) <
    then_branch = yes () => (float[M] t) { t = ConcatFromSequence <axis = 0> (ys) },
    else_branch = no () => (float[M] e) { e = ConcatFromSequence <axis = 0> (xs) }>
}
<domain: "local", opset_import: ["" : 18]>
twice (x) => (y) { y = Add (x, x) }
"""


def decided() -> Report:
    fused = Decision(
        path="main/rows",
        op_type="SequenceMap",
        verdict=Verdict.FISSIONED,
        form="scan outputs",
        reasons=[
            Reason(Code.NEVER, "main/rows/unique", "Unique", "its length depends on the values"),
            Reason(Code.RAGGED),
        ],
        assumptions=["a|b <c>", "elements of xs have 3 channels"],
        notes=["moves 2 MB"],
    )
    kept = Decision("main/loop", "Loop", Verdict.KEPT, reasons=[Reason(Code.NOT_A_MAP)])
    kept.assumptions.append("elements of xs have 3 channels")
    return Report(
        decisions=[fused, kept],
        before=OperatorCounts({"Loop": 1, "SequenceMap": 1}),
        after=OperatorCounts({"Loop": 2, "custom::Add": 1, "SplitToSequence": 1}),
        promises=Promises(frozenset({"xs"}), {"t": (2, None)}, trust_types=True),
        target="tensorrt",
        require=("loop-free",),
        blocked=[Unreached("main/split", "SplitToSequence", "rules it out", "use --tensor-io")],
        warnings=["opset 27 is new"],
    )


UNTOUCHED = Report([], OperatorCounts({"Relu": 2}), OperatorCounts({"Relu": 2}))


def test_counts_cover_subgraphs_and_functions() -> None:
    counts = count_operators(ir.from_onnx_text(NESTED))
    assert dict(counts.by_type) == {
        "Add": 1,
        "ConcatFromSequence": 2,
        "If": 1,
        "SequenceMap": 1,
        "local::twice": 1,
    }
    assert list(counts.by_type) == sorted(counts.by_type)
    assert (counts.total, counts.sequences, counts.loops) == (6, 3, 1)


def test_counts_take_no_other_domain_for_a_loop() -> None:
    counts = OperatorCounts({"Loop": 1, "Scan": 2, "mine::Loop": 4, "mine::SequenceAt": 8})
    assert (counts.loops, counts.sequences) == (3, 0)


MAPS = (
    "maps (strategy auto):\n"
    "  main/rows (SequenceMap)  fissioned: scan outputs\n"
    "      main/rows/unique (Unique): never: its length depends on the values; "
    "the node stays in a loop\n"
    "      ragged: the operand is not proven to have one shape in all samples; may help: promise "
    "equal shapes with --uniform, or resize the samples to one shape first\n"
    "      moves 2 MB\n"
    "  main/loop (Loop)  kept\n"
    "      not-a-map: the Loop or Scan is no map over independent samples; "
    "it stays as it is\n"
)
CODES = "what the codes mean: seqmap explain-code never ragged not-a-map\n"
PROMISES = (
    "promises:\n"
    "  uniform: xs\n"
    "  shape of t: [2, ?]\n"
    "  declared dimensions of sequence elements hold\n"
)
LEFT = (
    "target tensorrt and loop-free: not reached, left:\n"
    "  main/split (SplitToSequence): rules it out\n"
    "      may help: use --tensor-io\n"
)
HEADLINE = "holds 1 SequenceMap, 1 Loop; target tensorrt and loop-free not reached; not verified\n"


def test_text_has_the_answer_then_a_line_for_each_map_and_its_reasons_below() -> None:
    warnings = "warnings:\n  opset 27 is new\n"
    assert decided().to_text() == HEADLINE + MAPS + PROMISES + warnings + LEFT
    assert str(decided()) == in_python(decided().to_text())


def test_verbose_text_has_assumptions_sizes_and_operators() -> None:
    facts = ModelFacts("g", "me 1", 18, 8, 2_400_000_000, {"xs": "seq(float[N])"}, {"y": "float"})
    report = dataclasses.replace(decided(), given=facts, new=ModelFacts())
    text, _, environment = report.to_text(verbose=True).partition("environment:\n")
    assert f"  python             {platform.python_version()}\n" in environment
    assert f"onnxruntime        {onnxruntime.__version__}" in environment
    assert text == (
        HEADLINE + MAPS + CODES + PROMISES + "assumptions:\n"
        "  a|b <c>\n"
        "  elements of xs have 3 channels\n"
        "warnings:\n"
        "  opset 27 is new\n"
        "model:\n"
        "  model       before         after\n"
        "  nodes       2              4\n"
        "  weights     2.4 GB         0 B\n"
        "  opset       18             0\n"
        "  IR version  8              0\n"
        "  IN xs       seq(float[N])\n"
        "  OUT y       float\n"
        "operators:\n"
        "  operator            before  after\n"
        "  Loop                     1      2\n"
        "  SequenceMap              1      0\n"
        "  SplitToSequence          0      1\n"
        "  custom::Add              0      1\n"
        "  all                      2      4\n"
        "  sequence operators       1      1\n"
        "  loops and maps           2      2\n" + LEFT
    )


FOLDED = Decision(
    "m",
    "SequenceMap",
    Verdict.FISSIONED,
    reasons=[
        Reason(Code.NO_RULE, "m/body/a", "Mine", "it has no rule", dependents=("m/body/b",)),
        Reason(Code.NEVER, "m/body/c", "Unique", "it never batches", dependents=("d", "e", "f")),
    ],
)


@pytest.mark.parametrize("form", ["to_text", "to_markdown"])
def test_nodes_that_follow_from_a_cause_are_counted(form: str) -> None:
    text = getattr(Report([FOLDED], OperatorCounts(), OperatorCounts()), form)()
    assert "it has no rule, and 1 node that depends on it; remedy: " in text
    assert "it never batches, and 3 nodes that depend on it; the node stays in a loop" in text
    assert "m/body/b" not in text


def test_json_lists_the_nodes_that_follow_from_a_cause() -> None:
    record = Report([FOLDED], OperatorCounts(), OperatorCounts()).to_dict()
    (entry,) = record["maps"]
    assert [r["dependents"] for r in entry["reasons"]] == [["m/body/b"], ["d", "e", "f"]]


def test_what_is_left_for_one_cause_is_told_once() -> None:
    kept = [
        Unreached(f"m/{op}", op, f"it rules out {op}; 'm' keeps it", "wait", cause="'m' keeps it")
        for op in ("Loop", "SequenceAt", "SequenceAt", "If")
    ]
    alone = [Unreached("a", "Loop", "it rules out Loop", "wait")] * 2
    report = Report([], OperatorCounts(), OperatorCounts(), blocked=[*kept, *alone])
    assert report.to_text().endswith(
        "  m/Loop (Loop): it rules out Loop; 'm' keeps it\n"
        "      and 3 more for this reason: 2 SequenceAt, 1 If\n"
        "      remedy: wait\n"
        "  a (Loop): it rules out Loop\n"
        "      remedy: wait\n"
        "  a (Loop): it rules out Loop\n"
        "      remedy: wait\n"
    )
    assert len(report.to_dict()["unreached"]) == 6


def test_a_remedy_that_reaches_the_target_is_told_once() -> None:
    reaching = "--wait (tried: target reached)"
    nodes = [
        Unreached(f"n{i}", op, f"it rules out {op}", f"{reaching}, or something else")
        for i, op in enumerate(["SequenceAt", "SequenceInsert", "SequenceAt", "If"])
    ]
    caused = [
        Unreached(f"m{i}", "Loop", f"Loop {i}; 'm' keeps it", reaching, cause="'m' keeps it")
        for i in range(2)
    ]
    left = [Unreached("", "", f"{one} is a sequence", reaching) for one in ("x", "y")]
    report = Report([], OperatorCounts(), OperatorCounts(), blocked=[*left, *nodes, *caused])
    assert report.to_text().endswith(
        "target onnxruntime: not reached, left:\n"
        "  x is a sequence\n"
        "  y is a sequence\n"
        "  n0 (SequenceAt): it rules out SequenceAt\n"
        "      and 3 more: 1 SequenceInsert, 1 SequenceAt, 1 If\n"
        "  m0 (Loop): Loop 0; 'm' keeps it\n"
        "      and 1 more for this reason: 1 Loop\n"
        f"  remedy: {reaching}\n"
    )


def test_the_same_of_many_nodes_is_told_once() -> None:
    left = [Unreached(f"n{i}", "SequenceAt", "it rules out SequenceAt", "wait") for i in range(4)]
    report = Report([], OperatorCounts(), OperatorCounts(), blocked=left)
    assert report.to_text().endswith(
        "  n0 (SequenceAt): it rules out SequenceAt\n"
        "      and 3 more for this reason: 3 SequenceAt\n"
        "      remedy: wait\n"
    )


def test_text_of_a_model_without_maps() -> None:
    line = "holds no map, no loop, no sequence; nothing to do\n"
    assert UNTOUCHED.to_text() == line
    assert UNTOUCHED.to_text(verbose=True).startswith(f"{line}no maps, nothing to do\nmodel:\n")


def made(verdict: Verdict) -> Decision:
    return Decision("m", "SequenceMap", verdict)


EQUAL, FAILS = {"verdict": "equal"}, {"verdict": "before fails"}
PROOF = {"ok": True, "differs": False, "verified": 8, "cases": [EQUAL] * 8, "repairs": []}
PARTLY = {**PROOF, "verified": 7, "cases": [*[EQUAL] * 7, FAILS]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"given_loading": Loading("rt 1", "refused")},
            "refused by rt 1; rewritten: no loop, 1 s",
        ),
        ({"given_loading": Loading("rt 1", "loaded")}, "holds 1 SequenceMap; rewritten: no loop"),
        (
            {
                "given_loading": Loading("rt 1", "refused"),
                "loading": Loading("rt 1", "loaded"),
            },
            "refused by rt 1; now loads, no loop, 1 sequence operator; not v",
        ),
        (
            {
                "given_loading": Loading("rt 1", "loaded"),
                "loading": Loading("rt 1", "loaded"),
            },
            "holds 1 SequenceMap; now no loop, 1 sequence operator; not v",
        ),
        ({"loading": Loading("rt 1", "loaded")}, "now loads, no loop, 1 sequence operator; not v"),
        ({"loading": Loading("x", "not loaded")}, "; now no loop, 1 sequence operator; not verif"),
        ({"after": OperatorCounts({"Scan": 1})}, "rewritten: batched, 1 loop, no sequence; not"),
        ({"after": OperatorCounts({"Loop": 2})}, "rewritten: batched, 2 loops, no sequence;"),
        (
            {"after": OperatorCounts({"Loop": 2}), "decisions": [made(Verdict.GUARDED)]},
            "rewritten: batched for enough samples of fitting shapes, else a loop; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [dataclasses.replace(made(Verdict.GUARDED), few=11)],
            },
            "rewritten: batched from 12 samples of fitting shapes on, else a loop; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [dataclasses.replace(made(Verdict.FUSED), few=11)],
            },
            "rewritten: batched from 12 samples on, else a loop; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [dataclasses.replace(made(Verdict.FUSED), few=2, few_copied=True)],
            },
            "rewritten: batched, 2 loops, no sequence; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [
                    dataclasses.replace(made(Verdict.GUARDED), path=f"m{few}", few=few)
                    for few in (7, 11, 9)
                ],
            },
            "rewritten: 3 maps batched from 8 to 12 samples of fitting shapes on, else a loop; n",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [
                    Decision("m0", "SequenceMap", Verdict.FUSED, "part of m1"),
                    Decision("m1", "SequenceMap", Verdict.FUSED, few=5),
                    Decision("m2", "SequenceMap", Verdict.UNROLLED),
                ],
            },
            "rewritten: 2 of 3 maps batched from 6 samples on, else a loop, 1 unrolled; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [
                    Decision("m", "SequenceMap", Verdict.KEPT),
                    Decision("m_1", "SequenceMap", Verdict.KEPT, copy_of="m"),
                    Decision("n", "SequenceMap", Verdict.FUSED),
                ],
            },
            "rewritten: 1 of 2 maps kept as given, 1 batched; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [dataclasses.replace(made(Verdict.FISSIONED), few=11)],
            },
            "rewritten: batched in part from 12 samples on, else a loop; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 2}),
                "decisions": [made(Verdict.FUSED), made(Verdict.KEPT), made(Verdict.FUSED)],
            },
            "rewritten: 2 of 3 maps batched, 1 kept as given; not",
        ),
        (
            {"after": OperatorCounts({"Loop": 1}), "decisions": [made(Verdict.KEPT)]},
            "rewritten: still 1 loop, no sequence; not",
        ),
        (
            {"after": OperatorCounts({"Loop": 2}), "decisions": [made(Verdict.EXPANDED)] * 2},
            "rewritten: 2 maps a loop; not",
        ),
        (
            {
                "after": OperatorCounts({"Loop": 1}),
                "decisions": [Decision("m", "Loop", Verdict.EXPANDED)],
            },
            "rewritten: still a loop, of another form; not",
        ),
        ({"before": OperatorCounts({"SequenceAt": 2})}, "holds 2 sequence operators; rewritten"),
        ({"verification": PROOF}, "; verified on 8 of 8 inputs"),
        ({"verification": PARTLY}, "; verified on 7 of 8 inputs, as given it fails on 1"),
        ({"verification": {**PROOF, "repairs": [{}]}}, "on 8 of 8 inputs, 1 map repaired"),
        ({"verification": {**PROOF, "ok": False}}, "; nothing could be verified"),
        (
            {"verification": {**PROOF, "ok": False, "differs": True}},
            "; verification failed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_headline(changes: dict[str, Any], expected: str) -> None:
    before, after = OperatorCounts({"SequenceMap": 1}), OperatorCounts({"SplitToSequence": 1})
    report = Report([made(Verdict.FUSED)], before, after)
    assert expected in dataclasses.replace(report, **changes).headline


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (123_456, "123 KB"), (98_500_000, "98.5 MB")],
)
def test_sizes_have_a_unit(count: int, expected: str) -> None:
    assert bytes_text(count) == expected


def test_facts_of_a_model() -> None:
    facts = model_facts(ir.from_onnx_text(NESTED))
    assert (facts.name, facts.opset, facts.ir_version) == ("agraph", 18, 8)
    assert facts.inputs == {"xs": "seq(float[N])", "c": "bool"}
    assert facts.outputs == {"ys": "seq(float[N])", "z": "float[M]"}


def test_json_holds_everything_the_text_says() -> None:
    record = json.loads(decided().to_json())
    assert record == decided().to_dict()
    assert [entry["verdict"] for entry in record["maps"]] == ["fissioned", "kept"]
    assert record["maps"][0]["reasons"][0]["code"] == "never"
    assert record["maps"][0]["reasons"][1]["detail"] == Code.RAGGED.meaning
    assert record["promises"] == {
        "uniform": ["xs"],
        "input_shapes": {"t": [2, None]},
        "trust_types": True,
    }
    assert record["operators"]["after"]["loops"] == 2
    assert record["reached"] is False


def test_assumptions_are_listed_once() -> None:
    assert decided().assumptions == ("a|b <c>", "elements of xs have 3 channels")


def test_markdown_escapes_and_tabulates() -> None:
    text = decided().to_markdown()
    assert "- a\\|b \\<c\\>" in text
    assert "| operator | before | after |\n| --- | ---: | ---: |\n| Loop | 1 | 2 |" in text
    assert "## target tensorrt and loop-free: not reached, left" in text


@pytest.mark.parametrize("form", ["to_text", "to_json", "to_markdown", "to_html"])
def test_equal_reports_render_equally(form: str) -> None:
    assert getattr(decided(), form)() == getattr(decided(), form)()


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (UNTOUCHED, True),
        (decided(), False),
        (
            Report(
                [Decision("main/l", "Loop", Verdict.KEPT)],
                OperatorCounts({"Loop": 1}),
                OperatorCounts({"Loop": 1}),
            ),
            True,
        ),
        (Report([], OperatorCounts({"Relu": 2}), OperatorCounts({"Relu": 1})), False),
    ],
    ids=["no maps", "fused", "kept only", "dead node removed"],
)
def test_nothing_to_do(report: Report, *, expected: bool) -> None:
    assert report.nothing_to_do is expected
    assert ("; nothing to do\n" in report.to_text()) is expected


RAGGED = """
<ir_version: 8, opset_import: ["" : 18]>
g (seq(float[T,4]) clips, float[4,3] w) => (seq(float[T,3]) scores)
{
  scores = SequenceMap (clips, w) <body = b (float[T,4] x, float[4,3] v) => (float[T,3] y) {
    t = MatMul (x, v)
    y = Softmax <axis = -1> (t)
  }>
}
"""


def test_a_report_tells_how_values_are_held_at_a_map() -> None:
    report = rewriter.explain(ir.from_onnx_text(RAGGED))
    (entry,) = report.to_dict()["maps"]
    held = {one["name"]: (one["sample"], one["layouts"]) for one in entry["boundary"]}
    assert held == {
        "x": ("float[T,4]", ["packed"]),
        "v": ("float[4,3]", ["shared"]),
        "scores": ("float[T,3]", ["packed"]),
    }
    told = "reads x        float[T,4]  packed\n"
    assert told in report.to_text(verbose=True)
    assert told not in report.to_text()
    assert "<td>packed</td>" in report.to_html()


def test_what_may_flip_is_told_in_one_note() -> None:
    text = RAGGED.replace("Softmax <axis = -1> (t)", "Floor (t)")
    both = text.replace("y = Floor (t)", "r = Ceil (t)\n y = Floor (r)")
    (decision,) = rewriter.explain(ir.from_onnx_text(both)).decisions
    (note,) = [note for note in decision.notes if "may flip" in note]
    assert note.startswith("SequenceMap_0/body/Ceil_1 (Ceil)")


def test_many_that_may_flip_are_counted() -> None:
    text = RAGGED.replace("Softmax <axis = -1> (t)", "Floor (t)")
    many = "r = Ceil (t)\n s = Floor (r)\n u = Ceil (s)\n y = Floor (u)"
    (decision,) = rewriter.explain(
        ir.from_onnx_text(text.replace("y = Floor (t)", many))
    ).decisions
    (note,) = [note for note in decision.notes if "may flip" in note]
    assert note.count("SequenceMap_0/body/") == 2
    assert ", and 2 more may flip at a tie: what feeds them rounds" in note


@pytest.mark.parametrize(
    ("by_type", "sequences", "expected"),
    [
        ({"Loop": 4, "Add": 2}, 0, "4 Loops"),
        ({"SequenceMap": 2, "Loop": 1, "Scan": 2}, 3, "2 SequenceMaps, 1 Loop, 2 Scans"),
        ({"SequenceAt": 1}, 1, "1 sequence operator"),
        ({"Add": 1}, 0, ""),
    ],
)
def test_what_a_model_holds(by_type: dict[str, int], sequences: int, expected: str) -> None:
    assert told_held({"by_type": by_type, "sequences": sequences}) == expected
