"""The checks of a release, each a test that is named after its number, or stands in ELSEWHERE."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Code, Verdict
from rewriter import cli
from rewriter.backends import open_session, run
from rewriter.cli import COMMANDS
from rewriter.pipeline import STRATEGIES, Strategy
from rewriter.proof.compare import compare
from tests.test_zoo import BAD_SHAPES, DEMO, EXPORTED, TEXT, by_name, load, make_feeds

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).parents[1]
MODELS = [*TEXT, *DEMO, *(path for path in EXPORTED if path.stem != BAD_SHAPES)]
ELSEWHERE = {
    8: "test_performance_limits.py::test_08_weights_of_gigabytes_are_left_alone",
    16: "test_other_tools.py::test_a_rewritten_model_survives",
    17: "rewriter/test_programs.py::test_a_typed_program_passes_mypy",
    20: "rewriter/commands/test_cli_optimize.py::test_the_empty_sequence_alone_is_no_verification",
    21: "test_seqmap.py::test_seqmap_is_rewriter_and_a_version",
    22: "rewriter/reporting/test_report_zoo.py::test_a_remedy_changes_the_verdict",
}
"""The checks whose tests stand among others of their kind, and where."""
CHECKS = 22
POSITIVE = [path for path in MODELS if not path.stem.endswith("_negative")]
HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
IMAGES = (
    HEADER
    + """
agraph (seq(float[H,W]) images) => (seq(float[W,H]) turned)
{
  [turn] turned = SequenceMap (images) <body = b (float[H,W] image) => (float[W,H] other)
    { other = Transpose <perm = [1, 0]> (image) }>
}
"""
)


def seqmap(*words: str | pathlib.Path) -> tuple[int, str, str]:
    """Run the command line; return the status and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main([str(word) for word in words])
        except SystemExit as stopped:
            status = int(stopped.code or 0)
    return status, out.getvalue(), err.getvalue()


def record_of(*words: str | pathlib.Path) -> dict[str, Any]:
    """Run the command line with ``--json``; return what it says."""
    status, out, err = seqmap(*words, "--json")
    assert status == 0, err
    return json.loads(out)


def as_process(*words: str | pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rewriter.cli", *map(str, words)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def save(text: str, path: pathlib.Path) -> pathlib.Path:
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.fixture
def images(tmp_path: pathlib.Path) -> pathlib.Path:
    return save(IMAGES, tmp_path / "images.onnx")


@pytest.mark.parametrize("path", POSITIVE, ids=by_name)
def test_01_every_model_is_optimized_and_accepted(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "out.onnx"
    record = record_of("optimize", path, out)
    if not record["report"]["nothing_to_do"]:  # an unchanged model is not verified
        assert record["verification"]["verified"] > 0
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    open_session(model, "onnxruntime")
    graph = onnx_graphsurgeon.import_onnx(model)
    assert [value.name for value in graph.inputs] == [value.name for value in model.graph.input]
    assert [v.name for v in onnx_graphsurgeon.export_onnx(graph).graph.output] == [
        v.name for v in model.graph.output
    ]


def test_02_a_model_with_a_sequence_input_is_verified(
    images: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    verification = record_of("optimize", images, tmp_path / "out.onnx")["verification"]
    assert verification["ok"]
    described = [c["description"] for c in verification["cases"] if c["verdict"] == "equal"]
    for length in (0, 1, 2, 5):
        assert any(re.match(rf"length {length}\b", text) for text in described), described
    assert any("ragged" in text for text in described)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_03_the_types_of_inputs_and_outputs_stay(
    images: pathlib.Path, tmp_path: pathlib.Path, strategy: str
) -> None:
    out = tmp_path / "out.onnx"
    assert seqmap("optimize", images, out, "--strategy", strategy)[0] == 0
    before, after = onnx.load(images).graph, onnx.load(out).graph
    for ours, theirs in ((after.input, before.input), (after.output, before.output)):
        assert [v.SerializeToString() for v in ours] == [v.SerializeToString() for v in theirs]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", MODELS, ids=by_name)
def test_04_second_optimize_gives_identical_bytes(
    path: pathlib.Path, tmp_path: pathlib.Path, strategy: str
) -> None:
    once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
    options = ("--strategy", strategy, "--no-verify")
    assert seqmap("optimize", path, once, *options)[0] == 0
    status, out, _ = seqmap("optimize", once, twice, *options)
    assert status == 0
    assert "nothing to do" in out
    assert twice.read_bytes() == once.read_bytes()


@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_05_two_runs_give_identical_bytes(strategy: str, part: int) -> None:
    sources = [p for p in (*TEXT, *DEMO) if p.suffix == ".onnxtxt"][part::10]
    code = (
        "import sys, hashlib, rewriter\n"
        "for path in sys.argv[2:]:\n"
        "    model = rewriter.optimize(path, strategy=sys.argv[1])\n"
        "    print(path, hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, strategy, *map(str, sources)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["", strategy, *map(str, sources)])
        exec(code, {})
    assert len(ran.stdout.splitlines()) == len(sources)
    assert ran.stdout == printed.getvalue()


def test_06_a_mismatch_is_not_written_and_can_be_seen_again(
    images: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = rewriter.pipeline.rewrite

    def wrong(model: ir.Model, **options: Any) -> Any:
        result = right(model, **options)
        broken = onnx.parser.parse_model(IMAGES.replace("[1, 0]", "[0, 1]"))
        return type(result)(ir.from_proto(broken), result.report)

    monkeypatch.setattr(rewriter.pipeline, "rewrite", wrong)
    out = tmp_path / "out.onnx"
    status, _, err = seqmap("optimize", images, out)
    assert (status, len(err.splitlines())) == (3, 1)
    assert not out.exists()
    folder = tmp_path / "elsewhere" / "evidence"
    folder.parent.mkdir()
    (tmp_path / "out.onnx.mismatch").rename(folder)
    images.unlink()
    command = (folder / "command.txt").read_text().splitlines()[3].split()
    assert command[:2] == ["seqmap", "validate"]
    again = [word if word[0] == "-" else folder / word for word in command[2:]]
    status, _, err = seqmap("validate", *again)
    assert status == 3
    assert "differs" in err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("optimize missing.onnx out.onnx", 1),
        ("optimize prose.onnx out.onnx", 1),
        ("optimize in.onnx nowhere/out.onnx", 1),
        ("optimize in.onnx out.onnx --uniform nobody", 1),
        ("optimize in.onnx out.onnx --strategy best", 2),
        ("optimize in.onnx", 2),
        ("explain missing.onnx", 1),
        ("explain in.onnx --target mars", 2),
        ("run prose.onnx", 1),
        ("validate in.onnx missing.onnx", 1),
        ("ops NoSuchOperator", 1),
        ("polish in.onnx", 2),
        ("", 2),
    ],
    ids=lambda value: str(value) or "nothing",
)
def test_07_an_error_is_one_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, words: str, status: int
) -> None:
    save(IMAGES, tmp_path / "in.onnx")
    (tmp_path / "prose.onnx").write_text("this is no model\n")
    monkeypatch.chdir(tmp_path)
    got, _, err = seqmap(*words.split())
    assert got == status
    assert len(err.splitlines()) == 1, err
    assert "Traceback" not in err
    assert sorted(os.listdir()) == ["in.onnx", "prose.onnx"]


def test_07_an_error_of_a_process_is_one_line(tmp_path: pathlib.Path) -> None:
    ran = as_process("optimize", tmp_path / "missing.onnx", tmp_path / "out.onnx")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)
    assert re.fullmatch(r"failed optimize in \d+\.\d s\n", ran.stdout)


def documented() -> onnx.ModelProto:
    """Return a model with a doc string and metadata wherever there is a place for them."""
    model = onnx.parser.parse_model(
        HEADER
        + """
agraph (float[N,4] x, float[4] bias) => (float[N,4] y, float[N,4] z)
<float[4] w = {1, 2, 3, 4}>
{
  [before] a = Mul (x, w)
  [split] xs = SplitToSequence <axis = 0, keepdims = 0> (a)
  [rows] ys = SequenceMap (xs, bias) <body = row (float[4] r, float[4] b) => (float[4] q)
    { [sum] s = Add (r, b)  [clip] q = Relu (s) }>
  [stack] y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
  [after] z = Neg (y)
}
"""
    )
    model.doc_string, model.producer_name = "of the model", "somebody"
    model.producer_version, model.domain, model.model_version = "1.2", "org.example", 7
    graph = model.graph
    body = next(n for n in graph.node if n.op_type == "SequenceMap").attribute[0].g
    parts = [graph, *graph.node, *graph.input, *graph.output, *graph.initializer, *body.node]
    for part in parts:
        part.doc_string = f"of {part.name}"
    for part in (model, *parts):
        part.metadata_props.add(key="kept", value=getattr(part, "name", "model"))
    return model


def notes(part: Any) -> tuple[str, str | None]:
    return part.doc_string, {e.key: e.value for e in part.metadata_props}.get("kept")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_09_documentation_survives(strategy: Strategy) -> None:
    before = documented()
    after = rewriter.optimize(before, strategy=strategy)
    for field in ("doc_string", "producer_name", "producer_version", "domain", "model_version"):
        assert getattr(after, field) == getattr(before, field), field
    assert notes(after) == notes(before)
    assert notes(after.graph) == notes(before.graph)
    for kind in ("input", "output", "initializer"):
        pairs = zip(getattr(before.graph, kind), getattr(after.graph, kind), strict=True)
        assert all((old.name, notes(old)) == (new.name, notes(new)) for old, new in pairs), kind
    nodes = [n for g in rewriter.model_files.protos.all_graphs(after) for n in g.node]
    said = [notes(node) for node in nodes]
    for name in ("before", "after", "sum", "clip"):
        assert (f"of {name}", name) in said, name


PLACES = {
    "split_map_stack": 1,
    "map_in_branch": 1,
    "map_in_loop": 1,
    "map_in_scan": 1,
    "map_in_function": 2,
    "nested_map": 2,
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", PLACES)
def test_10_maps_are_found_and_verified_wherever_they_are(name: str, strategy: Strategy) -> None:
    before = load(ROOT / "models" / "text" / f"{name}.onnxtxt")
    result = rewriter.rewrite(before, strategy=strategy)
    maps = [d for d in result.report.decisions if d.op_type == "SequenceMap"]
    unrolled = [d for d in result.report.decisions if d.op_type == "Scan" and "3 copies" in d.form]
    count = PLACES[name] * (3 if unrolled else 1)
    assert len(maps) == len({decision.path for decision in maps}) == count
    assert "SequenceMap" not in result.report.after.by_type
    check = rewriter.validate(before, result.model)
    assert check.ok, check.summary
    assert check.verified >= 4


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_11_captured_values_of_every_kind(strategy: Strategy) -> None:
    before = load(ROOT / "models" / "text" / "captured_two_depths.onnxtxt")
    result = rewriter.rewrite(before, strategy=strategy)
    check = rewriter.validate(before, result.model)
    assert check.ok, check.summary
    assert all("reference" in case.engine for case in check.cases if case.verdict == "equal")


SEQUENCE_MODELS = ["further_inputs", "ragged_two_axes", "several_outputs", "string_elements"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("samples", [0, 1])
@pytest.mark.parametrize("name", SEQUENCE_MODELS)
def test_12_no_sample_and_one_sample_are_as_onnxruntime_has_them(
    name: str, samples: int, strategy: Strategy
) -> None:
    before = load(ROOT / "models" / "text" / f"{name}.onnxtxt")
    feeds = make_feeds(before, samples)
    expected = run(before, feeds, backend="onnxruntime")
    after = rewriter.optimize(before, strategy=strategy)
    difference = compare(expected, run(after, feeds, backend="onnxruntime"), rtol=0, atol=0)
    assert difference.equal, difference.message


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", MODELS, ids=by_name)
def test_13_explain_and_optimize_agree(path: pathlib.Path, strategy: Strategy) -> None:
    content, stat = path.read_bytes(), path.stat()
    explained = rewriter.explain(path, strategy=strategy)
    assert path.read_bytes() == content
    assert path.stat().st_mtime_ns == stat.st_mtime_ns
    assert explained.to_dict() == rewriter.rewrite(path, strategy=strategy).report.to_dict()


LOOPING = (Verdict.EXPANDED, Verdict.FISSIONED, Verdict.KEPT)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", MODELS, ids=by_name)
def test_14_what_stays_in_a_loop_has_a_code_a_node_and_a_remedy(
    path: pathlib.Path, strategy: Strategy
) -> None:
    report = rewriter.explain(path, strategy=strategy)
    for decision in report.decisions:
        assert decision.path
        if decision.verdict in LOOPING:
            assert decision.reasons, f"{decision.path} is {decision.verdict} without a reason"
        for reason in decision.reasons:
            assert reason.code in Code
            assert reason.remedy
            assert bool(reason.node) == bool(reason.op_type)
            if reason.node:
                assert reason.detail, reason.node


def test_14_every_code_is_documented_and_no_other() -> None:
    text = (ROOT / "docs" / "reference" / "codes.md").read_text("utf-8")
    table = text.split("<!-- codes -->")[1].split("<!-- end -->")[0]
    documented_codes = re.findall(r"^\| \[`([a-z-]+)`\]\(codes/\1\.md\) \|", table, re.MULTILINE)
    assert documented_codes == [code.value for code in Code]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_15_help_fits_a_screen(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "99")
    status, out, _ = seqmap(*command.split(), "--help")
    assert status == 0
    assert len(out.splitlines()) <= 40


def test_15_every_snippet_of_the_readme_is_run() -> None:
    """By ``tests/test_readme.py``, which knows every block of the README."""
    from tests import test_readme

    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n```") == 2 * len(test_readme.BLOCKS)


def test_18_every_report_file_holds_the_verification(tmp_path: pathlib.Path) -> None:
    for suffix, told in {
        "json": '"verified": 8',
        "md": "## verification",
        "html": "8 of 8",
    }.items():
        report = tmp_path / f"report.{suffix}"
        model = ROOT / "models" / "demo" / "dy_hstack.onnx"
        status, _, _ = seqmap("optimize", model, tmp_path / "out.onnx", "--report", report)
        assert status == 0
        assert told in report.read_text("utf-8")


def test_19_a_name_that_stdout_has_no_letters_for(tmp_path: pathlib.Path) -> None:
    model = onnx.load(ROOT / "models" / "demo" / "dy_hstack.onnx")
    next(node for node in model.graph.node if node.op_type == "SequenceMap").name = "карта"
    onnx.save(model, tmp_path / "in.onnx")
    ran = subprocess.run(
        [sys.executable, "-m", "seqmap", "explain", tmp_path / "in.onnx"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert rb"\u043a\u0430\u0440\u0442\u0430 (SequenceMap)  fused" in ran.stdout


def test_every_check_has_a_test() -> None:
    text = pathlib.Path(__file__).read_text("utf-8")
    here = {int(number) for number in re.findall(r"^def test_(\d\d)_", text, re.MULTILINE)}
    assert here | set(ELSEWHERE) == set(range(1, CHECKS + 1))
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8"), place


def test_the_judge_of_these_checks_can_say_no() -> None:
    before = onnx.parser.parse_model(IMAGES)
    wrong = onnx.parser.parse_model(IMAGES.replace("[1, 0]", "[0, 1]"))
    feed = {"images": [np.ones((2, 3), np.float32)]}
    assert not compare(run(before, feed), run(wrong, feed)).equal
    assert not rewriter.validate(before, wrong).ok
