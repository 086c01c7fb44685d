"""The report as a page: what it holds, and how a browser shows it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import html.parser
import json
import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Code, Decision, Reason, Verdict
from rewriter.model_files.model_facts import OperatorCounts
from rewriter.reporting.bench_record import Bench, BenchRow
from rewriter.reporting.html_sections import html_table
from rewriter.reporting.report import Report
from tests import browser
from tests.rewriter.reporting.test_report import FOLDED, decided

MODELS = Path(__file__).parents[3] / "models"
SHOWN = {
    "dy_hstack": MODELS / "demo" / "dy_hstack.onnx",
    "resnet50": MODELS / "demo" / "resnet50_preprocessing.onnxtxt",
    "embedding_bag": MODELS / "exported" / "dy_embedding_bag.onnx",
    "ragged_rows": MODELS / "exported" / "seqmap_mlp_ragged_rows.onnx",
    "recurrence": MODELS / "exported" / "ts_rnn_negative.onnx",
    "maskrcnn": MODELS / "pipelines" / "ts_maskrcnn.onnx",
}
_VOID = {"meta"}
WIDTHS = (400, 900, 1600)
FAILING = "const failures = []; onerror = error => { failures.push(String(error)); }"
LOOK = """
const isWide = () => document.documentElement.scrollWidth > innerWidth;
const height = (one, open) => { one.open = open; return one.offsetHeight; };
const all = [...document.querySelectorAll("details")];
const sticksOut = (edge) => {
  const [inner, outer] = [edge, edge.ownerSVGElement].map(one => one.getBoundingClientRect());
  return inner.left < outer.left - 1 || inner.right > outer.right + 1;
};
// Edges that run behind a node of their level: places on them inside of its rectangle.
const hidden = () => {
  let count = 0;
  for (const edge of document.querySelectorAll("svg.graph path.edge")) {
    const beside = [...edge.parentElement.children].filter(one => one.matches("g.node"));
    const inner = beside.map(one => {
      const [x, y] = one.getAttribute("transform").match(/-?[0-9.]+/g).map(Number);
      const size = name => Number(one.querySelector("rect").getAttribute(name));
      return [x + 1, y + 1, x + size("width") - 1, y + size("height") - 1];
    });
    const steps = Array.from({ length: 200 }, (_, i) => edge.getPointAtLength(edge.getTotalLength() * i / 199));
    count += steps.some(at => inner.some(([l, t, r, b]) => l < at.x && at.x < r && t < at.y && at.y < b));
  }
  return count;
};
for (const one of all) one.open = false;
const folded = isWide();
for (const one of all) one.open = true;
window.seen = {
  width: innerWidth,
  failures,
  wide: [folded, isWide()],
  folds: all.map(one => { const low = height(one, false); return height(one, true) > low; }),
  hidden: hidden(),
  least: Math.min(...[...document.querySelectorAll("svg.graph")].map(one => one.getScreenCTM().a)),
  cut: [...document.querySelectorAll("svg.graph path.edge")].filter(sticksOut).length,
  graphs: document.querySelectorAll("svg.graph").length,
  nodes: [...document.querySelectorAll("svg.graph g.node > text")].map(one => one.textContent),
  drawn: [...document.querySelectorAll("svg.graph")].map(one => one.outerHTML).join(""),
};
"""
COLLECT = """
onload = () => {
  const seen = [...document.querySelectorAll("iframe")].map(one => one.contentWindow.seen);
  document.body.innerHTML = "<pre></pre>";
  document.querySelector("pre").textContent = JSON.stringify(seen);
};
"""


class Page(html.parser.HTMLParser):
    """Reads a page and checks that it is balanced and opens nothing."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        places = [value for name, value in attrs if name in ("src", "href", "action")]
        assert all(str(value).startswith("#code-") for value in places)
        if tag not in _VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.text += data


def test_the_page_is_balanced_and_says_what_the_text_says() -> None:
    titled = Page(decided().to_html(title="a<b.onnx")).text
    assert "seqmap: a<b.onnx" in titled
    page = Page(decided().to_html(command="seqmap explain a<b", date="2026-01-01"))
    for told in (
        "a|b <c>",
        "main/rows (SequenceMap) fissioned scan outputs",
        decided().headline,
        "never: its length depends on the values",
        "moves 2 MB",
        "target tensorrt and loop-free: not reached, left",
        "seqmap explain a<b",
        "2026-01-01",
    ):
        assert told in page.text, told


def test_the_counts_say_that_of_several_forms_one_runs() -> None:
    for decision, told in (
        (Decision("m", "Loop", Verdict.GUARDED), "all branches counted, though one runs"),
        (Decision("m", "Loop", Verdict.FISSIONED, few=3), "all branches counted, though one runs"),
        (Decision("m", "Loop", Verdict.FISSIONED), "in the new model, branches included"),
    ):
        assert told in Page(Report([decision], OperatorCounts(), OperatorCounts()).to_html()).text


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ("before fails", "1 of 2inputs verified, as given it fails on 1"),
        ("skipped", "1 of 2inputs verifiednot asked"),
    ],
)
def test_the_tile_says_where_the_model_as_given_fails(verdict: str, told: str) -> None:
    case = {"description": "length 1", "engine": "reference", "max_abs_error": 0.0}
    proof = {
        "ok": True,
        "differs": False,
        "verified": 1,
        "cases": [
            {**case, "verdict": "equal", "ran_body": True},
            {**case, "verdict": verdict, "ran_body": False},
        ],
        "repairs": [],
        "skipped": 0,
        "summary": "verified",
        "budget": {"seconds": 1, "bytes": 0},
    }
    report = Report([], OperatorCounts(), OperatorCounts(), verification=proof)
    assert told in Page(report.to_html()).text


def test_nodes_that_follow_from_a_cause_are_folded() -> None:
    page = Page(Report([FOLDED], OperatorCounts(), OperatorCounts()).to_html())
    assert "1 node that depend on it" not in page.text
    assert "1 node that depends on it" in page.text
    assert "3 nodes that depend on it" in page.text
    assert "m/body/b" in page.text


def test_cards_that_say_the_same_again_are_closed() -> None:
    maps = [Decision(f"m{i}", "Loop", Verdict.FUSED) for i in range(4)]
    maps += [Decision("other", "Scan", Verdict.FUSED)]
    page = Report(maps, OperatorCounts(), OperatorCounts()).to_html()
    assert page.count('<details open class="card fused"') == 2
    assert page.count('<details class="card fused"') == 3


def test_many_reasons_are_folded() -> None:
    reasons = [Reason(Code.NEVER, f"n{i}", "Unique") for i in range(9)]
    decision = Decision("m", "SequenceMap", Verdict.EXPANDED, reasons=reasons)
    assert (
        "3 more reasons"
        in Page(Report([decision], OperatorCounts(), OperatorCounts()).to_html()).text
    )


def test_a_name_cannot_leave_its_place() -> None:
    evil = "</script><script>alert(1)</script>\u202e\x1b"
    model = rewriter.load(SHOWN["dy_hstack"])
    model.graph.name = evil
    model.graph.inputs[0].name = evil
    next(node for node in model.graph if node.op_type == "SequenceMap").name = evil
    page = rewriter.explain(model).to_html()
    Page(page)
    assert page.count("<script") == 3
    assert not {"\u202e", "\x1b"} & set(page)


def test_a_page_opens_no_url() -> None:
    page = rewriter.explain(SHOWN["resnet50"]).to_html()
    urls = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert urls <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert "Permission is hereby granted, free of charge" in page  # the licence of dagre


def test_a_remedy_can_be_copied() -> None:
    page = Page(rewriter.explain(SHOWN["resnet50"]).to_html())
    copied = [
        attributes["data-copy"] for tag, attributes in page.tags if "data-copy" in attributes
    ]
    assert "--uniform images" in copied


def test_the_proof_and_the_times_are_told() -> None:
    result = rewriter.rewrite(SHOWN["dy_hstack"], verify=True)
    page = Page(result.report.to_html())
    assert "verified on 8 of 8 inputs" in page.text
    assert page.text.count("the evaluator and onnxruntime") > 8
    rows = (BenchRow(1, 1.0, 2.0, 3, "x"), BenchRow(16, 2.0, 1.0, 3, "x"))
    times = Report([], OperatorCounts(), OperatorCounts(), bench=Bench(rows))
    assert "from 4 samples on" in Page(times.to_html()).text
    always = dataclasses.replace(times, bench=Bench(rows[1:]))
    assert "at all sizes" in Page(always.to_html()).text
    alike = Bench((BenchRow(16, 1.02, 1.0, 3, "x"),))
    assert alike.crossover is None
    told = Page(dataclasses.replace(times, bench=alike).to_html()).text
    assert "neither is faster" in told
    assert "at all sizes" not in told
    assert result._repr_html_() == result.report._repr_html_()


def test_at_a_prompt_all_is_one_line() -> None:
    model = Path(__file__).parents[3] / "models" / "demo" / "dy_hstack.onnx"
    result = rewriter.rewrite(model)
    told = "holds 1 SequenceMap; rewritten: no loop, no sequence; not verified"
    assert repr(result.report) == f"<Report: {told}>"
    assert repr(result) == f"<Result: {told}>"
    check = rewriter.validate(model, result.model, cases=1)
    assert repr(check) == f"<Check: {check}>"
    assert result._repr_html_().startswith('<iframe title="seqmap report"')


@functools.cache
def regions(name: str) -> dict[str, Any]:
    (picture,) = rewriter.explain(SHOWN[name]).pictures
    return picture.to_dict()


def walk(region: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for node in region["nodes"]:
        found += [node, *walk(node)] if "nodes" in node else [node]
    return found


def test_a_picture_holds_the_map_and_what_is_around_it() -> None:
    before = regions("resnet50")["before"]
    kinds = {node["label"]: (node["kind"], node["around"]) for node in walk(before)}
    assert kinds["SequenceMap"] == ("loop", False)
    assert kinds["Resize"] == ("plain", False)
    assert kinds["image"] == ("value", False)
    assert kinds["ConcatFromSequence"] == ("sequence", True)
    assert before["hidden"] == 13 - len([n for n in walk(before) if n["kind"] != "value"])


def test_a_picture_is_of_the_model_as_it_was_rewritten_whatever_becomes_of_that() -> None:
    given = rewriter.load(SHOWN["dy_hstack"])
    result = rewriter.rewrite(given)
    for model in (given, result.model):
        for node in list(model.graph):
            node.op_type = "Changed"
    (picture,) = result.report.pictures
    assert picture.to_dict() == regions("dy_hstack")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_report_has_its_pictures(duplicate: Any) -> None:
    report = rewriter.explain(SHOWN["dy_hstack"])
    copied = duplicate(report).pictures
    assert list(copied[:1]) == list(report.pictures) == [report.pictures[0]]


def test_where_nothing_is_left_of_a_map_its_place_is_drawn() -> None:
    after = regions("dy_hstack")["after"]
    drawn = {node["label"]: (node["kind"], node["around"]) for node in after["nodes"]}
    assert drawn == {"Concat": ("plain", True), "a": ("value", False), "b": ("value", False)}
    assert len(after["edges"]) == 2


def test_a_column_of_long_texts_is_broken() -> None:
    table = html_table([["value", "declared"], ["x", "float[N]"], ["y", f"float[{'N,' * 20}3]"]])
    assert table.count("<td class=long>") == 2
    assert "<td>x</td>" in table


def test_a_table_without_numbers_that_changed_is_a_sentence() -> None:
    kept = rewriter.explain(MODELS / "exported" / "ts_filter_negative.onnx")
    page = Page(kept.to_html()).text
    assert "as many of each as before" in page
    assert "promised" not in page


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("side", ["before", "after"])
def test_edges_join_nodes_of_one_level(name: str, side: str) -> None:
    def check(region: dict[str, Any]) -> None:
        ids = {node["id"] for node in region["nodes"]}
        assert all({one, two} <= ids and one != two for one, two, _ in region["edges"])
        for node in region["nodes"]:
            if "nodes" in node:
                check(node)

    region = regions(name)[side]
    check(region)
    ids = [node["id"] for node in walk(region)]
    assert len(ids) == len(set(ids))
    assert region["hidden"] >= 0


def test_few_of_many_neighbours_are_drawn() -> None:
    fed = " ".join(f"a{i} = Relu (s) " for i in range(20))
    total = ", ".join(f"a{i}" for i in range(20))
    reads = " ".join(f"[r{i}] z{i} = SequenceLength (ys) " for i in range(20))
    outs = ", ".join(f"int64 z{i}" for i in range(20))
    text = (
        f'<ir_version: 8, opset_import: ["" : 18]> agraph (seq(float[N]) xs, float[M] s) => ({outs}) {{'
        f"{fed} ys = SequenceMap (xs) <body = b (float[N] x) => (float[K] y) "
        f"{{ t = Sum ({total}) u = Unique (x) y = Sub (u, t) }}> {reads}}}"
    )
    (picture,) = rewriter.explain(ir.from_onnx_text(text), strategy="expand").pictures
    beside = [node["label"] for node in picture.before.to_dict()["nodes"] if node["around"]]
    assert beside == ["Relu"] * 6 + ["SequenceLength"] * 6
    assert picture.before.hidden == 28


def test_a_large_body_is_not_drawn_whole() -> None:
    lines = "\n".join(f"v{i + 1} = Relu (v{i})" for i in range(300))
    text = (
        '<ir_version: 8, opset_import: ["" : 18]>\n'
        "g (seq(float[L]) xs) => (seq(float[L]) ys) {\n"
        "[m] ys = SequenceMap (xs) <body = b (float[L] v0) => (float[L] v300) {" + lines + "}> }"
    )
    (picture,) = rewriter.explain(ir.from_onnx_text(text), strategy="expand").pictures
    (box,) = [node for node in walk(picture.before.to_dict()) if node["kind"] == "loop"]
    assert (box["nodes"], box["label"]) == ([], "SequenceMap, body: 300 nodes")
    assert len(walk(picture.after.to_dict())) < 100


@pytest.mark.long
@pytest.mark.skipif(bool(browser.why_not()), reason=browser.why_not())
@pytest.mark.parametrize("name", SHOWN)
def test_a_browser_draws_every_node_at_every_width(tmp_path: Path, name: str) -> None:
    """A window has a least width, so that frames in one page are as wide as is asked."""
    report = rewriter.explain(SHOWN[name])
    text = report.to_html().replace("</head>", f"<script>{FAILING}</script></head>", 1)
    text = html.escape(text.replace("</body>", f"<script>{LOOK}</script></body>"))
    frames = (
        f'<iframe width="{width}" height="900" style="border:0" srcdoc="{text}"></iframe>'
        for width in WIDTHS
    )
    page = tmp_path / "frames.html"
    page.write_text(f"<!DOCTYPE html>{''.join(frames)}<script>{COLLECT}</script>", "utf-8")
    done = subprocess.run(
        [
            browser.find(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1700,1000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if ":CONSOLE" in line] == []
    (found,) = re.findall(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    (picture,) = report.pictures
    sides = [picture.before.to_dict(), picture.after.to_dict()]
    labels = sorted(node["label"] for side in sides for node in walk(side))
    frames_seen = json.loads(html.unescape(found))
    assert [seen["width"] for seen in frames_seen] == list(WIDTHS)
    for seen in frames_seen:
        assert (seen["failures"], seen["wide"]) == ([], [False, False])
        assert (seen["cut"], seen["hidden"]) == (0, 0)
        assert seen["least"] > 0.59  # of letters of 12 pixels
        assert seen["folds"]
        assert all(seen["folds"])
        assert sorted(seen["nodes"]) == labels
        assert seen["graphs"] == sum(bool(side["nodes"]) for side in sides)
        assert "NaN" not in seen["drawn"]


def test_it_is_read_in_the_dark_on_paper_and_aloud() -> None:
    page = rewriter.explain(SHOWN["resnet50"]).to_html()
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert "@media (prefers-color-scheme:dark){" in style
    on_paper = style.partition("@media print{")[2]
    assert ".scroll{overflow:visible}" in on_paper  # what is wide cannot be scrolled there
    assert "td{white-space:normal" in on_paper
    assert "{break-after:avoid}" in on_paper  # no heading ends a page
    assert ".card{break-inside:avoid}" not in on_paper  # a page would be left empty before a card
    assert ".panes{grid-template-columns:1fr 1fr}" in on_paper
    # What is scrolled on a screen fits a page.
    assert "min-width:0!important" in on_paper
    found = Page(page)
    assert ("html", {"lang": "en"}) in found.tags
    focused = [given for tag, given in found.tags if tag == "button" or "tabindex" in given]
    assert len(focused) >= 3
    assert all(given["aria-label"] for given in focused)


def test_pictures_are_data_of_the_page() -> None:
    report = rewriter.explain(SHOWN["resnet50"])
    (data,) = re.findall(
        r'<script type="application/json" id="pictures">(.*?)</script>', report.to_html()
    )
    assert json.loads(data) == json.loads(json.dumps([one.to_dict() for one in report.pictures]))


CLICK = """
onload = () => setTimeout(() => {
  const page = document.querySelector("iframe").contentDocument;
  page.querySelector('a[href="#code-recurrence"]').click();
  setTimeout(() => {
    const told = page.getElementById("code-recurrence");
    document.title = `${page.location.href} ${told.closest("details").open}`;
  }, 300);
}, 300);
"""


@pytest.mark.skipif(bool(browser.why_not()), reason=browser.why_not())
def test_a_code_leads_to_its_page_in_the_frame_of_a_notebook(tmp_path: Path) -> None:
    report = rewriter.explain(MODELS / "exported" / "ts_rnn_negative.onnx")
    page = tmp_path / "notebook.html"
    page.write_text(f"<!DOCTYPE html>{report._repr_html_()}<script>{CLICK}</script>", "utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    shown = subprocess.run(
        [
            browser.find(),
            *flags,
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert "<title>about:srcdoc#code-recurrence true</title>" in shown
