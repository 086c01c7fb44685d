from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import rewriter
from rewriter.backends import BACKENDS, Backend, BackendError, PlacementError
from rewriter.proof.case_record import Case
from rewriter.proof.trial import load_at_target
from rewriter.proof.validation import Check, validate
from tests.rewriter.cli_models import HEADER, PLAIN, ROWS, last_line, seqmap, write
from tests.versions import is_at_least

Capture = pytest.CaptureFixture[str]
PAD = (
    HEADER
    + """
agraph (float[N,4] x) => (float[N,2] y)
{
  size = Constant <value_ints = [2]> ()
  [crop] c = CenterCropPad <axes = [1]> (x, size)
  y = Relu (c)
}
"""
)
FEED = Check((Case("given", "equal", "reference", feed={"x": np.ones((1, 4), np.float32)}),))


class Runtime:
    """A stand-in for a runtime: refuses what it is told to, when it is told to."""

    def __init__(self, refuses: str = "", fails: str = "") -> None:
        self.refuses = refuses
        self.fails = fails
        self.opened: list[onnx.ModelProto] = []
        self.feeds: list[Mapping[str, Any]] = []

    def open(self, model: onnx.ModelProto, folder: Path | None, device: str) -> Runtime:
        self.opened.append(model)
        for node in model.graph.node:
            if node.op_type == self.refuses:
                raise BackendError(f"tract refuses the model: {node.op_type} is unknown", True)
        return self

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        self.feeds.append(feeds)
        if self.fails:
            raise BackendError(f"tract fails: {self.fails}")
        return {}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runtime]:
    def put(missing: str = "", **words: str) -> Runtime:
        runtime = Runtime(**words)
        backend = Backend("tract", ("cpu",), lambda: missing, runtime.open, ("onnx",))
        monkeypatch.setitem(BACKENDS, "tract", backend)
        return runtime

    return put


def optimize(path: Path, *words: str) -> int:
    return seqmap("optimize", path, path.parent / "out.onnx", "--target", "tract", *words)


@pytest.mark.parametrize(
    "words", [{"refuses": "CenterCropPad"}, {"fails": "CenterCropPad is unknown"}]
)
def test_a_model_that_the_runtime_refuses_is_not_written(
    install: Callable[..., Runtime], tmp_path: Path, capsys: Capture, words: dict[str, str]
) -> None:
    install(**words)
    path, report = write(tmp_path / "in.onnx", PAD), tmp_path / "report.json"
    assert optimize(path, "--report", str(report)) == 4
    assert sorted(os.listdir(tmp_path)) == ["in.onnx", "report.json"]
    printed = capsys.readouterr()
    version = onnx.__version__
    line = f"crop (CenterCropPad): tract {version} refuses the model: CenterCropPad is unknown"
    assert f"target tract: not reached, left:\n  {line}\n      remedy: write" in printed.out
    assert last_line(printed.out) == ("failed", "optimize")
    assert printed.err.startswith(f"seqmap: error: target tract not reached: {line}; remedy: ")
    record = json.loads(report.read_text())
    (left,) = record["unreached"]
    assert (left["code"], left["node"], left["op_type"]) == ("refused", "crop", "CenterCropPad")
    assert left["remedy"].endswith("or write the model all the same with --no-verify")
    assert record["reached"] is False
    assert record["loading"]["outcome"] == "refused"


def test_json_holds_what_the_runtime_said(
    install: Callable[..., Runtime], tmp_path: Path, capsys: Capture
) -> None:
    install(refuses="CenterCropPad")
    assert optimize(write(tmp_path / "in.onnx", PAD), "--json") == 4
    record = json.loads(capsys.readouterr().out)
    assert record["report"]["loading"]["reason"] == "CenterCropPad is unknown"
    assert record["report"]["loading"]["runtime"] == f"tract {onnx.__version__}"


def test_without_verification_it_is_not_asked(
    install: Callable[..., Runtime], tmp_path: Path, capsys: Capture
) -> None:
    runtime = install(refuses="CenterCropPad")
    assert optimize(write(tmp_path / "in.onnx", PAD), "--no-verify", "-v") == 0
    assert not runtime.opened
    assert (tmp_path / "out.onnx").exists()
    expected = "target tract: reached; checked for sequences and control flow, not loaded\n"
    assert expected in capsys.readouterr().out


def test_a_model_is_loaded_once_and_run_once(
    install: Callable[..., Runtime], tmp_path: Path, capsys: Capture
) -> None:
    runtime = install()
    assert optimize(write(tmp_path / "in.onnx", PAD), "-v") == 0
    assert (len(runtime.opened), len(runtime.feeds)) == (1, 1)
    assert f"target tract: reached; tract {onnx.__version__} loads it\n" in capsys.readouterr().out


def test_a_runtime_that_is_not_installed(
    install: Callable[..., Runtime], tmp_path: Path, capsys: Capture
) -> None:
    install(missing="tract is not installed; install seqmap[tract]")
    assert optimize(write(tmp_path / "in.onnx", PAD)) == 0
    expected = (
        "target tract: reached; checked for sequences and control flow; tract is not installed "
        "here, so it was not loaded there\n"
    )
    assert expected in capsys.readouterr().out


def test_a_target_that_nothing_runs_here(tmp_path: Path) -> None:
    loading = load_at_target(onnx.parser.parse_model(PLAIN), "onnxruntime-web", Check(()))
    assert loading.outcome == "not loaded"
    assert "it runs in a browser or in Node, not in Python, so it was not" in loading.sentence


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_(*_: Any) -> Any:
        raise BackendError("this machine has no CoreML: buy one", is_limit=True)

    backend = Backend("onnxruntime", ("coreml",), lambda: "", open_)
    monkeypatch.setitem(BACKENDS, "onnxruntime", backend)
    loading = load_at_target(onnx.parser.parse_model(PLAIN), "coreml", FEED)
    assert (loading.outcome, loading.reason) == ("not loaded", "this machine has no CoreML")


def test_a_device_that_takes_no_node_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_(*_: Any) -> Any:
        raise PlacementError("CoreML takes no node of this model", is_limit=True)

    backend = Backend("onnxruntime", ("coreml",), lambda: "", open_)
    monkeypatch.setitem(BACKENDS, "onnxruntime", backend)
    loading = load_at_target(onnx.parser.parse_model(PLAIN), "coreml", FEED)
    assert loading.sentence == "onnxruntime loads it, but CoreML takes no node of this model"


def test_what_has_to_be_on_the_device_is_refused_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_(*_: Any, whole: bool, as_stored: bool) -> Any:
        assert whole
        raise BackendError("onnxruntime refuses the model: a node is on the host", is_limit=True)

    backend = Backend("onnxruntime", ("coreml",), lambda: "", lambda *_: pytest.fail("not whole"))
    monkeypatch.setitem(BACKENDS, "onnxruntime", backend)
    monkeypatch.setattr("rewriter.backends.onnxruntime.open_session", open_)
    monkeypatch.setattr(Backend, "lacking", lambda *_: "")
    loading = load_at_target(onnx.parser.parse_model(PLAIN), "coreml", FEED, whole=True)
    assert loading.outcome == "refused"
    assert "a node is on the host" in loading.reason


def test_a_runtime_that_has_to_know_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_as_given(session: Any, feeds: Any, *, with_shapes: bool = False) -> dict[str, Any]:
        if not with_shapes:
            raise BackendError("tract refuses the model: N is not known", is_limit=True)
        return {}

    backend = Backend("tract", ("cpu",), lambda: "", Runtime().open)
    monkeypatch.setitem(BACKENDS, "tract", backend)
    monkeypatch.setattr("rewriter.proof.trial.run_as_given", run_as_given)
    loading = load_at_target(onnx.parser.parse_model(PAD), "tract", FEED)
    assert loading.outcome == "loaded"
    assert loading.sentence.startswith("tract loads it, once the shapes of its inputs are known")


def test_an_operator_without_a_kernel_for_the_type(tmp_path: Path, capsys: Capture) -> None:
    rows = ROWS.replace("float[", "bfloat16[").replace("Relu", "Tanh")
    assert seqmap("optimize", write(tmp_path / "in.onnx", rows), tmp_path / "out.onnx") == 4
    printed = capsys.readouterr().err
    assert "with other operators where the model is made, or make it with another" in printed
    assert "promise more of the shapes" not in printed


def test_what_the_rewrite_wrote_has_another_remedy(install: Callable[..., Runtime]) -> None:
    install(refuses="Add")
    before = onnx.parser.parse_model(ROWS)
    after = rewriter.optimize(before, target="tract")
    loading = load_at_target(after, "tract", validate(before, after, cases=1))
    assert (loading.op_type, loading.node) == ("Add", "Add_0/Add")
    assert loading.remedy.startswith("promise more of the shapes with --uniform or --input-shape")


NEW = ROWS.replace('"" : 18', '"" : 27')
UNKNOWN = (
    '<ir_version: 8, opset_import: ["" : 27]>'
    "agraph (float[2,4] x) => (float[2,4] y) { y = ThresholdedNothing (x) }"
)


@pytest.fixture
def no_opset_27(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any onnxruntime refuse opset 27 in the words of 1.31."""
    opened = onnxruntime.InferenceSession

    def refuse(source: bytes | str, *others: Any, **options: Any) -> Any:
        model = onnx.load(source) if isinstance(source, str) else onnx.load_from_string(source)
        if any(entry.domain == "" and entry.version > 26 for entry in model.opset_import):
            raise RuntimeError("Current official support for domain ai.onnx is till opset 26.")
        return opened(source, *others, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)


@pytest.mark.usefixtures("no_opset_27")
class TestVersions:
    def test_a_newer_version_alone_is_told(self, tmp_path: Path, capsys: Capture) -> None:
        source = write(tmp_path / "in.onnxtxt", NEW)
        assert seqmap("optimize", source, tmp_path / "out.onnx") == 0
        out = capsys.readouterr().out
        assert "target onnxruntime: reached in all but the version; onnxruntime 1." in out
        assert "Current official support for domain ai.onnx is till opset 26" in out
        assert "it never ran there" in out
        assert "verified on 7 of 8 inputs by the evaluator alone (onnxruntime refuses" in out

    @pytest.mark.parametrize("words", [(), ("--no-verify",)])
    def test_quiet_hides_no_warning(
        self, tmp_path: Path, capsys: Capture, words: tuple[str, ...]
    ) -> None:
        source = write(tmp_path / "in.onnxtxt", NEW)
        assert seqmap("optimize", source, tmp_path / "out.onnx", "-q", *words) == 0
        printed = capsys.readouterr()
        assert last_line(printed.out) == ("passed", "optimize")
        assert len(printed.out.splitlines()) == 1
        assert "seqmap: warning: the model declares opset 27, onnxruntime" in printed.err
        assert ("it never ran there" in printed.err) is not bool(words)

    def test_an_operator_that_is_refused_besides(self) -> None:
        before = onnx.parser.parse_model(UNKNOWN)
        check = Check((), runtime_refusal="onnxruntime refuses the model: ThresholdedNothing")
        loading = load_at_target(before, "onnxruntime", check)
        assert (loading.outcome, loading.by_version) == ("refused", False)
        assert loading.op_type == "ThresholdedNothing"


def test_a_newer_version_on_the_installed_onnxruntime(tmp_path: Path, capsys: Capture) -> None:
    """Where it loads, the warning stays: the model may be deployed on an older one."""
    source = write(tmp_path / "in.onnxtxt", NEW)
    assert seqmap("optimize", source, tmp_path / "out.onnx", "-v") == 0
    out = capsys.readouterr().out
    assert "the model declares opset 27, onnxruntime is known to accept up to 26" in out
    loads = is_at_least("onnxruntime", "1.32")
    told = "reached;" if loads else "reached in all but the version;"
    assert f"target onnxruntime: {told} onnxruntime 1." in out
