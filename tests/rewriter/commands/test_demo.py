"""``seqmap demo``."""

from __future__ import annotations

import dataclasses
import io
import json
import re

import numpy as np
import onnx
import pytest

from rewriter import cli
from rewriter.backends import BACKENDS, BackendError
from rewriter.commands import demo as demo_module
from rewriter.commands.demo import image_feeds, model_files, show
from rewriter.pipeline import Result

REFUSED = ("resize_crop", "pad_to_largest", "resnet50_preprocessing")


@pytest.fixture(scope="module")
def printed() -> str:
    out = io.StringIO()
    assert all(one.passed for one in show(out))
    return out.getvalue()


@pytest.fixture(scope="module")
def table(printed: str) -> dict[str, list[str]]:
    """The rows of the table by model, cells between two or more blanks."""
    lines = printed.split("before -> after\n")[1].splitlines()[1:5]
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    return {row[0].partition(".")[0]: row[1:] for row in rows}


def test_all_four_load_afterwards(table: dict[str, list[str]]) -> None:
    loads = {name: row[0] for name, row in table.items()}
    assert loads == {"dy_hstack": "yes -> yes", **dict.fromkeys(REFUSED, "no -> yes")}


def test_what_becomes_of_each_map_is_told(table: dict[str, list[str]]) -> None:
    assert {name: row[2] for name, row in table.items()} == {
        "dy_hstack": "1 fused",
        "resize_crop": "1 expanded",
        "pad_to_largest": "2 guarded",
        "resnet50_preprocessing": "1 guarded",
    }


@pytest.mark.parametrize("name", REFUSED)
def test_the_refusal_and_the_time_after_are_shown(table: dict[str, list[str]], name: str) -> None:
    assert re.fullmatch(r"refused -> \d+\.\d\d", table[name][1])


def test_every_difference_is_shown_and_small(table: dict[str, list[str]]) -> None:
    assert all(float(row[3]) < 1e-3 for row in table.values())


def test_why_onnxruntime_refuses_is_shown(printed: str) -> None:
    assert printed.count("before: onnxruntime refuses the model:") == 3


def test_the_last_line_says_that_all_is_well(printed: str) -> None:
    assert printed.splitlines()[-1].startswith("all of them load, run, and compute")


def test_the_command_runs_the_demo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module, "model_files", lambda: only("dy_hstack.onnx"))
    assert cli.main(["demo"]) == 0
    assert re.fullmatch(r"passed demo in \d+\.\d s", capsys.readouterr().out.splitlines()[-1])


def test_a_wrong_rewrite_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    right = demo_module.rewrite

    def wrong(model: onnx.ModelProto) -> Result:
        result = right(model)
        for node in result.model.graph.node:
            if node.op_type == "Concat":
                node.input.reverse()
        return result

    monkeypatch.setattr(demo_module, "rewrite", wrong)
    monkeypatch.setattr(demo_module, "model_files", lambda: only("dy_hstack.onnx"))
    out = io.StringIO()
    assert not all(one.passed for one in show(out))
    assert "not verified" in out.getvalue()
    assert out.getvalue().splitlines()[-1] == "not right: dy_hstack.onnx"


def only(name: str) -> dict[str, object]:
    return {name: model_files()[name]}


def test_without_onnxruntime_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = dataclasses.replace(BACKENDS["onnxruntime"], missing=lambda: "it is not installed")
    monkeypatch.setitem(BACKENDS, "onnxruntime", absent)
    with pytest.raises(BackendError, match="The demo runs on onnxruntime: it is not installed"):
        show(io.StringIO())


def test_the_images_have_different_sizes_and_are_the_same_each_time() -> None:
    images, again = image_feeds()["images"], image_feeds()["images"]
    assert len({image.shape for image in images}) == len(images) >= 3
    assert all(np.array_equal(a, b) for a, b in zip(images, again, strict=True))


@pytest.mark.long
def test_the_command_tells_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert [model["model"] for model in models] == list(model_files())
    assert all(model["passed"] for model in models)
    assert [model["before_ms"] is None for model in models] == [False, True, True, True]
