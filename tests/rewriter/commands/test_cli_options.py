"""Every option of the command line does what it says."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewriter import backends, cli, pipeline
from rewriter.backends import BackendError
from rewriter.options import Options
from rewriter.proof import validation
from rewriter.proof.budget import Budget
from tests.rewriter.cli_models import HEADER, last_line, seqmap, write

Capture = pytest.CaptureFixture[str]

SEQUENCE = (
    HEADER
    + """
agraph (seq(float[L]) xs) => (seq(float[L]) ys)
{
  [map] ys = SequenceMap (xs) <body = b (float[L] p) => (float[L] q) { q = Relu (p) }>
}
"""
)
ROUNDING_THEN_DISCRETE = (
    HEADER
    + """
agraph (float[N,4] x) => (float[N,4] y)
<float[4,4] w = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}>
{
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  [rows] ys = SequenceMap (xs) <body = row (float[4] r) => (float[4] q)
    { s = MatMul (r, w)  q = Floor (s) }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}
"""
)
OLD = """<ir_version: 8, opset_import: ["" : 12]>
agraph (float[N,4] x) => (uint8[N,4] y)
<int64 first = {0}, bool yes = {1}>
{
  sizes = Shape (x)
  count = Gather (sizes, first)
  [rows] y = Loop (count, yes) <body = row (int64 i, bool c) => (bool d, uint8[4] q)
    { d = Identity (c)  r = Gather (x, i)
      s = ReduceMax <keepdims = 0> (r)  e = Exp (s)  q = QuantizeLinear (r, e) }>
}
"""


class Stop(Exception):
    """Raised in place of the work, with what it was asked for."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__()
        self.given, self.named = given, named


def stop(*given: Any, **named: Any) -> None:
    raise Stop(*given, **named)


@pytest.fixture
def sequence(tmp_path: Path) -> Path:
    return write(tmp_path / "sequence.onnx", SEQUENCE)


def asked_for(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *words: str | Path) -> Stop:
    """Run a command up to one function; return what the function was asked for."""
    monkeypatch.setattr(owner, name, stop)
    monkeypatch.setattr(cli, "execute", lambda a, c: cli.load_command(a.command).execute(a, c))
    with pytest.raises(Stop) as stopped:
        seqmap(*words)
    return stopped.value


DEFAULTS = {field.name: field.default for field in dataclasses.fields(Options)}
REWRITE = {
    "": {},
    "--strategy expand": {"strategy": "expand"},
    "--target portable": {"target": "portable"},
    "--uniform a --uniform b": {"uniform": ("a", "b")},
    "--input-shape a=2,?,N --input-shape b=": {"input_shapes": {"a": (2, None, "N"), "b": ()}},
    "--trust-types": {"trust_types": True},
    "--tensor-io": {"tensor_io": True},
    "--tensor-io --padded a": {"tensor_io": True, "padded": ("a",)},
    "--exact": {"exact": True},
    "--require loop-free --require sequence-free": {"require": ("loop-free", "sequence-free")},
    "--opset 18": {"opset": 18},
}


@pytest.mark.parametrize("options", REWRITE, ids=lambda text: text or "defaults")
@pytest.mark.parametrize(
    ("command", "function"),
    [("optimize", "rewrite"), ("explain", "explained"), ("bench", "rewrite"), ("view", "explain")],
)
def test_options_of_the_rewrite_reach_it(
    rows: Path, monkeypatch: pytest.MonkeyPatch, command: str, function: str, options: str
) -> None:
    out = [rows.with_name("out.onnx")] if command == "optimize" else []
    asked = asked_for(monkeypatch, pipeline, function, command, rows, *out, *options.split())
    assert asked.named == DEFAULTS | REWRITE[options]


EFFECTS = {
    "strategy": (SEQUENCE, "--strategy expand", "expanded"),
    "uniform": (SEQUENCE, "--strategy fuse --uniform xs", "fused"),
    "input shape": (SEQUENCE, "--strategy fuse --input-shape xs=3", "fused"),
    "trust types": (SEQUENCE.replace("L]", "3]"), "--strategy fuse --trust-types", "fused"),
    "opset": (OLD, "--strategy fuse --opset 18", "fused"),
    "rounding": (ROUNDING_THEN_DISCRETE, "--strategy fuse", "fused"),
    "exact": (ROUNDING_THEN_DISCRETE, "--strategy fuse --exact", "fissioned expanded"),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_options_of_the_rewrite_have_their_effect(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    text, options, verdicts = EFFECTS[name]
    source, out = write(tmp_path / "in.onnx", text), tmp_path / "out.onnx"
    assert seqmap("optimize", source, out, *options.split(), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    (decision,) = record["report"]["maps"]
    assert decision["verdict"] in verdicts.split()
    assert record["verification"]["ok"] is True


VERIFICATION: dict[str, dict[str, Any]] = {
    "": {"inputs": None, "cases": 8, "seed": 0, "atol": None, "rtol": None, "budget": None},
    "--seed 5": {"seed": 5},
    "--atol 0.5 --rtol 0": {"atol": 0.5, "rtol": 0.0},
    "--inputs feeds.npz": {"inputs": Path("feeds.npz")},
    "--verify-budget 5s,1GB": {"budget": Budget(5, 2**30)},
}


@pytest.mark.parametrize("options", VERIFICATION, ids=lambda text: text or "defaults")
@pytest.mark.parametrize("command", ["optimize", "validate"])
def test_options_of_the_verification_reach_it(
    rows: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: str
) -> None:
    other = rows if command == "validate" else rows.with_name("out.onnx")
    asked = asked_for(monkeypatch, validation, "validate", command, rows, other, *options.split())
    del asked.named["passes"], asked.named["on_feed"]
    assert asked.named == VERIFICATION[""] | VERIFICATION[options]


@pytest.mark.parametrize(
    ("command", "option"), [("optimize", "--verify"), ("validate", "--cases")]
)
def test_number_of_cases(rows: Path, capsys: Capture, command: str, option: str) -> None:
    other = rows if command == "validate" else rows.with_name("out.onnx")
    assert seqmap(command, rows, other, option, "3", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["verification"]["cases"]) == 3


@pytest.mark.parametrize("command", ["run", "bench"])
def test_backend_and_device_reach_the_session(
    rows: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    words = (command, rows, "--backend", "reference", "--device", "gpu")
    asked = asked_for(monkeypatch, backends, "open_session", *words)
    assert asked.given[1:] == ("reference", "gpu")


PLACES = {
    "run": ("onnxruntime", "cpu"),
    "run --backend ort": ("onnxruntime", "cpu"),
    "run --backend OV": ("openvino", "cpu"),
    "run --backend cuda": ("onnxruntime", "cuda"),
    "run --backend trt": ("onnxruntime", "tensorrt"),
    "run --device cuda": ("onnxruntime", "cuda"),
    "bench --target cuda": ("onnxruntime", "cuda"),
    "bench --target ov": ("openvino", "cpu"),
    "bench --target web": ("onnxruntime", "cpu"),
    "bench --target cuda --backend reference": ("reference", "cpu"),
}


@pytest.mark.parametrize("words", PLACES)
def test_a_short_name_or_a_target_says_where_to_run(
    rows: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    command, *others = words.split()
    asked = asked_for(monkeypatch, backends, "open_session", command, rows, *others)
    assert asked.given[1:] == PLACES[words]


@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_device_that_is_not_there_is_refused(rows: Path, capsys: Capture, command: str) -> None:
    assert seqmap(command, rows, "--device", "abacus") == 1
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("seqmap: error: 'abacus' is no device of onnxruntime")
    assert last_line(printed.out) == ("failed", command)


def test_seed_draws_other_inputs(rows: Path, tmp_path: Path) -> None:
    drawn = []
    for seed in ("1", "1", "2"):
        saved = tmp_path / "outputs.npz"
        assert seqmap("run", rows, "--seed", seed, "--save", saved) == 0
        with np.load(saved) as outputs:
            drawn.append(outputs["out__0"])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_bench_takes_inputs_and_pairs(rows: Path, tmp_path: Path, capsys: Capture) -> None:
    feeds = tmp_path / "feeds.npz"
    np.savez(feeds, in__x=np.ones((3, 4), np.float32), in__bias=np.ones(4, np.float32))
    assert seqmap("bench", rows, "--inputs", feeds, "--repeats", "2") == 0
    shown = capsys.readouterr().out
    assert "medians of 2 paired runs" in shown
    assert shown.startswith("x: float32[3, 4]; bias: float32[4]\n")
    assert seqmap("bench", rows, "--seed", "3", "--repeats", "2", "--sizes", "2") == 0
    assert ", seed 3, " in capsys.readouterr().out


def test_ops_in_markdown(capsys: Capture) -> None:
    assert seqmap("ops", "Relu", "Bernoulli", "--markdown") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| elementwise | Relu | exact |" in lines
    assert any(line.startswith("| Bernoulli | ") for line in lines)


def options_of(command: str) -> set[str]:
    parser = cli._parser([command])
    (subparsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {
        option
        for action in subparsers.choices[command]._actions
        for option in action.option_strings
        if option.startswith("--")
    }


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_is_used_by_a_test(command: str) -> None:
    texts = [path.read_text("utf-8") for path in Path(__file__).parents[1].rglob("test_*.py")]
    unused = {option for option in options_of(command) if not any(option in t for t in texts)}
    assert unused == set()


STATED = """
--strategy --target --uniform --input-shape --trust-types --tensor-io --padded --exact --require --opset --rules --packed
--verify
--no-verify --no-repair --verify-budget --inputs --seed --atol --rtol --jobs --copy-weights --report --json --dry-run --quiet --verbose
--help
"""


def test_optimize_has_the_options_that_were_agreed_on() -> None:
    assert options_of("optimize") == set(STATED.split())


def test_an_error_of_the_runtime_is_one_line(
    rows: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise BackendError("the model\nis refused")

    monkeypatch.setattr(backends, "open_session", broken)
    assert seqmap("run", rows) == 1
    assert capsys.readouterr().err == "seqmap: error: the model is refused\n"
