"""What ``seqmap run`` adds to running a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from rewriter.backends import BACKENDS, Backend, BackendError
from rewriter.target_table import TARGETS
from tests.rewriter.cli_models import ROWS, seqmap, write

Capture = pytest.CaptureFixture[str]


def test_backends_are_listed_with_what_they_lack(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewriter.backends.messages.has_module", lambda name: False)
    assert seqmap("run", "--list-backends") == 0
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in printed if not line.startswith(" ")]
    assert [line.split()[0] for line in lines[:-1]] == [*BACKENDS, "onnxruntime-web", "ncnn"]
    assert "tract is not installed; install seqmap[tract]" in lines[list(BACKENDS).index("tract")]
    assert lines[0].split() == ["reference", "on", "cpu"]
    assert "a target only: it runs in a browser or in Node" in lines[len(BACKENDS)]


def test_devices_that_are_not_here_are_told_apart(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_(model: Any, folder: Any, device: str) -> Any:
        if device == "cuda":
            raise BackendError("there is no such thing here", is_limit=True)
        return None

    devices = ("cpu", "cuda", "any other name")
    backend = Backend("onnxruntime", devices, lambda: "", open_)
    monkeypatch.setitem(BACKENDS, "onnxruntime", backend)
    assert seqmap("run", "--list-backends") == 0
    printed = capsys.readouterr().out
    assert "onnxruntime     on cpu, any other name\n" in printed
    assert "                not on cuda: there is no such thing here\n" in printed
    assert seqmap("run", "--list-backends", "--json") == 0
    record = json.loads(capsys.readouterr().out)["backends"]["onnxruntime"]
    assert record["lacking"] == {"cuda": "there is no such thing here"}


def test_devices_of_targets_are_listed(capsys: Capture) -> None:
    """Each target runs on a backend and device that stand in the list, or stands there itself."""
    assert seqmap("run", "--list-backends", "--json") == 0
    record = json.loads(capsys.readouterr().out)["backends"]
    for target in TARGETS.values():
        one = record[target.backend or target.name]
        assert target.device in one["devices"] or not one["available"]
        assert bool(target.backend) is not bool(target.unrun)


def test_the_list_for_programs(capsys: Capture) -> None:
    assert seqmap("run", "--list-backends", "--json") == 0
    record = json.loads(capsys.readouterr().out)["backends"]
    assert set(record) == {*BACKENDS, "onnxruntime-web", "ncnn"}
    assert record["reference"] == {"available": True, "reason": "", "devices": ["cpu"]}
    assert all(one["available"] is not bool(one["reason"]) for one in record.values())


def test_no_model_is_wrong_usage(capsys: Capture) -> None:
    assert seqmap("run") == 2
    assert "no model is given" in capsys.readouterr().err


def test_where_nodes_ran_is_told_of_a_device(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "rows.onnx", ROWS)
    assert seqmap("run", path) == 0
    assert "copies" not in capsys.readouterr().out
    assert seqmap("run", path, "--device", "CPUExecutionProvider") == 0
    printed = capsys.readouterr().out
    assert "on CPUExecutionProvider: " in printed
    assert "copies: 0 to the device, 0 to the host" in printed


def test_a_device_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    path = write(tmp_path / "rows.onnx", ROWS)
    assert seqmap("run", path, "--device", "cuda") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "has no CUDAExecutionProvider: install onnxruntime-gpu in place of" in line
