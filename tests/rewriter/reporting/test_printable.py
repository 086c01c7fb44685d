"""Names of a model are data: whatever they hold, nothing but text is shown."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import unicodedata

import onnx
import onnx.parser
import pytest

from rewriter import cli
from rewriter.reporting.printable import json_text, printable

ROOT = pathlib.Path(__file__).parents[3]
# Clears the screen, starts a line of its own, turns the direction, and is a control of 8 bits.
EVIL = "a\x1b[2J\r\nverified: passed\u202e\x9b31m<script>|`*[x](y)\t\x00\x7f"
MODEL = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[N]) xs) => (seq(float[M]) ys)
{ [map] ys = SequenceMap (xs) <body = b (float[N] x) => (float[M] y)
    { [node] y = com.x.Own (x) }> }"""


def evil(tmp_path: pathlib.Path, name: str = EVIL) -> pathlib.Path:
    """Write a model in which everything that has a name has this one at its end."""
    proto = onnx.parser.parse_model(MODEL)
    proto.opset_import.add(domain="com.x", version=1)
    proto.metadata_props.add(key=name, value=name)
    graph = proto.graph
    body = graph.node[0].attribute[0].g
    for node in (*graph.node, *body.node):
        node.name += name
    body.node[0].op_type += name
    graph.input[0].name += name
    graph.output[0].name += name
    graph.node[0].input[0] = graph.input[0].name
    graph.node[0].output[0] = graph.output[0].name
    onnx.save(proto, tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def controls(text: str) -> set[str]:
    """Return the characters that do more than stand for themselves."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} - {"\n"}


@pytest.mark.parametrize("more", [[], ["--json"], ["-v"], ["-q"]], ids=str)
@pytest.mark.parametrize(
    "words",
    [
        "explain in.onnx",
        "explain in.onnx --require loop-free",
        "explain in.onnx --target portable",
        "optimize in.onnx out.onnx --no-verify",
        "optimize in.onnx out.onnx",
        "run in.onnx",
        "validate in.onnx in.onnx",
        "explain in.onnx --uniform nothing",
    ],
)
def test_a_terminal_gets_text(tmp_path, monkeypatch, capfd, words, more):
    evil(tmp_path)
    monkeypatch.chdir(tmp_path)
    cli.main([*words.split(), *more])
    printed = capfd.readouterr()
    assert controls(printed.out + printed.err) == set()
    assert not any(line.startswith("verified: passed") for line in printed.out.splitlines())
    if more == ["--json"]:
        json.loads(printed.out)


def report_of(tmp_path: pathlib.Path, suffix: str, name: str) -> str:
    """Return the report on the model whose names end so."""
    report = tmp_path / f"report{suffix}"
    assert cli.main(["explain", str(evil(tmp_path, name)), "--report", str(report)]) == 0
    return report.read_text("utf-8")


@pytest.mark.parametrize("suffix", [".json", ".md", ".html"])
def test_reports_hold_text(tmp_path, suffix):
    text = report_of(tmp_path, suffix, EVIL)
    assert controls(text) == set()
    if suffix == ".json":
        (one,) = json.loads(text)["maps"]
        assert one["path"] == f"map{EVIL}"
    elif suffix == ".md":
        assert "<script>" not in text.replace("\\<script\\>", "")
    else:
        assert text.count("<script") == report_of(tmp_path, suffix, "plain").count("<script")


@pytest.mark.long
@pytest.mark.parametrize(
    ("encoding", "more"),
    [
        ("ascii", []),
        ("ascii", ["--json"]),
        ("utf-8", []),
        pytest.param("utf-8", ["--json"], marks=pytest.mark.full),
        pytest.param("latin-1", [], marks=pytest.mark.full),
        pytest.param("latin-1", ["--json"], marks=pytest.mark.full),
    ],
    ids=str,
)
def test_a_stdout_of_any_encoding_will_do(tmp_path, encoding, more):
    path = evil(tmp_path, "äπ🙂")
    ran = subprocess.run(
        [sys.executable, "-m", "rewriter.cli", "explain", str(path), *more],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    text = ran.stdout.decode(encoding)
    if more:
        assert json.loads(text)["report"]["maps"][0]["path"] == "mapäπ🙂"
    elif encoding == "utf-8":
        assert "mapäπ🙂" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 🙂", "plain äöü 🙂"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\u202e\u2028\x85", r"\u202e\u2028\x85"),
        ("\udcff", r"\udcff"),
    ],
)
def test_escapes(text, shown):
    assert printable(text) == shown
    assert printable("a\nb\x00", keep="\n") == "a\nb\\x00"
    assert json.loads(json_text({"x": text})) == {"x": text}
    assert json_text({"x": text}, "ascii").isascii()
