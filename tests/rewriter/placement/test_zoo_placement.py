"""How much of the zoo runs on CUDA with tensors at its ends; it may not become less."""

from __future__ import annotations

import pathlib

import pytest

import rewriter
from benchmarks.placement import count, measure
from rewriter.target_table import TargetName

ROOT = pathlib.Path(__file__).parents[3]
PLACED, WHOLE, SHAPES_AT_MOST = 145, 92, 138
# string_elements, whose body computes texts, and ts_filter_negative, whose Loop stays as given.
COPYING = 2


@pytest.mark.long
def test_the_zoo_does_not_leave_the_device() -> None:
    rows = list(measure("onnxruntime-cuda"))
    assert count(row.rewritten for row in rows)["copying in each iteration"] <= COPYING
    found = count(row.tensors for row in rows)
    assert found["placed"] >= PLACED
    assert found["wholly on the device"] >= WHOLE
    assert found["on the host: arithmetic on shapes at most"] >= SHAPES_AT_MOST
    assert found["copying in each iteration"] == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "whole"), [("onnxruntime-webgpu", 29), ("onnxruntime-webgpu-int64", 105)]
)
def test_no_loop_of_the_zoo_copies_on_webgpu(target: TargetName, whole: int) -> None:
    rows = list(measure(target))
    forms = [[row.rewritten for row in rows], [row.tensors for row in rows]]
    assert [count(one)["copying in each iteration"] for one in forms] == [0, 0]
    assert count(forms[1])["wholly on the device"] >= whole


@pytest.mark.parametrize("target", ["onnxruntime-cuda", "onnxruntime-webgpu-int64"])
@pytest.mark.parametrize("name", ["authored/images.onnx", "demo/pad_to_largest.onnxtxt"])
def test_images_of_any_size_stay_on_the_device(name: str, target: TargetName) -> None:
    model = ROOT / "models" / name
    report = rewriter.explain(model, target=target, tensor_io=True)
    placement = report.placement
    assert placement is not None
    assert not placement.host
    assert not placement.copies_per_iteration
    assert not {"Loop", "Scan", "If"} & set(report.after.by_type)


def test_padding_along_some_axes_copies_nothing_in_a_loop() -> None:
    """The amounts of all axes are shape arithmetic, which stays on the host as a whole."""
    model = ROOT / "models" / "demo" / "resnet50_preprocessing.onnxtxt"
    placement = rewriter.explain(model, target="onnxruntime-cuda").placement
    assert placement is not None
    assert placement.copies_per_iteration == 0
